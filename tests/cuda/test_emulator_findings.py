"""Each kind of finding: its variable, index, block, thread and line; for a data race, those of both accesses."""

from __future__ import annotations

import numpy as np
import pytest

from warpwise import cuda
from warpwise.cuda.errors import (
    BarrierDivergence,
    DataRace,
    Deadlock,
    Finding,
    KernelAssertion,
    LaunchError,
    MisalignedAccess,
    OutOfBounds,
    ReadOnlyWrite,
    UndefinedBehaviour,
    UninitializedRead,
    UnwrittenOutput,
)


def zeros(count: int, dtype: str = "f4") -> np.ndarray:
    return np.zeros(count, dtype)


def found(source: str, block: int, *args: object, grid: int = 1, shared: int = 0, **options: object) -> list[Finding]:
    """The findings of a launch of the kernel ``f`` in ``source``, whose first line is line 1."""
    return cuda.load(source)["f"][grid, block, shared].check(*args, **options)


def only(findings: list[Finding], kind: type) -> Finding:
    assert [finding.kind for finding in findings] == [kind]
    return findings[0]


ADD = """__global__ void f(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  GUARD
    c[i] = a[i] + b[SHIFT i];
}"""


def add(guard: str, shift: str = "", **options: object) -> list[Finding]:
    source = ADD.replace("GUARD", guard).replace("SHIFT", shift)
    return found(source, 256, zeros(1000), zeros(1000), cuda.out(zeros(1000)), 1000, **options)


def test_a_missing_bounds_check_reports_the_first_element_past_the_end() -> None:
    finding = only(add("", grid=4), OutOfBounds)
    assert (finding.variable, finding.index, finding.size, finding.space) == ("a", 1000, 1000, "global")
    assert finding.access is not None
    assert (finding.access.what, finding.access.block, finding.access.thread) == ("read", (3, 0, 0), (232, 0, 0))
    assert (finding.access.line, finding.access.text) == (4, "c[i] = a[i] + b[ i];")
    assert "a[1000]" in str(finding)


def test_a_negative_index_reports_its_own_array() -> None:
    finding = only(add("if (i < n)", "-1 +", grid=4), OutOfBounds)
    assert (finding.variable, finding.index) == ("b", -1)
    assert "before the first" in finding.message


@pytest.mark.parametrize("offset", [2**31 - 1, -(2**31), 10**6])
def test_a_distant_access_reports_its_own_array(offset: int) -> None:
    finding = only(
        found("__global__ void f(float* p, float* q, int i) {\n q[i] = 1; p[0] = 0;\n}", 1, zeros(8), zeros(8), offset),
        OutOfBounds,
    )
    assert (finding.variable, finding.index, finding.access.line) == ("q", offset, 2)


def test_a_vector_access_across_the_end_reports_the_first_element_past_it() -> None:
    finding = only(
        found(
            "__global__ void f(float* p) {\n *reinterpret_cast<float4*>(p + 4) = make_float4(0, 0, 0, 0);\n}",
            1,
            zeros(7),
        ),
        OutOfBounds,
    )
    assert (finding.index, finding.size) == (7, 7)


def test_a_null_and_a_wild_pointer() -> None:
    source = "__global__ void f(float* p, long long i) {\n p[i] = 1;\n}"
    assert "null pointer" in only(found(source, 1, None, 3), OutOfBounds).message
    assert "not in an argument" in only(found(source, 1, zeros(8), 1 << 44), OutOfBounds).message


@pytest.mark.parametrize("copy", ["memcpy(nullptr, x, 4)", "memcpy(x, nullptr, 4)"])
def test_a_copy_of_a_null_pointer(copy: str) -> None:
    source = f"__global__ void f(int* x) {{\n {copy};\n}}"
    assert "null pointer" in only(found(source, 1, np.zeros(1, "i4")), OutOfBounds).message


def test_a_partly_written_output() -> None:
    finding = only(add("if (i < n)", grid=3), UnwrittenOutput)
    assert (finding.variable, finding.index, finding.size) == ("c", 768, 1000)
    assert "232" in finding.message and "without out" in finding.message


def test_an_output_read_before_it_is_written() -> None:
    finding = only(
        found("__global__ void f(float* p) {\n p[threadIdx.x] += 1;\n}", 32, cuda.out(zeros(32))), UninitializedRead
    )
    assert (finding.variable, finding.index, finding.count) == ("p", 0, 32)
    assert finding.access.line == 2


