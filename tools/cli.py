"""The `iotrace` command: its verbs, and the one place where an error becomes a line and a status.

Exit status: 0 done; 1 the run failed; 2 the input or the command line is wrong; 128 + n ended by
signal n, such as 130 for Ctrl-C. `capture` ends with the status of the job it ran.
"""

from __future__ import annotations

import inspect
import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Annotated, NoReturn

import typer

from iotrace.tools.commands.capture import capture
from iotrace.tools.commands.check import check
from iotrace.tools.commands.compare import compare
from iotrace.tools.commands.convert import convert
from iotrace.tools.commands.doctor import doctor
from iotrace.tools.commands.merge import merge
from iotrace.tools.commands.recover import recover
from iotrace.tools.commands.replay import replay
from iotrace.tools.commands.report import report
from iotrace.tools.commands.share import share
from iotrace.tools.commands.show import show
from iotrace.tools.commands.sweep import sweep
from iotrace.tools.commands.synth import synth
from iotrace.tools.commands.why import why
from iotrace.tools.say import PROGRAM, say
from iotrace.traces.errors import IotraceError
from iotrace.traces.remedies import with_remedy
from iotrace.traces.stores import without_secrets
from iotrace.traces.version import tool_version

# In the order of the help.
VERBS: tuple[Callable[..., int | None], ...] = (
    capture,
    recover,
    merge,
    show,
    why,
    sweep,
    report,
    replay,
    compare,
    convert,
    synth,
    share,
    check,
    doctor,
)

EXIT_FAILED = 1
EXIT_BAD_INPUT = 2
_EXIT_SIGNALLED = 128

# Typer brings its own copy of click or uses the installed one, depending on its version; what
# it exports in every version is BadParameter, whose base is the class of all usage errors.
USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]

# What the system says when the request was wrong, not the run.
_BAD_INPUT = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)

HELP = """Record what a checkpoint engine does to storage, and replay what it could have done.

\b
  iotrace capture -- python train.py
  iotrace show trace.parquet
  iotrace replay trace.parquet --coalesce --direct

Data goes to stdout, progress and hints to stderr. Sizes are written 8MiB, 512K or 4096.
"""


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"{PROGRAM} {tool_version()}")
        raise typer.Exit


def build_app() -> typer.Typer:
    """Return the command with all its verbs."""
    app = typer.Typer(
        name=PROGRAM,
        help=HELP,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def root(
        version: Annotated[
            bool,
            typer.Option(
                "--version",
                callback=_print_version,
                is_eager=True,
                help="Print the version and exit.",
            ),
        ] = False,
    ) -> None:
        pass

    for verb in VERBS:
        # What follows a job's name belongs to the job, with or without `--` before it.
        settings = {"allow_interspersed_args": verb is not capture}
        app.command(help=help_text(verb), context_settings=settings)(verb)
    return app


def help_text(verb: Callable[..., object]) -> str:
    """Return a verb's docstring with each paragraph on one line, for typer to wrap.

    Paragraphs that begin with a line of `\\b` keep their lines.
    """
    paragraphs = inspect.cleandoc(verb.__doc__ or "").split("\n\n")
    return "\n\n".join(p if p.startswith("\b") else " ".join(p.split()) for p in paragraphs)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status.

    Args:
        arguments: without the program's name; None: those of this process.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a file name may hold any byte
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores one of them
            signal.signal(number, _end)
    try:
        status = build_app()(
            None if arguments is None else list(arguments),
            prog_name=PROGRAM,
            standalone_mode=False,
        )
        sys.stdout.flush()
    except BrokenPipeError:
        _silence_stdout()
        return _EXIT_SIGNALLED + signal.SIGPIPE
    except (KeyboardInterrupt, typer.Abort):
        return _EXIT_SIGNALLED + signal.SIGINT
    except USAGE_ERROR as error:
        return _fail(_usage_message(error), EXIT_BAD_INPUT)
    except IotraceError as error:
        return _fail(str(error), error.exit_code)
    except OSError as error:
        return _fail(
            _system_message(error),
            EXIT_BAD_INPUT if isinstance(error, _BAD_INPUT) else EXIT_FAILED,
        )
    except MemoryError:
        return _fail("out of memory; close other programs or use a smaller trace", EXIT_FAILED)
    return status if isinstance(status, int) else 0


def _end(number: int, frame: FrameType | None) -> NoReturn:
    """End as the default does, but through every `finally`: replayed files are removed."""
    raise SystemExit(_EXIT_SIGNALLED + number)


def _fail(message: str, status: int) -> int:
    if message:
        line = without_secrets(" ".join(message.split()))
        say(f"error: {line}")
    return status


def _usage_message(error: Exception) -> str:
    """Return the cause on one line, with the command that explains the usage."""
    message = str(error.format_message()).rstrip(".") if hasattr(error, "format_message") else ""
    if not message or type(error).__name__ == "NoArgsIsHelpError":
        return ""  # the help has been printed
    message = message.replace("Value error, ", "")  # a word of the parser's own
    context = getattr(error, "ctx", None)
    return f"{message}; see `{context.command_path if context else PROGRAM} --help`"


def _system_message(error: OSError) -> str:
    cause = with_remedy(error)
    return f"{error.filename}: {cause}" if error.filename else cause


def _silence_stdout() -> None:
    """Keep the interpreter's last flush from failing on the closed pipe too."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
