"""What is said of a trace that was made: its bytes, its gaps, and what to type next."""

from __future__ import annotations

from pathlib import Path

from iotrace.tools.next_command import say_next
from iotrace.tools.render import format_bytes, format_rate, printable
from iotrace.tools.say import say
from iotrace.traces.file_summaries import FileSummaries
from iotrace.traces.merged_clocks import clocks_told
from iotrace.traces.removals import removed_paths
from iotrace.traces.stores import shown
from iotrace.traces.summary import summarize
from iotrace.traces.trace import Trace
from iotrace.traces.words import plural

WIDER = "--all or --include widens the scope"


def describe_trace(trace: Trace, output: Path, if_empty: str = WIDER) -> None:
    """Say on stderr what is in a trace, whether it is complete, and what to type next.

    Args:
        trace: the trace.
        output: where it is.
        if_empty: what to do about a trace without requests.
    """
    summary = summarize(trace)
    if not summary.requests and summary.problems:
        seen = "no request was recorded"
    elif not summary.requests:
        seen = f"no file in scope was touched; {if_empty}"
    else:
        parts = [
            f"{format_bytes(size_bytes)} {verb}{f' at {rate}' if size_bytes else ''}"
            for size_bytes, verb, rate in (
                (
                    summary.bytes_written,
                    "written",
                    format_rate(summary.bytes_written, summary.write_seconds),
                ),
                (
                    summary.bytes_read,
                    "read",
                    format_rate(summary.bytes_read, summary.read_seconds),
                ),
            )
        ]
        if summary.paging is not None:
            parts = [
                *(parts if summary.bytes_written or summary.bytes_read else []),
                str(summary.paging),
            ]
        seen = f"{', '.join(parts)} on {_files(summary.files, trace)}"
    if told := clocks_told(trace.metadata):
        say(f"times are {told}")
    say(f"{seen}; {_completeness(summary.problems)}")
    say_next("show", shown(output))


def _files(files: FileSummaries, trace: Trace) -> str:
    """Count the files that are left: what the job removed again is none of them."""
    removed = removed_paths(trace)
    kept = sum(file.path not in removed for file in files) if removed else len(files)
    return plural(kept, "file") if kept else f"{plural(len(files), 'file')} that it removed"


def _completeness(problems: tuple[str, ...]) -> str:
    if not problems:
        return "complete"
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"INCOMPLETE: {printable(problems[0])}{more}"
