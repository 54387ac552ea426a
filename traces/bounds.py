"""The bounds of a row: no more dimensions than a tensor has, no longer text than a name."""

import pyarrow as pa
import pyarrow.compute as pc

from iotrace.traces.schema import MAX_DIMENSIONS, MAX_TEXT_BYTES


def check_rows(rows: pa.Table) -> None:
    """Refuse what no tensor and no file has, in rows that were read or are to be written.

    Raises:
        ValueError: a shape has too many dimensions, or a text is too long.
    """
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if name == "shape" and not pa.types.is_null(column.type):
            check_dimensions(pc.max(pc.list_value_length(column)).as_py() or 0)
        elif pa.types.is_dictionary(column.type):
            lengths = (pc.max(pc.binary_length(c.dictionary)).as_py() or 0 for c in column.chunks)
            what = f"a text of {{:,}} bytes in the column {name!r}"
            _check_most(max(lengths, default=0), MAX_TEXT_BYTES, what)


def check_dimensions(count: int) -> None:
    """Refuse a shape of more than torch's dimensions.

    Raises:
        ValueError: it is of more.
    """
    _check_most(count, MAX_DIMENSIONS, "a shape of {:,} dimensions")


def _check_most(found: int, most: int, what: str) -> None:
    if found > most:
        raise ValueError(f"{what.format(found)}, and none has more than {most:,}")
