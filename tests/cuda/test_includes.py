"""Headers that a source includes, and digests of a source with its headers."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpwise import cuda
from warpwise.cuda.source import flatten, includes
from warpwise.cuda.source.includes import included, missing_header_advice, source_digest


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


def test_headers_that_include_each_other_by_a_relative_path(tmp_path: Path) -> None:
    for name, text in {
        "a/one.h": '#pragma once\n#include "../b/two.h"\n#define ONE 1\n',
        "b/two.h": '#pragma once\n#include "../a/one.h"\n#define TWO 2\n',
        "k.cu": '#include "a/one.h"\n__global__ void k(int* x) { static_assert(ONE + TWO == 3, ""); x[0] = 1; }\n',
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    kernel = cuda.load(tmp_path / "k.cu")["k"]
    assert kernel.build().sizes == (8,)
    assert len(flatten.user_headers(kernel.module.text, [tmp_path])) == 2


def test_a_standard_header_in_angle_brackets_is_not_the_projects(tmp_path: Path) -> None:
    for name, text in {
        "far/own.h": "#include <stdint.h>\n#include <other.h>\n",
        "far/stdint.h": "#error only for another compiler\n",
        "far/other.h": "#define OTHER int32_t\n",
        "k.cu": '#include "far/own.h"\n__global__ void k(OTHER* x) { x[0] = 1; }\n',
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    kernel = cuda.load(tmp_path / "k.cu")["k"]
    assert kernel.build().sizes == (8,)
    assert kernel.compile("sm_90").registers > 0
    assert {path.name for path in included(kernel.module.text, [tmp_path])} == {"own.h", "other.h"}


def test_only_missing_toolkit_headers_give_install_advice() -> None:
    assert "pip install nvidia-cuda-runtime" in missing_header_advice(
        'k.cu(1): catastrophic error: cannot open source file "mma.h"'
    )
    assert missing_header_advice('could not open source file "mine.h"') == ""
    assert missing_header_advice('could not open source file "cuda/api.hpp"') == ""  # of another project
    assert missing_header_advice('could not open source file "cuda_utils.h"') == ""
    assert missing_header_advice('could not open source file "mma_common.h"') == ""
    assert missing_header_advice('could not open source file "cuda_bf16.h"')
    assert missing_header_advice('could not open source file "cuda/std/__cccl/dialect.h"')
    assert missing_header_advice("expected a ;") == ""


def test_a_digest_changes_with_the_headers_beside_the_source(tmp_path: Path) -> None:
    kernel, header = tmp_path / "k01.cu", tmp_path / "tile.cuh"
    kernel.write_text('#include <cuda_fp16.h>\n  # include "tile.cuh"\n#include "warpwise/core/reduce.cuh"\n')
    header.write_text('#include "k01.cu"\n#define TILE 16\n')
    first = source_digest(kernel)
    assert first == source_digest(kernel) != ""
    header.write_text("#define TILE 32\n")
    second = source_digest(kernel)
    kernel.write_text('#include "tile.cuh"\n')
    assert len({first, second, source_digest(kernel)}) == 3
    assert source_digest(tmp_path / "nothing.cu") == ""


def test_a_digest_changes_with_the_device_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(includes, "DEVICE_HEADERS", tmp_path / "device")
    kernel, direct, indirect = (tmp_path / name for name in ("k.cu", "device/warpwise/x.cuh", "device/warpwise/y.cuh"))
    direct.parent.mkdir(parents=True)
    kernel.write_text("#include <warpwise/x.cuh>\n#include <cuda_fp16.h>\n__global__ void k() {}\n")
    direct.write_text("#include <warpwise/y.cuh>\n")
    indirect.write_text("#define Y 1\n")
    first = source_digest(kernel)
    indirect.write_text("#define Y 2\n")
    second = source_digest(kernel)
    direct.write_text("#include <warpwise/y.cuh>\n#define X 1\n")
    assert len({first, second, source_digest(kernel)}) == 3


def test_a_digest_does_not_depend_on_the_folder(tmp_path: Path) -> None:
    digests = set()
    for folder in (tmp_path / "one", tmp_path / "two"):
        folder.mkdir()
        (folder / "k.cu").write_text('#include "x.cuh"\n')
        (folder / "x.cuh").write_text("#define X 1\n")
        digests.add(source_digest(folder / "k.cu"))
    assert len(digests) == 1


@pytest.mark.parametrize(
    "statement", ["from pack.lib import f", "from . import lib", "from pack import lib", "import pack.lib"]
)
def test_a_python_digest_changes_with_the_modules_of_its_package(tmp_path: Path, statement: str) -> None:
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").write_text("")
    kernel, library, other = package / "k01.py", package / "lib.py", package / "other.py"
    kernel.write_text(f"import os\nimport torch\n{statement}\n")
    library.write_text("f = 1\n")
    other.write_text("g = 1\n")
    first = source_digest(kernel)
    other.write_text("g = 2\n")
    assert source_digest(kernel) == first
    library.write_text("f = 2\n")
    assert source_digest(kernel) != first


def test_a_python_file_without_a_package_or_with_a_syntax_error_has_a_digest(tmp_path: Path) -> None:
    kernel, helper = tmp_path / "k01.py", tmp_path / "helper.py"
    kernel.write_text("import helper\n")
    helper.write_text("x = 1\n")
    first = source_digest(kernel)
    helper.write_text("x = 2\n")
    assert source_digest(kernel) != first
    kernel.write_text("import helper (\n")
    assert source_digest(kernel) not in ("", first)
