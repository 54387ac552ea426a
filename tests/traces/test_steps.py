"""Saves of several ranks are one step if they are one checkpoint."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from iotrace.traces.steps import ADJACENT_NS, Act, Place, number_steps


def save(
    rank: int, path: str, start_ns: int, end_ns: int, given: int | None = None, engine: str = "dcp"
) -> Act:
    return Act(rank, "save", {Place(engine, path, rank)}, start_ns, end_ns, given)


def test_a_rank_that_saves_alone_while_the_other_has_begun_the_next() -> None:
    """Rank 1 is in the second save, and waits there, while rank 0 still saves alone."""
    acts = [save(0, "/a", 0, 2), save(0, "/x", 5, 6), save(0, "/b", 7, 9)]
    acts += [save(1, "/a", 1, 2), save(1, "/b", 3, 9)]
    assert number_steps(acts) == [0, 1, 2, 0, 2]


def test_files_named_by_rank_are_one_checkpoint() -> None:
    """Also where ranks take turns; without the number of the rank they must overlap."""
    acts = [save(rank, f"/7/rank{rank}.pt", 10 * rank, 10 * rank + 5) for rank in range(3)]
    acts += [save(rank, f"/8/rank{rank}.pt", 50 + rank, 60) for rank in range(3)]
    assert number_steps(acts) == [0, 0, 0, 1, 1, 1]
    assert number_steps([save(0, "/step100", 0, 1), save(1, "/step200", 2, 3)]) == [0, 1]
    assert number_steps([save(0, "/pid100", 0, 2), save(1, "/pid200", 1, 3)]) == [0, 0]


def test_what_differs_is_another_step() -> None:
    """Engine, destination, time; and the saves of one process are different ones."""
    assert number_steps([save(0, "/a", 0, 2), save(1, "/a", 0, 2, engine="torch.save")]) == [0, 1]
    assert number_steps([save(0, "/a", 0, 2), save(1, "/b", 0, 2)]) == [0, 1]
    assert number_steps([save(0, "/a", 0, 2), save(1, "/a", 3 + ADJACENT_NS, 9**12)]) == [0, 1]
    assert number_steps([save(0, "/a", 0, 2), save(0, "/a", 1, 3)]) == [0, 1]


def test_one_path_for_every_save() -> None:
    """The nearest in time is meant; a rank may leave one out."""
    acts = [save(0, "/last", 10 * step, 10 * step + 3) for step in range(3)]
    assert number_steps([*acts, save(1, "/last", 1, 3), save(1, "/last", 22, 24)]) == [
        0,
        1,
        2,
        0,
        2,
    ]


def test_a_folder_with_the_number_of_the_step_is_not_of_a_rank() -> None:
    """Rank 1 is not in the first save, and is the first to begin the second."""
    acts = [save(0, "/out/0", 0, 1), save(0, "/out/1", 3, 5), save(1, "/out/1", 2, 5)]
    assert number_steps(acts) == [0, 1, 1]


def test_a_number_that_was_given_wins() -> None:
    """Those counted leave it out; a rank that does not say it takes that of the others."""
    acts = [save(0, "/a", 0, 2, given=1), save(1, "/elsewhere", 0, 2, given=1)]
    acts += [save(0, "/b", 3, 4), save(0, "/c", 5, 6), save(2, "/a", 1, 2)]
    assert number_steps(acts) == [1, 1, 0, 2, 1]
    against = [save(0, "/a", 0, 1, given=7), save(0, "/b", 2, 3, given=6)]
    against += [save(1, "/b", 0, 1, given=6), save(1, "/a", 2, 3, given=7), save(1, "/c", 4, 5)]
    assert number_steps(against) == [7, 6, 6, 7, 0]


def test_loads_are_counted_apart() -> None:
    acts = [save(0, "/a", 0, 1), Act(0, "load", {Place("dcp", "/a", 0)}, 2, 3)]
    assert number_steps(acts) == [0, 0]


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(1, 5)), max_size=6),
        min_size=1,
        max_size=4,
    )
)
def test_steps_of_each_rank_ascend(ranks: list[list[tuple[int, int, int]]]) -> None:
    """Whatever they save, wherever and whenever: none is lost, none twice."""
    acts = []
    for rank, saves in enumerate(ranks):
        now_ns = 0
        for name, pause_ns, long_ns in saves:
            begin_ns = now_ns + pause_ns
            now_ns = begin_ns + long_ns
            acts.append(save(rank, f"/{name // 2}/x{name}", begin_ns, now_ns))
    steps = number_steps(acts)
    for rank in range(len(ranks)):
        own = [step for act, step in zip(acts, steps, strict=True) if act.source == rank]
        assert all(one < after for one, after in pairwise(own))
    assert set(steps) == set(range(len(set(steps))))
