"""What to change, in the engine's own words: only what the trace gives evidence for."""

from __future__ import annotations

import errno
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from math import log

from iotrace.replay.probe import Capability, ProbePoint
from iotrace.tools.render import format_bytes, format_count, format_seconds, format_share
from iotrace.traces.phases import Phase
from iotrace.traces.verdict.shape import SMALL_BYTES, Shape
from iotrace.traces.verdict.verdict import Finding, Verdict
from iotrace.traces.words import plural

# Below these shares a remedy would not be felt.
_IO_MATTERS = 0.2
_CPU_RULES = 0.6
_SYNC_MATTERS = 0.2
_WAIT_MATTERS = 0.15
_ONE_GAP = 0.5  # of the time without a request is one gap
_FELT_SECONDS = 0.5  # a pause that is looked into
_MANY = 200  # requests from which on their number may be the cause
_JOINS_TO = 0.25  # of the requests are left after joining
_READ_TWICE = 1.3
_SLAB_BYTES = 128 << 20  # TorchSnapshot's default
_CLEARLY_FASTER = 1.5
_CHECKSUM_BYTES_PER_SECOND = 4 << 30  # a serialiser that is not slower than this is no issue


@dataclass(frozen=True)
class Advice:
    """One thing to change, why, and the command that proves it; the gain orders them."""

    change: str
    because: str
    command: str
    gain_seconds: float


def advise(location: str, verdict: Verdict, storage: Capability | None) -> tuple[Advice, ...]:
    """Return what to change, the largest gain first, one entry per change."""
    found = {one.change: one for one in _full(location, verdict)}
    for finding in verdict.findings:
        for one in _rules(shlex.quote(location), finding, storage):
            known = found.get(one.change)
            if known is None or one.gain_seconds > known.gain_seconds:
                found[one.change] = one
    return tuple(sorted(found.values(), key=lambda one: -one.gain_seconds))


def _full(location: str, verdict: Verdict) -> Iterator[Advice]:
    """No room: nothing else matters before that."""
    first = verdict.failures.first_error
    if first is not None and first.errno in (errno.ENOSPC, errno.EDQUOT):
        yield Advice(
            "free some space, or save to another file system",
            f"a {first.op} failed with {errno.errorcode[first.errno]} at "
            f"{format_bytes(first.offset)} of {first.path}",
            f"iotrace replay {shlex.quote(location)} --op write --dry-run",
            float("inf"),
        )


def _rules(trace: str, finding: Finding, storage: Capability | None) -> Iterator[Advice]:
    yield from _computing(trace, finding)
    yield from _many_small(trace, finding)
    yield from _depth(trace, finding, storage)
    yield from _syncs(trace, finding)
    yield from _every_rank(trace, finding)
    yield from _mapped(trace, finding)
    yield from _spare(trace, finding)
    yield from _early_sync(trace, finding)
    yield from _not_durable(trace, finding)
    yield from _opens(trace, finding)
    yield from _not_in_background(trace, finding)
    yield from _imbalance(trace, finding)


def _share(part: float, finding: Finding) -> float:
    seconds = finding.slowest_rank.seconds
    return part / seconds if seconds else 0.0


def _replay(trace: str, finding: Finding, options: str) -> str:
    op = "write" if finding.episode.phase == Phase.SAVE else "read"
    return f"iotrace replay {trace} --op {op} {options}".rstrip()


def _computing(trace: str, finding: Finding) -> Iterator[Advice]:
    """Most of the time no request is in flight: storage is not the limit."""
    rank, data = finding.slowest_rank, finding.data
    if data is None or _share(rank.between_seconds, finding) < _CPU_RULES:
        return
    engine, name = finding.episode.engine, finding.episode.name
    seconds = format_seconds(rank.between_seconds)
    io = format_seconds(rank.io_seconds + rank.sync_seconds)
    per_request = format_seconds(rank.between_seconds / max(data.count, 1))
    proof = _replay(trace, finding, "--repeat 5")
    small = data.typical_bytes < SMALL_BYTES
    if rank.gap_seconds > max(_ONE_GAP * rank.between_seconds, _FELT_SECONDS):
        gap = f"its {rank.gap_before}" if rank.gap_before else "the call returns"
        who = rank.name if len(finding.split) > 1 else "the job"
        yield Advice(
            f"look at {who} before {gap} (py-spy)",
            f"{format_seconds(rank.gap_seconds)} of the {name} pass there without any I/O",
            f"iotrace show {trace} --requests --limit 0",
            rank.gap_seconds,
        )
        return
    if small and data.count >= _MANY:
        yield Advice(
            f"hand {engine or 'the writer'} fewer, larger tensors (flat buffers)",
            f"{seconds} go by between {format_count(data.count)} requests ({per_request} each), "
            f"{io} in them: the {name}'s code is the limit, not the storage",
            proof,
            rank.between_seconds / 2,
        )
    slow = rank.bytes / rank.between_seconds < _CHECKSUM_BYTES_PER_SECOND
    if engine == "torch.save" and name == "save" and not small and slow:
        yield Advice(
            "torch.utils.serialization.config.save.compute_crc32 = False",
            f"{seconds} between requests for {format_bytes(rank.bytes)}: "
            f"serialising and checksums, the I/O takes {io}",
            proof,
            rank.between_seconds / 3,
        )


