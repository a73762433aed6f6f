"""READMEs and notes show what is recorded."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks import fill_docs
from tests.commands import python

OPS = Path(__file__).parents[2] / "src" / "warpwise" / "ops"


def test_readmes_and_notes_are_filled_from_the_records() -> None:
    script = Path(__file__).parents[2] / "benchmarks" / "fill_readmes.py"
    done = python(script, "--check")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_documentation_is_filled_from_the_records(capsys: pytest.CaptureFixture[str]) -> None:
    assert fill_docs.main(check=True) == 0, capsys.readouterr().out


@pytest.mark.parametrize("readme", sorted(OPS.glob("*/README.md")), ids=lambda path: path.parent.name)
def test_a_readme_is_short_and_its_notes_are_beside_it(readme: Path) -> None:
    assert len(readme.read_text().splitlines()) <= 80
    assert (readme.parent / "NOTES.md").is_file(), f"{readme.parent}: no NOTES.md; it has predictions and dead ends"
