"""Compare what tracers cost and see: bare, iotrace, DFTracer, Darshan where it is built, strace.

Run by hand: `python tests/bench/capture_against_peers.py [ROUNDS [CALLS]]`; what it prints is
docs/capture-cost.md. DFTracer is installed from the package index into build/peers; Darshan takes
part where DARSHAN_LIBRARY names the libdarshan.so of a build without MPI whose logs go where
DARSHAN_LOG_DIR_PATH says. Runs take turns; CPU time is quoted, since the machine may have other
work.
"""

import gzip
import os
import platform
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from iotrace.capture.collector import collect
from iotrace.traces.formats.darshan import read_binary
from iotrace.traces.version import tool_version
from iotrace.traces.writer import write_trace

ROOT = Path(__file__).parents[2]
CSRC = ROOT / "tests" / "capture" / "csrc"
LIBRARY = ROOT / "capture" / "libiotrace_capture.so"
PEERS = ROOT / "build" / "peers"
THREADS, BLOCK_BYTES, PART_BLOCKS = 8, 4096, 256  # of million.c
SAVE = "import sys, torch; torch.save({'w': torch.ones(16 << 20)}, sys.argv[1])"
STRACED = re.compile(r"(?:write|pwrite64|writev)\(.*= (\d+)$|resumed>.*= (\d+)$", re.MULTILINE)
# By default 2 MiB of DXT are full after 65,000 requests, and all below /dev is left out.
DARSHAN_SETTINGS = (
    "MODMEM 64\nMAX_RECORDS 30000 DXT_POSIX\nNAME_INCLUDE ^/dev/shm POSIX,STDIO,DXT_POSIX\n"
)
DFTRACED = re.compile(r'"name":"(?:p?writev?|pwrite64|fwrite)".*?"ret":(\d+)')


@dataclass(frozen=True)
class Job:
    """A command, and how many bytes it writes."""

    name: str
    command: Sequence[str]
    bytes: int


@dataclass
class Tracer:
    """How to run a job under a tracer, and what the tracer then knows.

    Attributes:
        seen: takes the folder of the logs; returns bytes seen as written, records, stored bytes.
    """

    name: str
    prefix: Sequence[str] = ()
    extra: Mapping[str, str] = field(default_factory=dict)
    seen: Callable[[Path], tuple[int, int, int]] = lambda logs: (0, 0, 0)


