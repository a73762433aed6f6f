"""``explain``: real kernels checked, compiled, executed and counted; a wrong kernel is not explained."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.lab.explain.handmade import SECTORS

import warpwise as ww
from warpwise import cuda, lab, machine
from warpwise.cuda.launch.arguments import Buffer
from warpwise.cuda.launch.intercept import INTERCEPTORS, intercepting
from warpwise.lab.explain import Explanation, outputs

SOURCE = """
__constant__ float factor[1];
template <int STRIDE>
__global__ void copy(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i * STRIDE];
  if (n < 0) y[0] = 1.0f;
}
__global__ void beyond(const float* x, float* y, int n) { y[blockIdx.x * blockDim.x + threadIdx.x] = x[0]; }
__global__ void accumulate(const float* x, float* sum, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(sum, x[i]);
}
__global__ void scaled(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= factor[0];
}
"""
REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_{}.sum"


@pytest.fixture(scope="module")
def module() -> cuda.Module:
    return cuda.load(SOURCE)


def copied(module: cuda.Module, stride: int, n: int = 1024, **options: object) -> Explanation:
    x, y = torch.randn(n * stride), torch.zeros(n)
    made: Explanation = ww.explain(module[f"copy<{stride}>"][-(-n // 256), 256], x, cuda.out(y), n, **options)
    assert y.abs().max() == 0, "the arguments stay as they are"
    return made


def test_outputs_that_held_the_result_already_agree(module: cuda.Module) -> None:
    x, y = torch.randn(1000), torch.empty(1000)
    module["copy<1>"][4, 256](x, y, 1000)
    made = ww.explain(module["copy<1>"][4, 256], x, y, 1000)
    assert made.agrees.status == "yes"
    assert made.agrees.text == "no element of 'y' changed, in this run and in the checked run"


def test_a_wait_for_other_blocks_is_named_and_not_part_of_the_time() -> None:
    kernel = cuda.load("""
