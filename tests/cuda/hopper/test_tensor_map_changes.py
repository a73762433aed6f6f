"""Tensor maps that kernels change: tensormap.replace and the fences of the tensormap proxy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from tests.cuda.hopper.test_bulk_copies import HEAD, box_at, swizzled

from warpwise import cuda

REPLACE = """
    const unsigned long long at = SPACE_ADDRESS;
    asm volatile("tensormap.replace.tile.global_address.SPACE.b1024.b64 [%0], %1;" :: "l"(at), "l"(y) : "memory");
    asm volatile("tensormap.replace.tile.global_dim.SPACE.b1024.b32 [%0], 0, %1;" :: "l"(at), "r"(columns) : "memory");
    asm volatile("tensormap.replace.tile.global_dim.SPACE.b1024.b32 [%0], 1, %1;" :: "l"(at), "r"(rows) : "memory");
    asm volatile("tensormap.replace.tile.global_stride.SPACE.b1024.b64 [%0], 0, %1;"
                 :: "l"(at), "l"(columns * 4ull) : "memory");
    asm volatile("tensormap.replace.tile.box_dim.SPACE.b1024.b32 [%0], 0, %1;" :: "l"(at), "r"(16) : "memory");
    asm volatile("tensormap.replace.tile.box_dim.SPACE.b1024.b32 [%0], 1, %1;" :: "l"(at), "r"(8) : "memory");
    asm volatile("tensormap.replace.tile.swizzle_mode.SPACE.b1024.b32 [%0], 2;" :: "l"(at) : "memory");"""
OTHERS = """
    asm volatile("tensormap.replace.tile.rank.SPACE.b1024.b32 [%0], 1;" :: "l"(at) : "memory");
    asm volatile("tensormap.replace.tile.elemtype.SPACE.b1024.b32 [%0], 7;" :: "l"(at) : "memory");
    asm volatile("tensormap.replace.tile.interleave_layout.SPACE.b1024.b32 [%0], 0;" :: "l"(at) : "memory");
    asm volatile("tensormap.replace.tile.fill_mode.SPACE.b1024.b32 [%0], 0;" :: "l"(at) : "memory");
    asm volatile("tensormap.replace.tile.element_stride.SPACE.b1024.b32 [%0], 0, %1;" :: "l"(at), "r"(1) : "memory");
    asm volatile("tensormap.replace.tile.element_stride.SPACE.b1024.b32 [%0], 1, %1;" :: "l"(at), "r"(1) : "memory");"""
SHARED = """
    __shared__ alignas(128) unsigned words[32];
    words[threadIdx.x] = BEGIN;
    __syncwarp();
    if (threadIdx.x == 0) {REPLACED
    }
    __syncwarp();
    EARLY
    asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "
                 "[%0], [%1], 128;" :: "l"(map), "r"(warpwise::shared_address(words)) : "memory");"""
GLOBAL = """
    if (threadIdx.x == 0) {
      for (int i = 0; i < 32; i++) map[i] = reinterpret_cast<const unsigned*>(&pattern)[i];REPLACED
    }
    __syncwarp();
    RELEASE"""
ACQUIRE = 'asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(map) : "memory");'
RELEASE = 'if (threadIdx.x == 0) asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");'
ADDRESSES = {
    "shared::cta": "__cvta_generic_to_shared(words)",
    "global": "reinterpret_cast<unsigned long long>(map)",
}
PATTERN = "reinterpret_cast<const unsigned*>(&pattern)[threadIdx.x]"


def kernel(
    begin: str = PATTERN, replaced: str = REPLACE, acquire: str = ACQUIRE, early: str = "", used: str = "map"
) -> cuda.Kernel:
    """The map is made in shared memory, and copied to global memory."""
    return _kernel(SHARED.replace("BEGIN", begin).replace("EARLY", early), "shared::cta", replaced, acquire, used)


def kernel_in_global_memory(release: str = RELEASE, acquire: str = ACQUIRE) -> cuda.Kernel:
    """The map is changed in global memory."""
    return _kernel(GLOBAL.replace("RELEASE", release), "global", REPLACE, acquire, "map")


def _kernel(change: str, space: str, replaced: str, acquire: str, used: str) -> cuda.Kernel:
    change = change.replace("REPLACED", replaced.replace("SPACE_ADDRESS", ADDRESSES[space]).replace("SPACE", space))
    return cuda.load(
        HEAD
        + f"""
  extern "C" __global__ void copy(const __grid_constant__ sm90::TensorMap pattern, unsigned* maps, const float* y,
                                  int rows, int columns, float* out) {{
    __shared__ alignas(1024) float box[128];
    __shared__ unsigned long long barrier;
    unsigned* map = maps + blockIdx.x * 32;
    const unsigned bar = warpwise::shared_address(&barrier);
    {change}
    {acquire}
    if (threadIdx.x == 0) {{
      sm90::mbarrier_init(bar, 1);
      sm90::fence_mbarrier_init();
      sm90::mbarrier_arrive_expect_tx(bar, sizeof box);
      asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                   "[%0], [%1, {{%2, %3}}], [%4];"
                   :: "r"(warpwise::shared_address(box)), "l"({used}), "r"(16 * (int)blockIdx.x), "r"(-1), "r"(bar)
                   : "memory");
    }}
    __syncwarp();
    sm90::mbarrier_wait(bar, 0);
    for (int i = threadIdx.x; i < 128; i += 32) out[blockIdx.x * 128 + i] = box[i];
  }}"""
    )["copy"]


def arguments(device: str = "cpu") -> list[Any]:
    """x, whose map is the pattern; the maps; y, 12 x 40 elements; the output of three blocks."""
    torch.manual_seed(0)
    x, y = torch.randn(8, 32), torch.randn(12, 40)
    return [x.to(device), torch.zeros(3, 32, dtype=torch.int32, device=device), y.to(device),
            torch.zeros(3, 128, device=device)]  # fmt: skip


def launch(made: cuda.Kernel, given: list[Any], blocks: int = 3) -> torch.Tensor:
    x, maps, y, out = given
    made[blocks, 32](cuda.tensor_map(x, (4, 32), swizzle=128), maps.view(torch.uint32), y, 12, 40, out)
    return out


def cases() -> Iterator[tuple[str, Callable[[list[Any], str], torch.Tensor], Callable[[str], list[Any]]]]:
    """Name, launch and arguments of each correct kernel, to compare the emulator with a GPU."""
    for name, made in CORRECT.items():
        yield name, (lambda given, device, made=made: launch(made(), given)), arguments


STEPS = """
    asm volatile("tensormap.replace.tile.box_dim.SPACE.b1024.b32 [%0], 1, %1;" :: "l"(at), "r"(23) : "memory");
    asm volatile("tensormap.replace.tile.element_stride.SPACE.b1024.b32 [%0], 1, %1;" :: "l"(at), "r"(3) : "memory");
    asm volatile("tensormap.replace.tile.fill_mode.SPACE.b1024.b32 [%0], 1;" :: "l"(at) : "memory");"""
CORRECT = {
    "copied": kernel,
    "from zeros": lambda: kernel(begin="0", replaced=REPLACE + OTHERS),
    "in global memory": kernel_in_global_memory,
}


@pytest.mark.parametrize("name", CORRECT)
def test_a_changed_map_is_used(name):
    given = arguments()
    out = launch(CORRECT[name](), given)
    for block in range(3):
        wanted = swizzled(box_at(given[2], [-1, 16 * block], [8, 16]), 64)
        assert torch.equal(out[block].view(torch.uint8), wanted)


def test_every_third_row_is_loaded_and_nan_outside():
    given = arguments()
    out = launch(kernel(replaced=REPLACE + STEPS), given)
    for block in range(3):
        box = box_at(given[2], [-1, 16 * block], [23, 16], nan=True)[::3]
        assert torch.equal(out[block].view(torch.uint8), swizzled(box, 64))


BUGS = {
    "no acquire": (lambda: kernel(acquire=""), "without a fence.proxy.tensormap::generic.acquire"),
    "an acquire before the copy": (
        lambda: kernel(acquire="", early=ACQUIRE),
        "without a fence.proxy.tensormap::generic.acquire",
    ),
    "an acquire of another map": (
        lambda: kernel(acquire=ACQUIRE.replace('"l"(map)', '"l"(map + 32)')),
        "without a fence.proxy.tensormap::generic.acquire",
    ),
    "no release": (
        lambda: kernel_in_global_memory(release=""),
        "without a fence.proxy.tensormap::generic.release",
    ),
    "no fence at all": (
        lambda: kernel_in_global_memory(release="", acquire=""),
        "without a fence.proxy.tensormap::generic.release",
    ),
}


@pytest.mark.parametrize("name", BUGS)
def test_a_missing_fence_is_found(name):
    made, message = BUGS[name]
    with pytest.raises(
        cuda.DataRace, match=f"(?s)TMA reads a tensor map that the kernel has written, {message}.*write"
    ):
        launch(made(), arguments(), blocks=2)


def test_a_map_in_shared_memory_is_found():
    with pytest.raises(cuda.UndefinedBehaviour, match="the tensor map is in shared memory"):
        launch(kernel(used="static_cast<unsigned*>(words)"), arguments())


@pytest.mark.parametrize(
    "field,value,error,message",
    [
        ("interleave_layout", 1, cuda.UnsupportedFeature, "interleaved layouts are not emulated"),
        ("fill_mode", 2, cuda.UndefinedBehaviour, "the fill mode is 0 "),
        ("elemtype", 8, cuda.UnsupportedFeature, "the element type is not emulated"),
        ("rank", 5, cuda.UndefinedBehaviour, "the rank minus 1 is at most 4"),
    ],
)
def test_values_that_are_not_emulated_are_named(field, value, error, message):
    statement = f'asm volatile("tensormap.replace.tile.{field}.SPACE.b1024.b32 [%0], {value};" :: "l"(at) : "memory");'
    with pytest.raises(error, match=message):
        launch(kernel(replaced=REPLACE + statement), arguments())


FUNCTIONS = r"""
#include <cuda/barrier>
#include <cuda/ptx>
namespace ptx = cuda::ptx;
struct alignas(128) Map { unsigned words[32]; };

