"""What holds for every test: examples are the same in each run, and Ctrl-C can be tested."""

import signal

from hypothesis import settings


def pytest_configure() -> None:
    """Set up the process, before any test is imported."""
    settings.register_profile("same", derandomize=True, deadline=None)
    settings.load_profile("same")
    # A shell that starts this in the background has it ignored, here and in every child.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
