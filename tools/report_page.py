"""One page of HTML that holds everything it shows: no script, no font, nothing from a network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

from iotrace.tools.figures.svg import Figure
from iotrace.tools.render import printable

_STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.45 Helvetica, Arial, 'DejaVu Sans', sans-serif; color: #222;
  background: #fff; max-width: 1200px; margin: 24px auto; padding: 0 20px; }
h1 { font-size: 24px; margin: 0 0 4px; } h2 { font-size: 18px; margin: 28px 0 8px; }
.sub { color: #555; margin: 0 0 16px; overflow-wrap: anywhere; }
.bad { border-left: 4px solid #b00020; background: #fdecee; padding: 8px 12px; margin: 12px 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 3px 16px; margin: 0; }
dt { color: #555; } dd { margin: 0; overflow-wrap: anywhere; }
.figures { display: grid; grid-template-columns: 1fr 1fr; gap: 20px; }
figure { margin: 0; border: 1px solid #e3e3e3; border-radius: 4px; padding: 10px;
  break-inside: avoid; } figure.wide { grid-column: 1 / -1; }
figure h3 { font-size: 15px; margin: 0 0 6px; } figure svg { width: 100%; height: auto; }
figcaption { color: #555; font-size: 13px; }
table { border-collapse: collapse; font-size: 13px; margin: 8px 0; }
th, td { border-bottom: 1px solid #e3e3e3; padding: 3px 10px; text-align: right; }
th:first-child, td:first-child { text-align: left; overflow-wrap: anywhere; }
ol li { margin: 6px 0; } code { font: 13px/1.4 'DejaVu Sans Mono', monospace;
  background: #f4f4f4; padding: 1px 4px; overflow-wrap: anywhere; }
@media (max-width: 800px) { .figures { grid-template-columns: 1fr; } }
@media print { body { max-width: none; margin: 0; } .figures { gap: 10px; } }
"""
_WIDE = 1000  # figures of more pixels take the whole line


@dataclass(frozen=True)
class Table:
    """A small table: titles, and rows of as many cells."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Page:
    """What a report says.

    Attributes:
        title, subtitle: at the top.
        warnings: what the reader must not overlook.
        facts: the answer, as (label, sentence).
        advice: (what, why, command).
        figures, tables: the evidence.
    """

    title: str
    subtitle: str
    warnings: Sequence[str] = ()
    facts: Sequence[tuple[str, str]] = ()
    advice: Sequence[tuple[str, str, str]] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = field(default=())

    def html(self) -> str:
        """Return the page."""
        title = _text(self.title)
        parts = [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<link rel="icon" href="data:,">',  # or browsers ask for one
            f"<title>{title}</title><style>{_STYLE}</style></head><body>",
            f"<h1>{title}</h1><p class=sub>{_text(self.subtitle)}</p>",
            *(f"<p class=bad>{_text(warning)}</p>" for warning in self.warnings),
            *_facts(self.facts),
            *_advice(self.advice),
            *_figures(self.figures),
            *(line for table in self.tables for line in _table(table)),
            "</body></html>",
        ]
        return "\n".join(parts) + "\n"


def _text(text: str) -> str:
    return escape(printable(text))


def _facts(facts: Sequence[tuple[str, str]]) -> Iterable[str]:
    if facts:
        rows = (f"<dt>{_text(label)}</dt><dd>{_text(value)}</dd>" for label, value in facts)
        yield f"<dl>{''.join(rows)}</dl>"


def _advice(advice: Sequence[tuple[str, str, str]]) -> Iterable[str]:
    if advice:
        yield "<h2>What to change</h2><ol>"
        for change, because, command in advice:
            yield f"<li>{_text(change)}<br>because {_text(because)}<br>"
            yield f"<code>{_text(command)}</code></li>"
        yield "</ol>"


def _figures(figures: Sequence[Figure]) -> Iterable[str]:
    if not figures:
        return
    yield "<h2>Figures</h2><div class=figures>"
    for figure in figures:
        wide = int(figure.svg.split('viewBox="0 0 ', 1)[1].split()[0]) > _WIDE
        yield f'<figure id="{figure.name}"{" class=wide" if wide else ""}>'
        yield f"<h3>{_text(figure.title)}</h3>{figure.svg}"
        yield f"<figcaption>{_text(figure.caption)}</figcaption></figure>"
    yield "</div>"


def _table(table: Table) -> Iterable[str]:
    yield f"<h2>{_text(table.title)}</h2><table><thead><tr>"
    yield "".join(f"<th>{_text(column)}</th>" for column in table.columns)
    yield "</tr></thead><tbody>"
    for row in table.rows:
        yield f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>"
    yield "</tbody></table>"
