"""What helps when the system refuses a file: each cause has its own remedy."""

import errno

OF_DESCRIPTORS = {
    errno.EMFILE: "raise `ulimit -n`",
    errno.ENFILE: "end programs that hold files open, or raise the sysctl fs.file-max",
}
_OF_STORAGE = {
    errno.ENOSPC: "free some space or ",
    errno.EDQUOT: "free some of your quota or ",
    errno.EROFS: "mount it for writing or ",
    errno.EACCES: "get the right to write there or ",
    errno.EPERM: "get the right to write there or ",
}


def remedy(number: int | None, elsewhere: str) -> str:
    """Return what to do about a write or an open that failed.

    Args:
        number: the errno; None: there is none.
        elsewhere: how to use another place, which helps against most.

    >>> remedy(errno.EMFILE, "name another"), remedy(errno.ENOSPC, "name another")
    ('raise `ulimit -n`', 'free some space or name another')
    """
    number = number or 0
    return OF_DESCRIPTORS.get(number) or _OF_STORAGE.get(number, "") + elsewhere


def with_remedy(error: OSError, elsewhere: str | None = None) -> str:
    """Return the cause of an error and what to do about it.

    Args:
        elsewhere: see `remedy`; without it, causes of other kinds get no advice.

    >>> with_remedy(OSError(errno.EDQUOT, "Disk quota exceeded"))
    'Disk quota exceeded; free some of your quota or choose another folder'
    >>> with_remedy(OSError(errno.EIO, "Input/output error"))
    'Input/output error'
    """
    cause = error.strerror or str(error) or type(error).__name__
    if elsewhere is None and error.errno not in OF_DESCRIPTORS | _OF_STORAGE:
        return cause
    return f"{cause}; {remedy(error.errno, elsewhere or 'choose another folder')}"