def test_a_write_through_a_const_pointer_and_to_constant_memory() -> None:
    finding = only(
        found("__global__ void f(const float* p) {\n const_cast<float*>(p)[2] = 1;\n}", 1, zeros(8)), ReadOnlyWrite
    )
    assert (finding.variable, finding.index, finding.access.line) == ("p", 2, 2)
    source = "__constant__ float table[8];\n__global__ void f(int i) {\n const_cast<float*>(table)[i] = 1;\n}"
    finding = only(found(source, 1, 5), ReadOnlyWrite)
    assert (finding.variable, finding.index, finding.size, finding.space) == ("table", 5, 8, "module")


def test_an_index_past_the_end_of_a_device_array() -> None:
    source = (
        "__device__ float table[8];\n__global__ void f(float* p, int i) {\n const float* t = table;\n p[0] = t[i];\n}"
    )
    finding = only(found(source, 1, zeros(1), 8), OutOfBounds)
    assert (finding.variable, finding.index, finding.size, finding.access.line) == ("table", 8, 8, 4)


def test_a_misaligned_vector() -> None:
    finding = only(
        found(
            "__global__ void f(float* p) {\n *reinterpret_cast<float4*>(p + 1) = make_float4(0, 0, 0, 0);\n}",
            1,
            zeros(8),
        ),
        MisalignedAccess,
    )
    assert (finding.variable, finding.index, finding.access.line) == ("p", 1, 2)


def test_an_index_past_a_local_array_and_a_division_by_zero() -> None:
    source = (
        "__global__ void f(int* p, int n) {\n int r[8];\n for (int i = 0; i <= n; i++)\n  r[i] = i;\n"
        " p[threadIdx.x] = r[p[0]];\n}"
    )
    finding = only(found(source, 32, zeros(32, "i4"), 8), UndefinedBehaviour)
    assert (finding.variable, finding.index, finding.size, finding.access.line) == ("r", 8, 8, 4)
    finding = only(
        found("__global__ void f(int* p, int n) {\n p[threadIdx.x] = 5 / n;\n}", 1, zeros(1, "i4"), 0),
        UndefinedBehaviour,
    )
    assert "division by zero" in finding.message
    assert finding.access.line == 2


def test_a_function_that_ends_without_returning_its_value() -> None:
    source = (
        "__device__ int low(int x) {\n if (x < 4) return x;\n}\n"
        "__global__ void f(int* p, int n) {\n if (threadIdx.x < n) p[threadIdx.x] = low(threadIdx.x);\n}"
    )
    finding = only(found(source, 32, zeros(32, "i4"), 8), UndefinedBehaviour)
    assert "without returning a value" in finding.message
    assert (finding.access.thread, finding.access.line) == ((4, 0, 0), 1)
    assert not found(source, 32, zeros(32, "i4"), 4)


REVERSE = """__global__ void f(const float* x, float* y) {
  __shared__ float s[64];
  s[threadIdx.x] = x[threadIdx.x];
  SYNC
  y[threadIdx.x] = s[63 - threadIdx.x];
}"""


def test_a_missing_barrier_is_a_data_race_with_both_accesses() -> None:
    findings = found(REVERSE.replace("SYNC", ""), 64, zeros(64), cuda.out(zeros(64)))
    finding = findings[0]
    assert finding.kind is DataRace
    assert (finding.variable, finding.space, finding.size) == ("s", "shared", 64)
    assert {finding.access.what, finding.other.what} == {"read", "write"}
    assert {finding.access.line, finding.other.line} == {3, 5}
    assert finding.access.thread[0] + finding.other.thread[0] == 63
    assert "__syncthreads()" in finding.hint


def test_a_warp_barrier_does_not_order_two_warps() -> None:
    findings = found(REVERSE.replace("SYNC", "__syncwarp();"), 64, zeros(64), cuda.out(zeros(64)))
    assert findings[0].kind is DataRace


def test_blocks_that_write_different_values_to_one_element_race() -> None:
    finding = only(found("__global__ void f(int* p) {\n p[1] = blockIdx.x;\n}", 1, zeros(2, "i4"), grid=3), DataRace)
    assert (finding.variable, finding.index, finding.access.block, finding.other.block) == (
        "p",
        1,
        (1, 0, 0),
        (0, 0, 0),
    )
    assert "blocks" in finding.hint


def test_a_weak_write_races_with_atomics() -> None:
    source = "__global__ void f(int* p) {\n if (threadIdx.x == 0) p[0] = 3;\n else atomicAdd(p, 1);\n}"
    finding = only(found(source, 64, zeros(1, "i4")), DataRace)
    assert (finding.access.what, finding.other.what) == ("atomic", "write")
    assert (finding.access.line, finding.other.line) == (3, 2)


