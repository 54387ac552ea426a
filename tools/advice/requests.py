"""Advice on how requests are made: their number, size and depth, and what goes on between them."""

from __future__ import annotations

from collections.abc import Iterator
from math import log

from iotrace.replay.probe import Capability, ProbePoint
from iotrace.tools.advice.advice import Advice, knob, of_rank, replay_command, share_of
from iotrace.tools.render import format_bytes, format_count, format_seconds
from iotrace.traces.phases import Phase
from iotrace.traces.verdict.shape import SMALL_BYTES, Shape
from iotrace.traces.verdict.verdict import Finding
from iotrace.traces.words import plural

# Below these shares of the time a remedy would not be felt.
_IO_MATTERS = 0.2
_CPU_RULES = 0.6

_WAITS = 0.5  # of the time without a request is no computing either
_ONE_GAP = 0.5  # of the time without a request is one gap
_FELT_SECONDS = 0.5  # a pause that is looked into
_MANY = 200  # requests from which on their number may be the cause
_JOINS_TO = 0.25  # of the requests are left after joining
_SLAB_BYTES = 128 << 20  # TorchSnapshot's default
_CLEARLY_FASTER = 1.5
_CHECKSUM_BYTES_PER_SECOND = 4 << 30  # a serialiser that is not slower than this is no issue


def computing(trace: str, finding: Finding) -> Iterator[Advice]:
    """Most of the time no request is in flight: storage is not the limit."""
    rank, data = finding.slowest_rank, finding.data
    if data is None or share_of(rank.between_seconds, finding) < _CPU_RULES:
        return
    engine, name = finding.episode.engine, finding.episode.name
    seconds = format_seconds(rank.between_seconds)
    io = format_seconds(rank.io_seconds + rank.sync_seconds)
    per_request = format_seconds(rank.between_seconds / max(rank.requests, 1))
    proof = replay_command(trace, finding, "--repeat 5")
    small = data.typical_bytes < SMALL_BYTES
    if rank.waiting_seconds > _WAITS * rank.between_seconds:
        yield Advice(
            f"find what the {name} waits for outside its I/O (py-spy dump --pid ...)",
            f"{format_seconds(rank.waiting_seconds)} of the {seconds} between requests the process"
            f"{of_rank(finding)} was on no processor: the network, a lock, a device, a sleep",
            proof,
            rank.waiting_seconds,
        )
        return
    if rank.gap_seconds > max(_ONE_GAP * rank.between_seconds, _FELT_SECONDS):
        gap = f"its {rank.gap_before}" if rank.gap_before else "the call returns"
        who = rank.name if len(finding.split) > 1 else "the job"
        yield Advice(
            f"look at {who} before {gap} (py-spy)",
            f"{format_seconds(rank.gap_seconds)} of the {name} pass there without any I/O",
            proof,
            rank.gap_seconds,
        )
        return
    if small and data.count >= _MANY:
        yield Advice(
            f"hand {engine or 'the writer'} fewer, larger tensors (flat buffers)",
            f"{seconds} go by between {plural(rank.requests, 'request')}{of_rank(finding)} "
            f"({per_request} each), {io} in them: the {name}'s code is the limit, not the storage",
            proof,
            rank.between_seconds / 2,
        )
    slow = rank.bytes / rank.between_seconds < _CHECKSUM_BYTES_PER_SECOND
    if engine == "torch.save" and name == "save" and not small and slow:
        yield Advice(
            "torch.utils.serialization.config.save.compute_crc32 = False",
            f"{seconds} between requests for {format_bytes(rank.bytes)}{of_rank(finding)}: "
            f"serialising and checksums, the I/O takes {io}",
            proof,
            rank.between_seconds / 3,
        )


def many_small(trace: str, finding: Finding) -> Iterator[Advice]:
    """Many adjacent small requests whose time counts."""
    data, rank = finding.data, finding.slowest_rank
    if data is None or data.small_share < 0.5 or data.joined_count > _JOINS_TO * data.count:
        return
    if _by_faults(finding) or share_of(rank.io_seconds, finding) < _IO_MATTERS:
        return
    because = (
        f"{format_count(data.count)} {data.op}s, half of them up to "
        f"{format_bytes(data.typical_bytes)}, are adjacent: {format_count(data.joined_count)} "
        "would do"
    )
    gain = rank.io_seconds * (1 - data.joined_count / data.count)
    if data.is_round_trips:  # a joined request is then one round trip too, not a longer copy
        left = max(finding.seconds - gain, 0.0)
        because += f", about {format_seconds(left)} instead of {format_seconds(finding.seconds)}"
    change = knob("join writes" if finding.episode.phase == Phase.SAVE else "join reads", finding)
    yield Advice(change, because, replay_command(trace, finding, "--coalesce --repeat 5"), gain)


