"""One thing to change, in the words of the engine that has to be told."""

from __future__ import annotations

from dataclasses import dataclass

from iotrace.traces.phases import Phase
from iotrace.traces.verdict.verdict import Finding

# What to change, per engine; "" is for all the others.
_KNOBS = {
    "join writes": {
        "": "write through a buffer of 8 MiB or more, or join adjacent requests",
        "torch.save": "torch.save into open(path, 'wb', buffering=8 << 20)",
        "torchsnapshot": (
            "leave TORCHSNAPSHOT_DISABLE_BATCHING unset: small tensors are packed into slabs"
        ),
        "datastates-llm": "join the tensors of a rank into one buffer before the save",
    },
    "join reads": {
        "": "read the file in large pieces (or whole) and take tensors from memory",
    },
    "overlap writes": {
        "": "keep several requests in flight (threads, io_uring)",
        "dcp": "FileSystemWriter(..., thread_count=4): several files at a time",
        "torchsnapshot": ("TORCHSNAPSHOT_{part}_BYTES_OVERRIDE=16777216: several writes at a time"),
    },
    "overlap reads": {
        "": "keep several requests in flight (threads, io_uring)",
    },
    "read once for all ranks": {
        "": "read on one rank and broadcast",
        "torch.save": (
            "read on one rank and broadcast; or torch.load(..., mmap=True), which fetches only "
            "what a rank keeps"
        ),
        "dcp": "shard the state (DTensor, FSDP): replicated tensors are read by every rank",
        "safetensors": (
            "read on one rank and broadcast; or safe_open + get_slice for the rank's own part"
        ),
    },
    "read once in a rank": {
        "": "read each tensor's extent once",
        "dcp": "fewer, larger tensors: DCP opens each one as an archive of its own",
    },
    "do not map": {
        "": (
            "read instead of mapping, or read the file ahead in the order of its use: each page "
            "fault waits for storage"
        ),
        "safetensors": (
            "load_file(..., backend='pread'), or read the file ahead in the order of its use: "
            "each page fault waits for storage"
        ),
        "torch.save": (
            "torch.load(..., mmap=False) where most of it is used: each page fault waits for "
            "storage"
        ),
    },
    "save once": {
        "": "save replicated tensors on one rank only",
        "torchsnapshot": (
            "Snapshot.take(..., replicated=['**']), so that each is written by one rank"
        ),
    },
    "sync last": {
        "": "flush the file object before fsync",
        "dcp": "upgrade PyTorch to 2.14.1 or later: DCP then flushes .metadata before its fsync",
    },
    "wait less": {
        "": "save less often, or give the write more of the step to hide in",
        "datastates-llm": (
            "a larger host cache (host_cache_size), so that the copy need not wait for the flush"
        ),
    },
}


@dataclass(frozen=True)
class Advice:
    """One thing to change, why, and the command that proves it; the gain orders them.

    `about` is the save or load that gains most, and how many more; empty: the whole trace.
    """

    change: str
    because: str
    command: str
    gain_seconds: float
    about: str = ""


def share_of(part: float, finding: Finding) -> float:
    """Return `part`, in seconds of the slowest rank, as a share of the save's or load's time."""
    return part / finding.seconds if finding.seconds else 0.0


def of_rank(finding: Finding) -> str:
    """Return ` of rank 1`: whose times those of the slowest rank are, where there are several."""
    return f" of {finding.slowest_rank.name}" if len(finding.split) > 1 else ""


def replay_command(trace: str, finding: Finding, options: str) -> str:
    """Return the replay of the save's writes or of the load's reads; `trace` is quoted."""
    op = "write" if finding.episode.phase == Phase.SAVE else "read"
    return f"iotrace replay {trace} --op {op} {options}".rstrip()


def knob(remedy: str, finding: Finding) -> str:
    """Return what to change for `remedy`, a key of `_KNOBS`, in the engine that did it."""
    known = _KNOBS[remedy]
    return known.get(finding.episode.engine or "", known[""])