@pytest.mark.parametrize(
    "first, second, access, other",
    [
        ("p[0] = 3;", "p[1] = q[0];", "volatile read", "write"),
        ("p[0] = 3;", "q[0] = 4;", "volatile write", "write"),
        ("q[0] = 3;", "p[1] = p[0];", "read", "volatile write"),
    ],
)
def test_a_volatile_access_is_not_called_atomic(first: str, second: str, access: str, other: str) -> None:
    source = (
        "__global__ void f(int* p) {\n volatile int* q = p;\n"
        f" if (threadIdx.x == 0) {{ {first} }}\n else if (threadIdx.x == 32) {{ {second} }}\n}}"
    )
    finding = only(found(source, 64, zeros(2, "i4")), DataRace)
    assert (finding.access.what, finding.other.what) == (access, other)
    assert f"{access} and {other} are not ordered" in str(finding)


def test_implicit_warp_synchronous_code_is_a_data_race() -> None:
    source = """__global__ void f(int* p) {
  __shared__ volatile int s[64];
  int t = threadIdx.x;
  s[t] = p[t]; s[t + 32] = 0;
  s[t] += s[t + 16];
  s[t] += s[t + 8];
  p[t] = s[t];
}"""
    finding = found(source, 32, zeros(32, "i4"))[0]
    assert (finding.kind, finding.variable, finding.access.thread) == (DataRace, "s", (8, 0, 0))
    assert "__syncwarp()" in finding.hint


def test_shared_memory_read_before_it_is_written() -> None:
    source = (
        "__global__ void f(float* p) {\n __shared__ float s[32];\n if (threadIdx.x) s[threadIdx.x] = 1;\n"
        " p[threadIdx.x] = s[threadIdx.x];\n}"
    )
    finding = only(found(source, 32, cuda.out(zeros(32))), UninitializedRead)
    assert (finding.variable, finding.index, finding.access.thread, finding.access.line) == ("s", 0, (0, 0, 0), 4)


def test_a_launch_without_dynamic_shared_memory() -> None:
    source = (
        "__global__ void f(float* p) {\n extern __shared__ float s[];\n"
        " s[threadIdx.x] = 1; p[threadIdx.x] = s[threadIdx.x];\n}"
    )
    finding = only(found(source, 32, zeros(32)), OutOfBounds)
    assert (finding.variable, finding.size) == ("s", 0)
    assert "no dynamic shared memory was passed: kernel[grid, block, bytes]" in finding.hint
    assert found(source, 32, zeros(32), shared=128) == []


def test_too_much_static_shared_memory() -> None:
    source = (
        "__global__ void f(float* p) {\n __shared__ float s[16384];\n s[threadIdx.x] = 1; p[0] = s[threadIdx.x];\n}"
    )
    finding = only(found(source, 1, zeros(1)), LaunchError)
    assert "extern __shared__" in finding.message
    with pytest.raises(LaunchError, match="49152"):
        cuda.load(source)["f"][1, 1](zeros(1))


