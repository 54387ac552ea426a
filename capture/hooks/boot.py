"""Start the hooks inside a job; the preload library runs this file once per process.

The files beside this one become the private package `_iotrace_hooks`, which is
not on `sys.path` and whose byte code is not cached: the job's folders, path,
arguments and environment stay as they are. Until a hooked engine is imported,
the cost is three more finders in `sys.meta_path`.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # no import of typing: most jobs never need it
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

PACKAGE = "_iotrace_hooks"


class FileLoader:
    """Loads one file of the private package."""

    def __init__(self, path: str) -> None:
        self.path = path

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Let the import system make an ordinary module."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Run the file in `module`, without a cache of its byte code."""
        module.__file__ = self.path
        with open(self.path, "rb") as file:
            source = file.read()
        exec(compile(source, self.path, "exec", 0, True), module.__dict__)


class FolderFinder:
    """Finds the modules of the private package in one folder."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return the spec of a module of the private package, None for all others."""
        package, _, module = name.rpartition(".")
        if package != PACKAGE:
            return None
        return make_spec(name, FileLoader(f"{self.folder}/{module}.py"))


def make_spec(name: str, loader: FileLoader | None) -> ModuleSpec:
    """Return a module spec without an import of importlib, which most jobs never make."""
    spec: ModuleSpec = type(sys.__spec__)(name, loader)  # type: ignore[arg-type]
    return spec


def boot(folder: str) -> None:
    """Make the private package importable and let it wait for the engines."""
    package = type(sys)(PACKAGE)
    package.__path__ = []
    package.__spec__ = make_spec(PACKAGE, None)
    package.__spec__.origin = f"{folder}/__init__.py"
    finder = FolderFinder(folder)
    sys.modules[PACKAGE] = package
    sys.meta_path.append(finder)
    try:
        __import__(f"{PACKAGE}.registry")
        sys.modules[f"{PACKAGE}.registry"].install()
    except Exception:
        sys.meta_path.remove(finder)
        del sys.modules[PACKAGE]
        raise


if __name__ == f"{PACKAGE}.boot" and PACKAGE not in sys.modules and not sys.is_finalizing():
    boot(__file__.rpartition("/")[0])
