"""Advice on which bytes are moved, and by whom."""
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