__global__ void chain(volatile int* flag, float* y) {
  if (threadIdx.x == 0) {
    while (flag[blockIdx.x] == 0) {}
    y[blockIdx.x] = 1;
    __threadfence();
    flag[blockIdx.x + 1] = 1;
  }
}
""")["chain"]
    flag = torch.zeros(13, dtype=torch.int32)
    flag[0] = 1
    made = ww.explain(kernel[12, 32], flag, torch.zeros(12))
    assert made.prediction is not None
    assert made.prediction.excluded == "the time of waits for other threads, at kernel.cu:4"
    assert made.caveats[0].startswith("The predicted time does not include the time of waits for other threads")
    assert "without the time of waits for other threads, at kernel.cu:4" in str(made)
    assert not [hint for hint in made.hints if hint.line == 4]
    assert made.line(4).counters["executed"] < 10 * 12, "one iteration of the wait for each block"
    unchecked = ww.explain(kernel[12, 32], flag, torch.zeros(12), checks="none")
    assert not unchecked.unsupported and not unchecked.sampled, "a sample of the blocks would wait for the others"


def test_the_counters_of_a_copy_are_those_that_arithmetic_gives(module: cuda.Module) -> None:
    made = copied(module, 1)
    assert made.metrics[REQUESTS.format("ld")] == 1024 / 32
    assert made.metrics[SECTORS.format("ld")] == made.metrics[SECTORS.format("st")] == 1024 * 4 / 32
    assert made.metrics["launch__grid_size"] == 4 and made.metrics["launch__block_size"] == 256
    assert made.agrees and "1,024 elements of 'y'" in made.agrees.text
    assert made.grid == (4, 1, 1) and made.block == (256, 1, 1) and made.target == "sm_90" and not made.sampled
    assert made.resources.registers > 0 and made.resources.shared == 0 and made.resources.instructions > 10
    assert made.occupancy is not None and made.occupancy.fraction == 1.0
    assert {"sm_75", "sm_80", "sm_90", "sm_100", "sm_120"} <= set(made.occupancies) and "sm_70" not in made.occupancies
    assert made.prediction is not None and made.prediction.limiter == "launch"


def test_strided_loads_ask_for_eight_times_the_sectors_on_their_line(module: cuda.Module) -> None:
    made = copied(module, 8)
    line = made.line(6)
    assert line.text.strip().startswith("if (i < n) y[i]")
    # The load takes a sector a lane, the store four a warp.
    assert line.counters["sectors"] == 1024 + 128 and line.counters["ideal_sectors"] == 256
    assert made.worst is line and made.main_file == "kernel.cu"
    assert any(hint.title == "uncoalesced loads" and hint.line == 6 for hint in made.hints)
    with pytest.raises(LookupError, match=r"no machine code for line 1; there is for lines .*6"):
        made.line(1)


def test_the_kernels_own_file_is_the_main_one_however_much_an_included_one_does(tmp_path: Path) -> None:
    work = "\n".join(f"  x = x * x + {i}.5f;" for i in range(40))
    (tmp_path / "work.cuh").write_text(f"__device__ float work(float x) {{\n{work}\n  return x;\n}}\n")
    (tmp_path / "own.cu").write_text(
        '#include "work.cuh"\n__global__ void f(float* y) { y[threadIdx.x] = work(y[threadIdx.x]); }\n'
    )
    made = ww.explain(cuda.load(tmp_path / "own.cu")["f"][1, 32], torch.ones(32))
    assert made.main_file is not None and Path(made.main_file).name == "own.cu"
    assert sum(Path(line.file).name == "work.cuh" for line in made.lines) > 10
    assert made.line(2).number == 2 and made.to_dict()["file"] == made.main_file


def test_lines_that_did_not_run_are_said(module: cuda.Module) -> None:
    made = copied(module, 1)
    assert any("Not executed with these arguments" in text and "parts of line 7" in text for text in made.caveats)
    assert any("nominal latencies" in text for text in made.caveats)


def test_a_wrong_kernel_is_not_explained(module: cuda.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "run", lambda *a, **k: pytest.fail("executed in spite of the finding"))
    y = torch.full((1000,), 3.0)
    with pytest.raises(cuda.OutOfBounds, match=r"write to y\[1000\]"):
        ww.explain(module["beyond"][4, 256], torch.randn(8), y, 1000)
    assert bool((y == 3).all()), "what the checked run wrote is taken back"


def test_a_sample_of_blocks_is_scaled_up_and_said(module: cuda.Module) -> None:
    made = copied(module, 1, n=256 * 512, blocks=16)
    assert made.counts is not None and 16 <= made.counts.blocks_run < 64
    assert made.sampled == f"{made.counts.blocks_run} of 512 blocks"
    assert made.metrics[SECTORS.format("ld")] == 512 * 256 * 4 / 32
    assert made.agrees and any("were executed and the counters scaled up" in text for text in made.caveats)
    assert copied(module, 1, blocks="all").sampled == ""


def test_the_budget_decides_how_many_blocks_run_where_nothing_was_checked(module: cuda.Module) -> None:
    made = copied(module, 1, n=256 * 4096, checks="none", budget=1e-5)
    assert made.sampled and made.agrees.status == "not compared"
    assert any("was not checked:" in text for text in made.caveats)


def test_added_outputs_of_a_sample_are_not_compared(module: cuda.Module) -> None:
    n = 256 * 64
    made = ww.explain(module["accumulate"][64, 256], torch.ones(n), torch.zeros(1), n, blocks=8)
    assert made.agrees.status == "not compared" and "add into" in made.agrees.text
    assert ww.explain(module["accumulate"][64, 256], torch.ones(n), torch.zeros(1), n).agrees


def test_constants_and_arrays_that_are_read_and_written(module: cuda.Module) -> None:
    module.set_constant("factor", np.float32([4.0]))
    x = np.arange(100, dtype=np.float32)
    made = ww.explain(module["scaled"][1, 128], x, 100)
    assert made.agrees, made.agrees.text
    assert x[99] == 99.0


def test_machine_code_that_computes_something_else_is_doubted(
    module: cuda.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = machine.run

    def wrong(*args: object, **options: object) -> object:
        counts = plain(*args, **options)  # type: ignore[arg-type]
        counts.outputs["y"].view(np.float32)[17] += 1.0
        return counts

    monkeypatch.setattr(machine, "run", wrong)
    made = copied(module, 1)
    assert made.agrees.status == "no" and made.agrees.text.startswith("y[17] is ")
    assert "1 of 1,024 elements differ" in made.agrees.text
    assert any("these counters may be wrong" in text for text in made.caveats)


def test_what_the_machine_cannot_execute_is_named_and_the_rest_kept(
    module: cuda.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **options: object) -> object:
        raise machine.Unsupported("copy: the interpreter does not know HGMMA.64x64x16.F32 R24 at kernel.cu:6")

    monkeypatch.setattr(machine, "run", refuse)
    made = copied(module, 1)
    assert "HGMMA" in made.unsupported and made.prediction is None and not made.metrics
    assert made.resources.registers > 0 and made.occupancy is not None and made.line(6).number == 6
    assert "HGMMA" in made.text(100) and "HGMMA" in made.html()


def test_missing_tools_say_what_to_install(module: cuda.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*args: object) -> object:
        raise FileNotFoundError("no nvdisasm: pip install triton")

    monkeypatch.setattr(machine, "load_program", missing)
    with pytest.raises(FileNotFoundError, match="nvdisasm"):
        copied(module, 1)


def test_options_that_make_no_sense_are_refused(module: cuda.Module) -> None:
    launcher, x = module["copy<1>"][1, 32], torch.zeros(32)
    with pytest.raises(ValueError, match="blocks=0: expected"):
        ww.explain(launcher, x, x.clone(), 32, blocks=0)
    with pytest.raises(ValueError, match="no profile for target"):
        ww.explain(launcher, x, x.clone(), 32, target="sm_20")
    with pytest.raises(TypeError, match="no option 'BLOCK'"):
        ww.explain(launcher, x, x.clone(), 32, BLOCK=4)
    with pytest.raises(TypeError, match="expected a kernel with its grid"):
        ww.explain(print, x)
    with pytest.raises(ValueError, match="expected an operation and a rung"):
        ww.explain("softmax")


def test_another_target_is_compiled_for(module: cuda.Module) -> None:
    made = copied(module, 1, target="sm_80")
    assert made.target == "sm_80" and made.agrees and made.prediction is not None
    assert "A100" in made.prediction.device


def test_the_dictionary_is_json(module: cuda.Module) -> None:
    data = json.loads(copied(module, 8).to_json())
    assert data["metrics"][SECTORS.format("ld")] == 1024 and data["agrees"]["status"] == "yes"
    assert data["run"]["blocks_run"] == 4 and data["occupancies"]["sm_75"]["blocks"] == 4
    assert any(line["number"] == 6 and line["counters"]["sectors"] == 1152 for line in data["lines"])
    assert "counts" not in data and "sources" not in data


def test_an_interceptor_receives_launches_and_may_make_them(module: cuda.Module) -> None:
    seen: list[str] = []
    x, y = torch.ones(32), torch.zeros(32)

    def interceptor(launcher: object, args: tuple[object, ...], options: object) -> None:
        seen.append(launcher.kernel.expression)  # type: ignore[attr-defined]
        launcher(*args)  # type: ignore[operator]

    with intercepting(interceptor):
        module["copy<1>"][1, 32](x, y, 32)
        assert INTERCEPTORS
    module["copy<1>"][1, 32](x, y, 32)
    assert seen == ["copy<1>"] and y[0] == 2.0 and not INTERCEPTORS


def test_snapshots_keep_what_overlaps_together() -> None:
    base = np.arange(64, dtype=np.uint8)
    start = base.ctypes.data

    def buffer(name: str, offset: int, size: int, const: bool) -> Buffer:
        return Buffer(name, start + offset, size, 1, "unsigned char", const, False, start, not const)

    written, read, apart = buffer("w", 8, 16, False), buffer("r", 16, 16, True), buffer("a", 48, 8, True)
    kept = outputs.ArgumentSnapshot([written, read, apart])
    base[8:32] = 0
    moved = kept.rebased([written, read, apart])
    assert moved[1].address - moved[0].address == 8 and moved[2] is apart  # type: ignore[union-attr]
    assert kept.bytes_of(written).tolist() == list(range(8, 24)) and kept.bytes_of(read).tolist() == list(range(16, 32))
    assert moved[0].address % 256 == written.address % 256  # type: ignore[union-attr]
    kept.put_back()
    assert base.tolist() == list(range(64))


def test_spills_are_told_from_arrays_that_are_indexed() -> None:
    text = """
