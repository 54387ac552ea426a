"""What people ask about their checkpoints: the job, the command, the line with the answer.

Each is answered in the first lines of one command, most of them of `iotrace why`.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch

from iotrace.replay.probe import probe
from iotrace.replay.probe_cache import save_probe
from tests.replay.slow_mount import slow_mount
from tests.tools.command import iotrace

JOBS = Path(__file__).parent / "jobs" / "questions.py"
CORPUS = Path(__file__).parents[2] / "traces" / "corpus"
_FIRST_LINES = 12  # of 80 columns


def run(*words: object, **more: str) -> str:
    """Run `iotrace`; return what it printed."""
    done = iotrace(*words, extra_env=more)
    assert done.returncode == 0, done.stderr
    return done.stdout


@dataclass
class Ask:
    """Captures each job once, in a folder whose storage was probed."""

    folder: Path
    known: dict[str, Path] = field(default_factory=dict)

    def trace(self, case: str, *launcher: str) -> Path:
        """Return the trace of a job of `JOBS`, or of the corpus."""
        if case not in self.known:
            trace = CORPUS / f"{case}.parquet"
            if not trace.exists():
                trace = self.folder / f"{case}.parquet"
                job = (*(launcher or (sys.executable,)), JOBS, case, self.folder)
                run("capture", "-o", trace, "--", *job)
            self.known[case] = trace
        return self.known[case]

    def __call__(self, case: str, *launcher: str) -> dict[str, str]:
        """Ask why; return the verdict by label."""
        given = (self.trace(case, *launcher), "--no-probe", "--root", self.folder)
        return verdict(run("why", *given, XDG_CACHE_HOME=f"{self.folder}/cache"))


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """Jobs in a folder of this file's tests."""
    folder = tmp_path_factory.mktemp("questions")
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    save_probe(folder, probe(folder, budget_seconds=0.5))
    del os.environ["XDG_CACHE_HOME"]
    return Ask(folder)


def verdict(shown: str) -> dict[str, str]:
    """Return the lines before the evidence, by label; `advice`: all that could be changed."""
    lines = shown.split("\n\n")[0].splitlines()
    # What makes a trace incomplete comes before; a busy machine makes two lines of a time.
    assert len(lines) <= _FIRST_LINES + 6, shown
    found: dict[str, str] = {}
    label = ""
    for line in lines:
        label = line[:9].strip() or label
        found[label] = f"{found.get(label, '')} {line[9:].strip()}".strip()
    found["advice"] = " ".join(shown.partition("What to change")[2].split())
    return found


def first_lines(shown: str) -> str:
    """Return the part of an output that answers."""
    return "\n".join(shown.splitlines()[:10])


def mebibytes(size: str) -> float:
    """Return a printed size in MiB."""
    number, unit = size.split()
    return float(number) * {"KiB": 1 / 1024, "MiB": 1, "GiB": 1024}[unit]


def percent(line: str, what: str) -> int:
    """Return how much of the time `line` gives to `what`; 0 if it says nothing."""
    match = re.search(rf"{what} [<>]?(\d+) %", line)
    return int(match[1]) if match else 0


def test_fio_says_gigabytes_and_the_save_runs_at_megabytes(ask: Ask) -> None:
    """Size, depth and latency of the requests, against what this storage gives."""
    found = ask("tiny")
    assert re.match(
        r"1,00\d of 4\.\d+ KiB mean \(4\.06 KiB median\), one at a time, .* each = .*/s",
        found["writes"],
    )
    assert re.search(r"1 MiB: (direct|buffered) writes .*/s( ±.* %)? \(depth \d\)", found["here"])


def test_is_it_the_disk_the_code_or_a_sync(ask: Ask) -> None:
    """Two jobs that look alike from outside."""
    tiny = ask("tiny")["save"]
    assert percent(tiny, "CPU(?: up to)?") + percent(tiny, "no free CPU") > 50
    assert percent(ask("synced")["save"], "syncs") > 50
    assert "sync each file once" in ask("synced")["change"]


def test_a_save_that_sleeps_is_not_called_computing(ask: Ask) -> None:
    """Two saves of half a second without I/O: one waits for what is no file, one computes."""
    asleep, awake = ask("sleeping"), ask("computing")
    assert percent(asleep["save"], "not running") > 60
    assert "waits for outside its I/O" in asleep["change"]
    assert percent(awake["save"], "CPU(?: up to)?") + percent(awake["save"], "no free CPU") > 60
    assert "waits for" not in awake["change"]


def test_are_we_waiting_for_another_rank_and_for_which(ask: Ask) -> None:
    """Rank 1 comes a second late; rank 0 waits for it."""
    torchrun = str(Path(sys.executable).with_name("torchrun"))
    found = ask("straggler", torchrun, "--nproc_per_node", "2")
    match = re.search(r"rank 1 last, others wait ([\d.]+) (m?s)", found["save"])
    assert match, found["save"]
    assert 0.3 < float(match[1]) / (1000 if match[2] == "ms" else 1) < 30


def test_how_often_is_every_byte_read_and_the_file_opened(ask: Ask) -> None:
    """Two ranks that load the whole file."""
    found = ask("everything")
    assert re.search(r"read 16\.0 MiB \(2x, all\.pt opened by 2 ranks\)", found["bytes"])
    assert "broadcast" in found["advice"]  # which comes first depends on the storage


