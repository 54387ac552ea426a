"""`iotrace why`: why a save or a load took as long as it did, and what to change."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from iotrace.capture.live import look
from iotrace.replay.probe import Capability, probe
from iotrace.replay.probe_cache import load_probe, save_probe
from iotrace.tools.advice.advise import advise
from iotrace.tools.arguments import ForceOption, JsonOption, root_option
from iotrace.tools.destinations import check_outputs
from iotrace.tools.live import print_live
from iotrace.tools.live import to_json as live_json
from iotrace.tools.next_command import requests_of_tensors, root_words, say_next
from iotrace.tools.output import STDOUT, write_json
from iotrace.tools.progress import progress, waiting
from iotrace.tools.reading import read
from iotrace.tools.render import Terminal, print_facts
from iotrace.tools.say import say
from iotrace.tools.verdict.answer import print_verdict, to_json
from iotrace.traces.errors import PlanError
from iotrace.traces.stores import Place
from iotrace.traces.summary import TENSORS_ALONE, has_tensors_alone
from iotrace.traces.verdict.verdict import VERDICT_COLUMNS, examine


def why(
    trace: Annotated[
        str | None,
        typer.Argument(
            parser=Place, metavar="TRACE", help="A trace or a result: file, folder or URI."
        ),
    ] = None,
    live: Annotated[
        int | None,
        typer.Option(
            metavar="PID",
            help="Instead of TRACE: what a running or stuck job does now, captured or not; PID is "
            "its first process.",
            show_default="none",
        ),
    ] = None,
    root: Annotated[
        Path,
        root_option(
            "The folder whose storage the requests are held against; it is probed for 8 seconds, "
            "once a week, or an hour where it scatters. Kept in iotrace/probes.json in "
            "$XDG_CACHE_HOME or ~/.cache."
        ),
    ] = Path("."),
    no_probe: Annotated[
        bool, typer.Option("--no-probe", help="Write nothing; use an earlier probe if any.")
    ] = False,
    probe_again: Annotated[
        bool, typer.Option("--probe-again", help="Probe even if there is an earlier probe.")
    ] = False,
    json_to: JsonOption = None,
    force: ForceOption = False,
) -> None:
    """Say why saves and loads took as long as they did, and what to change.

    The first lines are the verdict: storage, CPU or waiting; the requests against what the
    storage of --root gives; bytes read or written too often; what failed first; what is durable.
    The evidence follows, then what to change in the engine's own terms.

    \b
    Examples:
      iotrace why trace.parquet
      iotrace why trace.parquet --root /lustre/me
      iotrace why --live 4711
      iotrace why trace.parquet --no-probe --json - | jq .episodes[0]
    """
    check_outputs({}, json_to, inputs=(trace,), force=force)
    if (live is None) == (trace is None):
        raise PlanError("name a trace, or a running job by --live PID")
    if live is not None:
        doing = look(live)
        if json_to is not None:
            write_json(live_json(live, doing), json_to)
        if json_to != STDOUT:
            print_live(Terminal(), live, doing)
        return
    assert trace is not None
    if no_probe and probe_again:
        raise PlanError("--no-probe and --probe-again exclude each other; leave one out")
    recording = read(trace, VERDICT_COLUMNS)
    with waiting("looking at each save and load"):
        verdict = examine(recording)
    storage = load_probe(root) if verdict.findings else None  # nothing to hold against it
    if not no_probe and verdict.findings and (storage is None or probe_again):
        storage = _probe(root)
    advice = advise(trace, verdict, storage, root)
    if json_to != STDOUT:
        print_verdict(Terminal(), trace, recording.metadata, verdict, advice, storage)
        if has_tensors_alone(recording):
            print_facts(Terminal(), [("requests", f"none: {TENSORS_ALONE}")])
            say_next(*requests_of_tensors(trace))
        if verdict.findings and (storage is not None or no_probe):  # else nothing to sweep
            say_next("sweep", trace, "--budget", "5m", *root_words(root))
    if json_to is not None:
        write_json(to_json(trace, verdict, advice, storage), json_to)


def _probe(root: Path) -> Capability | None:
    """Probe, and keep it; a folder that takes no file is said, and costs the comparison only."""
    try:
        with progress() as report:
            found = probe(root, progress=report)
    except PlanError as error:
        say(f"no probe: {error}")
        return None
    save_probe(root, found)
    return found
