"""`iotrace check`: is a trace well-formed, complete, clean, and the same work as another?"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from iotrace.tools.arguments import ForceOption, JsonOption, TraceArgument
from iotrace.tools.output import STDOUT, check_json, write_json
from iotrace.tools.render import Terminal, format_count, print_facts, print_problems
from iotrace.traces.check import check_trace
from iotrace.traces.digest import workload_digest
from iotrace.traces.errors import IotraceError
from iotrace.traces.reader import read_trace
from iotrace.traces.sharing.leftovers import find_leftovers
from iotrace.traces.trace import Trace
from iotrace.traces.words import plural

_SHOWN = 20  # problems on the screen


def check(
    trace: TraceArgument,
    other: Annotated[
        str | None,
        typer.Argument(metavar="OTHER", help="With --digest: a copy to compare with."),
    ] = None,
    digest: Annotated[
        bool,
        typer.Option("--digest", help="Print the digest of the work; equal for OTHER if given."),
    ] = False,
    shared: Annotated[
        bool, typer.Option("--shared", help="Prove that nothing tells where it was made.")
    ] = False,
    original: Annotated[
        str | None,
        typer.Option(
            metavar="TRACE",
            help="What it was made of: search every byte for its strings.",
            show_default="none: look for forms and patterns alone",
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="An incomplete trace fails the check.")
    ] = False,
    json_to: JsonOption = None,
    force: ForceOption = False,
) -> int:
    """Say whether a trace is well-formed and complete, and prove more on request.

    Ends with status 2 if it is no trace or contradicts itself; with 1 if a proof fails: something
    is left over (--shared), the work differs (--digest), or rows are missing (--strict).

    \b
    Examples:
      iotrace check trace.parquet --strict
      iotrace check public.parquet --shared --original trace.parquet
      iotrace check public.parquet --digest trace.parquet
    """
    if other is not None and not digest:
        raise IotraceError("two traces are compared by their work; add --digest")
    if original is not None and not shared:
        raise IotraceError("--original says what to look for; add --shared")
    check_json(json_to, force=force)
    rows = read_trace(trace)
    found: dict[str, Any] = {
        "trace": trace,
        "rows": len(rows),
        "malformed": check_trace(rows),
        "missing": rows.metadata.completeness.problems(),
    }
    if shared:
        found["leftovers"] = _leftovers(trace, rows, original)
    if digest:
        found["digest"] = workload_digest(rows)
    if other is not None:
        found["other_digest"] = workload_digest(read_trace(other))
        found["same_work"] = found["digest"] == found["other_digest"]
    if json_to is not None:
        write_json(found, json_to)
    if json_to != STDOUT:
        _print(Terminal(), found, original)
    if found["malformed"]:
        return 2
    failed = found.get("leftovers") or found.get("same_work") is False
    return 1 if failed or (strict and found["missing"]) else 0


def _leftovers(trace: str, rows: Trace, original: str | None) -> list[str]:
    source = None if original is None else read_trace(original)
    return [str(leftover) for leftover in find_leftovers(trace, rows, source)]


def _print(terminal: Terminal, found: dict[str, Any], original: str | None) -> None:
    pairs = [("trace", f"{found['trace']}, {plural(found['rows'], 'row')}")]
    pairs.append(("well-formed", _verdict(found["malformed"], "yes")))
    pairs.append(("complete", _verdict(found["missing"], "yes, nothing is known to be missing")))
    if "leftovers" in found:
        proof = f"no string of {original} is in any byte" if original else "no text tells a place"
        pairs.append(("clean", _verdict(found["leftovers"], f"yes, {proof}")))
    if "digest" in found:
        pairs.append(("digest", found["digest"]))
    if "other_digest" in found:
        pairs.append(("other", found["other_digest"]))
        pairs.append(("same work", "yes" if found["same_work"] else "NO"))
    print_facts(terminal, pairs)
    for key, title in (
        ("malformed", "What contradicts itself"),
        ("missing", "What is missing"),
        ("leftovers", "What is left over"),
    ):
        problems = found.get(key) or []
        if problems:
            more = [f"and {format_count(len(problems) - _SHOWN)} more; --json lists all"]
            shown = problems[:_SHOWN] + (more if len(problems) > _SHOWN else [])
            terminal.print()
            print_problems(terminal, title, shown)


def _verdict(problems: list[str], good: str) -> str:
    return f"NO, {plural(len(problems), 'problem')}" if problems else good
