"""Bulk copies in machine code: reductions, copies between shared memories, im2col."""

from __future__ import annotations

import functools

import pytest
import torch
from tests.cuda.hopper import test_tensor_map_changes as changes
from tests.cuda.hopper.test_bulk_copies import HEAD, MODELS, REDUCE
from tests.cuda.hopper.test_bulk_copies import loads as loads_box
from tests.cuda.hopper.test_im2col import loads
from tests.machine.launching import agree, machine_run

from warpwise import cuda
from warpwise.cuda.launch.kernel import build_together

KINDS = {
    "u32": torch.uint32, "s32": torch.int32, "u64": torch.uint64, "s64": torch.int64, "f16": torch.float16,
    "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64, "b32": torch.int32, "b64": torch.int64,
}  # fmt: skip
TO_GLOBAL = (
    "add.u32", "add.s32", "add.u64", "add.noftz.f16", "add.noftz.bf16", "add.f32", "add.f64", "min.u32", "min.s32",
    "min.u64", "min.s64", "max.f16", "min.bf16", "and.b32", "or.b64", "xor.b32", "inc.u32", "dec.u32",
)  # fmt: skip
TO_SHARED = (
    "add.u32",
    "add.s32",
    "add.u64",
    "min.u32",
    "max.s32",
    "and.b32",
    "or.b32",
    "xor.b32",
    "inc.u32",
    "dec.u32",
)


SIGNED = ("min.f16", "max.f16", "min.bf16", "max.bf16")


def reduces_to_global(form: str) -> cuda.Kernel:
    """c = c reduced with a, 64 elements."""
    return to_global()[f"reduce_{form.replace('.', '_')}"]


@functools.cache
def to_global() -> cuda.Module:
    """A kernel for each form, which are compiled together."""
    forms = dict.fromkeys((*TO_GLOBAL, *SIGNED))
    module = cuda.load(HEAD + "".join(map(_reduces_to_global, forms)))
    build_together(module[f"reduce_{form.replace('.', '_')}"] for form in forms)
    return module


def _reduces_to_global(form: str) -> str:
    return f"""
    extern "C" __global__ void reduce_{form.replace(".", "_")}(const long long* a, long long* c, int bytes) {{
      __shared__ alignas(16) long long box[64];
      for (int i = threadIdx.x; i < bytes / 8; i += blockDim.x) box[i] = a[i];
      sm90::fence_proxy_async();
      __syncwarp();
      if (threadIdx.x == 0)
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.{form} [%0], [%1], %2;\\n"
                     "cp.async.bulk.commit_group;\\ncp.async.bulk.wait_group 0;"
                     :: "l"(c), "r"(warpwise::shared_address(box)), "r"(bytes) : "memory");
    }}"""


@pytest.mark.parametrize("form", TO_GLOBAL)
def test_a_reduction_of_bytes_in_global_memory(form):
    dtype = KINDS[form.split(".")[-1]]
    if dtype.is_floating_point:
        a, c = (torch.randn(64).to(dtype) for _ in range(2))
    else:
        a, c = (torch.randint(0, 99, (64,)).to(dtype) for _ in range(2))
        if dtype in (torch.int32, torch.int64):
            a -= 50
    update = form.split(".")[0]
    model = {"add": torch.add, "min": torch.minimum, "max": torch.maximum}.get(update)
    wanted = model(c, a) if model and dtype not in (torch.uint32, torch.uint64) else None
    agree(reduces_to_global(form)[1, 32], (a.view(torch.int64), c.view(torch.int64), a.nbytes))
    assert wanted is None or torch.equal(c, wanted)


@pytest.mark.parametrize("form", SIGNED)
def test_zeros_have_a_sign_and_a_nan_yields_to_a_number(form):
    """As measured on an H200."""
    dtype, smallest = KINDS[form.split(".")[-1]], form.startswith("min")
    a = torch.tensor([0.0, -0.0, -0.0, 0.0, float("nan"), 1.0, float("nan"), 2.0], dtype=dtype)
    c = torch.tensor([-0.0, 0.0, -0.0, 0.0, 1.0, float("nan"), float("nan"), 3.0], dtype=dtype)
    agree(reduces_to_global(form)[1, 32], (a.view(torch.int64), c.view(torch.int64), a.nbytes))
    assert torch.signbit(c[:4]).tolist() == ([True, True, True, False] if smallest else [False, False, True, False])
    assert c[4:6].tolist() == [1.0, 1.0]
    assert c[6].isnan()
    assert c[7] == (2 if smallest else 3)


