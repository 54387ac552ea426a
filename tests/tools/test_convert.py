"""`iotrace convert` at the command line: guessed formats, what is said, what is refused."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from iotrace.tools.commands.convert import convert
from iotrace.tools.say import say_few
from iotrace.traces.formats.table import FORMATS, exporters, importers
from iotrace.traces.reader import read_trace

from .command import assert_one_line_error, iotrace
from .conftest import Make, Row, checkpoint_rows

DOCUMENT = Path(__file__).parents[2] / "docs" / "formats.md"
STRACE = """\
7 1795997927.000001 openat(AT_FDCWD, "/etc/hosts", O_RDONLY) = 3 <0.000001>
7 1795997927.000002 read(3, ""..., 10) = 10 <0.000001>
7 1795997927.000003 openat(AT_FDCWD, "/d/a.pt", O_WRONLY|O_CREAT, 0666) = 4 <0.000001>
7 1795997927.000004 write(4, ""..., 4096) = 4096 <0.000001>
7 1795997927.000005 close(4) = 0 <0.000001>
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A strace log of a write, and of a read of a system file."""
    path = tmp_path / "job.log"
    path.write_text(STRACE)
    return path


def test_the_help_lists_every_format() -> None:
    """The table is the truth; the help must not lag behind."""
    lines = dict(re.findall(r"(Read|Written): +((?:.+\n(?: {14}.+\n)*))", convert.__doc__ or ""))
    for kind, formats in (("Read", importers()), ("Written", exporters())):
        told = re.split(r"[,\s]+", lines[kind].strip())
        assert told == ["trace", *(format.name for format in formats)]


def test_the_document_tells_of_every_format() -> None:
    """Each has its line in the tables; none is told of that is not there."""
    for part, formats in zip(
        DOCUMENT.read_text().split("## Write"), (importers, exporters), strict=True
    ):
        told = re.findall(r"^\| `([\w-]+)` \|", part, re.MULTILINE)
        assert sorted(told) == sorted(format.name for format in formats())


def test_the_documents_example_of_csv_is_a_trace(tmp_path: Path) -> None:
    """Who follows the document gets a trace that replays."""
    lines = re.findall(r"^    ((?:start_ns|0),.*)$", DOCUMENT.read_text(), re.MULTILINE)
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    assert iotrace("convert", tmp_path / "t.csv", tmp_path / "t.parquet").returncode == 0
    assert iotrace("replay", tmp_path / "t.parquet", "--dry-run").returncode == 0


def test_an_open_that_failed_is_kept_as_a_capture_keeps_it(tmp_path: Path) -> None:
    """Reads are tried in many places by design; what could not be made is a failure."""
    log = tmp_path / "job.log"
    missing = "= -1 ENOENT (No such file or directory) <0.000001>"
    log.write_text(
        f'7 1795997926.000001 openat(AT_FDCWD, "/v/bin/pybuilddir.txt", O_RDONLY) {missing}\n'
        + STRACE
        + f'7 1795997928.000001 openat(AT_FDCWD, "/no/b.pt", O_WRONLY|O_CREAT, 0666) {missing}\n'
    )
    out = tmp_path / "t.parquet"
    done = iotrace("convert", log, out)
    assert "3 rows on files out of scope left out" in done.stderr
    assert [path for path in read_trace(out).strings("path")] == [*["/d/a.pt"] * 3, "/no/b.pt"]
    assert iotrace("convert", log, tmp_path / "all.parquet", "--all").returncode == 0
    assert "/v/bin/pybuilddir.txt" in read_trace(tmp_path / "all.parquet").strings("path")


def test_every_format_has_its_own_name_and_does_something() -> None:
    """Two of a name would hide each other."""
    assert len({format.name for format in FORMATS}) == len(FORMATS)
    assert all(format.read or format.write for format in FORMATS)


def test_a_log_is_recognized_and_its_trace_says_where_it_is_from(log: Path) -> None:
    """No --from is needed; what was left out is told, on stderr and in the trace."""
    out = log.with_name("trace.parquet")
    done = iotrace("convert", log, out)
    assert (done.returncode, done.stdout) == (0, "")
    assert "2 rows on files out of scope left out; --all keeps" in done.stderr
    assert f"iotrace show {out}" in done.stderr
    trace = read_trace(out)
    assert trace.strings("op") == ["open", "write", "close"]
    (entry,) = trace.metadata.history
    assert entry.action == "import"
    assert "strace" in entry.detail and "job.log" in entry.detail and "2 rows" in entry.detail
    assert iotrace("replay", out, "--dry-run").returncode == 0


def test_the_scope_can_be_chosen(log: Path) -> None:
    """--all, --include and --exclude mean what they mean to capture."""
    counts = {}
    for options in (("--all",), ("--all", "--exclude", "*.pt"), ("--include", "/d/*")):
        out = log.with_name("trace.parquet")
        assert iotrace("convert", log, out, "--force", "-q", *options).returncode == 0
        counts[options[-1]] = len(read_trace(out))
    assert counts == {"--all": 5, "*.pt": 2, "/d/*": 3}


def test_the_scope_is_not_passed_over_where_in_is_a_trace(make_trace: Make, tmp_path: Path) -> None:
    """Who leaves files out must not get them all."""
    for option in ("--include", "--exclude"):
        done = iotrace("convert", make_trace(name=f"{option}.parquet"), tmp_path / "o.csv",
                       option, "*.pt")  # fmt: skip
        assert_one_line_error(done, 2, "is a trace")
        assert not (tmp_path / "o.csv").exists()


def test_an_unknown_input_lists_what_is_known(tmp_path: Path) -> None:
    """One line, and the user knows what to type."""
    path = tmp_path / "note.txt"
    path.write_text("dear diary\n")
    done = iotrace("convert", path, tmp_path / "t.parquet")
    assert_one_line_error(done, 2, "--from", *(format.name for format in importers()))


def test_a_fio_job_is_read_by_the_log_beside_it(log: Path) -> None:
    """The job file itself holds no requests, and the log that is named can be read."""
    job, back = log.with_name("job.fio"), log.with_name("back.parquet")
    assert iotrace("convert", "-q", log, job, "--from", "strace").returncode == 0
    iolog = job.with_name("job.fio.0.iolog")
    told = f"the .iolog beside it, which has the requests: {iolog}"
    assert_one_line_error(iotrace("convert", job, back), 2, f"{job} is a fio job", told)
    assert iotrace("convert", "-q", iolog, back, "--all").returncode == 0
    assert read_trace(back).strings("op").count("write") == 1


def test_an_unknown_output_lists_what_is_known(log: Path) -> None:
    """A suffix says nothing, so --to must."""
    done = iotrace("convert", log, log.with_name("out.xyz"))
    assert_one_line_error(done, 2, "--to", *(format.name for format in exporters()))


def test_a_format_that_is_none_lists_what_there_is(log: Path) -> None:
    """A typo ends with the right spelling on the screen."""
    done = iotrace("convert", log, log.with_name("t.parquet"), "--from", "straze")
    assert_one_line_error(done, 2, "straze", "strace")


def test_a_broken_line_is_told_by_its_number(log: Path) -> None:
    """And nothing is written."""
    log.write_text(STRACE + "oops\n" + STRACE)
    out = log.with_name("t.parquet")
    assert_one_line_error(iotrace("convert", log, out, "--from", "strace"), 2, f"{log}, line 6")
    assert not out.exists()


@pytest.mark.parametrize("source", ["missing", "."])
def test_nothing_to_read_is_one_line(source: str, tmp_path: Path) -> None:
    """No file, or a folder with nothing in it."""
    done = iotrace("convert", tmp_path / source, tmp_path / "t.parquet")
    assert_one_line_error(done, 2, str(tmp_path))


def test_a_log_of_system_files_alone_says_how_to_keep_them(log: Path) -> None:
    """An empty trace would be a riddle."""
    log.write_text("".join(STRACE.splitlines(keepends=True)[:2]))
    done = iotrace("convert", "-q", log, log.with_name("t.parquet"))
    assert_one_line_error(done, 2, "--all")


@pytest.mark.parametrize("suffix", [format.suffixes[0] for format in exporters()])
def test_a_trace_that_contradicts_itself_is_not_exported(
    suffix: str, make_trace: Make, tmp_path: Path
) -> None:
    """A name that is no bytes was a traceback in some formats."""
    odd = Row("write", path="/half\ud800", offset=0, length=9, result=9)
    made, out = make_trace([*checkpoint_rows(), odd]), tmp_path / f"out{suffix}"
    assert_one_line_error(iotrace("convert", made, out), 2, "contradicts itself", "iotrace check")
    assert not out.exists()


@pytest.mark.parametrize("name", ["job.fio", "out.iolog"])
def test_an_export_is_bounded(name: str, make_trace: Make, tmp_path: Path) -> None:
    """A write of 2^60 bytes would be 1e9 lines of 1 GiB: refused, and nothing is left."""
    folder = tmp_path / "out"
    folder.mkdir()
    options = ("--to", "iolog") if name.endswith("iolog") else ()
    for size, told in (
        (2**60, "would make 1,073,741,823 lines of fio, more than 10,000,000"),
        (2**63 - 1, "over more than 2^60 bytes, which no file holds"),
    ):
        trace = make_trace([Row("write", offset=0, length=size, result=size)], f"{size}.parquet")
        assert_one_line_error(iotrace("convert", trace, folder / name, *options), 2, told)
        assert list(folder.iterdir()) == []
    for length, lines in ((4 << 40, 4096), (1, 1)):
        fine = make_trace(
            [Row("write", offset=0, length=length, result=length)], f"{lines}.parquet"
        )
        assert iotrace("convert", fine, folder / name, *options, "--force").returncode == 0
        log = folder / (name if options else f"{name}.0.iolog")
        assert log.read_text().count(" write ") == lines


def test_what_ranks_save_is_summed_beyond_64_bits(make_trace: Make, tmp_path: Path) -> None:
    """Sixteen tensors of 2^60 bytes are 2^64, and not 0."""
    rows = [Row("save", "tensor", offset=0, length=2**60, result=None)] * 16
    done = iotrace("convert", make_trace(rows), tmp_path / "job.yaml", "--to", "dlio")
    assert done.returncode == 0, done.stderr
    assert f"model_size: {2**64} " in (tmp_path / "job.yaml").read_text()


def test_of_many_notes_the_first_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    """A stranger's log may be odd in any number of ways, and each told at any length."""
    say_few([f"{i} {'x' * 2000}" for i in range(1500)], "look there")
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 11
    assert max(map(len, told)) < 520
    assert told[0].startswith("iotrace: 0 xxx")
    assert told[-1] == "iotrace: and 1,490 more; look there"
    say_few(["one", "two"], "look there")
    assert capsys.readouterr().err.splitlines() == ["iotrace: one", "iotrace: two"]


