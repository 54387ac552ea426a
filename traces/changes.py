"""What is different about the machines and programs of two traces."""

from collections.abc import Iterable, Iterator

from iotrace.traces.metadata import Host, Metadata
from iotrace.traces.sharing.pseudonyms import is_host_pseudonym


def changes(before: Metadata, after: Metadata) -> Iterator[str]:
    """Yield what changed, as `torch 2.12.0 -> 2.13.0`, the likeliest causes first.

    What only one of the two tells is no change, nor is the end of a version that sharing cut.
    """
    mine, theirs = _versions(before), _versions(after)
    for name in sorted(mine.keys() & theirs.keys()):
        yield from _change(name, mine[name], theirs[name])
    for what, old, new in (
        ("file system", _file_systems(before), _file_systems(after)),
        (
            "python",
            _set(p.python for p in before.processes),
            _set(p.python for p in after.processes),
        ),
        ("kernel", _set(h.kernel for h in before.hosts), _set(h.kernel for h in after.hosts)),
        ("host", _hosts(before), _hosts(after)),
        ("cores", _set(map(_cores, before.hosts)), _set(map(_cores, after.hosts))),
        ("memory", _set(map(_memory, before.hosts)), _set(map(_memory, after.hosts))),
        ("ranks", _ranks(before), _ranks(after)),
    ):
        if old and new:
            yield from _change(what, old, new)


def _change(name: str, old: set[str], new: set[str]) -> Iterator[str]:
    if not (_tells(old, new) and _tells(new, old)):
        yield f"{name} {', '.join(sorted(old))} -> {', '.join(sorted(new))}"


def _tells(versions: set[str], others: set[str]) -> bool:
    """Return whether each version is one of the others, as far as both are told.

    Sharing cuts versions: 6.18 may be 6.18.44, but not 6.180.
    """
    return all(
        any(one == other or _begins(one, other) or _begins(other, one) for other in others)
        for one in versions
    )


def _begins(short: str, long: str) -> bool:
    return long.startswith(tuple(short + separator for separator in ".-+ "))


def _set(values: Iterable[str]) -> set[str]:
    return {value for value in values if value}


def _versions(metadata: Metadata) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for process in metadata.processes:
        for name, version in process.libraries.items():
            found.setdefault(name, set()).add(version)
    return found


def _file_systems(metadata: Metadata) -> set[str]:
    return _set(f"{mount.file_system} {mount.version}".strip() for mount in metadata.mounts)


def _hosts(metadata: Metadata) -> set[str]:
    """Return the names of the hosts; pseudonyms tell nothing beyond one key."""
    return _set(host.name for host in metadata.hosts if not is_host_pseudonym(host.name))


def _cores(host: Host) -> str:
    return str(host.cores or "")


def _memory(host: Host) -> str:
    """Return the memory in whole GiB, as sharing keeps it."""
    return f"{host.memory_bytes / 2**30:.0f} GiB" if host.memory_bytes else ""


def _ranks(metadata: Metadata) -> set[str]:
    ranks = {process.rank for process in metadata.processes if process.rank >= 0}
    return {str(len(ranks) or 1)} if metadata.processes else set()
