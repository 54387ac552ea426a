"""The card of a shared trace: what it is, in a JSON object and in Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from iotrace.traces.digest import workload_digest
from iotrace.traces.metadata import Metadata
from iotrace.traces.summary import summarize
from iotrace.traces.trace import Trace
from iotrace.traces.words import plural

CARD: Final = "card"  # its key in the metadata


@dataclass(frozen=True)
class Card:
    """What a receiver asks first. Sizes are bytes; lists are sorted."""

    format_version: str
    digest: str
    licence: str
    engines: tuple[str, ...]
    libraries: dict[str, tuple[str, ...]]
    requests: int
    data_requests: int
    tensors: int
    files: int
    bytes_written: int
    bytes_read: int
    steps: tuple[int, ...]
    ranks: int
    processes: int
    hosts: tuple[str, ...]
    file_systems: tuple[str, ...]
    made_by: tuple[str, ...]
    selection: str
    tensor_names: str
    complete: bool
    missing: tuple[str, ...]

    @classmethod
    def of(cls, metadata: Metadata) -> Card:
        """Return the card in the metadata of a shared trace, which `make_card` made."""
        stored: Any = metadata.extra[CARD]
        return cls(**stored)

    def to_json(self) -> dict[str, Any]:
        """Return the card as JSON has it."""
        tree: dict[str, Any] = asdict(self)
        return {key: list(v) if isinstance(v, tuple) else v for key, v in tree.items()} | {
            "libraries": {name: list(versions) for name, versions in self.libraries.items()}
        }

    def to_markdown(self, title: str, keyed_paths: bool = True) -> str:
        """Return the card as a page called `title`; `keyed_paths`: as sharing makes them."""
        rows = {
            "engine": ", ".join(self.engines) or "unknown",
            "versions": ", ".join(f"{n} {' / '.join(v)}" for n, v in self.libraries.items())
            or "unknown",
            "scale": f"{plural(self.ranks, 'rank')}, {plural(self.processes, 'process')}, "
            f"{plural(len(self.steps), 'step')}",
            "hosts": "; ".join(
                f"{count:,} of {host}" if count > 1 else host
                for host, count in Counter(self.hosts).items()
            )
            or "unknown",
            "file system": ", ".join(self.file_systems) or "unknown",
            "requests": f"{self.requests:,}, of these {self.data_requests:,} reads and writes",
            "bytes": f"{self.bytes_written:,} written, {self.bytes_read:,} read",
            "files": f"{self.files:,}",
            "tensor rows": f"{self.tensors:,}; names {self.tensor_names}",
            "how made": ", ".join(self.made_by) or "unknown",
            "part of it": self.selection or "all",
            "complete": "yes, nothing is known to be missing" if self.complete else "**no**",
            "licence": self.licence or "not stated",
            "format": self.format_version,
            "digest": f"`{self.digest}`",
        }
        lines = [
            f"# {title}",
            "",
            "A trace of checkpoint I/O: read it with `iotrace show`, pandas,",
        ]
        lines += ["DuckDB or any Parquet reader.", "", "| | |", "|---|---|"]
        lines += [f"| {name} | {_cell(value)} |" for name, value in rows.items()]
        if self.missing:
            lines += ["", "What is missing:", ""]
            lines += [f"- {_cell(problem)}" for problem in self.missing]
        if keyed_paths:
            lines += ["", "Paths are pseudonyms, the same for the same name; numbering, extensions"]
            of_whole = " of the whole trace" if self.selection else ""
            lines += [f"and depth are real. Times count from the first row{of_whole}."]
            if self.tensors and self.tensor_names == "kept":
                lines += ["The names of tensors are those of the original."]
        lines += ["", "`iotrace check --digest` proves that a copy holds this work."]
        return "\n".join(lines) + "\n"


def make_card(trace: Trace, licence: str, tensor_names: str, selection: str) -> Card:
    """Return the card of a trace that is shared."""
    summary = summarize(trace)
    metadata = trace.metadata
    return Card(
        format_version=metadata.format_version,
        digest=workload_digest(trace),
        licence=licence,
        engines=tuple(sorted(summary.engines)),
        libraries=_libraries(metadata),
        requests=summary.requests,
        data_requests=summary.data_requests,
        tensors=summary.tensors,
        files=len(summary.files),
        bytes_written=summary.bytes_written,
        bytes_read=summary.bytes_read,
        steps=summary.steps,
        ranks=max(len(summary.ranks), 1),
        processes=summary.processes,
        hosts=tuple(_host(metadata, i) for i in range(len(metadata.hosts))),
        file_systems=tuple(sorted({m.file_system for m in metadata.mounts if m.file_system})),
        made_by=tuple(f"{e.action} {e.tool_version}".strip() for e in metadata.history),
        selection=selection,
        tensor_names={"keep": "kept", "key": "keyed"}[tensor_names],
        complete=summary.complete,
        missing=summary.problems,
    )


def make_card_again(trace: Trace, stored: Mapping[str, Any]) -> Card:
    """Return the card of a shared trace, with what only its user could say taken from another."""
    names = "key" if stored.get("tensor_names") == "keyed" else "keep"
    licence, selection = (str(stored.get(field, "")) for field in ("licence", "selection"))
    return make_card(trace, licence, names, selection)


def with_card_of_whole(whole: Trace, parts: Sequence[Trace]) -> Trace:
    """Return a merged trace with a card of its own if all its parts are shared.

    Its processes are numbered as sharing does it. A licence is said that all parts have.
    """
    stored = [part.metadata.extra.get(CARD) for part in parts]
    cards = [card for card in stored if isinstance(card, dict)]
    if len(cards) < len(stored):
        return whole
    metadata = whole.metadata
    processes = tuple(replace(p, pid=place + 1) for place, p in enumerate(metadata.processes))
    history = tuple(replace(entry, detail="", realtime_ns=None) for entry in metadata.history)
    whole = whole.with_metadata(replace(metadata, processes=processes, history=history))
    licences, names, selections = (
        [*dict.fromkeys(str(card.get(field, "")) for card in cards)]
        for field in ("licence", "tensor_names", "selection")
    )
    card = make_card_again(
        whole,
        {
            "licence": licences[0] if len(licences) == 1 else "",
            "tensor_names": names[0] if len(names) == 1 else "kept",
            "selection": ", ".join(filter(None, selections)),
        },
    )
    extra = {**whole.metadata.extra, CARD: card.to_json()}
    return whole.with_metadata(replace(whole.metadata, extra=extra))


def _libraries(metadata: Metadata) -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = {}
    for process in metadata.processes:
        own = {**process.libraries, **({"python": process.python} if process.python else {})}
        for name, version in own.items():
            found.setdefault(name, set()).add(version)
    return {name: tuple(sorted(found[name])) for name in sorted(found)}


def _host(metadata: Metadata, place: int) -> str:
    host = metadata.hosts[place]
    parts = [
        f"{host.cores} cores" if host.cores else "",
        f"{host.memory_bytes / 2**30:.0f} GiB memory" if host.memory_bytes else "",
        f"Linux {host.kernel}" if host.kernel else "",
        host.machine,
    ]
    return ", ".join(part for part in parts if part) or "unknown"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
