"""What the documents point at is there."""

import re
from pathlib import Path

import pytest
import typer.main

from iotrace.tools.cli import build_app

from .bench.study.rows import read_rows
from .bench.study.tables import TABLES, Rows, filled

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")])
# Of other programs, named beside ours.
FOREIGN = {"--no-python", "--opslog"}
FOREIGN_COMMAND = re.compile(r"^ +(?:fio|strace) (?:.*\\\n)*.*", re.MULTILINE)


def options() -> set[str]:
    """Return all options of all verbs."""
    command = typer.main.get_command(build_app())
    verbs = command.commands.values()  # type: ignore[attr-defined]
    return {
        name for verb in verbs for p in verb.params for name in (*p.opts, *p.secondary_opts)
    } | {"--help"}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files(document: Path) -> None:
    """A page that was moved takes its links along."""
    for target in re.findall(r"\]\(([^)#]+)", document.read_text()):
        assert "://" in target or (document.parent / target).exists(), target


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_options_that_are_named_exist(document: Path) -> None:
    ours = FOREIGN_COMMAND.sub("", document.read_text())
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", ours))
    assert named <= options() | FOREIGN


def test_the_readme_leads_to_every_document() -> None:
    readme = (ROOT / "README.md").read_text()
    for document in (ROOT / "docs").glob("*.md"):
        assert f"](docs/{document.name})" in readme


def test_the_tables_of_the_study_are_those_of_its_rows() -> None:
    """A number that was typed by hand has no run behind it."""
    rows = Rows(tuple(read_rows(ROOT / "docs" / "study" / "rows.csv")))
    document = (ROOT / "docs" / "study.md").read_text()
    assert len(re.findall(r"<!-- \w+ -->\n\|", document)) == len(TABLES)
    assert filled(document, rows) == document
