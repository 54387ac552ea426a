"""Why a run could not begin, in words that say what to do about it."""

import errno
import os
from pathlib import Path

from iotrace.traces.errors import PlanError, ReplayError
from iotrace.traces.remedies import remedy


def run_error(error: int, uring_refusal: str | None) -> PlanError | ReplayError:
    """Return what to raise for a run that could not begin.

    Args:
        error: the errno.
        uring_refusal: why io_uring cannot be used; None: it can, or was not asked for.
    """
    if error == errno.EDEADLK:
        return PlanError(
            "the job cannot run: fences and streams wait for each other; rebuild the plan"
        )
    if uring_refusal is not None:
        return ReplayError(f"io_uring cannot be used here: {uring_refusal}; use --executor posix")
    helps = remedy(error, "lower --queue-depth")
    return ReplayError(f"the replay could not start: {os.strerror(error)}; {helps}")


def uring_cause(error: int) -> str:
    """Return why io_uring cannot be set up, by the errno of the attempt."""
    setting = Path("/proc/sys/kernel/io_uring_disabled")
    disabled = setting.read_text().strip() if setting.exists() else "0"
    if error == errno.EPERM and disabled == "2":
        return "the sysctl kernel.io_uring_disabled is 2: nobody may use it"
    if error == errno.EPERM and disabled != "0":
        return (
            f"the sysctl kernel.io_uring_disabled is {disabled}: "
            "only CAP_SYS_ADMIN and the group kernel.io_uring_group may use it"
        )
    if error == errno.EPERM:
        return "a seccomp filter, such as a container's, forbids io_uring_setup (EPERM)"
    if error == errno.ENOSYS:
        return (
            f"kernel {os.uname().release} lacks what is needed (5.11 or newer has it), "
            "or a seccomp filter hides io_uring_setup (ENOSYS)"
        )
    if error == errno.ENOMEM:
        return "not enough lockable memory for a ring; raise `ulimit -l` (ENOMEM)"
    return f"{os.strerror(error)} ({errno.errorcode.get(error, error)})"