def run_seconds(job: Job, tracer: Tracer, folder: Path, logs: Path) -> float:
    """Run a job once; return the CPU seconds of the job and its tracer."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    values = {name: value.replace("LOGS", str(logs)) for name, value in tracer.extra.items()}
    prefix = [part.replace("LOGS", str(logs)) for part in tracer.prefix]
    subprocess.run(
        [*prefix, *job.command],
        env={**os.environ, **values},
        cwd=folder,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def seen_by_iotrace(logs: Path) -> tuple[int, int, int]:
    trace = collect(logs, [])
    write_trace(trace, logs / "trace.parquet")
    requests = trace.layer("request")
    written = requests.where(requests.row_mask(op="write")).ints("result")
    return int(written.sum()), len(trace), (logs / "trace.parquet").stat().st_size


def seen_by_dftracer(logs: Path) -> tuple[int, int, int]:
    files = list(logs.glob("*.pfw.gz"))
    text = "".join(gzip.decompress(file.read_bytes()).decode() for file in files)
    stored = sum(file.stat().st_size for file in files)
    return sum(map(int, DFTRACED.findall(text))), text.count('"id":'), stored


def seen_by_darshan(logs: Path) -> tuple[int, int, int]:
    written = records = stored = 0
    for log in logs.glob("*.darshan"):
        requests = read_binary(log)
        written += int(requests.where(requests.row_mask(op="write")).ints("result").sum())
        records += len(requests)
        stored += log.stat().st_size
    return written, records, stored


def seen_by_strace(logs: Path) -> tuple[int, int, int]:
    text = (logs / "strace").read_text()
    written = sum(int(first or second) for first, second in STRACED.findall(text))
    return written, text.count("\n"), (logs / "strace").stat().st_size


def dftracer(folder: Path) -> Tracer | str:
    """Install DFTracer; return how to run it, or why it cannot be."""
    pip = PEERS / "bin" / "pip"
    if not pip.exists():
        subprocess.run([sys.executable, "-m", "venv", PEERS], check=True)
    done = subprocess.run([pip, "install", "-q", "dftracer"], capture_output=True, text=True)
    if done.returncode:
        return f"DFTracer is left out: {done.stderr.strip().splitlines()[-1]}"
    library = next(PEERS.glob("lib*/python3*/site-packages/dftracer/lib*/libdftracer_preload.so"))
    listed = subprocess.run([pip, "show", "dftracer"], capture_output=True, text=True).stdout
    version = re.search(r"Version: (\S+)", listed)
    return Tracer(
        f"DFTracer {version[1] if version else ''}",
        extra={
            "LD_PRELOAD": str(library),
            "DFTRACER_ENABLE": "1",
            "DFTRACER_INIT": "PRELOAD",
            "DFTRACER_LOG_FILE": "LOGS/log",
            "DFTRACER_DATA_DIR": str(folder),
            "DFTRACER_TRACE_COMPRESSION": "1",
            "DFTRACER_INC_METADATA": "1",
            "DFTRACER_TRACE_TIDS": "1",
        },
        seen=seen_by_dftracer,
    )


def darshan(folder: Path) -> Tracer | str:
    """Return how to run Darshan with its extended traces, or why it cannot be."""
    library = os.environ.get("DARSHAN_LIBRARY")
    if library is None:
        return "Darshan is left out: DARSHAN_LIBRARY names no libdarshan.so."
    described = Path(library).parent / "pkgconfig" / "darshan-runtime.pc"
    text = described.read_text() if described.exists() else ""
    version = re.search(r"^Version: (\S+)", text, re.MULTILINE)
    settings = folder / "darshan.conf"
    settings.write_text(DARSHAN_SETTINGS)
    return Tracer(
        f"Darshan {version[1] if version else ''} with DXT",
        extra={
            "LD_PRELOAD": library,
            "DARSHAN_ENABLE_NONMPI": "1",
            "DXT_ENABLE_IO_TRACE": "1",
            "DARSHAN_LOG_DIR_PATH": "LOGS",
            "DARSHAN_CONFIG_PATH": str(settings),
        },
        seen=seen_by_darshan,
    )


def tracers(folder: Path) -> tuple[list[Tracer], list[str]]:
    """Return who takes part, and who does not and why."""
    iotrace = Tracer(
        f"iotrace {tool_version()}",
        extra={"LD_PRELOAD": str(LIBRARY), "IOTRACE_LOG_DIR": "LOGS", "IOTRACE_SYSTEM": "/usr/*"},
        seen=seen_by_iotrace,
    )
    found, absent = [Tracer("bare"), iotrace], []
    for peer in (dftracer(folder), darshan(folder)):
        if isinstance(peer, Tracer):
            found.append(peer)
        else:
            absent.append(peer)
    if shutil.which("strace"):
        calls = "trace=write,pwrite64,writev"
        prefix = ("strace", "-f", "-o", "LOGS/strace", "-e", calls, "-e", "signal=none")
        version = subprocess.run(["strace", "-V"], capture_output=True, text=True).stdout.split()[3]
        found.append(Tracer(f"strace {version}", prefix=prefix, seen=seen_by_strace))
    return found, absent


def rows(job: Job, taking_part: Sequence[Tracer], folder: Path, rounds: int) -> list[str]:
    """Run a job under all tracers in turn; return the rows of its table."""
    seconds: dict[str, list[float]] = {tracer.name: [] for tracer in taking_part}
    seen: dict[str, tuple[int, int, int]] = {}
    logs = folder / "logs"
    for _ in range(rounds):
        for tracer in taking_part:
            logs.mkdir()
            seconds[tracer.name].append(run_seconds(job, tracer, folder, logs))
            seen[tracer.name] = tracer.seen(logs)
            shutil.rmtree(logs)
    bare = seconds["bare"]
    lines = [
        f"## {job.name}",
        "",
        "| tracer | CPU seconds | more than bare | bytes per record | written bytes seen |",
        "|---|---|---|---|---|",
    ]
    for name, own in seconds.items():
        ratio = statistics.median(b / a for a, b in zip(bare, own, strict=True))
        written, records, stored = seen[name]
        per_record = f"{stored / records:.1f}" if records else "-"
        share = f"{100 * min(written, job.bytes) / job.bytes:.0f} %" if name != "bare" else "-"
        more = f"{100 * (ratio - 1):+.0f} %" if name != "bare" else "-"
        lines.append(f"| {name} | {statistics.median(own):.2f} | {more} | {per_record} | {share} |")
    return [*lines, ""]


def main(rounds: int, calls: int) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        program = folder / "million"
        subprocess.run(
            ["gcc", "-O2", "-pthread", str(CSRC / "million.c"), "-o", str(program)], check=True
        )
        taking_part, absent = tracers(folder)
        moved = (calls + THREADS * PART_BLOCKS) * BLOCK_BYTES
        small = [str(program), str(folder / "data"), str(THREADS), str(calls)]
        jobs = [Job(f"{calls:,} pwrites of 4 KiB by {THREADS} threads", small, moved)]
        try:
            saved = folder / "saved.pt"
            save = [sys.executable, "-c", SAVE, str(saved)]
            subprocess.run(save, check=True)
            jobs.append(Job("torch.save of 64 MiB, by name", save, saved.stat().st_size))
        except subprocess.CalledProcessError:
            absent.append("torch.save is left out: torch is not installed.")
        print("# What capture costs\n")
        print(
            f"Written by `tests/bench/capture_against_peers.py` on {time.strftime('%Y-%m-%d')}: "
            f"Linux {platform.release().partition('-')[0]}, {os.cpu_count()} cores, files on a\n"
            f"memory file system; medians of {rounds} rounds in turn, CPU time of job and tracer,\n"
            "ratios of runs next to one another.\n"
        )
        for job in jobs:
            print("\n".join(rows(job, taking_part, folder, rounds)), flush=True)
        print("\n".join(absent))


if __name__ == "__main__":
    main(*(int(argument) for argument in (sys.argv[1:] + ["7", "200000"][len(sys.argv) - 1 :])))
