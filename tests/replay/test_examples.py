"""The examples in the docstrings are true."""

import doctest
from importlib import import_module
from types import ModuleType

import pytest

MODULES = (
    *("intervals", "paths", "pieces", "relocation", "sketch", "statistics"),
    *(f"transforms.{name}" for name in ("aggregate", "align", "broadcast", "buffered", "coalesce")),
    *(
        f"transforms.{name}"
        for name in ("direct", "drop_behind", "mapped", "overwrite", "preallocate")
    ),
    *(f"transforms.{name}" for name in ("prefetch", "reorder", "select", "split")),
)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_hold(name: str) -> None:
    """A transform is explained by a plan before and after it."""
    module: ModuleType = import_module(f"iotrace.replay.{name}")
    failed, tried = doctest.testmod(module)
    assert tried > 0
    assert failed == 0
