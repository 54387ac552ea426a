"""The post-import finder: the followed module must be what it would have been."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pickle
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from iotrace.capture.hooks.imports import PostImportFinder

NAME = "followed_engine"
SOURCE = """
def save(obj):
    return obj

class State:
    pass
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on `sys.path` that holds the module."""
    (tmp_path / f"{NAME}.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return tmp_path


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[ModuleType]]:
    """The modules that the callback has been called with."""
    modules: list[ModuleType] = []
    finder: Any = PostImportFinder({NAME: modules.append})
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    yield modules
    sys.modules.pop(NAME, None)


def test_the_callback_gets_the_module_once_it_is_whole(
    folder: Path, seen: list[ModuleType]
) -> None:
    """A hook wraps functions: they must be there."""
    module = importlib.import_module(NAME)

    assert seen == [module]
    assert module.save(3) == 3


def test_spec_loader_source_and_pickles_are_untouched(folder: Path, seen: list[ModuleType]) -> None:
    """Tools that look at modules must see the file's own loader."""
    module = importlib.import_module(NAME)

    assert module.__spec__ is not None
    assert module.__loader__ is module.__spec__.loader
    assert type(module.__loader__).__name__ == "SourceFileLoader"
    assert "exec_module" not in vars(module.__loader__)
    assert inspect.getsource(module.save) == "def save(obj):\n    return obj\n"
    assert type(pickle.loads(pickle.dumps(module.State()))) is module.State


def test_a_reloaded_module_is_followed_again(folder: Path, seen: list[ModuleType]) -> None:
    """A reload puts the engine's own functions back."""
    module = importlib.import_module(NAME)
    importlib.reload(module)
    del sys.modules[NAME]
    again = importlib.import_module(NAME)

    assert seen == [module, module, again]


def test_a_module_that_fails_is_not_followed_and_its_error_is_its_own(
    folder: Path, seen: list[ModuleType]
) -> None:
    """The job must see the import error it would have seen."""
    (folder / f"{NAME}.py").write_text("raise ImportError('of its own')")

    with pytest.raises(ImportError, match="of its own"):
        importlib.import_module(NAME)

    assert seen == []
    assert NAME not in sys.modules


def test_a_missing_module_is_missing(seen: list[ModuleType]) -> None:
    """Jobs probe for optional engines."""
    assert importlib.util.find_spec(NAME) is None
    with pytest.raises(ModuleNotFoundError, match=NAME):
        importlib.import_module(NAME)


def test_looking_for_a_module_does_not_import_it(folder: Path, seen: list[ModuleType]) -> None:
    """`find_spec` is how transformers asks whether torch is installed."""
    assert importlib.util.find_spec(NAME) is not None
    assert seen == []

    module = importlib.import_module(NAME)

    assert seen == [module]


def test_a_loader_shared_by_modules_is_followed_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: list[ModuleType]
) -> None:
    """Modules from one zip file may have one loader."""
    archive = tmp_path / "engines.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr(f"{NAME}.py", SOURCE)
        file.writestr("other_engine.py", SOURCE)
    monkeypatch.syspath_prepend(archive)
    importlib.util.find_spec(NAME)

    other = importlib.import_module("other_engine")
    module = importlib.import_module(NAME)

    assert seen == [module]
    assert other.save(1) == 1
    del sys.modules["other_engine"]


def test_two_finders_that_ask_all_others_do_not_ask_in_circles(
    folder: Path, monkeypatch: pytest.MonkeyPatch, seen: list[ModuleType]
) -> None:
    """Other tools hook imports in the same way."""
    others: list[ModuleType] = []
    other: Any = PostImportFinder({NAME: others.append})
    monkeypatch.setattr(sys, "meta_path", [other, *sys.meta_path])

    module = importlib.import_module(NAME)

    assert seen == others == [module]
    assert "exec_module" not in vars(module.__loader__)
