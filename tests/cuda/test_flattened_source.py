"""Sources whose headers are inserted, for a GPU and for the emulator: pragmas, byte-order marks, toolkit folders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from warpwise import cuda
from warpwise.cuda.gpu import nvrtc
from warpwise.cuda.source import includes

# NVRTC refuses <fstream>, so the header is inserted and its host code removed.
HEADER = """#pragma once
#include <fstream>
#define HALF 2 // of four
inline void save(int n) { std::ofstream("sizes") << n; }
typedef struct Pair_st { int first; } Pair;
"""

KERNEL = """#include "sizes.cuh"
#define COUNT 4
#define TIMES(n) (n * HALF)
#define BODY(code) code
constexpr int WIDE = 8;
constexpr int UNUSED = 9;
template <int K> __global__ void fill(int* x) {
  Pair one{1};
#pragma unroll COUNT // all
  for (int i = 0; i < COUNT; ++i) x[i] = one.first;
#pragma unroll TIMES(COUNT) /* twice */
  for (int i = 0; i < 8; ++i) x[i] += 2;
  _Pragma("unroll COUNT") for (int i = 0; i < COUNT; ++i) x[i] += 4;
#pragma unroll (WIDE)
  for (int i = 0; i < WIDE; ++i) x[i] += K;
  BODY(
#pragma unroll HALF
  for (int i = 0; i < COUNT; ++i) x[i] += 16;
  )
#pragma unroll
  for (int i = 0; i < 8; ++i) x[i] += 32;
}
void host() { save(COUNT); }
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "sizes.cuh").write_text(HEADER, "utf-8-sig")  # with a byte-order mark
    (tmp_path / "fill.cu").write_text(KERNEL)
    return tmp_path / "fill.cu"


def test_pragmas_with_macros_and_a_header_with_a_byte_order_mark_run_on_a_cpu(source):
    x = np.zeros(8, "i4")
    assert cuda.load(source)["fill<8>"][1, 1].check(x) == []
    assert x.tolist() == [63] * 4 + [42] * 4


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_nvrtc_compiles_them_with_their_counts(source, target):
    pytest.importorskip("cuda.bindings", reason="cuda-bindings is not installed")
    assert nvrtc.compile(cuda.load(source), "fill<8>", target).compiler == "nvrtc"


def test_headers_of_a_toolkit_in_a_folder_of_the_user_are_the_emulators(tmp_path):
    """A project's -I/usr/local/cuda/include does not replace the emulator's own versions of these headers."""
    toolkit = tmp_path / "include"
    (toolkit / "crt").mkdir(parents=True)
    (toolkit / "crt" / "host_defines.h").write_text("#define __global__ __location__(global)\n")
    (toolkit / "device_launch_parameters.h").write_text('#include "crt/host_defines.h"\n#error a toolkit\'s\n')
    (toolkit / "lattice.h").write_text("#define SITES 3\n")  # another library's, as in a conda environment
    text = "#include <device_launch_parameters.h>\n#include <lattice.h>\n"
    text += 'extern "C" __global__ void sites(int* x) { x[threadIdx.x] = SITES; }\n'
    (tmp_path / "sites.cu").write_text(text)
    x = np.zeros(4, "i4")
    assert cuda.load(tmp_path / "sites.cu", include=[toolkit])["sites"][1, 4].check(x) == []
    assert x.tolist() == [3] * 4
    assert includes.is_toolkit_folder(toolkit) and not includes.is_toolkit_folder(tmp_path)
