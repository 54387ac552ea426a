"""The engines that are hooked: one line each.

A hook is a file of this folder with a function `bind(module, spans)`, called once
the engine's module has been imported. It puts its wrappers in place, or raises
`CannotBind` before it has changed anything; either way a note says so in the trace.

To add an engine, write the file and add the line. The file opens a span around each
save and load (`Spans.create`, `enter`, `engage`, `leave`) and writes the rows of the
tensors in it (`tensors.emit_rows`). What the engine does by way of another hooked
engine then belongs to its span, on the same thread.
"""

from __future__ import annotations

import sys

from .imports import PostImportFinder

TYPE_CHECKING = False  # no import of typing: most jobs never need it
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    from .marks import Mark
    from .spans import Spans


class Hook:
    """One engine's hook.

    Attributes:
        engine: Whose tensors are missing if it cannot be bound.
        module: The module whose import it waits for.
        file: The file of this folder that binds it.
    """

    __slots__ = ("engine", "file", "module")

    def __init__(self, engine: str, module: str, file: str) -> None:
        self.engine = engine
        self.module = module
        self.file = file


HOOKS = (
    Hook("torch.save", "torch.serialization", "torch_save"),
    Hook("torch.save", "torch.serialization", "torch_load"),
    Hook("torch.save", "torch._dynamo.trace_rules", "torch_compile"),
    Hook("lightning", "lightning.fabric.utilities.cloud_io", "lightning"),
    Hook("lightning", "lightning_fabric.utilities.cloud_io", "lightning"),
    Hook("safetensors", "safetensors", "safetensors_save"),
    Hook("safetensors", "safetensors", "safetensors_load"),
    Hook("safetensors", "safetensors.torch", "safetensors_frameworks"),
    Hook("safetensors", "safetensors.numpy", "safetensors_frameworks"),
    Hook("datastates-llm", "datastates.ckpt.ckpt_engine", "datastates"),
    Hook("datastates-llm", "datastates.llm.checkpointing", "datastates"),
    Hook("datastates-llm", "datastates.ckpt", "datastates_later"),
    Hook("datastates-llm", "datastates.state_ckpt", "datastates_later"),
    Hook("datastates-llm", "datastates.engines.engine_base", "datastates_later"),
    Hook("datastates-llm", "datastates.engines.engine_simple", "datastates_later"),
    Hook("datastates-llm", "datastates.engines.engine_state", "datastates_later"),
    Hook("datastates-llm", "datastates.engines.engine_state_aggregated", "datastates_later"),
    Hook("dcp", "torch.distributed.checkpoint", "dcp"),
    Hook("dcp", "torch.distributed.checkpoint.filesystem", "dcp_files"),
    Hook("dcp", "torch.distributed.checkpoint.filesystem", "dcp_write"),
    Hook("dcp", "torch.distributed.checkpoint.filesystem", "dcp_read"),
    Hook("dcp", "torch.distributed.checkpoint._fsspec_filesystem", "dcp_files"),
    Hook("dcp", "safetensors.torch", "dcp_safetensors"),
    Hook("torchsnapshot", "torchsnapshot.snapshot", "torchsnapshot_take"),
    Hook("torchsnapshot", "torchsnapshot.snapshot", "torchsnapshot_restore"),
    Hook("torchsnapshot", "torchsnapshot.storage_plugins.fs", "torchsnapshot_fs"),
)


# The module that jobs import to mark spans, see marks.py.
MARKS = "iotrace_marks"


class CannotBind(Exception):
    """The engine is not as the hook knows it; the message says what is missing."""


class Registry:
    """Binds hooks as their engines are imported, and says in the trace what became of each."""

    def __init__(self, hooks: Sequence[Hook]) -> None:
        self._hooks = hooks
        self._spans: Spans | None = None

    def callbacks(self) -> dict[str, Callable[[ModuleType], None]]:
        """Return what to call after the import of each engine's module."""
        return {hook.module: self.bind_all for hook in self._hooks}

    def bind_all(self, module: ModuleType) -> None:
        """Bind the hooks that waited for `module`; never raises."""
        try:
            spans = self._connected()
        except Exception:
            return
        if spans is None:
            return
        for hook in self._hooks:
            if hook.module == module.__name__:
                report(spans, hook, bind(hook, module, spans))

    def mark(self, op: str, step: object = None, name: object = None, path: object = None) -> Mark:
        """Return a context manager that marks a part of the job; never raises."""
        from . import marks

        try:
            spans = self._connected()
        except Exception:
            spans = None
        emitter, active = (spans.emitter, spans.marks) if spans else (None, [])
        return marks.Mark(emitter, active, op, step, name, path)

    def _connected(self) -> Spans | None:
        """Return the way into the trace, opened by the first engine; None without the library."""
        if self._spans is None:
            from . import emit, spans

            emitter = emit.connect()
            if emitter is None:
                return None
            self._spans = spans.Spans(emitter)
        self._spans.process.emit()
        return self._spans


def bind(hook: Hook, module: ModuleType, spans: Spans) -> str:
    """Bind one hook and return an empty text, or why it could not be bound."""
    try:
        name = f"{__package__}.{hook.file}"
        __import__(name)
        sys.modules[name].bind(module, spans)
    except CannotBind as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def report(spans: Spans, hook: Hook, problem: str) -> None:
    """Say in the trace whether a hook is bound."""
    spans.emitter.note(
        {
            "layer": "hook",
            "engine": hook.engine,
            "name": hook.file,
            "bound": not problem,
            "detail": problem,
        }
    )


class MarksFinder:
    """Finder for `sys.meta_path`, and loader, of the module that jobs mark spans with."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return the spec of that one module."""
        if name != MARKS:
            return None
        spec: ModuleSpec = type(sys.__spec__)(name, self)  # type: ignore[arg-type]
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Let the import system make an ordinary module."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its one function."""
        module.span = self._registry.mark  # type: ignore[attr-defined]


def install() -> None:
    """Follow the imports of the engines; bind at once those that are here already."""
    registry = Registry(HOOKS)
    sys.meta_path.append(MarksFinder(registry))
    callbacks = registry.callbacks()
    sys.meta_path.insert(0, PostImportFinder(callbacks))
    for name, callback in callbacks.items():
        module = sys.modules.get(name)
        if module is not None:
            callback(module)