def _many_small(trace: str, finding: Finding) -> Iterator[Advice]:
    """Many adjacent small requests whose time counts."""
    data, rank, engine = finding.data, finding.slowest_rank, finding.episode.engine
    if data is None or data.small_share < 0.5 or data.joined_count > _JOINS_TO * data.count:
        return
    if _share(rank.io_seconds, finding) < _IO_MATTERS:
        return
    knob = "write through a buffer of 8 MiB or more, or join adjacent requests"
    if finding.episode.phase == Phase.LOAD:
        knob = "read the file in large pieces (or whole) and take tensors from memory"
    elif engine == "torch.save":
        knob = "torch.save into open(path, 'wb', buffering=8 << 20)"
    elif engine == "torchsnapshot":
        knob = "leave TORCHSNAPSHOT_DISABLE_BATCHING unset: small tensors are packed into slabs"
    elif engine == "datastates-llm":
        knob = "join the tensors of a rank into one buffer before the save"
    because = (
        f"{format_count(data.count)} {data.op}s of {format_bytes(data.typical_bytes)} are "
        f"adjacent: {format_count(data.joined_count)} would do"
    )
    gain = rank.io_seconds * (1 - data.joined_count / data.count)
    if data.is_round_trips:  # a joined request is then one round trip too, not a longer copy
        left = max(finding.seconds - gain, 0.0)
        because += f", about {format_seconds(left)} instead of {format_seconds(finding.seconds)}"
    yield Advice(knob, because, _replay(trace, finding, "--coalesce --repeat 5"), gain)


def _depth(trace: str, finding: Finding, storage: Capability | None) -> Iterator[Advice]:
    """One request at a time, where the probe gives clearly more once one thing is changed."""
    data, rank, engine = finding.data, finding.slowest_rank, finding.episode.engine
    if storage is None or data is None or not data.rate or data.depth > 1.5:
        return
    if _share(rank.io_seconds, finding) < _IO_MATTERS:
        return
    kind, better, base = max(
        _gains(data, storage), key=lambda one: one[1].durable_rate, default=("", None, None)
    )
    if better is None or base is None or better.durable_rate < _CLEARLY_FASTER * data.rate:
        return
    # A slab, or a chunk of a larger tensor, is one write; up to 16 of them are in flight.
    large = data.typical_bytes > _SLAB_BYTES
    of_snapshot = "MAX_CHUNK_SIZE" if large else "SLAB_SIZE_THRESHOLD"
    knobs = {
        ("dcp", Phase.SAVE): "FileSystemWriter(..., thread_count=4): several files at a time",
        ("torchsnapshot", Phase.SAVE): (
            f"TORCHSNAPSHOT_{of_snapshot}_BYTES_OVERRIDE=16777216: several writes at a time"
        ),
    }
    several = "keep several requests in flight (threads, io_uring)"
    several = knobs.get((engine or "", finding.episode.phase), several)
    size = format_bytes(better.size_bytes)
    knob, now, option = {
        "depth": (several, f"at depth {better.depth}, {{}} at depth 1", "--queue-depth 8"),
        "direct": ("write with O_DIRECT", "with O_DIRECT, {} buffered", "--direct"),
        "size": (
            f"{data.op} in requests of 1 MiB or more",
            f"in requests of {size}, {{}} in those of {format_bytes(base.size_bytes)}",
            "--coalesce",
        ),
    }[kind]
    yield Advice(
        knob,
        f"{data.op}s go one at a time at {_rate(data.rate)}; this storage gives "
        f"{_rate(better.durable_rate)} {now.format(_rate(base.durable_rate))}",
        _replay(trace, finding, f"{option} --repeat 5"),
        rank.io_seconds * (1 - data.rate / better.durable_rate),
    )


