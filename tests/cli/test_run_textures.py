"""``warpwise run``: cube maps, gathers, levels of detail, and fetches that a GPU answers with other bits."""

from __future__ import annotations

import pytest
from tests.commands import command

PROGRAM = """
#include <cstdio>
#include <cuda_runtime.h>
__global__ void faces(cudaTextureObject_t t, float* out) {
  const float x[6] = {1, -2, 0.5, 0.5, -0.5, 0.5}, y[6] = {0.5, 1, 3, -1, 0.5, 0.25}, z[6] = {0.5, 1, 1, 0.5, 1, -1};
  out[threadIdx.x] = texCubemap<float>(t, x[threadIdx.x], y[threadIdx.x], z[threadIdx.x]);
}
__global__ void gathered(cudaTextureObject_t t, float4* out) { *out = tex2Dgather<float4>(t, 2.0f, 1.0f); }
__global__ void levels(cudaTextureObject_t t, float* out) {
  out[0] = tex2DLod<float>(t, 1.5f, 2.5f, 3.0f);
  tex2DGrad(&out[1], t, 1.5f, 2.5f, make_float2(1, 0), make_float2(0, 1));
}
__global__ void fetch_float(cudaTextureObject_t t, float* out) { *out = tex2D<float>(t, 0.5f, 0.5f); }
__global__ void fetch_integer(cudaTextureObject_t t, int* out) { *out = tex2D<int>(t, 0.5f, 0.5f); }
__global__ void fetch_layer(cudaTextureObject_t t, float* out) { *out = tex2DLayered<float>(t, 0.5f, 0.5f, 0); }
int main(int argc, char** argv) {
  const char kind = argv[1][0];
  float in[24], r[6] = {}, *out;
  for (int i = 0; i < 24; i++) in[i] = i;
  cudaMalloc(&out, sizeof r);
  cudaMemset(out, 0, sizeof r);
  const cudaChannelFormatDesc floats = cudaCreateChannelDesc<float>(), integers = cudaCreateChannelDesc<int>();
  cudaArray_t array;
  if (kind == 'c') {
    cudaMalloc3DArray(&array, &floats, make_cudaExtent(2, 2, 6), cudaArrayCubemap);
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(in, 8, 2, 2);
    copy.dstArray = array;
    copy.extent = make_cudaExtent(2, 2, 6);
    copy.kind = cudaMemcpyHostToDevice;
    cudaMemcpy3D(&copy);
  } else {
    cudaMallocArray(&array, kind == 'i' ? &integers : &floats, 4, 4, kind == 'g' ? cudaArrayTextureGather : 0);
    cudaMemcpy2DToArray(array, 0, 0, in, 16, 16, 4, cudaMemcpyHostToDevice);
  }
  cudaResourceDesc from = {};
  from.resType = cudaResourceTypeArray;
  from.res.array.array = array;
  cudaTextureDesc how = {};
  for (int d = 0; d < 3; d++) how.addressMode[d] = cudaAddressModeClamp;
  cudaTextureObject_t t;
  if (cudaCreateTextureObject(&t, &from, &how, nullptr)) return 2;
  if (kind == 'c') faces<<<1, 6>>>(t, out);
  if (kind == 'g' || kind == 'n') gathered<<<1, 1>>>(t, (float4*)out);
  if (kind == 'l') levels<<<1, 1>>>(t, out);
  if (kind == 'i') fetch_float<<<1, 1>>>(t, out);
  if (kind == 'f') fetch_integer<<<1, 1>>>(t, (int*)out);
  if (kind == 'y') fetch_layer<<<1, 1>>>(t, out);
  cudaMemcpy(r, out, sizeof r, cudaMemcpyDeviceToHost);
  for (float value : r) printf("%g ", value);
  cudaDestroyTextureObject(t);
  cudaFreeArray(array);
  cudaFree(out);
}
"""


@pytest.fixture
def run(tmp_path):
    path = tmp_path / "program.cu"
    path.write_text(PROGRAM)
    return lambda kind: command("run", str(path), "--device", "cpu", "--check", "--", kind)


@pytest.mark.parametrize(
    "kind, expected",
    [
        # The guide's table gives face and texel of each direction: (1, 0.5, 0.5) is on face 0, at s = t = -0.5.
        ("c", "0 5 11 13 16 20 "),
        # The texels around (2, 1) in the order lower left, lower right, upper right, upper left.
        ("g", "5 6 2 1 0 0 "),
        ("l", "9 9 0 0 0 0 "),
    ],
)
def test_values(run, kind: str, expected: str) -> None:
    done = run(kind)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", expected)


@pytest.mark.parametrize(
    "kind, part",
    [
        ("n", "tex2Dgather needs an array that cudaMallocArray made with cudaArrayTextureGather"),
        ("i", "a fetch of a float from a texture of integers, which returns their bits"),
        ("f", "a fetch of an integer from a texture that returns floating-point numbers"),
        ("y", "this function does not access objects of this kind of array"),
    ],
)
def test_findings(run, kind: str, part: str) -> None:
    done = run(kind)
    assert done.returncode == 1 and part in done.stderr
