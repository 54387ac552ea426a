"""Plans as text: one request per line. For examples, tests and people."""

import os
from collections.abc import Iterable

import numpy as np

from iotrace.replay.build import plan_from_trace
from iotrace.replay.files import KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE
from iotrace.replay.job import Op
from iotrace.replay.pieces import HOLE, NEIGHBOUR, PADDING, PAST_END, STALE
from iotrace.replay.plan import Plan
from iotrace.traces.metadata import Metadata
from iotrace.traces.sync_kind import SyncKind, syncs_folder
from iotrace.traces.trace import Ints, Strings, Trace

_FLAGS = {
    "r": os.O_RDONLY,
    "w": os.O_WRONLY,
    "rw": os.O_RDWR,
    "create": os.O_CREAT,
    "trunc": os.O_TRUNC,
    "excl": os.O_EXCL,
    "append": os.O_APPEND,
    "direct": os.O_DIRECT,
}
_KINDS = {
    PADDING: "padding",
    PAST_END: "past end",
    NEIGHBOUR: "beside",
    HOLE: "hole",
    STALE: "stale",
}
_STEP_NS = 1000
# Modes of fallocate; a hole goes with KEEP_SIZE.
_MODES = {"allocate": 0, "reserve": KEEP_SIZE, "punch": PUNCH_HOLE | KEEP_SIZE, "zero": ZERO_RANGE}
_BY_HANDLE = ("open", "read", "write", *_MODES, "truncate", "sync", "close")
_UNSEEN = 1_000_000  # numbers from here on: files that no open is known of


def sketch_trace(text: str) -> Trace:
    """Return the trace that `text` describes.

    A line is `OP PATH [ARGUMENTS] [-> RESULT]`: `open a w+create+trunc`,
    `open b r as a` (a link to that file), `write a OFFSET LENGTH`, `read a OFFSET LENGTH -> 17`,
    `truncate a SIZE`, `punch a OFFSET LENGTH` (a hole), `zero a OFFSET LENGTH`,
    `allocate a OFFSET LENGTH`, `reserve a OFFSET LENGTH` (keeps the size), `rename a b`,
    `sync a`, `sync d/` (a folder), `close a`,
    `unlink a`, `mkdir d`. Each line takes 500 ns, 1 us after the last; `step N`, `thread N` and
    `process N` set what follows. A request goes through the open of its own thread, or else the
    last one.
    """
    rows = list(_parse(text.splitlines()))
    count = len(rows)

    def column(name: str) -> Ints:
        values = [row.get(name) for row in rows]
        valid = np.array([value is not None for value in values], np.bool_)
        return Ints(np.array([value or 0 for value in values], np.int64), valid)

    start_ns = np.arange(count, dtype=np.int64) * _STEP_NS
    texts = {
        name: Strings.of([str(row[name]) if name in row else None for row in rows])
        for name in ("op", "path", "target")
    }
    numbers = ("file", "offset", "length", "result", "flags", "step")
    return Trace.from_columns(
        {
            "layer": Strings.constant("request", count),
            "start_ns": start_ns,
            "end_ns": start_ns + _STEP_NS // 2,
            "thread": np.array([row["thread"] for row in rows], np.int32),
            "process": np.array([row["process"] for row in rows], np.int32),
            **texts,
            **{name: column(name) for name in numbers},
        },
        Metadata(),
    )


def sketch(text: str) -> Plan:
    """Return the plan of what `text` describes, see `sketch_trace`."""
    return plan_from_trace(sketch_trace(text))