def _gains(data: Shape, storage: Capability) -> Iterator[tuple[str, ProbePoint, ProbePoint]]:
    """Yield what one change gives: its name, the probe's point with it and the one without.

    Reads are not compared across the page cache: what reads ahead there is not the storage.
    """
    op = "read" if data.op == "fault" else data.op
    direct = data.direct_share >= 0.5
    mean_bytes = data.bytes / max(data.count, 1)
    own_bytes = max(mean_bytes if data.is_mixed else data.typical_bytes, 1)
    sizes = [p.size_bytes for p in storage.points if (p.op, p.direct, p.depth) == (op, direct, 1)]
    if not sizes:
        return
    near_bytes, most_bytes = min(sizes, key=lambda n: abs(log(n / own_bytes))), max(sizes)
    now = (near_bytes, 1, direct)
    pairs = [
        ("depth", (p.size_bytes, p.depth, direct), (p.size_bytes, 1, direct))
        for p in storage.points
        if p.op == op and p.direct == direct and p.depth > 1
    ]
    if op == "write" and not direct:
        pairs.append(("direct", (near_bytes, 1, True), now))
    if data.small_share < 0.5 and data.joined_count <= _JOINS_TO * data.count:
        pairs.append(("size", (most_bytes, 1, direct), now))
    for name, changed, unchanged in pairs:
        better, base = storage.find(op, *changed), storage.find(op, *unchanged)
        if better and base and better.durable_rate >= _CLEARLY_FASTER * base.durable_rate:
            yield name, better, base


def _syncs(trace: str, finding: Finding) -> Iterator[Advice]:
    """More syncs than files, and they count."""
    sync, lasting = finding.shapes.get("sync"), finding.durability
    rank = finding.slowest_rank
    if sync is None or lasting is None or _share(rank.sync_seconds, finding) < _SYNC_MATTERS:
        return
    engine = finding.episode.engine
    if sync.count > 2 * lasting.files:
        yield Advice(
            "sync each file once, after its last write",
            f"{plural(sync.count, 'sync')} of {plural(lasting.files, 'file')} take "
            f"{format_share(rank.sync_seconds, rank.seconds)} of the time "
            f"({format_seconds(sync.p50_us / 1e6)} each)",
            _replay(trace, finding, "--repeat 5"),
            rank.sync_seconds * (1 - lasting.files / sync.count),
        )
    elif engine == "dcp":
        yield Advice(
            "dcp.async_save, so that the syncs do not hold up the job",
            f"syncs take {format_share(rank.sync_seconds, rank.seconds)} of the save",
            _replay(trace, finding, "--repeat 5"),
            rank.sync_seconds / 2,
        )


def _every_rank(trace: str, finding: Finding) -> Iterator[Advice]:
    """Ranks read the same bytes, or one rank reads bytes several times."""
    amount = finding.amplification
    if finding.episode.phase != Phase.LOAD or not amount.over_ranks:
        return
    engine, rank = finding.episode.engine, finding.slowest_rank
    within = amount.by_rank or 1.0
    across = amount.over_ranks / within
    if across >= _READ_TWICE and len(finding.split) > 1:
        knob = "read on one rank and broadcast"
        if engine == "torch.save":
            knob += "; or torch.load(..., mmap=True), which fetches only what a rank keeps"
        elif engine == "dcp":
            knob = "shard the state (DTensor, FSDP): replicated tensors are read by every rank"
        elif engine == "safetensors":
            knob += "; or safe_open + get_slice for the rank's own part"
        yield Advice(
            knob,
            f"{format_bytes(amount.moved_bytes)} read for {format_bytes(amount.unique_bytes)} "
            f"of different bytes ({amount.over_ranks:.1f}x)",
            _replay(trace, finding, "--broadcast --repeat 5"),
            rank.io_seconds * (1 - 1 / across),
        )
    if within >= _READ_TWICE:
        knob = "read each tensor's extent once"
        if engine == "dcp":
            knob = "fewer, larger tensors: DCP opens each one as an archive of its own"
        yield Advice(
            knob,
            f"{format_bytes(amount.moved_bytes)} read for "
            f"{format_bytes(amount.rank_unique_bytes)} of different bytes within a rank "
            f"({within:.1f}x)",
            _replay(trace, finding, "--coalesce --repeat 5"),
            rank.io_seconds * (1 - 1 / within),
        )


def _mapped(trace: str, finding: Finding) -> Iterator[Advice]:
    """A load through page faults, or through a mapping whose faults were not seen."""
    if "map" not in finding.ops or finding.episode.phase != Phase.LOAD:
        return
    faults = finding.shapes.get("fault")
    read = finding.shapes.get("read")
    if read is not None and faults is None and read.bytes > finding.amplification.tensor_bytes / 2:
        return
    knob = "read instead of mapping: on network storage each fault is a round trip"
    if finding.episode.engine == "safetensors":
        knob = "load_file(..., backend='pread'): on network storage each fault is a round trip"
    elif finding.episode.engine == "torch.save":
        knob = "torch.load(..., mmap=False) where storage is remote: each fault is a round trip"
    because = "the tensors come through a mapping; its reads were not seen"
    if faults is not None:
        because = (
            f"{format_count(faults.count)} page faults of {format_bytes(faults.typical_bytes)}, "
            f"{format_seconds(faults.p50_us / 1e6)} each"
        )
    gain = faults.busy_seconds / 2 if faults is not None else 0.0
    yield Advice(knob, because, f"iotrace sweep {trace} --budget 5m", gain)


