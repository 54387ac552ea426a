"""`iotrace report`: one page that a browser draws without a network."""

import errno
import json
import os
import re
import shutil
import subprocess
from contextlib import suppress
from html.parser import HTMLParser
from pathlib import Path

import pytest

from iotrace.replay.factors import BASE, default_levels, factorial
from iotrace.replay.sweep_result import SweepResult, SweepRun
from iotrace.tools.figures.svg import Scale
from iotrace.tools.figures.sweep_figures import sweep_figures
from iotrace.tools.output import write_json
from iotrace.tools.render import format_bytes
from iotrace.traces.reader import read_trace

from .command import assert_one_line_error, iotrace
from .conftest import Make

CORPUS = Path(__file__).parents[2] / "traces" / "corpus"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
TRACE_FIGURES = {
    *("timeline", "bandwidth", "in-flight", "request-sizes", "tensor-sizes"),
    *("latency", "alignment", "files"),
}
# What a page would fetch, run or be fetched by.
_OUTSIDE = re.compile(r"<script|<link[^>]*href=\"(?!data:)|src=|@import|url\(|javascript:", re.I)


class Closed(HTMLParser):
    """Collects the ids of figures and checks that every tag is closed in its turn."""

    VOID = ("meta", "link", "br")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.figures: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "figure":
            self.figures.append(dict(attrs)["id"] or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def figures_of(page: str) -> set[str]:
    """Return the names of the figures of a well-formed page."""
    parser = Closed()
    parser.feed(page)
    assert parser.open == []
    return set(parser.figures)


def drawn(page: Path, folder: Path) -> str:
    """Open the page in a browser without a network; return its console and what it drew."""
    if CHROMIUM is None:
        pytest.skip("no chromium")
    done = subprocess.run(
        [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
            "--enable-logging=stderr", f"--user-data-dir={folder / 'profile'}",
            "--host-resolver-rules=MAP * ~NOTFOUND", "--window-size=1280,2000", page.as_uri(),
        ],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert "CONSOLE" not in done.stderr, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a recording, with its figures beside it."""
    folder = tmp_path_factory.mktemp("report")
    trace = CORPUS / "dcp.parquet"
    page = folder / "report.html"
    done = iotrace("report", trace, "-o", page, "--figures", folder / "figures")
    assert done.returncode == 0, done.stderr
    return page


def test_a_page_has_every_figure_and_nothing_from_outside(reported: Path) -> None:
    """It can be mailed, archived and read offline."""
    page = reported.read_text()
    assert figures_of(page) == TRACE_FIGURES
    assert not _OUTSIDE.search(page)
    assert "iotrace replay" in page and "durable" in page


def test_figures_are_files_of_their_own(reported: Path) -> None:
    """For a paper: SVG that stands alone."""
    folder = reported.parent / "figures"
    assert {path.stem for path in folder.iterdir()} == TRACE_FIGURES
    for path in folder.iterdir():
        assert path.read_text().startswith('<svg xmlns="http://www.w3.org/2000/svg"')


def test_figures_that_find_no_room_leave_no_folder(make_trace: Make, tmp_path: Path) -> None:
    """Neither the folder nor those above it that were made for it."""
    full = tmp_path / "full"
    full.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(full)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("mounting a file system needs root")
    try:
        with suppress(OSError), (full / "filler").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        asked = ("-o", tmp_path / "page.html", "--figures", full / "deep/figures")
        done = iotrace("report", make_trace(), *asked)
        assert done.returncode != 0
        assert os.strerror(errno.ENOSPC) in done.stderr
        assert [path.name for path in full.iterdir()] == ["filler"]
    finally:
        subprocess.run(["umount", full], check=True)


def test_a_pdf_has_the_size_of_its_figure_and_no_pixels(tmp_path: Path) -> None:
    """Beside each SVG; a folder for them must be named."""
    pytest.importorskip("svglib")
    asked = ("report", CORPUS / "safetensors.parquet", "-o", tmp_path / "page.html", "--pdf")
    assert_one_line_error(iotrace(*asked), 2, "--figures")
    done = iotrace(*asked, "--figures", tmp_path)
    assert done.returncode == 0, done.stderr
    pages = {path.stem: path.read_bytes() for path in tmp_path.glob("*.pdf")}
    assert pages.keys() == {path.stem for path in tmp_path.glob("*.svg")} >= {"latency"}
    for name, page in pages.items():
        _, _, width, height = re.search(  # type: ignore[union-attr]
            r'viewBox="(\S+) (\S+) (\S+) (\S+)"', (tmp_path / f"{name}.svg").read_text()
        ).groups()
        box = re.search(rb"/MediaBox \[ 0 0 (\S+) (\S+) \]", page)
        assert box, name
        assert [float(x) * 4 / 3 for x in box.groups()] == [float(width), float(height)]  # px to pt
        assert b"/Subtype /Image" not in page


def test_a_browser_draws_every_figure_without_complaint(reported: Path, tmp_path: Path) -> None:
    """In headless Chromium, with no name to be resolved."""
    dom = drawn(reported, tmp_path)
    assert dom.count("<svg") == len(TRACE_FIGURES)
    drawn_with = re.findall(r' (?:d|x|y|width|height|points|transform)="([^"]*)"', dom)
    assert len(drawn_with) > 100
    assert not [value for value in drawn_with if re.search("nan|inf", value, re.IGNORECASE)]


def test_names_from_a_stranger_are_no_html(make_trace: Make, tmp_path: Path) -> None:
    """A trace may be hostile."""
    trace = make_trace(problem='<img src=x onerror=alert(1)>"')
    page = tmp_path / "r.html"
    assert iotrace("report", trace, "-o", page).returncode == 0
    assert "<img" not in page.read_text()
    figures_of(page.read_text())


def test_a_sweep_is_drawn_with_its_intervals(tmp_path: Path) -> None:
    """Bars, what each level is worth, save against restore."""
    runs = [
        SweepRun(op, setting, seconds * scale, seconds, seconds)
        for op in ("write", "read")
        for i, setting in enumerate(factorial(default_levels())[:40])
        for seconds in (1 + i / 10,)
        for scale in (0.9, 1.0, 1.2)
    ]
    sizes = {"write": 1 << 30, "read": 1 << 30}
    found = SweepResult(
        "t.parquet", "d", "/scratch", "ext4", sizes, {"write": 96, "read": 96}, 60.0,
        spent_seconds=59.0, finished=True, runs=tuple(runs),
    )  # fmt: skip
    names = {figure.name for figure in sweep_figures(found)}
    assert {"save-settings", "save-effects", "restore-settings", "pareto"} <= names
    kept, page = tmp_path / "sweep.json", tmp_path / "sweep.html"
    write_json(found.to_json(), str(kept))
    done = iotrace("report", kept, "-o", page)
    assert done.returncode == 0, done.stderr
    assert figures_of(page.read_text()) == names
    assert not _OUTSIDE.search(page.read_text())
    assert drawn(page, tmp_path).count("<svg") == len(names)
    assert BASE in found.times("write")


def test_what_is_there_is_not_replaced(reported: Path) -> None:
    """As with every other output."""
    trace = CORPUS / "dcp.parquet"
    assert_one_line_error(iotrace("report", trace, "-o", reported), 2, "--force")


def test_a_result_advises_nothing_and_words_its_padding_once(tmp_path: Path) -> None:
    """A replay is no engine: who reads of its durable times is not told to sync."""
    result, page = tmp_path / "r.parquet", tmp_path / "r.html"
    done = iotrace("replay", "corpus:torch-save", "--root", tmp_path, "--align", "-o", result)
    assert done.returncode == 0, done.stderr
    assert iotrace("report", result, "-o", page).returncode == 0
    text = page.read_text()
    assert "<dt>write, durable</dt>" in text
    assert "What to change" not in text and "fsync each file" not in text
    said = re.findall(r"<dd>([^<]*padding[^<]*|[^<]*besides the payload[^<]*)</dd>", text)
    assert len(said) == 2 and "of it padding" not in text and "not in the bytes" not in text
    padding = read_trace(result).metadata.extra["replay"]["replayed"]["padding_bytes"]
    assert all(format_bytes(padding) in one for one in said), said
    why = iotrace("why", result, "--no-probe", "--json", tmp_path / "w.json")
    assert "change: a replay is no engine" in why.stdout
    assert json.loads((tmp_path / "w.json").read_text())["advice"] == []
    assert "fsync each file" in iotrace("why", "corpus:torch-save", "--no-probe").stdout


def test_a_file_that_is_neither_is_told(tmp_path: Path) -> None:
    """One line, no traceback."""
    odd = tmp_path / "odd.json"
    odd.write_text('{"format": "x"}')
    assert_one_line_error(iotrace("report", odd, "-o", tmp_path / "r.html"), 2, "sweep")


def test_a_sweep_that_is_nested_too_deeply_is_no_sweep(tmp_path: Path) -> None:
    """A stranger's file, not a traceback."""
    deep = tmp_path / "sweep.json"
    deep.write_text('{"format":' + "[" * 100_000)
    assert_one_line_error(iotrace("report", deep, "-o", tmp_path / "r.html"), 2, "not a sweep")


@pytest.mark.parametrize(
    ("scale", "ticks"),
    [
        (Scale(0, 10, 0, 1), [0, 2, 4, 6, 8, 10]),
        (Scale(0, 3 << 20, 0, 1, binary=True), [0, 1 << 20, 2 << 20, 3 << 20]),
        (Scale(1e-6, 1e-3, 0, 1, log=True), [1e-6, 1e-5, 1e-4, 1e-3]),
        (Scale(5, 5, 0, 1), [5]),
    ],
    ids=["linear", "binary", "log", "a single value"],
)
def test_ticks_are_round(scale: Scale, ticks: list[float]) -> None:
    """As a person would label an axis."""
    assert scale.ticks() == pytest.approx(ticks)


def test_the_json_of_a_replay_is_told_from_a_sweep(tmp_path: Path) -> None:
    """Who has the one at hand is told which option makes what a report draws."""
    told = tmp_path / "r.json"
    done = iotrace("replay", CORPUS / "dcp.parquet", "--dry-run", "--json", told)
    assert done.returncode == 0, done.stderr
    refused = iotrace("report", told, "-o", tmp_path / "r.html")
    assert_one_line_error(refused, 2, "r.json is the JSON of a replay", "-o RESULT")
