"""The runner of pages: what it executes, what it compares, and what it rewrites."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs import pages

PAGE = """# A page

```python title="show.py"
print("values", 1.5, 20)
```
```console
$ python show.py
values 1.5 20
```
<!-- test: none, it is not a command of ours -->
```console
$ rm -r nothing
```
```diff title="show.py"
-print("values", 1.5, 20)
+print("other values")
```
```console
$ NAME=value python show.py
other ...
$ python show.py
other values
```
"""


def differences(text: str, folder: Path, full: bool = True) -> list[pages.Difference]:
    with pages.folder(folder):
        return list(pages.execute(text, full))


def test_a_page_that_shows_what_is_printed(tmp_path: Path) -> None:
    assert differences(PAGE, tmp_path) == []


def test_another_output_is_found_and_rewritten(tmp_path: Path) -> None:
    wrong = PAGE.replace("values 1.5 20\n```\n<!", "values 1.5 21\nand more\n```\n<!")
    found = differences(wrong, tmp_path)
    assert [(one.command.text, one.output) for one in found] == [("python show.py", ["values 1.5 20"])]
    assert pages.rewritten(wrong, found) == PAGE


def test_a_number_stands_for_one_without_a_fraction() -> None:
    shown, printed = ["PyTorch: 11.73 µs (11.68 to 11.78) on ..."], ["PyTorch: 1,203 µs (12 to 12.1) on NVIDIA H200"]
    assert pages.matches(shown, printed, numbers=True) and not pages.matches(shown, printed)
    assert not pages.matches(shown, [printed[0].replace("12 to", "to")], numbers=True)


def test_numbers_may_vary_where_the_page_says_so(tmp_path: Path) -> None:
    varied = PAGE.replace("$ python show.py\nvalues 1.5 20", "$ python show.py\nvalues  2 3,000")
    assert len(differences(varied, tmp_path)) == 1
    marked = varied.replace("```\n```console\n", "```\n<!-- test: numbers -->\n```console\n", 1)
    assert differences(marked, tmp_path) == []
    assert len(differences(marked.replace("values  2", "value  2"), tmp_path)) == 1


def test_a_block_for_the_full_tests_is_left_out(tmp_path: Path) -> None:
    wrong = PAGE.replace("```console\n$ python show.py", "<!-- test: full -->\n```console\n$ python show.py\nmore")
    assert differences(wrong, tmp_path, full=False) == []
    assert len(differences(wrong, tmp_path)) == 1


def test_a_change_that_does_not_help_is_found(tmp_path: Path) -> None:
    text = '```python title="fail.py"\nraise SystemExit(3)\n```\n```console\n$ python fail.py\n```\n'
    text += '```diff title="fail.py"\n-raise SystemExit(3)\n+raise ValueError("still wrong")\n```\n'
    with pytest.raises(AssertionError, match="still wrong"):
        differences(text, tmp_path)


@pytest.mark.parametrize(
    "text, message",
    [
        ("```console\n$ python x.py\n", "is not closed"),
        ("```python\nprint()\n```\n", "a block is a file, a diff of a file, or a console"),
        ("<!-- test: slow -->\n```console\n```\n", "unknown mark"),
        ("```console\n$ ls\n```\n", "expected a command of warpwise or python"),
        ('```diff title="a.py"\n-no such line\n```\n', "occur 0 times"),
    ],
)
def test_a_page_that_cannot_be_tested_raises(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("other\n")
    with pytest.raises(ValueError, match=message):
        differences(text, tmp_path)