def _parse(lines: Iterable[str]) -> Iterable[dict[str, int | str]]:
    opened: dict[tuple[int, int, str], int] = {}  # by process, thread (-1: the last), name
    state: dict[str, int] = {"thread": 0, "process": 0}
    files = 0
    for line in lines:
        call, _, result = line.partition("->")
        words = call.split()
        if not words:
            continue
        if words[0] in ("step", "thread", "process"):
            state[words[0]] = int(words[1])
            continue
        row: dict[str, int | str] = {**state, "op": words[0], "path": f"/{words[1]}"}
        own = (state["process"], state["thread"], words[1])
        last = (state["process"], -1, words[1])
        key = own if own in opened else last
        if words[0] == "open":
            files += 1
            number = opened[(state["process"], -1, words[4])] if len(words) > 3 else files
            opened[own] = opened[last] = number
            row["flags"] = sum(_FLAGS[word] for word in words[2].split("+"))
        elif words[0] in ("read", "write"):
            row["offset"], row["length"] = int(words[2]), int(words[3])
        elif words[0] in _MODES:
            row["op"], row["flags"] = "allocate", _MODES[words[0]]
            row["offset"], row["length"] = int(words[2]), int(words[3])
        elif words[0] == "truncate":
            row["length"] = int(words[2])
        elif words[0] in ("rename", "link"):
            row["target"] = f"/{words[2]}"
            opened |= {
                (process, thread, words[2]): number
                for (process, thread, name), number in opened.items()
                if (process, name) == (state["process"], words[1])
            }
        if words[0] == "sync" and words[1].endswith("/"):
            row |= {"path": f"/{words[1].strip('/')}", "flags": int(SyncKind.FOLDER)}
        elif words[0] in _BY_HANDLE:
            row["file"] = opened.setdefault(key, _UNSEEN + len(opened))
        moved = row["length"] if words[0] in ("read", "write") else 0
        row["result"] = int(result) if result else moved
        yield row


def listing(plan: Plan) -> str:
    """Return a plan's requests, one per line, with pieces where they differ from the request.

    >>> print(listing(sketch("open a w+create\\nwrite a 0 10\\nclose a")))
    open a w+create
    write a 0 10
    close a
    """
    return "\n".join(request_lines(plan))


def request_lines(plan: Plan, first: int | None = None) -> list[str]:
    """Return the lines of `listing`, or the first of them."""
    requests = plan.requests
    if first is not None:
        requests = requests.take(np.arange(min(first, len(requests))))
    return [_line(plan, row) for row in requests.lowered()]


def _line(plan: Plan, row: np.void) -> str:
    op = Op(int(row["op"])).name.lower()
    if row["op"] == Op.ALLOCATE:
        op = next((word for word, mode in _MODES.items() if mode == row["flags"]), op)
    name = plan.files[row["file"]].path if row["path"] < 0 and row["file"] >= 0 else ""
    name = plan.paths[row["path"]] if row["path"] >= 0 else name
    words = [op, name + "/" if row["op"] == Op.SYNC and syncs_folder(row["flags"]) else name]
    if row["op"] == Op.OPEN:
        words.append(_flag_words(int(row["flags"])))
    if row["target"] >= 0:
        words.append(plan.paths[row["target"]])
    if row["op"] in (Op.READ, Op.WRITE, Op.ALLOCATE):
        words.append(f"{row['offset']} {row['length']}")
    if row["op"] == Op.TRUNCATE:
        words.append(f"{row['length']}")
    if row["mapping"]:
        words.append("mapped")
    return " ".join(words) + _pieces(plan, row)


def _flag_words(flags: int) -> str:
    access = {os.O_RDONLY: "r", os.O_WRONLY: "w"}.get(flags & os.O_ACCMODE, "rw")
    rest = [word for word, flag in _FLAGS.items() if flag & ~os.O_ACCMODE and flags & flag]
    return "+".join([access, *rest])


def _pieces(plan: Plan, row: np.void) -> str:
    first, count = int(row["first_piece"]), int(row["piece_count"])
    pieces = plan.pieces.take(np.arange(first, first + count)).lowered()
    as_recorded = count == 1 and pieces["offset"][0] == row["offset"]
    if not count or (as_recorded and pieces["file"][0] == row["file"]):
        return ""
    shown = [
        _source(plan, p, int(row["file"]))
        if p["file"] >= 0
        else f"{_KINDS[int(p['file'])]} {p['length']}"
        for p in pieces
    ]
    return f"  [{', '.join(shown)}]"


def _source(plan: Plan, piece: np.void, file: int) -> str:
    extent = f"{piece['offset']}+{piece['length']}"
    return extent if piece["file"] == file else f"{plan.files[piece['file']].path} {extent}"
