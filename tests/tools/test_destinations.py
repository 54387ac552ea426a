"""What a command writes is neither what it reads nor written twice: told before any work."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotrace.tools.destinations import check_apart
from iotrace.traces.errors import IotraceError
from tests.small_disk import mounted_tmpfs

from .command import assert_one_line_error, iotrace

_KEY = bytes(range(32))
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def folder(small_trace: Path, tmp_path: Path) -> Path:
    """Return a folder to run in: a trace under names, and a folder of two."""
    work = tmp_path / "job"
    for made in ("ranks", "raw"):
        (work / made).mkdir(parents=True)
    for name in ("a.parquet", "in.md", "ranks/0.parquet", "ranks/1.parquet", "raw/1-2-a.raw"):
        shutil.copy(small_trace, work / name)
    (work / "link.parquet").symlink_to("a.parquet")
    os.link(work / "a.parquet", work / "hard.parquet")
    (work / "to").symlink_to("later.parquet")
    (work / "here").symlink_to(".")
    (work / "key").write_bytes(_KEY)
    return work


def _state(folder: Path) -> dict[str, tuple[int, bytes]]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): (path.stat().st_ino, path.read_bytes()) for path in files}


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("share a.parquet -o s.md", "-o and its card would both be s.md"),
        ("share a.parquet -o s.parquet --json s.parquet", "-o and --json would both be s.parquet"),
        ("share a.parquet -o s.parquet --json ./s.md", "its card and --json would both be s.md"),
        ("share a.parquet -o s.parquet --json file:{}/s.md", "its card and --json"),
        ("share a.parquet -o later.parquet --json to", "-o and --json would both be"),
        ("share a.parquet -o s.parquet --json here/s.parquet", "-o and --json would both be"),
        ("replay a.parquet -o r --json r", "-o and --json would both be r"),
        ("sweep a.parquet -o r --json ../job/r", "-o and --json would both be r"),
        ("report a.parquet -o page --figures page", "--figures needs a folder where -o puts"),
        ("report a.parquet -o page --figures page/deep", "--figures needs a folder where -o puts"),
        ("report a.parquet -o ranks/files.svg --figures ranks", "-o and files.svg would both be"),
        ("capture -o new --raw-dir ./new -- true", "--raw-dir needs a folder where -o puts"),
    ],
)
def test_a_file_is_not_written_twice(folder: Path, command: str, told: str) -> None:
    """By one name, by two spellings of it, through a link that leads nowhere yet."""
    before = _state(folder)
    asked = command.format(f"//{folder}").split()
    assert_one_line_error(iotrace(*asked, cwd=folder), 2, told)
    assert _state(folder) == before


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("share a.parquet -o a.parquet", "-o would replace a.parquet"),
        ("share a.parquet -o file:{}/a.parquet", "-o would replace /"),
        ("share file:{}/a.parquet -o ./a.parquet", "-o would replace a.parquet"),
        ("share a.parquet -o link.parquet", "-o would replace link.parquet"),
        ("share link.parquet -o hard.parquet", "-o would replace hard.parquet"),
        ("share in.md -o in.parquet", "its card would replace in.md"),
        ("share a.parquet -o s.parquet --json a.parquet", "--json would replace a.parquet"),
        ("share a.parquet -o key --key-file key", "-o would replace key"),
        ("share ranks -o ranks/0.parquet", "-o would replace ranks/0.parquet"),
        ("merge ranks a.parquet -o ranks/1.parquet", "-o would replace ranks/1.parquet"),
        ("merge ranks a.parquet -o file:{}/ranks/1.parquet", "-o would replace /"),
        ("convert a.parquet a.parquet", "OUT would replace a.parquet"),
        ("convert ranks ranks/0.parquet --to csv", "OUT would replace ranks/0.parquet"),
        ("replay a.parquet -o link.parquet", "-o would replace link.parquet"),
        ("replay a.parquet --json a.parquet", "--json would replace a.parquet"),
        ("sweep a.parquet -o a.parquet", "-o would replace a.parquet"),
        ("sweep a.parquet --json hard.parquet", "--json would replace hard.parquet"),
        ("report a.parquet -o here/a.parquet", "-o would replace here/a.parquet"),
        ("recover raw -o raw/1-2-a.raw", "-o would replace raw/1-2-a.raw"),
        ("show a.parquet --json a.parquet", "--json would replace a.parquet"),
        ("why a.parquet --no-probe --json a.parquet", "--json would replace a.parquet"),
        ("check a.parquet --json a.parquet", "--json would replace a.parquet"),
        ("check in.md --digest a.parquet --json a.parquet", "--json would replace a.parquet"),
        ("check in.md --shared --original a.parquet --json a.parquet", "--json would replace a."),
        ("compare in.md a.parquet --json a.parquet", "--json would replace a.parquet"),
    ],
)
def test_what_is_read_is_not_replaced(folder: Path, command: str, told: str) -> None:
    """Whatever it is called, with --force too: a recording cannot be made again."""
    before = _state(folder)
    asked = command.format(f"//{folder}").split()
    done = iotrace(asked[0], "--force", *asked[1:], cwd=folder)
    assert_one_line_error(done, 2, told, "which is read; name another file")
    assert _state(folder) == before


@pytest.mark.parametrize("place", [".", "/", "..", "ranks"])
def test_a_card_beside_a_folder_is_refused(folder: Path, place: str) -> None:
    """What has no last name cannot be given another suffix."""
    done = iotrace("share", "a.parquet", "-o", place, cwd=folder)
    assert_one_line_error(done, 2, f"{place} is a folder; give the name of a file")


def test_a_figure_does_not_replace_what_is_drawn(folder: Path) -> None:
    """Their names are known when they are drawn, before any is written."""
    shutil.copy(folder / "a.parquet", folder / "files.svg")
    before = _state(folder)
    asked = ("report", "files.svg", "-o", "page.html", "--figures", ".", "--force")
    assert_one_line_error(iotrace(*asked, cwd=folder), 2, "files.svg would replace files.svg")
    assert _state(folder) == before


def test_a_log_beside_a_job_does_not_replace_the_log_that_is_read(folder: Path) -> None:
    """The logs of a fio job are called after it, and so is the input."""
    for name in ("first.fio", "job.fio"):
        assert iotrace("convert", "a.parquet", name, cwd=folder).returncode == 0
    before = _state(folder)
    done = iotrace("convert", "job.fio.0.iolog", "job.fio", "--force", cwd=folder)
    assert_one_line_error(done, 2, "a log beside OUT would replace")
    assert _state(folder) == before
    again = iotrace("convert", "job.fio.0.iolog", "first.fio", "--force", cwd=folder)
    assert again.returncode == 0, again.stderr


def test_any_file_among_those_of_a_checkpoint_may_be_one_of_it(folder: Path) -> None:
    """A folder without a trace is read by what is in it."""
    checkpoint = folder / "checkpoint"
    checkpoint.mkdir()
    for name in ("model.pt", "config.json"):
        (checkpoint / name).write_bytes(bytes(100))
    asked = ("check", "checkpoint", "--force", "--json")
    done = iotrace(*asked, "checkpoint/config.json", cwd=folder)
    assert_one_line_error(done, 2, "--json would replace checkpoint/config.json")
    assert (checkpoint / "config.json").read_bytes() == bytes(100)
    assert "model.pt" in iotrace(*asked, "found.json", cwd=folder).stdout


def test_new_files_among_the_inputs_and_old_results_may_be_written(folder: Path) -> None:
    """A folder takes another file, --force replaces what is not read, streams are no files."""
    merged = ("share", "ranks/0.parquet", "-o", "ranks/2.parquet", "--json", "ranks/2.json")
    assert iotrace(*merged, cwd=folder).returncode == 0
    assert iotrace(*merged, "--force", cwd=folder).returncode == 0
    streams = ("--json", "/dev/stdout")
    assert iotrace("show", "ranks/2.parquet", *streams, cwd=folder).returncode == 0


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        ("s3://bucket/t.parquet?endpoint_override=host:9000&scheme=http", True),
        ("s3://key:secret@bucket/t.parquet?region=eu-north-1", True),
        ("s3://bucket/%74.parquet", True),
        ("s3://bucket/t.parquet?endpoint_override=other:9000", False),
        ("s3://bucket/t2.parquet", False),
        ("gs://bucket/t.parquet", False),
    ],
)
def test_objects_are_one_by_store_and_key(
    monkeypatch: pytest.MonkeyPatch, other: str, is_same: bool
) -> None:
    """Keys, regions and percent signs of a URI make no other object of it."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://host:9000")
    target = Path("s3://bucket/t.parquet")
    for outputs, inputs in (({"-o": target, "--json": other}, ()), ({"-o": target}, (other,))):
        if not is_same:
            check_apart(outputs, inputs=inputs)
            continue
        with pytest.raises(IotraceError, match=r"would (both be|replace) s3://bucket/t\.parquet"):
            check_apart(outputs, inputs=inputs)


