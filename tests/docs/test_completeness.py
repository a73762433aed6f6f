"""The guide has every kind of finding, and names tests that exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
from tests.docs.pages import DOCS, blocks

from warpwise.cuda import errors
from warpwise.cuda.program import findings as host

TESTS = Path(__file__).parents[1]
GUIDE = DOCS / "guide"
KINDS = {kind.__name__ for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)}
IN_TRITON = KINDS - {"KernelError", "MissingTool", "BarrierDivergence", "Deadlock", "UndefinedBehaviour"}


def headings(name: str) -> str:
    """The headings of a page of the guide, one a line."""
    text = re.sub(r"^```.*?^```$", "", (GUIDE / name).read_text(), flags=re.DOTALL | re.MULTILINE)
    return "\n".join(line for line in text.splitlines() if line.startswith("#"))


@pytest.mark.parametrize(
    "pages, kinds",
    [
        (("findings.md", "findings-threads.md", "findings-launch.md"), KINDS - {"KernelError"}),
        (("triton-findings.md",), IN_TRITON),
    ],
)
def test_pages_have_each_kind_of_finding_with_its_message(pages: Sequence[str], kinds: set[str]) -> None:
    found = [line[3:] for page in pages for line in headings(page).splitlines() if line.startswith("## ")]
    assert sorted(found) == sorted(kinds)
    shown = "\n".join(line for page in pages for block in blocks((GUIDE / page).read_text()) for line in block.lines)
    missing = [kind for kind in kinds if not re.search(rf"^(warpwise\.cuda\.errors\.)?{kind}: ", shown, re.MULTILINE)]
    assert not missing


def test_the_page_on_programs_has_each_finding_in_host_code() -> None:
    text = headings("programs.md")
    kinds = set(re.findall(r'HostFinding\(\s*"(\w+)"', Path(host.__file__).read_text())) | {"DoubleFree"}
    assert len(kinds) >= 9
    assert not [kind for kind in kinds if kind not in text]


def rows() -> list[tuple[str, list[str]]]:
    """Each feature of the table of supported features, and the tests that its row names."""
    text = (GUIDE / "supported.md").read_text()
    found = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [(row[0], re.findall(r"`([\w/]+\.py::\w+)`", row[2])) for row in found if row[0] != "feature"]


@cache
def functions(file: str) -> dict[str, str]:
    """The functions of a test file, and their decorators."""
    tree = ast.parse((TESTS / file).read_text())
    return {
        node.name: " ".join(map(ast.unparse, node.decorator_list))
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }


@pytest.mark.parametrize("feature, tests", rows(), ids=lambda value: value if isinstance(value, str) else "")
def test_a_supported_feature_has_tests_that_run_on_a_cpu(feature: str, tests: list[str]) -> None:
    assert tests, f"{feature}: no test"
    for test in tests:
        file, _, name = test.partition("::")
        assert name in functions(file), f"{feature}: there is no test {test}"
        assert "mark.gpu" not in functions(file)[name] and "FULL" not in functions(file)[name], test