def test_local_arrays_up_to_cudas_limit_run_and_larger_ones_overflow_the_stack() -> None:
    source = (
        "__global__ void f(int* y) {{\n double a[{n}];\n for (int i = 0; i < {n}; i++) a[i] = i;\n"
        " y[0] = a[y[0] + 5];\n}}"
    )
    y = zeros(1, "i4")
    assert found(source.format(n=512 * 1024 // 8), 1, y) == []
    assert y[0] == 5
    finding = found(source.format(n=100_000), 1, y)[0]
    assert "stack overflow" in finding.message


def test_the_limit_covers_static_and_dynamic_shared_memory() -> None:
    source = (
        "__global__ void f(float* p) {\n __shared__ float s[10240];\n extern __shared__ float d[];\n"
        " s[0] = d[0] = 1; p[0] = s[0] + d[0];\n}"
    )
    optin = 227 * 1024  # sm_90's maximum per block
    assert found(source, 1, zeros(1), shared=optin - 40960) == []
    finding = only(found(source, 1, zeros(1), shared=optin - 40960 + 4), LaunchError)
    assert "232448 bytes in all" in finding.message


def test_a_barrier_after_some_threads_have_exited() -> None:
    source = (
        "__global__ void f(int* p, int n) {\n if (threadIdx.x >= n) return;\n p[threadIdx.x] = 1;\n __syncthreads();\n}"
    )
    finding = only(found(source, 64, zeros(64, "i4"), 40), BarrierDivergence)
    assert finding.access.line == 4
    assert finding.access.what == "__syncthreads()"
    assert "40 of the block's 64 threads" in finding.message


TWO_BARRIERS = "__global__ void f() {\n if (threadIdx.x & 1)\n  __syncthreads();\n else\n  __syncthreads();\n}"


def test_barriers_at_different_lines_are_reported_with_all_checks_only() -> None:
    finding = only(found(TWO_BARRIERS, 64), BarrierDivergence)
    assert {finding.access.line, finding.other.line} == {3, 5}
    assert found(TWO_BARRIERS, 64, checks="bounds") == []


def test_a_deadlock_reports_where_the_threads_wait() -> None:
    source = (
        "__global__ void f(int* p) {\n if (threadIdx.x & 1)\n  __syncthreads();\n else\n"
        "  p[0] = __shfl_sync(~0u, 1, 0);\n}"
    )
    finding = only(found(source, 32, zeros(1, "i4")), Deadlock)
    assert {finding.access.line, finding.other.line} == {3, 5}
    assert "0xffffffff" in finding.message


def test_lanes_of_one_warp_in_different_operations() -> None:
    source = (
        "__global__ void f(int* p) {\n if (threadIdx.x < 16)\n  p[0] = __shfl_sync(~0u, 1, 0);\n else\n"
        "  p[1] = __any_sync(~0u, 1);\n}"
    )
    finding = only(found(source, 32, zeros(2, "i4")), BarrierDivergence)
    assert {finding.access.what, finding.other.what} == {"__shfl_sync", "__any_sync"}
    assert {finding.access.line, finding.other.line} == {3, 5}


def test_a_lane_outside_its_mask_and_a_shuffle_from_an_exited_lane() -> None:
    finding = only(
        found("__global__ void f(int* p) {\n p[threadIdx.x] = __shfl_sync(0xffff, 1, 0);\n}", 32, zeros(32, "i4")),
        UndefinedBehaviour,
    )
    assert (finding.access.thread, finding.access.line) == ((16, 0, 0), 2)
    source = (
        "__global__ void f(int* p) {\n if (threadIdx.x > 20) return;\n p[threadIdx.x] = __shfl_down_sync(~0u, 1, 4);\n}"
    )
    finding = only(found(source, 32, zeros(32, "i4")), UndefinedBehaviour)
    assert finding.access.line == 3
    assert finding.count == 4
    assert finding.message.endswith("reads the value of a lane that does not participate: the result is undefined")


def test_assert_and_trap() -> None:
    source = "#include <assert.h>\n__global__ void f(int* p) {\n assert(p[threadIdx.x] == 0);\n}"
    values = np.array([0, 0, 7], "i4")
    finding = only(found(source, 3, values), KernelAssertion)
    assert (finding.access.thread, finding.access.line) == ((2, 0, 0), 3)
    assert "p[threadIdx.x] == 0" in finding.message
    assert only(found("__global__ void f() {\n __trap();\n}", 1), KernelAssertion).access.line == 2


def test_a_call_raises_the_first_finding_as_its_exception() -> None:
    module = cuda.load("__global__ void f(float* p) { p[threadIdx.x] = 1; }")
    with pytest.raises(OutOfBounds) as caught:
        module["f"][1, 32](zeros(31))
    assert caught.value.finding.index == 31


def test_the_number_of_findings_is_bounded_and_each_is_counted() -> None:
    lines = "\n".join(f"if (threadIdx.x == {i} || threadIdx.x == {i + 1}) p[{i}] = threadIdx.x;" for i in range(40))
    findings = found(f"__global__ void f(int* p) {{\n{lines}\n}}", 64, zeros(64, "i4"))
    assert len(findings) == 40
    assert all(finding.kind is DataRace and finding.count == 1 for finding in findings)


def test_an_element_of_a_shared_array_of_several_dimensions_is_named_as_declared() -> None:
    text = """
    template <int N> __global__ void corner(float* y) {
      __shared__ float tile[N][N + 1];
      __shared__ int cube[2][3][4];
      if (y) y[0] = tile[5][0] + cube[1][2][3];
    }
    """
    found = cuda.load(text)["corner<32>"][1, 1].check(cuda.out(np.zeros(1, np.float32)))
    assert ["shared tile[5][0]," in found[0].message, "shared cube[1][2][3]," in found[1].message] == [True, True]
    assert found[0].index == 165
