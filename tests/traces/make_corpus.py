"""Make the traces of traces/corpus again: capture a small job, then take out where it ran.

Usage: python -m tests.traces.make_corpus [NAME ...]

The traces of DataStates-LLM and safetensors were made by their own jobs, and are only given their
cards here.
"""

import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from iotrace.traces.metadata import Completeness, Host, Metadata, Mount, Process
from iotrace.traces.reader import read_trace
from iotrace.traces.sharing.card import make_card
from iotrace.traces.sharing.share import KEEP
from iotrace.traces.trace import Column, Ints, Strings, Trace
from iotrace.traces.writer import write_trace

CORPUS = Path(__file__).parents[2] / "traces" / "corpus"
JOB = Path(__file__).parent / "jobs" / "train.py"

TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")
LICENCE = "MIT"  # as the package
FOLDER = "/scratch/ckpt"
NO_BOOT = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True)
class Made:
    """How a trace is made: by which run of the job, and after which other that is not captured.

    `does` is what the captured run does.
    """

    engine: str
    launcher: tuple[str, ...] = ()
    does: tuple[str, ...] = ()


TRACES = {
    "torch-save": Made("torch-save"),
    "torch-restore": Made("torch-save", does=("restore",)),
    "torchsnapshot": Made("torchsnapshot"),
    "torchsnapshot-ranks": Made("torchsnapshot-ranks", TORCHRUN),
    "dcp": Made("dcp", TORCHRUN),
    "dcp-restore": Made("dcp", TORCHRUN, ("restore",)),
}


def capture(made: Made, folder: Path) -> Trace:
    """Run the job with its files in `folder`; only these are recorded."""
    output = folder.with_name("trace.parquet")
    command = (sys.executable, *made.launcher, str(JOB), made.engine, str(folder))
    if made.does == ("restore",):
        subprocess.run([*command, "save"], check=True)
    options = ("-q", "-o", str(output), "--include", f"{folder}*")
    iotrace = Path(sys.executable).with_name("iotrace")
    subprocess.run([iotrace, "capture", *options, "--", *command, *made.does], check=True)
    return read_trace(output)


def moved(text: str, folder: Path) -> str:
    """Return a text that names the folder's new place."""
    return text.replace(str(folder), FOLDER)


def neutral(trace: Trace, folder: Path, made: Made) -> Trace:
    """Return the trace as if the job had run in FOLDER on a machine called `node`."""
    columns: dict[str, Column] = {}
    for name in ("path", "target"):
        codes, values = trace.codes(name)
        columns[name] = Strings(codes, [moved(value, folder) for value in values])
    addresses = trace.ints("address")
    columns["address"] = Ints(addresses, np.zeros(len(trace), np.bool_))
    return trace.with_columns(columns).with_metadata(neutral_metadata(trace, folder, made))


def neutral_metadata(trace: Trace, folder: Path, made: Made) -> Metadata:
    """Return what the metadata say of the job and its shape, not of the machine's owner."""
    metadata = trace.metadata
    command = ("python", "train.py", made.engine, FOLDER, *made.does)
    return replace(
        metadata,
        command=("torchrun", "--nproc_per_node", "2", *command[1:]) if made.launcher else command,
        hosts=tuple(neutral_host(host) for host in metadata.hosts),
        mounts=tuple(neutral_mount(mount) for mount in metadata.mounts[:1]),
        processes=tuple(
            neutral_process(process, place, command)
            for place, process in enumerate(metadata.processes)
        ),
        completeness=neutral_completeness(metadata.completeness, folder),
    )


def neutral_host(host: Host) -> Host:
    """Return a host by another name."""
    kernel = ".".join(host.kernel.split(".")[:2])
    return replace(host, name="node", boot_id=NO_BOOT, kernel=kernel, extra={})


def neutral_mount(mount: Mount) -> Mount:
    """Return a file system by another name."""
    return replace(mount, path="/scratch", source="", options="rw,relatime", extra={})


def neutral_process(process: Process, place: int, command: tuple[str, ...]) -> Process:
    """Return a process of the published command."""
    return replace(
        process,
        pid=1001 + place,
        parent_pid=1000,
        start_ticks=100_000 + place,
        argv=command,
        executable="/usr/bin/python3",
        prefix="/usr",
        extra={},
    )


def neutral_completeness(completeness: Completeness, folder: Path) -> Completeness:
    """Return the same account of files in their new place."""
    files = tuple(
        replace(file, path=moved(file.path, folder), extra={}) for file in completeness.files
    )
    notes = tuple(moved(note, folder) for note in completeness.notes)
    return replace(completeness, files=files, notes=notes)


def write_card(name: str) -> None:
    """Write the page that says what a trace is."""
    trace = read_trace(CORPUS / f"{name}.parquet")
    card = make_card(trace, LICENCE, KEEP, "")
    (CORPUS / f"{name}.md").write_text(card.to_markdown(f"corpus:{name}", keyed_paths=False))


def main(names: list[str]) -> None:
    """Write some traces, or all, and the cards of all there are."""
    for name in names or TRACES:
        made = TRACES[name]
        with tempfile.TemporaryDirectory() as parent:
            folder = Path(parent) / "ckpt"
            folder.mkdir()
            trace = neutral(capture(made, folder), folder, made)
        write_trace(trace, CORPUS / f"{name}.parquet", force=True)
    for path in CORPUS.glob("*.parquet"):
        write_card(path.stem)


if __name__ == "__main__":
    main(sys.argv[1:])
