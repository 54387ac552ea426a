"""Bytes counted once, against sets of bytes."""

import numpy as np
import pytest

from iotrace.traces.verdict.extents import Extents


@pytest.mark.parametrize("seed", range(3))
def test_extents_agree_with_sets_of_bytes(seed: int) -> None:
    """Against counting one byte at a time."""
    random = np.random.default_rng(seed)
    one, two = (
        Extents(
            random.integers(3, size=40), random.integers(60, size=40), random.integers(9, size=40)
        )
        for _ in range(2)
    )

    def as_set(extents: Extents) -> set[tuple[int, int]]:
        columns = (extents.file.tolist(), extents.offset.tolist(), extents.length.tolist())
        return {(f, o + i) for f, o, n in zip(*columns, strict=True) for i in range(n)}

    assert one.unique_bytes() == len(as_set(one))
    assert one.shared_bytes(two) == len(as_set(one) & as_set(two))


def test_extents_far_apart_do_not_overflow() -> None:
    """A hostile trace has offsets near 2^62."""
    far = np.array([0, (1 << 62) - 8, (1 << 62) - 8])
    extents = Extents(np.array([0, 1, 2]), far, np.array([4, 4, 4]))
    assert extents.unique_bytes() == 12