@functools.cache
def to_shared() -> cuda.Module:
    module = cuda.load(HEAD + "".join(map(_reduces_to_shared, TO_SHARED)))
    build_together(module[f"reduce_{form.replace('.', '_')}"] for form in TO_SHARED)
    return module


def _reduces_to_shared(form: str) -> str:
    return f"""
    extern "C" __global__ void __cluster_dims__(2) reduce_{form.replace(".", "_")}(const long long* a, long long* c) {{
      __shared__ alignas(16) long long mine[16], sums[16];
      __shared__ unsigned long long barrier;
      const unsigned at = warpwise::shared_address(&barrier);
      if (threadIdx.x < 16) mine[threadIdx.x] = a[blockIdx.x * 16 + threadIdx.x];
      if (threadIdx.x < 16) sums[threadIdx.x] = 5 + threadIdx.x;
      if (threadIdx.x == 0) {{
        sm90::mbarrier_init(at, 1);
        sm90::fence_mbarrier_init();
        sm90::mbarrier_arrive_expect_tx(at, 128);
      }}
      sm90::fence_proxy_async();
      sm90::cluster_sync();
      const unsigned other = sm90::cluster_ctarank() ^ 1;
      if (threadIdx.x == 0)
        asm volatile("cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{form} "
                     "[%0], [%1], 128, [%2];"
                     :: "r"(sm90::mapa(warpwise::shared_address(sums), other)), "r"(warpwise::shared_address(mine)),
                        "r"(sm90::mapa(at, other)) : "memory");
      sm90::mbarrier_wait(at, 0);
      if (threadIdx.x < 16) c[blockIdx.x * 16 + threadIdx.x] = sums[threadIdx.x];
      sm90::cluster_sync();
    }}"""


@pytest.mark.parametrize("form", TO_SHARED)
def test_a_reduction_in_the_shared_memory_of_another_block(form):
    kernel = to_shared()[f"reduce_{form.replace('.', '_')}"]
    agree(kernel[4, 32], (torch.randint(0, 9, (64,)), torch.zeros(64, dtype=torch.int64)))


def test_bytes_are_copied_to_another_block():
    kernel = cuda.load(
        HEAD
        + """
    extern "C" __global__ void __cluster_dims__(2) copy(const long long* a, long long* c) {
      __shared__ alignas(16) long long mine[16], got[16];
      __shared__ unsigned long long barrier;
      const unsigned at = warpwise::shared_address(&barrier);
      if (threadIdx.x < 16) mine[threadIdx.x] = a[blockIdx.x * 16 + threadIdx.x];
      if (threadIdx.x == 0) {
        sm90::mbarrier_init(at, 1);
        sm90::fence_mbarrier_init();
        sm90::mbarrier_arrive_expect_tx(at, 128);
      }
      sm90::fence_proxy_async();
      sm90::cluster_sync();
      const unsigned other = sm90::cluster_ctarank() ^ 1;
      if (threadIdx.x == 0)
        asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 128, [%2];"
                     :: "r"(sm90::mapa(warpwise::shared_address(got), other)), "r"(warpwise::shared_address(mine)),
                        "r"(sm90::mapa(at, other)) : "memory");
      sm90::mbarrier_wait(at, 0);
      if (threadIdx.x < 16) c[blockIdx.x * 16 + threadIdx.x] = got[threadIdx.x];
      sm90::cluster_sync();
    }"""
    )["copy"]
    a, c = torch.randint(0, 9, (64,)), torch.zeros(64, dtype=torch.int64)
    agree(kernel[4, 32], (a, c))
    assert torch.equal(c, a.view(2, 2, 16).flip(1).flatten())


