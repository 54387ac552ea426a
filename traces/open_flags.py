"""What the flags of an open say."""

import os

import numpy as np

from iotrace.traces.columns import IntArray, Mask

# O_TMPFILE as the kernel has it comes with the bit of O_DIRECTORY, for kernels that know it not.
TMPFILE_BIT = os.O_TMPFILE & ~os.O_DIRECTORY


def opens_folder(flags: IntArray) -> Mask:
    """Return which opens are of folders, and not of unnamed files in them."""
    return np.asarray((flags & os.O_DIRECTORY != 0) & (flags & TMPFILE_BIT == 0))
