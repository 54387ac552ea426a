"""What is in the tree is in the wheel: pyproject.toml leaves nothing out."""

import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


def setuptools_table() -> dict[str, Any]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        table: dict[str, Any] = tomllib.load(file)["tool"]["setuptools"]
    return table


def test_every_package_is_declared() -> None:
    """A package that is missing here works in an editable install and is absent from a wheel."""
    table = setuptools_table()
    found = {
        "iotrace." + ".".join(init.parent.relative_to(ROOT).parts)
        for folder in table["package-dir"].values()
        for init in (ROOT / folder).rglob("__init__.py")
    }
    assert found == set(table["packages"])


def test_every_folder_with_python_is_a_package_or_holds_c() -> None:
    """A folder without __init__.py would be left out silently."""
    for folder in setuptools_table()["package-dir"].values():
        for source in (ROOT / folder).rglob("*.py"):
            assert (source.parent / "__init__.py").exists() or source.parent.name == "csrc", source


def test_every_package_is_typed_for_those_who_import_it() -> None:
    for folder in setuptools_table()["package-dir"].values():
        assert (ROOT / folder / "py.typed").exists(), folder


def test_the_corpus_is_shipped() -> None:
    """`corpus:NAME` must work for those who installed a wheel."""
    data = setuptools_table()["package-data"]
    shipped = {path for name in data["iotrace.traces"] for path in (ROOT / "traces").glob(name)}
    assert shipped == set((ROOT / "traces" / "corpus").iterdir())
    assert sum(path.stat().st_size for path in shipped) < 1 << 20
