"""The axes of figures, as they are drawn."""

import os
import re
from dataclasses import replace
from itertools import pairwise

import pytest

from iotrace.tools.figures.svg import Scale
from iotrace.tools.figures.trace_figures import trace_figures
from iotrace.traces.reader import read_trace
from iotrace.traces.verdict.verdict import examine

from .conftest import Make, Row, checkpoint_rows

_TEXT = re.compile(r'<text x="(\S+)" y="(\S+)" text-anchor="(\w+)" font-size="\d+">(.*?)</text>')
_BOX = re.compile(r'<rect x="\S+" y="(\S+)" width="\S+" height="(\S+)" fill')
_AXIS = re.compile(r'<line x1="\S+" y1="(\S+)" x2="\S+" y2="\1" stroke="#222"')
_LETTER = 6.7  # mean width in pixels of a letter of 12 px
_SHIFT = {"start": 0.0, "middle": 0.5, "end": 1.0}

ONE = [
    Row("open", flags=os.O_WRONLY | os.O_CREAT),
    Row("write", offset=0, length=4096, result=4096),
]


def figures(*traces: str) -> list[tuple[str, str]]:
    """Return (name, SVG) of all figures."""
    found = []
    for trace in traces:
        recording = read_trace(trace)
        found += [(one.name, one.svg) for one in trace_figures(recording, examine(recording))]
    return found


@pytest.fixture(scope="module")
def corpus() -> list[tuple[str, str]]:
    return figures("corpus:dcp", "corpus:torchsnapshot-ranks", "corpus:torch-restore")


def test_labels_beside_each_other_do_not_touch(corpus: list[tuple[str, str]]) -> None:
    """A letter's width is between them."""
    for name, svg in corpus:
        lines: dict[str, list[tuple[float, float, str]]] = {}
        for x, y, anchor, text in _TEXT.findall(svg):
            width = len(text) * _LETTER
            begin = float(x) - _SHIFT[anchor] * width
            lines.setdefault(y, []).append((begin, begin + width, text))
        for line in lines.values():
            for left, right in pairwise(sorted(line)):
                assert right[0] - left[1] > _LETTER, (name, left, right)


def test_the_last_row_is_clear_of_the_axis(corpus: list[tuple[str, str]]) -> None:
    """Of the timeline and of the map of files."""
    rows = [(name, svg) for name, svg in corpus if name in ("timeline", "files")]
    assert len(rows) >= 4
    for name, svg in rows:
        lowest = max(float(y) + float(height) for y, height in _BOX.findall(svg))
        (axis,) = map(float, _AXIS.findall(svg))
        assert axis - lowest >= 4, name


@pytest.mark.parametrize("count", [1, 2, 3])
def test_counts_are_whole_and_named_once(make_trace: Make, count: int) -> None:
    """Of one request: 0 and 1."""
    rows = [ONE[0], *[replace(ONE[1], offset=4096 * i) for i in range(count)]]
    drawn = dict(figures(str(make_trace(rows))))
    beside = [text for _, _, anchor, text in _TEXT.findall(drawn["request-sizes"])]
    assert sorted(set(beside) & set("0123")) == [str(i) for i in range(count + 1)]
    assert len(beside) == len(set(beside))


def test_no_label_of_an_axis_repeats(corpus: list[tuple[str, str]], make_trace: Make) -> None:
    """Also of files of one name in several folders."""
    twice = [*checkpoint_rows("/d/1/rank.pt"), *checkpoint_rows("/d/2/rank.pt")]
    for name, svg in [*corpus, *figures(str(make_trace(twice)))]:
        places = [text for _, _, anchor, text in _TEXT.findall(svg) if anchor == "end"]
        sizes = [text for text in places if re.fullmatch(r"[\d.]+ [KMG]?i?B", text)]
        named = places if name != "files" else [text for text in places if text not in sizes]
        assert len(named) == len(set(named)), (name, named)


@pytest.mark.parametrize(
    ("scale", "ticks"),
    [
        (Scale(0, 1, 0, 1, least=1), [0, 1]),
        (Scale(0, 3e-9, 0, 1, least=1e-9), [0, 1e-9, 2e-9, 3e-9]),
        (Scale(0, 3, 0, 1, binary=True, least=1), [0, 1, 2, 3]),
        (Scale(0, 3 << 20, 0, 1, binary=True, least=1), [0, 1 << 20, 2 << 20, 3 << 20]),
        (Scale(0, 0.5, 0, 1, least=1), [0]),
    ],
    ids=["counts", "nanoseconds", "bytes", "more bytes", "less than one"],
)
def test_ticks_are_no_closer_than_their_labels_tell(scale: Scale, ticks: list[float]) -> None:
    """Half a request, a byte or a nanosecond has the label of a whole one."""
    assert scale.ticks() == pytest.approx(ticks)