def test_a_log_of_many_odd_operations_is_told_in_few_lines(tmp_path: Path) -> None:
    """One line for all that is left out of it."""
    line = (
        '{{"date": "2026-11-30T07:30:27.001+0100", "worker_rank": 0, "op_name": "{}", '
        '"entry_name": "a", "offset": 0, "length": 8, "is_finished": false, "is_error": false}}\n'
    )
    log = tmp_path / "ops.json"
    log.write_text("".join(line.format(name) for name in ["pread", *map(str, range(700))]))
    done = iotrace("convert", log, tmp_path / "t.parquet")
    assert done.returncode == 0, done.stderr
    assert "700 operations of other kinds left out" in done.stderr
    assert len(done.stderr.splitlines()) < 10


@pytest.mark.parametrize("of", ["strace", "csv"])
def test_a_request_without_its_offset_is_missing_and_no_contradiction(
    of: str, tmp_path: Path
) -> None:
    """Of a write to the end of a file a log tells no place: that is counted, and exports say it."""
    log, trace = tmp_path / f"log.{of}", tmp_path / "t.parquet"
    log.write_text(
        '1 1.000001 openat(AT_FDCWD</d>, "a", O_WRONLY|O_APPEND) = 3</d/a>\n'
        '1 1.000002 write(3</d/a>, ""..., 4096) = 4096\n'
        if of == "strace"
        else "start_ns,op,path,file,length,result,flags,seq\n"
        "0,open,/d/a,0,,0,1025,0\n9,write,/d/a,0,4096,4096,,1\n"
    )
    assert iotrace("convert", log, trace).returncode == 0
    checked = iotrace("check", trace)
    assert checked.returncode == 0
    assert "well-formed  yes" in checked.stdout
    assert "1 row (first: row 1): a read or write without its offset" in checked.stdout
    assert iotrace("check", trace, "--strict").returncode == 1
    shown = iotrace("show", trace).stdout
    assert "CONTRADICTORY" not in shown
    assert "a read or write without its offset" in shown
    assert not json.loads(iotrace("show", trace, "--json", "-").stdout)["completeness"]["complete"]
    again = tmp_path / "again.csv"
    assert iotrace("convert", trace, again).returncode == 0
    first, *lines = list(csv.reader(again.read_text().splitlines()))
    assert dict(zip(first, lines[1], strict=True))["offset"] == ""
    done = iotrace("convert", trace, tmp_path / "out.iolog")
    assert "not said by iolog: 1 request without a name or an offset" in done.stderr
