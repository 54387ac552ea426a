"""What holds for every test: examples are the same in each run, and signals can be tested."""

import signal

from hypothesis import settings


def pytest_configure() -> None:
    """Set up the process, before any test is imported."""
    settings.register_profile("same", derandomize=True, deadline=None)
    settings.load_profile("same")
    # A shell that starts this in the background, or nohup, has them ignored in every child too.
    for number, usual in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGQUIT, signal.SIG_DFL),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)