__global__ void __launch_bounds__(1024, 2) f(const float* x, float* y) {
  float a[64], s = 0;
  #pragma unroll
  for (int k = 0; k < 64; ++k) a[k] = x[threadIdx.x + k];
  __syncthreads();
  #pragma unroll
  for (int k = 0; k < 64; ++k) s = s * a[k] + a[63 - k] * a[(7 * k) % 64];
  y[threadIdx.x] = s;
}
"""
    made = ww.explain(cuda.load(text)["f"][1, 32], torch.ones(96), cuda.out(torch.zeros(32)))
    assert made.resources.spill_stores > 0
    found = {hint.title for hint in made.hints}
    assert "spilled registers" in found and "local memory" not in found


@pytest.mark.parametrize(
    "element, tf32, status", [("__half", False, "yes"), ("float", False, "no"), ("float", True, "yes")]
)
def test_values_rounded_on_the_way_may_differ_by_that(element: str, tf32: bool, status: str) -> None:
    before, after = np.ones(8, np.float32), np.ones(8, np.float32)
    other = after * np.float32(1.0005)  # half of a rounding of __half
    width = 2 if element == "__half" else 4
    read = Buffer("x", 2**20, 16, width, element, True, False, 2**20, False)

    def output(values: np.ndarray) -> Buffer:
        start = values.ctypes.data
        return Buffer("y", start, values.nbytes, 4, "float", False, False, start, True)

    checked = outputs.ArgumentSnapshot([read, output(after)])
    found = outputs.agreement(
        [read, output(after)], outputs.ArgumentSnapshot([output(before)]), checked, {"y": other}, False, False, tf32
    )
    assert found.status == status, found.text


STRUCTURES = """
struct Body { float x, y; int n; };
__global__ void move(const Body* b, Body* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = {b[i].y, b[i].x, b[i].n + 1};
}
"""


@pytest.mark.parametrize("n, blocks, compared", [(64, "all", "64"), (256 * 512, 16, "")])
def test_outputs_of_structures_are_compared_bit_by_bit(n: int, blocks: str | int, compared: str) -> None:
    bodies = np.ones(n, [("x", "f4"), ("y", "f4"), ("n", "i4")])
    made = ww.explain(cuda.load(STRUCTURES)["move"][-(-n // 256), 256], bodies, np.zeros_like(bodies), n, blocks=blocks)
    assert made.agrees.status == "yes" and f"{compared} elements of 'out' equal" in made.agrees.text, made.agrees.text


def test_an_array_of_structures_that_differs_is_not_judged() -> None:
    before, one, other = np.zeros(4, np.float32), np.ones(4, np.float32), np.ones(4, np.float32)
    other[3] = np.nextafter(np.float32(1), np.float32(2))
    start = one.ctypes.data
    written = Buffer("y", start, 16, 8, "Body", False, False, start, True)
    was = outputs.ArgumentSnapshot([replace(written, address=before.ctypes.data, storage=before.ctypes.data)])
    found = outputs.agreement([written], was, outputs.ArgumentSnapshot([written]), {"y": other}, False, False)
    assert found.status == "not compared" and "'y' (Body) differ in bits" in found.text


def test_importing_warpwise_imports_no_lab() -> None:
    assert callable(ww.explain) and ww.explain is lab.explain
    assert "explain" in ww.__all__ and sys.modules["warpwise.lab.explain"] is not None
