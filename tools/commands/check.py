"""`iotrace check`: is a trace well-formed, complete, clean, the same work? Checkpoints: whole?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from iotrace.tools.arguments import ForceOption, JsonOption, TraceArgument
from iotrace.tools.damage import is_whole, print_damage, print_damages
from iotrace.tools.damage import to_json as damage_json
from iotrace.tools.destinations import check_outputs
from iotrace.tools.output import STDOUT, write_json
from iotrace.tools.reading import read
from iotrace.tools.render import Terminal, file_name, print_facts, print_problems
from iotrace.traces.check import check_trace, find_gaps
from iotrace.traces.digest import workload_digest
from iotrace.traces.errors import IotraceError
from iotrace.traces.formats.damage import Damage, examine, examine_files, examine_named
from iotrace.traces.location import is_local_trace
from iotrace.traces.portability import FILE_SYSTEMS, Fit, fit
from iotrace.traces.sharing.leftovers import (
    find_leftovers,
    hidden_words,
    kept_names,
    kept_numbers,
)
from iotrace.traces.stores import Place, is_remote, local_path
from iotrace.traces.trace import Trace
from iotrace.traces.words import plural

_WORDS = 5  # texts of the original in tensor names, numbers in paths


def check(
    trace: TraceArgument,
    other: Annotated[
        str | None,
        typer.Argument(
            parser=Place, metavar="OTHER", help="With --digest: a copy to compare with."
        ),
    ] = None,
    digest: Annotated[
        bool,
        typer.Option("--digest", help="Print the digest of the work; equal for OTHER if given."),
    ] = False,
    shared: Annotated[
        bool, typer.Option("--shared", help="Search it for what tells where it was made.")
    ] = False,
    original: Annotated[
        str | None,
        typer.Option(
            parser=Place,
            metavar="TRACE",
            help="What it was made of: search every byte for its strings.",
            show_default="none: look for forms and patterns alone",
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="An incomplete trace fails the check.")
    ] = False,
    targets: Annotated[
        list[str] | None,
        typer.Option(
            "--for",
            metavar="FILE_SYSTEM",
            help=f"Would the job work there? {', '.join(FILE_SYSTEMS)}; may be repeated.",
            show_default="not asked",
        ),
    ] = None,
    json_to: JsonOption = None,
    force: ForceOption = False,
) -> int:
    """Say whether a trace is well-formed and complete, and prove more on request.

    Of a checkpoint (torch.save, safetensors, DCP, TorchSnapshot, DataStates-LLM) say which tensors
    can be read, and which are lost: of a torn file too, which its engine does not load. Of a
    folder of such files, file by file; what has the name of one and cannot be examined is told,
    and is not whole.

    --shared looks at the form of each text, with --original for texts of the original in every byte
    too: those of its paths, command, hosts and mounts. Not for texts of under 4 letters, public
    words, or what stands in tensor names that were kept; whether these were kept is said.

    Ends with status 2 if it is no trace or contradicts itself; with 1 if a proof fails: something
    is left over (--shared), the work differs (--digest), rows are missing (--strict), or a file
    system does not do what the job asked of its own (--for).

    \b
    Examples:
      iotrace check trace.parquet --strict
      iotrace check public.parquet --shared --original trace.parquet
      iotrace check public.parquet --digest trace.parquet
      iotrace check model.pt
      iotrace check trace.parquet --for mountpoint-s3 --for nfs
    """
    if other is not None and not digest:
        raise IotraceError("two traces are compared by their work; add --digest")
    if original is not None and not shared:
        raise IotraceError("--original says what to look for; add --shared")
    unknown = [name for name in targets or () if name not in FILE_SYSTEMS]
    if unknown:
        raise IotraceError(f"--for knows {', '.join(FILE_SYSTEMS)}; not {unknown[0]}")
    check_outputs({}, json_to, inputs=(trace, other, original), force=force)
    damages = _checkpoints(trace)
    if damages:
        for given, option in (
            (digest, "--digest"),
            (shared, "--shared"),
            (strict, "--strict"),
            (targets, "--for"),
        ):
            if given:
                raise IotraceError(f"{option} is of traces, {trace} is a checkpoint; leave it out")
        whole, alone = all(map(is_whole, damages)), damages[0].path == str(local_path(trace))
        if json_to is not None:
            listed = [damage_json(one) for one in damages]
            write_json(listed[0] if alone else {"whole": whole, "checkpoints": listed}, json_to)
        if json_to != STDOUT and alone:
            print_damage(Terminal(), damages[0])
        elif json_to != STDOUT:
            print_damages(Terminal(), damages)
        return 0 if whole else 1
    rows = read(trace)
    missing = rows.metadata.completeness.problems()
    found: dict[str, Any] = {
        "trace": trace,
        "rows": len(rows),
        "malformed": check_trace(rows, gaps=False),
        "missing": list(dict.fromkeys([*missing, *find_gaps(rows)])),
    }
    if shared:
        found |= _search(trace, rows, original)
    if digest:
        found["digest"] = workload_digest(rows)
    if other is not None:
        found["other_digest"] = workload_digest(read(other))
        found["same_work"] = found["digest"] == found["other_digest"]
    fits = [fit(rows, name) for name in dict.fromkeys(targets or ())]
    found |= {"file_systems": [asdict(one) for one in fits]} if fits else {}
    if json_to is not None:
        write_json(found, json_to)
    if json_to != STDOUT:
        _print(Terminal(), found, original, fits)
    if found["malformed"]:
        return 2
    failed = found.get("leftovers") or found.get("same_work") is False
    failed = failed or any(one.refused for one in fits)
    return 1 if failed or (strict and found["missing"]) else 0


def _checkpoints(location: str) -> tuple[Damage, ...]:
    """Return the state of a checkpoint, or of those in a folder; empty of what is none."""
    if is_remote(location):
        return ()
    path = local_path(location)
    if not path.exists():
        return ()  # the reader of traces says so
    found = examine(path)
    if found is None and not is_local_trace(path):
        if path.is_dir():
            return examine_files(path)
        found = examine_named(path)
    return () if found is None else (found,)


def _search(trace: str, rows: Trace, original: str | None) -> dict[str, Any]:
    source = None if original is None else read(original)
    kept = kept_names(rows)
    return {
        "leftovers": [str(leftover) for leftover in find_leftovers(trace, rows, source)],
        "numbers_kept": kept_numbers(rows),
        "tensor_names_kept": len(kept),
        "words_in_tensor_names": () if source is None else hidden_words(rows, source),
    }


def _print(
    terminal: Terminal, found: dict[str, Any], original: str | None, fits: Sequence[Fit]
) -> None:
    pairs = [("trace", f"{found['trace']}, {plural(found['rows'], 'row')}")]
    pairs.append(("well-formed", _verdict(found["malformed"], "yes")))
    pairs.append(("complete", _verdict(found["missing"], "yes, nothing is known to be missing")))
    if "leftovers" in found:
        proof = (
            f"no text of the paths, command, hosts and mounts of {original} was found"
            if original
            else "each text has the form of a shared one; --original TRACE looks for its texts"
        )
        proof += ", tensor names left aside" if found["tensor_names_kept"] else ""
        pairs.append(("clean", _verdict(found["leftovers"], f"yes, {proof}")))
        pairs.append(("numbers", _numbers(found["numbers_kept"])))
        pairs.append(("tensor names", _tensor_names(found)))
    if "digest" in found:
        pairs.append(("digest", found["digest"]))
    if "other_digest" in found:
        pairs.append(("other", found["other_digest"]))
        pairs.append(("same work", "yes" if found["same_work"] else "NO"))
    pairs += [(f"on {one.name}", _suits(one)) for one in fits]
    print_facts(terminal, pairs)
    for key, title in (
        ("malformed", "What contradicts itself"),
        ("missing", "What is missing"),
        ("leftovers", "What is left over"),
    ):
        problems = found.get(key) or []
        if problems:
            terminal.print()
            print_problems(terminal, title, problems)


def _numbers(kept: Sequence[str]) -> str:
    """Return how many numbers can be read in paths, and the largest, which may be no counts."""
    if not kept:
        return "none can be read in the paths"
    more = " the largest" if len(kept) > _WORDS else ""
    return f"{len(kept)} can be read in the paths,{more or ' these'}: {', '.join(kept[:_WORDS])}"


def _tensor_names(found: dict[str, Any]) -> str:
    """Return whether tensor names can be read, and what of the original stands in them."""
    kept, words = found["tensor_names_kept"], found["words_in_tensor_names"]
    if not kept:
        return "none can be read"
    text = f"KEPT, {plural(kept, 'name')} can be read; iotrace share --tensor-names key hides them"
    if words:
        more = f" and {len(words) - _WORDS} more" if len(words) > _WORDS else ""
        text += f"; texts of the original in them: {', '.join(words[:_WORDS])}{more}"
    return text


def _suits(fit: Fit) -> str:
    """Return `NO: rename (x.safetensors)`, or `yes`, and what it takes."""
    refused = [f"{one.what} ({file_name(one.path)})" for one in fit.refused]
    text = f"NO, it has none of: {', '.join(refused)}" if refused else "yes"
    ways: dict[str, list[str]] = {}
    for need, how in fit.conditional:
        ways.setdefault(how, []).append(need.what)
    for how, whats in ways.items():
        text += f"; {', '.join(whats)}: {how}"
    return text


def _verdict(problems: list[str], good: str) -> str:
    return f"NO, {plural(len(problems), 'problem')}" if problems else good
