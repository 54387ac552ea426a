"""The import rules of the project, kept as data."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HOOKS = "capture/hooks"

# What each package may import of the others.
LOWER_PACKAGES = {
    "traces": set(),
    "capture": {"traces"},
    "replay": {"traces"},
    "tools": {"traces", "capture", "replay"},
}

# Where alone a module may be imported: a folder, or one file.
ONLY_IN = {
    "typer": "tools",
    "rich": "tools",
    "svglib": "tools/figures",
    "reportlab": "tools/figures",
    "pyarrow": "traces",
    "iotrace.replay._loop": "replay/loop.py",
}


def sources(folder: str) -> list[Path]:
    """Return the Python files of a package that become part of it."""
    return [path for path in sorted((ROOT / folder).rglob("*.py")) if "csrc" not in path.parts]


def imported_names(source: Path) -> Iterator[str]:
    """Yield every name that a file imports, at any place in it, in full."""
    package = ["iotrace", *source.relative_to(ROOT).parent.parts]
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*above, *filter(None, [node.module])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def is_within(name: str, module: str) -> bool:
    return name == module or name.startswith(f"{module}.")


@pytest.mark.parametrize("package", LOWER_PACKAGES)
def test_a_package_imports_only_lower_ones(package: str) -> None:
    """Capture without replay, and replay without capture, are what users install and read."""
    allowed = {package, *LOWER_PACKAGES[package]}
    for source in sources(package):
        names = {name.split(".")[1] for name in imported_names(source) if "iotrace." in name}
        assert names <= allowed, f"{source.relative_to(ROOT)} imports {names - allowed}"


@pytest.mark.parametrize("module", ONLY_IN)
def test_a_module_is_imported_in_its_place_alone(module: str) -> None:
    """A storage engineer replays without a terminal library, and one file knows the C surface."""
    home = ROOT / ONLY_IN[module]
    for source in (path for package in LOWER_PACKAGES for path in sources(package)):
        guilty = [name for name in imported_names(source) if is_within(name, module)]
        assert not guilty or source == home or home in source.parents, (
            f"{source.relative_to(ROOT)} imports {guilty}"
        )


def test_the_hooks_import_the_standard_library_alone() -> None:
    """They run inside the job, in whatever environment that has; each other they find by path."""
    own = "iotrace." + HOOKS.replace("/", ".")
    for source in sources(HOOKS):
        names = {name for name in imported_names(source) if not is_within(name, own)}
        foreign = {name.split(".")[0] for name in names} - sys.stdlib_module_names
        assert not foreign, f"{source.relative_to(ROOT)} imports {foreign}"


@pytest.mark.parametrize("source", sources(HOOKS), ids=lambda path: path.name)
def test_the_hooks_are_written_in_python_3_9(source: Path) -> None:
    """The job may be older than we are."""
    ast.parse(source.read_text(), feature_version=(3, 9))


def test_there_are_sources_to_check() -> None:
    assert all(sources(folder) for folder in (*LOWER_PACKAGES, HOOKS))