def _spare(trace: str, finding: Finding) -> Iterator[Advice]:
    """Views drag their storage along, or tensors are written more than once."""
    amount = finding.amplification
    if finding.episode.phase != Phase.SAVE or amount.moved_bytes <= 0:
        return
    seconds = finding.slowest_rank.seconds
    if amount.spare_bytes > 0.01 * amount.moved_bytes:
        yield Advice(
            "save tensor.clone() of views: a view is saved with its whole storage",
            f"{format_bytes(amount.spare_bytes)} of the file belong to no element of a tensor "
            f"(most: {amount.spare_name})",
            f"iotrace show {trace} --tensors",
            seconds * amount.spare_bytes / amount.moved_bytes,
        )
    if amount.repeated and amount.repeated_bytes > 0.01 * amount.moved_bytes:
        first = amount.repeated[0]
        knob = "save replicated tensors on one rank only"
        if finding.episode.engine == "torchsnapshot":
            knob = "Snapshot.take(..., replicated=['**']), so that each is written by one rank"
        yield Advice(
            knob,
            f"{plural(len(amount.repeated), 'tensor')} written more than once, "
            f"{format_bytes(amount.repeated_bytes)} too much (most: {first.name}, "
            f"{first.times} times)",
            f"iotrace show {trace} --tensors",
            seconds * amount.repeated_bytes / amount.moved_bytes,
        )


def _early_sync(trace: str, finding: Finding) -> Iterator[Advice]:
    lasting = finding.durability
    if lasting is None or not lasting.early:
        return
    knob = "flush the file object before fsync"
    if finding.episode.engine == "dcp":
        knob = "upgrade PyTorch to 2.14.1 or later: DCP then flushes .metadata before its fsync"
    yield Advice(
        knob,
        f"{lasting.early[0]} is written to after its last sync: a crash may lose that part",
        f"iotrace show {trace} --requests --limit 0",
        0.0,
    )


def _not_durable(trace: str, finding: Finding) -> Iterator[Advice]:
    lasting = finding.durability
    if lasting is None or lasting.durable or lasting.early or not lasting.files:
        return
    renaming = " before renaming it" if lasting.renamed else ", and rename a temporary name last"
    yield Advice(
        f"fsync each file after its last write{renaming}",
        f"{format_bytes(lasting.unsynced_bytes)} of {plural(lasting.files, 'file')} were in memory "
        "only when the save returned; the line 'write, durable' has the price",
        _replay(trace, finding, "--repeat 5"),
        0.0,
    )


def _opens(trace: str, finding: Finding) -> Iterator[Advice]:
    amount = finding.amplification
    per_file = amount.opens / max(amount.files * max(amount.most_openers, 1), 1)
    if per_file < 4 or amount.opens < 16:
        return
    yield Advice(
        "open each file once and keep it open",
        f"{plural(amount.opens, 'open')} of {plural(amount.files, 'file')}: each is a round trip "
        "to the metadata server",
        f"iotrace show {trace} --files",
        0.0,
    )


def _not_in_background(trace: str, finding: Finding) -> Iterator[Advice]:
    """An asynchronous save that the job waited for."""
    behind = finding.background
    if behind is None or behind.waited_seconds < 0.5 * behind.io_seconds:
        return
    if behind.waited_seconds < _WAIT_MATTERS * max(behind.blocked_seconds, 1e-9):
        return
    knob = "save less often, or give the write more of the step to hide in"
    if finding.episode.engine == "datastates-llm":
        knob = "a larger host cache (host_cache_size), so that the copy need not wait for the flush"
    yield Advice(
        knob,
        f"the job waited {format_seconds(behind.waited_seconds)} for the write to end",
        f"iotrace why {trace}",
        behind.waited_seconds / 2,
    )


def _imbalance(trace: str, finding: Finding) -> Iterator[Advice]:
    if finding.imbalance is None or finding.imbalance < _READ_TWICE:
        return
    heavy = max(finding.split, key=lambda one: one.bytes)
    waits = sum(one.rank_seconds for one in finding.split) / len(finding.split)
    yield Advice(
        "spread the bytes evenly over the ranks",
        f"{heavy.name} moves {finding.imbalance:.1f}x the mean ({format_bytes(heavy.bytes)})",
        f"iotrace show {trace} --files",
        waits,
    )


def _rate(bytes_per_second: float) -> str:
    return f"{format_bytes(bytes_per_second)}/s"
