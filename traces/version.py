"""The version of this package, as traces and `--version` tell it."""

from importlib.metadata import PackageNotFoundError, version

_DISTRIBUTION = "iotrace-toolkit"


def tool_version() -> str:
    """Return the version of this package, empty when it runs without being installed."""
    try:
        return version(_DISTRIBUTION)
    except PackageNotFoundError:
        return ""
