"""Build `iotrace.replay._loop`: the replay loop, linked with liburing.

loop_api.h holds plain declarations only, so that the C compiler and cffi read
the same file and the two sides cannot drift apart.
"""

from pathlib import Path

from cffi import FFI

CSRC = Path("replay/csrc")  # setuptools runs this script from the project root

ffibuilder = FFI()
ffibuilder.cdef((CSRC / "loop_api.h").read_text())
ffibuilder.set_source(
    "iotrace.replay._loop",
    '#include <stdint.h>\n#include "loop_api.h"',
    sources=sorted(str(path) for path in CSRC.glob("*.c")),
    depends=sorted(str(path) for path in CSRC.glob("*.h")),
    include_dirs=[str(CSRC)],
    libraries=["uring", "pthread"],
    extra_compile_args=["-std=gnu11", "-O2", "-Wall", "-Wextra"],
)