@pytest.mark.parametrize("stem", ["\u00fc" * 122, "x" * 246])
def test_the_longest_names_are_written(folder: Path, stem: str) -> None:
    """255 bytes are a name; drafts and raw logs have names of their own."""
    for suffix, command in (
        (".parquet", ("share", "a.parquet", "-o")),
        (".json", ("show", "a.parquet", "--json")),
        (".html", ("report", "a.parquet", "-o")),
        (".iolog", ("convert", "a.parquet")),
        (".p", ("capture", "-q", "-o")),
    ):
        name = f"{stem}{suffix}".rjust(255 - len(os.fsencode(stem)) + len(stem), "y")
        assert len(os.fsencode(name)) == 255
        job = ("--", "dd", "if=/dev/zero", "of=made", "bs=4096", "count=1")
        more = job if command[0] == "capture" else ()
        done = iotrace(*command, name, *more, cwd=folder)
        assert done.returncode == 0, done.stderr
        assert (folder / name).stat().st_size > 0
    assert [*folder.glob(".*"), *folder.glob("*.raw")] == []


@pytest.fixture
def disk(folder: Path) -> Iterator[Path]:
    """A file system of 1 MiB in pages, which is what its files take."""
    with mounted_tmpfs(folder / "disk", "1m") as mounted:
        yield mounted