// As in NVIDIA's programming guide: the map of `x` becomes that of `y`.
__global__ void copy(const __grid_constant__ CUtensorMap pattern, Map* map, const float* y, int rows, int columns,
                     float* out, bool acquires) {
  __shared__ alignas(128) CUtensorMap words;
  __shared__ alignas(128) float box[8][16];
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) {
    words = pattern;
    ptx::tensormap_replace_global_address(ptx::space_shared, &words, y);
    ptx::tensormap_replace_rank(ptx::space_shared, &words, 1);
    ptx::tensormap_replace_global_dim(ptx::space_shared, &words, ptx::n32_t<0>(), columns);
    ptx::tensormap_replace_global_dim(ptx::space_shared, &words, ptx::n32_t<1>(), rows);
    ptx::tensormap_replace_global_stride(ptx::space_shared, &words, ptx::n32_t<0>(), columns * sizeof(float));
    ptx::tensormap_replace_box_dim(ptx::space_shared, &words, ptx::n32_t<0>(), 16);
    ptx::tensormap_replace_box_dim(ptx::space_shared, &words, ptx::n32_t<1>(), 8);
    ptx::tensormap_replace_element_size(ptx::space_shared, &words, ptx::n32_t<0>(), 1);
    ptx::tensormap_replace_elemtype(ptx::space_shared, &words, ptx::n32_t<7>());
    ptx::tensormap_replace_swizzle_mode(ptx::space_shared, &words, ptx::n32_t<0>());
  }
  __syncwarp();
  ptx::n32_t<128> bytes;
  ptx::tensormap_cp_fenceproxy(ptx::sem_release, ptx::scope_gpu, map, &words, bytes);
  if (acquires) ptx::fence_proxy_tensormap_generic(ptx::sem_acquire, ptx::scope_gpu, map, bytes);
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&barrier, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    const int at[] = {8, -1};
    ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, box, map, at, &barrier);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &barrier, sizeof box);
  }
  __syncwarp();
  while (!ptx::mbarrier_try_wait_parity(&barrier, 0)) {}
  for (int i = threadIdx.x; i < 128; i += 32) out[i] = box[i / 16][i % 16];
}
"""


def test_the_functions_of_libcudacxx():
    x, y, out = torch.randn(8, 32), torch.randn(12, 40), torch.zeros(128)
    maps = torch.zeros(128, dtype=torch.uint8)
    copy, pattern = cuda.load(FUNCTIONS)["copy"][1, 32], cuda.tensor_map(x, (4, 32), swizzle=128)
    copy(pattern, maps, y, 12, 40, out, True)
    assert torch.equal(out.view(8, 16), box_at(y, [-1, 8], [8, 16]))
    with pytest.raises(cuda.DataRace, match="fence.proxy.tensormap::generic.acquire"):
        copy(pattern, maps, y, 12, 40, out, False)
