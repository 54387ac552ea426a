"""Where `iotrace` starts, and `python -m iotrace.tools` where no such script is on the PATH."""

import signal
import sys


def main() -> int:
    """Run the command line; return the exit status.

    The imports take most of a second: an interrupt during them ends the process as it ends any
    program that has not begun yet, without a traceback.
    """
    is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_ours:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from iotrace.tools import cli

    if is_ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
