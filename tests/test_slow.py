"""tests/slow.py names tests that exist: a test of another name would run whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests import slow

HERE = Path(__file__).parent


@pytest.mark.parametrize("file", sorted({*slow.ONE_IN, *slow.ELSEWHERE}))
def test_each_named_test_is_in_its_file(file: str) -> None:
    defined = set(re.findall(r"^def (test_\w+)\(", (HERE / file).read_text(), re.MULTILINE))
    assert {*slow.ONE_IN.get(file, {}), *slow.ELSEWHERE.get(file, {})} <= defined
