"""The two native artefacts; everything else is declared in pyproject.toml."""

from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext


class SharedLibrary(Extension):
    """A plain C shared object: preloaded into a job, never imported."""


class BuildExt(build_ext):
    """Name a SharedLibrary `<name>.so`, without the Python ABI tag."""

    def get_ext_filename(self, fullname: str) -> str:
        if isinstance(self.ext_map.get(fullname), SharedLibrary):
            return fullname.replace(".", "/") + ".so"
        return super().get_ext_filename(fullname)


def preload_sources() -> tuple[list[str], list[str]]:
    """Return the C sources and the headers of the preload library."""
    folder = Path("capture/csrc")
    return (
        sorted(str(path) for path in folder.glob("*.c")),
        sorted(str(path) for path in folder.glob("*.h")),
    )


SOURCES, HEADERS = preload_sources()

setup(
    cmdclass={"build_ext": BuildExt},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},  # one wheel for all later Pythons
    cffi_modules=["replay/csrc/build_loop.py:ffibuilder"],
    ext_modules=[
        SharedLibrary(
            "iotrace.capture.libiotrace_capture",
            sources=SOURCES,
            depends=HEADERS,
            libraries=["dl", "pthread"],
            extra_compile_args=["-std=gnu11", "-O2", "-Wall", "-Wextra", "-fvisibility=hidden"],
            extra_link_args=[
                "-Wl,-Bsymbolic-functions",  # what one wrapper calls of another is ours
                "-Wl,-z,nodelete",
                "-Wl,-z,now",
                "-Wl,--no-as-needed",
                "-l:libdl.so.2",
            ],
        ),
    ],
)