def depth(trace: str, finding: Finding, storage: Capability | None) -> Iterator[Advice]:
    """One request at a time, where the probe gives clearly more once one thing is changed."""
    data, rank = finding.data, finding.slowest_rank
    if storage is None or data is None or not data.rate or data.depth > 1.5:
        return
    if _by_faults(finding) or share_of(rank.io_seconds, finding) < _IO_MATTERS:
        return
    kind, better, base = max(
        _gains(data, storage),
        key=lambda one: one[1].durable_bytes_per_second,
        default=("", None, None),
    )
    if (
        better is None
        or base is None
        or better.durable_bytes_per_second < _CLEARLY_FASTER * data.rate
    ):
        return
    # A slab, or a chunk of a larger tensor, is one write; up to 16 of them are in flight.
    large = data.typical_bytes > _SLAB_BYTES
    part = "MAX_CHUNK_SIZE" if large else "SLAB_SIZE_THRESHOLD"
    saves = finding.episode.phase == Phase.SAVE
    several = knob("overlap writes" if saves else "overlap reads", finding)
    size = format_bytes(better.size_bytes)
    change, now, option = {
        "depth": (
            several.format(part=part),
            f"at depth {better.depth}, {{}} at depth 1",
            "--queue-depth 8",
        ),
        "direct": ("write with O_DIRECT", "with O_DIRECT, {} buffered", "--direct"),
        "size": (
            f"{data.op} in requests of 1 MiB or more",
            f"in requests of {size}, {{}} in those of {format_bytes(base.size_bytes)}",
            "--coalesce",
        ),
    }[kind]
    yield Advice(
        change,
        f"{data.op}s go one at a time at {_rate(data.rate)}{_of_all(data)}; this storage gives "
        f"{_rate(better.durable_bytes_per_second)} "
        f"{now.format(_rate(base.durable_bytes_per_second))}",
        replay_command(trace, finding, f"{option} --repeat 5"),
        rank.io_seconds * (1 - data.rate / better.durable_bytes_per_second),
    )


def _of_all(data: Shape) -> str:
    """Return who gets a rate, if that is not one process."""
    return f" in {plural(data.processes, 'process')} together" if data.processes > 1 else ""


def _gains(data: Shape, storage: Capability) -> Iterator[tuple[str, ProbePoint, ProbePoint]]:
    """Yield what one change gives: its name, the probe's point with it and the one without.

    Reads are not compared across the page cache: what reads ahead there is not the storage.
    """
    op = data.op
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
        if not (better and base) or (better.low_bytes_per_second or 0.0) < (
            base.high_bytes_per_second or 0.0
        ):
            continue  # their intervals overlap
        if better.durable_bytes_per_second >= _CLEARLY_FASTER * base.durable_bytes_per_second:
            yield name, better, base


def opens(trace: str, finding: Finding) -> Iterator[Advice]:
    """A file is opened again and again."""
    amount = finding.amplification
    per_file = amount.opens / max(amount.files * max(amount.most_openers, 1), 1)
    if per_file < 4 or amount.opens < 16:
        return
    yield Advice(
        "open each file once and keep it open",
        f"{plural(amount.opens, 'open')} of {plural(amount.files, 'file')}: each is a round trip "
        "to the metadata server",
        replay_command(trace, finding, "--aggregate rank --repeat 5"),
        0.0,
    )


def _by_faults(finding: Finding) -> bool:
    """Return whether the data came by page faults: what was read besides is headers."""
    paging, data = finding.paging, finding.data
    if paging is None or data is None:
        return False
    return (paging.read_bytes or paging.fault_bytes) > data.bytes


def _rate(bytes_per_second: float) -> str:
    return f"{format_bytes(bytes_per_second)}/s"