@pytest.mark.parametrize(
    ("command", "written"),
    [
        ("share a.parquet -o disk/p.parquet", ["p.md", "p.parquet"]),
        ("convert a.parquet disk/j.fio", ["j.fio", "j.fio.0.iolog"]),
        ("report a.parquet -o disk/r.html --figures disk", ["files.svg", "r.html"]),
    ],
)
def test_files_that_belong_together_are_all_written_or_none(
    folder: Path, disk: Path, command: str, written: list[str]
) -> None:
    """However much room there is, so that the same command can be given again."""
    assert iotrace(*command.split(), cwd=folder).returncode == 0
    made = {path.name: -(-path.stat().st_size // _PAGE_BYTES) for path in disk.iterdir()}
    assert made.keys() >= set(written)
    needed = sum(made.values())
    for path in disk.iterdir():
        path.unlink()
    state = os.statvfs(disk)
    ballast = disk / "ballast"
    for room in {0, made[written[0]], made[written[1]], needed - 1}:
        ballast.write_bytes(bytes((state.f_bfree - room) * _PAGE_BYTES))
        done = iotrace(*command.split(), cwd=folder)
        assert_one_line_error(done, 1, "No space left on device")
        assert [path.name for path in disk.iterdir()] == ["ballast"]
    ballast.unlink()
    assert iotrace(*command.split(), cwd=folder).returncode == 0