def test_would_bigger_writes_or_direct_io_be_faster(ask: Ask, tmp_path: Path) -> None:
    """On storage where each request is a round trip nothing beats one write for all of them."""
    trace = ask.trace("in_pieces")
    with slow_mount(tmp_path, 0.002) as mount:
        given = (trace, "--op", "write", "--budget", "8s", "--root", tmp_path)
        shown = run("sweep", *given)
        best = shown.partition("best save:\n")[2].splitlines()[0]
        mount.seen.clear()
        run(*shlex.split(best.replace("--repeat 5", "--repeat 1"))[1:])
        writes = mount.seen["write"]
    match = re.search(r"save +\d+ MiB .*; ([\d.]+)x as fast", " ".join(first_lines(shown).split()))
    assert match and float(match[1]) > 5, shown
    assert 0 < writes < 103 / 10


def test_what_is_left_if_the_node_dies_in_the_middle(ask: Ask) -> None:
    """Under its own name, or renamed into place."""
    assert "in place: a kill leaves a torn file" in ask("tiny")["durable"]
    assert "renamed: a kill leaves the old file" in ask("renamed")["durable"]


def test_is_it_on_disk_when_save_returns(ask: Ask) -> None:
    """No engine but one syncs."""
    assert ask("tiny")["durable"].startswith("no: 0 of 1 file synced at return")
    assert ask("synced")["durable"].startswith("yes: 1 file synced at return")


def test_torch_load_finds_no_central_directory(tmp_path: Path) -> None:
    """What is lost and what can be read, of a file that no engine loads any more."""
    subprocess.run([sys.executable, JOBS, "killed", tmp_path], check=True)
    with pytest.raises(RuntimeError, match="failed finding central directory"):
        torch.load(tmp_path / "killed.pt")
    done = iotrace("check", tmp_path / "killed.pt")
    assert done.returncode == 1
    said = first_lines(done.stdout)
    assert "8 of 16 whole, by their checksums" in said
    assert "8 tensors, the first is l8 (was never written)" in said
    assert re.search(r"readable +l0 \.\.\. l7;", said)


def test_unexpected_pos_is_told_as_what_happened(ask: Ask) -> None:
    """The first error with its file and tensor, before any time."""
    found = ask("limit")
    assert list(found)[:2] == ["trace", "error"]
    assert "File too large (EFBIG)" in found["error"]
    assert "limit.pt" in found["error"] and "tensor l" in found["error"]
    assert "before it a write moved" in found["error"]


def test_what_filled_the_memory(ask: Ask) -> None:
    """A load has the bytes twice: in the process, and in the page cache."""
    memory = ask("loading")["memory"]
    form = r"load \+(.*), peak (.*) of [\d.]+ [GT]iB; cached (.* MiB)"  # of: the limit
    match = re.match(form, memory)
    assert match, memory
    grown, peak, cached = map(mebibytes, match.groups())
    assert 60 < grown < 80 < peak < 2048
    assert 64 <= cached < 65


def test_it_got_slower_what_changed(ask: Ask, tmp_path: Path) -> None:
    """The same state under the same name: on another file system, and in other requests."""
    after = tmp_path / "after.parquet"
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        run("capture", "-o", after, "--", sys.executable, JOBS, "in_one", memory)
    said = first_lines(run("compare", ask.trace("in_pieces"), after))
    assert re.search(r"changed  file system \w+ -> tmpfs", said)
    assert re.search(r"reads and writes +103 +1 +<0.01x", said)


def test_will_this_save_work_on_another_file_system(ask: Ask) -> None:
    """safetensors renames its file into place, which Mountpoint for S3 cannot."""
    done = iotrace("check", ask.trace("renamed"), "--for", "mountpoint-s3", "--for", "nfs")
    assert done.returncode == 1
    said = " ".join(first_lines(done.stdout).split())
    assert "on mountpoint-s3 NO, it has none of: rename (model.safetensors)" in said
    assert "on nfs yes" in said
    assert "on mountpoint-s3 yes" in " ".join(
        run("check", CORPUS / "torch-save.parquet", "--for", "mountpoint-s3").split()
    )


def test_does_an_asynchronous_save_run_in_the_background(ask: Ask) -> None:
    """How long the call took, what ran behind the job, what it waited in the end."""
    found = ask("datastates-llm")
    assert re.match(
        r"blocked the job for 2\.53 ms \(call 2\.23 ms, wait 303 µs\) of [\d.]+ ms, the rest in "
        r"the background: 100 % of [\d.]+ ms of I/O$",
        found["async"],
    )


def test_why_is_the_file_bigger_than_the_model(ask: Ask) -> None:
    """A view drags its whole storage along: 8 MiB for 40 bytes."""
    found = ask("view")
    assert found["bytes"].startswith("wrote 8.00 MiB (209,752x the tensors")
    assert "clone()" in found["change"]


def test_was_that_number_from_the_page_cache(ask: Ask) -> None:
    """A load of what was just saved."""
    assert re.search(r"\((> 99|>= \d+) % cached\)", ask("everything")["reads"])
