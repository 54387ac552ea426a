"""Call back after a module has been imported, without a change to the module.

The finder asks the other finders for the spec and adds to its loader one
instance attribute, `exec_module`, that removes itself when it runs. The module's
`__spec__`, `__loader__`, source and pickles are what they would have been.
"""

from __future__ import annotations

import sys
from _thread import get_ident

TYPE_CHECKING = False  # no import of typing: most jobs never need it
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

    Callback = Callable[[ModuleType], None]


class PostImportFinder:
    """Finder for `sys.meta_path` that follows the modules named in `callbacks`.

    Args:
        callbacks: What to call with a module once its code has run, by module name.
    """

    def __init__(self, callbacks: Mapping[str, Callback]) -> None:
        self._callbacks = callbacks
        self._searching: set[tuple[int, str]] = set()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return the other finders' spec of a followed module, None for all other modules."""
        callback = self._callbacks.get(name)
        if callback is None:
            return None
        search = (get_ident(), name)
        if search in self._searching:  # another finder that asks all finders, as this one does
            return None
        self._searching.add(search)
        try:
            spec = self._find_elsewhere(name, path, target)
        finally:
            self._searching.discard(search)
        if spec is not None:
            follow(spec, callback)
        return spec

    def _find_elsewhere(self, name: str, path: Any, target: Any) -> ModuleSpec | None:
        for finder in list(sys.meta_path):
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                return spec
        return None


def follow(spec: ModuleSpec, callback: Callback) -> None:
    """Have `callback` called when the module of `spec` has run without an error.

    A loader that is a class, or has no room for an attribute, serves other
    modules too and is left alone.
    """
    loader: Any = spec.loader
    if isinstance(loader, type) or not hasattr(loader, "exec_module"):
        return
    run = loader.exec_module
    if is_followed(run, spec.name, callback):
        return
    try:
        loader.exec_module = Follower(loader, run, spec.name, callback)
    except (AttributeError, TypeError):
        return


class Follower:
    """Stands in for a loader's `exec_module` until the module has run.

    Args:
        loader: Whose method it is.
        run: The method: the class's, or what another tool has put in its place.
        name: The module that is followed.
        callback: What to call with it.
    """

    def __init__(
        self, loader: Any, run: Callable[[ModuleType], None], name: str, callback: Callback
    ) -> None:
        self.loader = loader
        self.run = run
        self.name = name
        self.callback = callback
        self.is_first = "exec_module" not in vars(loader)

    def __call__(self, module: ModuleType) -> None:
        """Run the module as its loader does; then call back, unless it failed."""
        if module.__name__ != self.name:  # a loader shared by several modules
            self.run(module)
            return
        self.step_aside()
        self.run(module)
        self.callback(module)

    def step_aside(self) -> None:
        """Give the loader back the method it had, unless another has taken the place since."""
        if self.loader.exec_module is not self:
            return
        del self.loader.exec_module
        if not self.is_first:
            self.loader.exec_module = self.run


def is_followed(run: Any, name: str, callback: Callback) -> bool:
    """Say whether a loader's method will call `callback` anyway."""
    while isinstance(run, Follower):
        if run.name == name and run.callback == callback:
            return True
        run = run.run
    return False