def test_bytes_are_copied_to_several_blocks():
    kernel = cuda.load(
        HEAD
        + """
    extern "C" __global__ void __cluster_dims__(4) copy(const long long* a, long long* c) {
      __shared__ alignas(16) long long got[16];
      __shared__ unsigned long long barrier;
      const unsigned at = warpwise::shared_address(&barrier);
      if (threadIdx.x == 0) {
        sm90::mbarrier_init(at, 1);
        sm90::fence_mbarrier_init();
        if (sm90::cluster_ctarank() != 2) sm90::mbarrier_arrive_expect_tx(at, 128);
      }
      sm90::cluster_sync();
      if (threadIdx.x == 0 && sm90::cluster_ctarank() == 2)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                     "[%0], [%1], 128, [%2], %3;"
                     :: "r"(warpwise::shared_address(got)), "l"(a + blockIdx.x / 4 * 16), "r"(at), "h"((short)11)
                     : "memory");
      if (sm90::cluster_ctarank() != 2) {
        sm90::mbarrier_wait(at, 0);
        if (threadIdx.x < 16) c[blockIdx.x * 16 + threadIdx.x] = got[threadIdx.x];
      }
      sm90::cluster_sync();
    }"""
    )["copy"]
    a, c = torch.randint(1, 9, (32,)), torch.zeros(8, 16, dtype=torch.int64)
    counts = agree(kernel[8, 32], (a, c))
    assert c[2].sum() == 0 and all(torch.equal(c[block], a[block // 4 * 16 :][:16]) for block in (0, 1, 3, 4, 5, 7))
    assert counts.column("l2_sectors").sum() >= 8  # two loads of 128 bytes


@pytest.mark.parametrize("name", MODELS)
def test_reductions_of_boxes(name):
    c, given = torch.randint(0, 9, (5, 12)).to(torch.uint32), torch.randint(0, 9, (4, 8)).to(torch.uint32)
    agree(cuda.load(HEAD + REDUCE)[f"reduce_{name}"][1, 32], (cuda.tensor_map(c, (4, 8), swizzle=0), given, 6))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int32"])
@pytest.mark.parametrize("span", [0, 128])
def test_sums_of_boxes_of_each_type(dtype, span):
    kernel = cuda.load(
        HEAD
        + """
    extern "C" __global__ void add(const __grid_constant__ sm90::TensorMap map, const unsigned* from, int words) {
      extern __shared__ __align__(1024) unsigned box[];
      for (int i = threadIdx.x; i < words; i += 32) box[i] = from[i];
      sm90::fence_proxy_async();
      __syncwarp();
      if (threadIdx.x == 0)
        asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2}], [%3];\\n"
                     "cp.async.bulk.commit_group;\\ncp.async.bulk.wait_group 0;"
                     :: "l"(&map), "r"(8), "r"(-1), "r"(warpwise::shared_address(box)) : "memory");
    }"""
    )["add"]
    c, given = (torch.randint(-9, 9, shape).to(getattr(torch, dtype)) for shape in ((5, 24), (4, 16)))
    args = cuda.tensor_map(c, (4, 16), swizzle=span), given.view(torch.int32).flatten(), given.nbytes // 4
    agree(kernel[1, 32, given.nbytes], args)


@pytest.mark.parametrize(
    "shape,pixels,channels,lower,upper,steps,first,offset,span",
    [
        ((3, 9, 64), 12, 64, (-1,), (-1,), (1,), (0, -1, 0), (2,), 128),
        ((2, 5, 6, 32), 20, 16, (-1, -1), (-1, -1), (1, 1), (1, 2, 3, 16), (2, 1), 32),
        ((2, 8, 8, 24), 16, 24, (-1, -1), (-1, -1), (2, 2), (0, 1, 1, 0), (1, 1), 0),
        ((2, 3, 4, 5, 16), 30, 8, (-1, 0, -1), (-1, 0, -1), (1, 1, 1), (0, 0, 1, -1, 8), (2, 0, 1), 0),
    ],
    ids=["3-D", "4-D", "4-D with steps", "5-D"],
)
def test_pixels_are_loaded(shape, pixels, channels, lower, upper, steps, first, offset, span):
    tensor = torch.randn(shape).half()
    made = cuda.im2col_map(tensor, pixels, channels, lower, upper, steps, swizzle=span)
    size = pixels * channels * 2
    x = torch.tensor([*first[::-1], *offset[::-1]], dtype=torch.int32)
    agree(loads(len(shape))[1, 32, size], (made, x, torch.zeros(size // 4, dtype=torch.int32), size))


def test_element_strides_and_nan_outside():
    tensor, x = torch.randn(9, 11, 40), torch.tensor([32, -3, 4], dtype=torch.int32)
    made = cuda.tensor_map(tensor, (7, 5, 16), swizzle=64, steps=(3, 2, 1), nan=True)
    agree(loads_box(3)[1, 32, 3 * 3 * 64], (made, x, torch.zeros(3 * 3 * 16, dtype=torch.int32), 3 * 3 * 64))


@pytest.mark.parametrize("name", [*changes.CORRECT, "steps"])
def test_a_map_that_the_kernel_changes(name):
    """The machine code of tensormap.replace writes the fields of a map, in shared or global memory."""
    made = changes.kernel(replaced=changes.REPLACE + changes.STEPS) if name == "steps" else changes.CORRECT[name]()
    x, maps, y, out = changes.arguments()
    pattern = cuda.tensor_map(x, (4, 32), swizzle=128)
    counts = machine_run(made[3, 32], (pattern, maps.view(torch.uint32), y, 12, 40, out))
    wanted = changes.launch(made, changes.arguments())
    assert counts.outputs["out"].tobytes() == wanted.numpy().tobytes()
