"""Figures as PDF, for papers: vectors, with Helvetica for the text."""

from __future__ import annotations

import io

from iotrace.tools.figures.svg import Figure
from iotrace.traces.errors import IotraceError


def as_pdf(figure: Figure) -> bytes:
    """Return a figure as a PDF of one page of its size.

    Characters that Helvetica lacks, such as those of other scripts in file names, are not drawn.

    Raises:
        IotraceError: what draws it is not installed.
    """
    try:
        from reportlab.graphics import renderPDF
        from svglib.svglib import svg2rlg
    except ImportError as error:
        raise IotraceError("--pdf needs svglib; `pip install svglib`, or leave it out") from error
    drawn = svg2rlg(io.StringIO(figure.svg))
    return bytes(renderPDF.drawToString(drawn, figure.title))
