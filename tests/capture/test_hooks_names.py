"""Names of tensors in nested objects, with the walk's own small kinds in place of torch's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from iotrace.capture.hooks.names import NAME_MAX_CHARS, NODES_MAX, Kinds, walk


class Leaf:
    """What is looked for."""

    def __init__(self, *parts: tuple[str, Leaf]) -> None:
        self.parts = parts


class Module:
    """An object whose children are in the tables that torch's modules have."""

    def __init__(self, **tables: Any) -> None:
        self._parameters = tables.pop("parameters", {})
        self._buffers = tables.pop("buffers", {})
        self._modules = tables.pop("modules", {})
        self.__dict__.update(tables)


KINDS = Kinds(leaves=(Leaf,), modules=(Module,), parts=lambda leaf: leaf.parts)


def names(root: object) -> list[str]:
    """Return the names of the leaves in order."""
    return [name for name, _ in walk(root, KINDS)]


def nest(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return containers of `children`."""
    return st.one_of(
        st.lists(children, max_size=4),
        st.lists(children, max_size=4).map(tuple),
        st.dictionaries(st.text("abc", min_size=1, max_size=3), children, max_size=4),
    )


def expected(node: Any, name: str) -> list[str]:
    """Return the names by the plain recursive definition."""
    if isinstance(node, Leaf):
        return [name]
    pairs = node.items() if isinstance(node, dict) else enumerate(node)
    return [
        found
        for key, child in pairs
        for found in expected(child, f"{name}.{key}" if name else str(key))
    ]


@given(nest(st.recursive(st.builds(Leaf), nest, max_leaves=20)))
def test_names_are_the_path_of_keys(root: Any) -> None:
    """What people print with `state_dict` must be found again in the trace."""
    assert names(root) == expected(root, "")


def test_modules_are_named_as_torch_names_them() -> None:
    """The tables are not part of a name, other attributes are."""
    inner = Module(parameters={"weight": Leaf()}, buffers={"mean": Leaf()})
    root = Module(modules={"layer": inner, "none": None}, cache={"k": Leaf()})

    assert names(root) == ["layer.weight", "layer.mean", "cache.k"]


def test_objects_are_walked_without_being_called() -> None:
    """A hook that ran a property or a state_dict of the job's would change the job."""

    @dataclass
    class Trainer:
        model: Leaf = field(default_factory=Leaf)

        @property
        def forbidden(self) -> Leaf:
            raise AssertionError("called")

        def state_dict(self) -> dict[str, Leaf]:
            raise AssertionError("called")

        def __getattr__(self, name: str) -> Any:
            raise AssertionError("called")

    assert names([Trainer()]) == ["0.model"]


def test_cycles_end_and_a_container_is_named_once() -> None:
    """Optimizers and models refer to each other."""
    shared = {"w": Leaf()}
    root: dict[str, Any] = {"a": shared, "b": shared}
    root["self"] = root

    assert names(root) == ["a.w"]


def test_a_leaf_has_a_row_for_each_of_its_names() -> None:
    """Tied weights are in a checkpoint under both names."""
    tied = Leaf()

    assert names({"embed": tied, "head": tied}) == ["embed", "head"]


def test_a_single_part_goes_by_the_name_of_the_whole() -> None:
    """A wrapper around one tensor is that tensor to its user."""
    root = {"one": Leaf(("inner", Leaf())), "two": Leaf(("x", Leaf()), ("y", Leaf()))}

    assert names(root) == ["one", "one", "two", "two.x", "two.y"]


def test_deep_nesting_does_not_exhaust_the_stack() -> None:
    """The walk must not fail where pickling the same object would not."""
    root: Any = Leaf()
    for _ in range(100_000):
        root = [root]

    (name,) = names(root)

    assert len(name) == NAME_MAX_CHARS
    assert name.endswith(".0…")


def test_a_walk_is_bounded() -> None:
    """A job may save a hundred million numbers beside its tensors; it must not wait for us."""
    assert names([list(range(NODES_MAX // 2)), Leaf()]) == ["1"]
    assert names([list(range(NODES_MAX + 1)), Leaf()]) == []


def test_classes_and_functions_are_left_alone() -> None:
    """They are pickled by name: what hangs on them is not in the file."""

    class Holder:
        leaf = Leaf()

    assert names([Holder, names, Holder.__init__]) == []
