"""<helper_math.h>, whose functions kernels of many projects use, without NVIDIA's samples."""

from __future__ import annotations

import numpy as np
import pytest

from warpwise import cuda

SOURCE = """
#include "helper_math.h"
__global__ void blend(const float* in, float* out, int* counts) {
  const float3 p = make_float3(in[0], in[1], in[2]);
  float3 a = normalize(p) * 3 + cross(p, make_float3(0, 0, 1));
  a -= make_float3(1);
  a *= 0.5;
  const float4 mixed = make_float4(lerp(clamp(a, 0.0f, 1.0f), -p, 0.5f), dot(p, p)) / 2.0f;
  const float3 back = reflect(p, make_float3(0.0f, 1.0f, 0.0f));
  const float2 rest = fracf(make_float2(1.5f, -0.25f)) + floorf(make_float2(2.5f));
  out[0] = mixed.x, out[1] = mixed.y, out[2] = mixed.z, out[3] = mixed.w;
  out[4] = back.y, out[5] = length(p), out[6] = rest.x, out[7] = rest.y;
  uint3 n = make_uint3(make_int3(1, 2, 3) * 2 - 1);
  n += 1;
  counts[0] = max(n, make_uint3(4)).x, counts[1] = min(n, make_uint3(4)).y, counts[2] = dot(n, n);
}
"""


def test_vectors_on_a_cpu():
    out, counts = np.zeros(8, "f4"), np.zeros(3, "i4")
    assert cuda.load(SOURCE)["blend"][1, 1].check(np.array([1, 2, 2], "f4"), out, counts) == []
    # a = (1, 2, 2) + (2, -1, 0) - 1 = (2, 0, 1), halved and clamped: (1, 0, 0.5)
    assert out == pytest.approx([0, -0.5, -0.375, 4.5, -2, 3, 2.5, 2.75])
    assert counts.tolist() == [4, 4, 56]


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_vectors_compile_for_a_gpu(target):
    pytest.importorskip("cuda.bindings", reason="cuda-bindings is not installed")
    assert cuda.load(SOURCE)["blend"].compile(target).compiler == "nvrtc"


def test_a_projects_own_header_precedes_it(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / "kernels").mkdir()
    (tmp_path / "third_party").mkdir()
    (tmp_path / "third_party" / "helper_math.h").write_text("__device__ int answer() { return 42; }\n")
    (tmp_path / "kernels" / "ask.cu").write_text(
        '#include "helper_math.h"\n__global__ void ask(int* x) { x[0] = answer(); }\n'
    )
    x = np.zeros(1, "i4")
    assert cuda.load(tmp_path / "kernels" / "ask.cu")["ask"][1, 1].check(x) == []
    assert x[0] == 42
