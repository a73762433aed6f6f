"""The headers that a source includes from the user's folders."""

from __future__ import annotations

from pathlib import Path

from warpwise.cuda.includes import included, missing_header_advice


def test_headers_are_read_once_and_only_from_the_given_folders(tmp_path: Path) -> None:
    for name, text in {
        "a.cuh": '#pragma once\n#include "b.cuh"\n#include <vector>\n',
        "b.cuh": '  #  include "a.cuh"\n#include <lib/c.cuh>\n',
        "lib/c.cuh": '#include "d.cuh"\n',
        "lib/d.cuh": "int d;\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    found = included(
        '#include "a.cuh"\n// #include "lib/d.cuh" is only a comment here\n#include "absent.cuh"\n', [tmp_path]
    )
    assert {path.name for path in found} == {"a.cuh", "b.cuh", "c.cuh", "d.cuh"}
    assert found[tmp_path / "lib" / "d.cuh"] == "int d;\n"
    assert included('#include "a.cuh"\n', []) == {}


def test_only_missing_toolkit_headers_give_install_advice() -> None:
    assert "pip install nvidia-cuda-runtime" in missing_header_advice(
        'k.cu(1): catastrophic error: cannot open source file "mma.h"'
    )
    assert missing_header_advice('could not open source file "mine.h"') == ""
    assert missing_header_advice("expected a ;") == ""
