"""The pages of the guide: every file, command and output on them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.docs import pages
from tests.sampled import FULL

GUIDE = sorted((pages.DOCS / "guide").glob("*.md"))
without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="the page shows what is printed without a GPU")


def marked(mark: str) -> list[Path]:
    return [page for page in GUIDE if any(mark in block.marks for block in pages.blocks(page.read_text()))]


def check(page: Path, folder: Path, full: bool, gpu: bool = False) -> None:
    with pages.folder(folder):
        differences = list(pages.execute(page.read_text(), full, gpu))
    shown = "\n\n".join(map(str, differences))
    assert not differences, f"{shown}\n\n`python -m tests.docs.pages {page}` writes what is printed now"


@without_gpu
@pytest.mark.parametrize("page", GUIDE, ids=lambda page: page.stem)
def test_a_page_shows_what_its_commands_print(page: Path, tmp_path: Path) -> None:
    check(page, tmp_path, full=False)


@FULL
@without_gpu
@pytest.mark.parametrize("page", marked("full"), ids=lambda page: page.stem)
def test_all_blocks_of_a_page(page: Path, tmp_path: Path) -> None:
    check(page, tmp_path, full=True)


@pytest.mark.gpu
@pytest.mark.parametrize("page", marked("gpu"), ids=lambda page: page.stem)
def test_blocks_for_a_gpu(page: Path, tmp_path: Path) -> None:
    check(page, tmp_path, full=True, gpu=True)
