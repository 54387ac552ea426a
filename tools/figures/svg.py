"""Charts as SVG text: scales, axes, marks. No library, no script, nothing to fetch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape

# Told apart with any kind of colour vision, and in print (Okabe and Ito).
COLOURS = {
    "write": "#0072B2",
    "read": "#D55E00",
    "fault": "#E69F00",
    "sync": "#CC79A7",
    "other": "#7f7f7f",
    "tensor": "#009E73",
    "best": "#009E73",
}
INK, FAINT = "#222", "#ddd"

_LEFT, _RIGHT, _TOP, _BOTTOM = 74, 14, 10, 44
_TICKS = 5
_STYLE = "font-family:Helvetica,Arial,'DejaVu Sans',sans-serif;font-size:12px;fill:#222"


@dataclass(frozen=True)
class Figure:
    """A finished chart: `name` is that of its file, `caption` says how to read it."""

    name: str
    title: str
    caption: str
    svg: str


@dataclass(frozen=True)
class Scale:
    """Values to pixels, linear or logarithmic.

    `least` is the smallest difference that labels tell, of linear ones: 1 of counts and bytes.
    """

    low: float
    high: float
    begin: float
    end: float
    log: bool = False
    binary: bool = False  # of bytes: ticks are round in KiB, MiB, ...
    least: float = 0.0

    def __call__(self, value: float) -> float:
        low, high = self.low, self.high
        if self.log:
            value, low, high = (math.log(max(x, 1e-300)) for x in (value, low, high))
        share = (value - low) / (high - low) if high > low else 0.5
        return self.begin + min(max(share, 0.0), 1.0) * (self.end - self.begin)

    def ticks(self) -> list[float]:
        """Return round values in the range, about five."""
        if not self.log:
            unit = 1.0
            while self.binary and self.high >= 1024 * unit:
                unit *= 1024
            low, high, least = (value / unit for value in (self.low, self.high, self.least))
            return [unit * tick for tick in _linear_ticks(low, high, least)]
        first, last = (
            math.ceil(math.log10(self.low) - 1e-9),
            math.floor(math.log10(self.high) + 1e-9),
        )
        step = max(1, math.ceil((last - first + 1) / (_TICKS + 2)))
        found = [10.0**e for e in range(first, last + 1, step)]
        return found if len(found) > 1 else [self.low, self.high]


def _linear_ticks(low: float, high: float, least: float) -> list[float]:
    if high <= low:
        return [low]
    rough = (high - low) / _TICKS
    unit = 10.0 ** math.floor(math.log10(rough))
    step = max(next(unit * m for m in (1, 2, 5, 10) if unit * m >= rough), least)
    first = math.ceil(low / step - 1e-9)
    return [step * i for i in range(first, math.floor(high / step + 1e-9) + 1)]


@dataclass
class Chart:
    """A drawing area with axes; marks are added in the order they are to be painted.

    Args:
        title: read out by screen readers.
        x_label, y_label: under and beside the axes.
        width, height: in pixels of the viewBox.
        left: room for labels at the left.
    """

    title: str
    x_label: str = ""
    y_label: str = ""
    width: int = 580
    height: int = 270
    left: int = _LEFT
    parts: list[str] = field(default_factory=list)
    legend: list[tuple[str, str]] = field(default_factory=list)

    @property
    def right(self) -> float:
        """Last pixel of the drawing area."""
        return self.width - _RIGHT

    @property
    def bottom(self) -> float:
        """Lowest pixel of the drawing area."""
        return self.height - _BOTTOM

    def x_scale(self, low: float, high: float, *, log: bool = False, least: float = 0.0) -> Scale:
        """Return a scale over the width."""
        return Scale(low, high, self.left, self.right, log, least=least)

    def y_scale(
        self,
        low: float,
        high: float,
        *,
        log: bool = False,
        binary: bool = False,
        least: float = 0.0,
    ) -> Scale:
        """Return a scale over the height, upwards."""
        top = _TOP + (18 if self.legend else 0)
        return Scale(low, high, self.bottom, top, log, binary, least)

    def name(self, *series: tuple[str, str]) -> None:
        """Say which colour is what: (label, colour) each. Before the scales are made."""
        self.legend += series

    def x_axis(self, scale: Scale, text: Callable[[float], str]) -> None:
        """Draw the ticks of a scale under the area."""
        for value in scale.ticks():
            x = scale(value)
            self.line(x, _TOP, x, self.bottom, FAINT)
            self.text(x, self.bottom + 15, text(value) if value else "0", "middle")

    def y_axis(self, scale: Scale, text: Callable[[float], str]) -> None:
        """Draw the ticks of a scale beside the area."""
        for value in scale.ticks():
            y = scale(value)
            self.line(self.left, y, self.right, y, FAINT)
            self.text(self.left - 6, y + 4, text(value) if value else "0", "end")

    def names(self, labels: Sequence[str], *, every: int = 1) -> list[tuple[float, float]]:
        """Divide the width among labelled places; return the first and last pixel of each."""
        width = (self.right - self.left) / max(len(labels), 1)
        places = [(self.left + i * width, self.left + (i + 1) * width) for i in range(len(labels))]
        for i, (label, (begin, end)) in enumerate(zip(labels, places, strict=True)):
            if i % every == 0:
                self.text((begin + end) / 2, self.bottom + 15, label, "middle")
        return places

    def line(
        self, x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1
    ) -> None:
        """Draw a straight line."""
        self.parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
            f'stroke="{colour}" stroke-width="{width:g}"/>'
        )

    def path(
        self, points: Sequence[tuple[float, float]], colour: str, *, fill: bool = False
    ) -> None:
        """Draw a line through points; filled down to the axis if asked."""
        if not points:
            return
        steps = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        if fill:
            first, last = points[0][0], points[-1][0]
            area = f"M{first:.1f} {self.bottom:.1f}L{steps}L{last:.1f} {self.bottom:.1f}Z"
            self.parts.append(f'<path d="{area}" fill="{colour}" fill-opacity="0.25"/>')
        self.parts.append(
            f'<path d="M{steps}" fill="none" stroke="{colour}" stroke-width="1.5" '
            'stroke-linejoin="round"/>'
        )

    def box(
        self, x1: float, y1: float, x2: float, y2: float, colour: str, opacity: float = 1.0
    ) -> None:
        """Draw a filled rectangle between two corners."""
        faded = f' fill-opacity="{opacity:.2f}"' if opacity < 1 else ""
        self.parts.append(
            f'<rect x="{min(x1, x2):.1f}" y="{min(y1, y2):.1f}" width="{abs(x2 - x1):.1f}" '
            f'height="{abs(y2 - y1):.1f}" fill="{colour}"{faded}/>'
        )

    def dot(self, x: float, y: float, colour: str, radius: float = 4) -> None:
        """Draw a filled circle."""
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{colour}"/>')

    def text(self, x: float, y: float, text: str, anchor: str = "start", size: int = 12) -> None:
        """Write a text."""
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">'
            f"{escape(text)}</text>"
        )

    def svg(self) -> str:
        """Return the whole drawing."""
        middle = (self.left + self.right) / 2
        own = [*self.parts]
        self.parts = []
        if self.x_label:
            self.text(middle, self.height - 8, self.x_label, "middle")
        if self.y_label:
            y = (_TOP + self.bottom) / 2
            self.parts.append(
                f'<text x="14" y="{y:.1f}" text-anchor="middle" font-size="12" '
                f'transform="rotate(-90 14 {y:.1f})">{escape(self.y_label)}</text>'
            )
        self.line(self.left, self.bottom, self.right, self.bottom, INK)
        self.line(self.left, _TOP, self.left, self.bottom, INK)
        x = float(self.left) + 8
        for label, colour in self.legend:
            self.box(x, _TOP + 2, x + 10, _TOP + 12, colour)
            self.text(x + 14, _TOP + 11, label)
            x += 30 + 7 * len(label)
        drawn, self.parts = "\n".join([*own, *self.parts]), own
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'role="img" aria-label="{escape(self.title, quote=True)}" style="{_STYLE}">\n'
            f"<title>{escape(self.title)}</title>\n{drawn}\n</svg>\n"
        )
