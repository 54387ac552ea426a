"""Errors a user can cause. Each message is one line and says what to do next."""


class IotraceError(Exception):
    """Base of every error that the command line reports as one line.

    Attributes:
        exit_code: exit status of the command: 2 for bad input, 1 for a failed run.
    """

    exit_code = 2


class TraceFormatError(IotraceError):
    """The input is not a trace that this version can read."""


class CaptureError(IotraceError):
    """The job cannot be watched as asked."""


class PlanError(IotraceError):
    """The trace cannot become the plan that was asked for."""


class ReplayError(IotraceError):
    """A replay ran and failed."""

    exit_code = 1


class OutputExistsError(IotraceError):
    """The output is there already and must not be overwritten."""
