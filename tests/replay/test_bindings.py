"""What names mean, by sorting their changes, is what a walk over them finds."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from iotrace.replay.bindings import Bindings, _changes, _walk
from iotrace.replay.job import Op
from iotrace.replay.requests import Requests

FILES, PATHS = 4, ("a", "b", "c", "d/e")
CHANGES = (Op.OPEN, Op.OPEN, Op.RENAME, Op.LINK, Op.UNLINK, Op.TRUNCATE)
changes = st.lists(
    st.tuples(
        st.sampled_from(CHANGES),
        st.integers(0, FILES - 1),
        st.integers(0, len(PATHS) - 1),
        st.integers(0, len(PATHS) - 1),
    ),
    max_size=20,
)


@given(changes)
def test_a_sort_finds_what_a_walk_does(found: list[tuple[Op, int, int, int]]) -> None:
    """Renames, hard links and removals in any order, a rename to the own name included."""
    columns = list(np.array([(n, *one) for n, one in enumerate(found)], np.int64).reshape(-1, 5).T)
    walked, paths = _walk(columns, len(found), PATHS)
    assert paths == PATHS
    assert sorted(_changes(columns, len(found)).T.tolist()) == sorted(walked.T.tolist())


def test_names_of_files_at_any_time() -> None:
    """A file is found under its name of then, below a renamed directory too."""
    rows = Requests.of(
        5,
        op=[Op.OPEN, Op.LINK, Op.UNLINK, Op.RENAME, Op.UNLINK],
        file=[0, 0, 0, -1, 0],
        path=[0, 0, 0, 2, 3],
        target=[-1, 1, -1, 4, -1],
    )
    paths = ("a", "d/b", "d", "f/b", "f")
    names = Bindings.of(rows, paths)
    place = np.arange(6)
    at = names.paths_at(np.zeros(6, np.int64), place)
    assert [paths[path] if path >= 0 else "" for path in at] == ["", "a", "d/b", "d/b", "f/b", ""]
    assert names.removals(2).tolist() == [4, -1]
    assert names.last_paths(2).tolist() == [-1, -1]
