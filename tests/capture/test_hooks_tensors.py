"""What is listed of an object that is saved: all that can be, whatever else is in it."""

from __future__ import annotations

from typing import Any

import pytest

from iotrace.capture.hooks.tensors import take_inventory

torch = pytest.importorskip("torch")


def symbolic() -> Any:
    """Return a tensor whose sizes are symbols, as while torch.export traces."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    mode = FakeTensorMode(shape_env=ShapeEnv())
    return mode.from_tensor(torch.ones(3, 4), static_shapes=False)


def hollow() -> Any:
    """Return a storage that was never filled, as copies made without a call of the class are."""
    return object.__new__(torch.TypedStorage)


@pytest.mark.parametrize("make", [symbolic, hollow, torch.nn.UninitializedParameter])
def test_what_has_no_bytes_hides_nothing_else(make: Any) -> None:
    """Its neighbours are saved with their names."""
    weight = torch.ones(2, 3)
    inventory = take_inventory({"odd": make(), "weight": weight}, torch)
    (text,) = inventory.tensors(weight.untyped_storage()._cdata)
    assert text.startswith('"name":"weight","dtype":"float32","shape":[2,3]')


def test_a_dict_that_changes_meanwhile_ends_the_list() -> None:
    """As another thread may: the save is the job's to make or to fail, what was found is kept."""
    first = torch.ones(2)
    state: dict[str, Any] = {"first": first}

    class Changes(torch.Tensor):  # type: ignore[misc]
        @property
        def device(self) -> Any:
            state[f"more{len(state)}"] = 1
            return torch.device("cpu")

    state["second"] = torch.ones(2).as_subclass(Changes)
    state["third"] = torch.ones(2)
    inventory = take_inventory(state, torch)
    assert len(inventory.tensors(first.untyped_storage()._cdata)) == 1
    assert not inventory.tensors(state["third"].untyped_storage()._cdata)
