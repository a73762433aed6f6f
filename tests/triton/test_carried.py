"""Types of variables across loops and branches: the interpreter refuses and accepts what the compiler does."""

from __future__ import annotations

import pytest
import torch
import triton.language as tl
from tests.triton.kernels import line_of

from warpwise import triton as wt
from warpwise.cuda import CompileError

# Triton 3.9 warns at each compilation that the default of fp fusion will change.
pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION:UserWarning")


@wt.jit
def half_to_float(p, n):
    acc = tl.zeros((16,), tl.float16)
    for _ in range(n):
        x = tl.load(p + tl.arange(0, 16))
        acc += x.to(tl.float32)
    tl.store(p + tl.arange(0, 16), acc)


@wt.jit
def scalar_to_block(p, n):
    acc = 0
    for i in tl.range(n):
        acc += tl.arange(0, 16) + i
    tl.store(p + tl.arange(0, 16), acc)


@wt.jit
def in_while(p, n):
    acc = 0
    while n > 0:
        acc += 1.5
        n -= 1
    tl.store(p, acc)


@wt.jit
def nothing_to_block(p, n):
    acc = None
    for _ in range(n):
        acc = tl.arange(0, 16)  # noqa: F841
    tl.store(p, 1)


@wt.jit
def constant_parameter(p, n, SIZE: tl.constexpr = 8):
    for _ in range(n):
        SIZE = SIZE + 1
    tl.store(p, 1)


@wt.jit
def changed_in_branch(p, n):
    acc = 0
    if n > 3:
        acc = 1.5
    tl.store(p, acc)


@wt.jit
def changed_before_return(p, n):
    acc = 0
    if n > 3:
        acc = 1.5
        tl.store(p, acc)
        return
    tl.store(p, acc)


@wt.jit
def different_branches(p, n):
    if tl.program_id(0) > n - 5:  # noqa: SIM108
        x = 1
    else:
        x = 1.5
    tl.store(p, x)


@wt.jit
def in_one_branch(p, n):
    if n > 3:
        x = 1
    tl.store(p, x)


@wt.jit
def in_the_loop_only(p, n):
    for i in range(n):
        y = i
    tl.store(p, y)


@wt.jit
def from_the_iteration_before(p, n):
    for i in range(n):
        if i > 0:
            tl.store(p, y)  # noqa: F821
        y = i  # noqa: F841


REFUSED = [
    (half_to_float, "for", r"Loop-carried variable acc has initial type <.*fp16> but .* fp32> .*\.to\(tl\.float16\)"),
    (scalar_to_block, "for", "Loop-carried variable acc has initial type int32 .* the same shape"),
    (in_while, "while", "Loop-carried variable acc has initial type int32 but is re-assigned to fp32"),
    (nothing_to_block, "for", "Loop-carried variable acc has initial type None"),
    (constant_parameter, "for", r"Loop-carried variable SIZE has initial type constexpr\[8\]"),
    (changed_in_branch, "if", "acc has type int32 before the if, but type fp32 after the branch"),
    (changed_before_return, "if", "acc has type int32 before the if, but type fp32 after the branch"),
    (different_branches, "if", r"x between then block \(int32\) and else block \(fp32\)"),
    (in_one_branch, "tl.store", "x is not defined here"),
    (in_the_loop_only, "tl.store", "y is not defined here"),
    (from_the_iteration_before, "tl.store", "y is not defined here"),
]


@pytest.mark.parametrize("kernel, at, message", REFUSED, ids=lambda value: getattr(value, "__name__", None))
def test_the_interpreter_refuses_what_the_compiler_refuses(kernel: wt.Kernel, at: str, message: str) -> None:
    x = torch.zeros(16)
    with pytest.raises(CompileError):
        kernel.compile_for(x, 5, target="sm_90")
    with pytest.raises(CompileError, match=message) as caught:
        kernel[2](x, 5)
    assert f"test_carried.py:{line_of(kernel, f'    {at}')}:" in str(caught.value)


@wt.jit
def unrolled(p, n, SIZE: tl.constexpr = 8):
    acc = 0
    for i in tl.static_range(2):
        acc += tl.arange(0, 16) * 1.5
        y = i
    if SIZE > 4:
        acc = 1
    tl.store(p, acc + y)


@wt.jit
def two_types_by_a_constant(p, n, SIZE: tl.constexpr = 8):
    if n > 3:
        x = 1.5
    elif SIZE > 4:
        x = 2.5
    else:
        x = 1.0
    tl.store(p, x)


@wt.jit
def optional(p, n):
    x = None
    if n > 3:  # noqa: SIM108
        x = 3
    else:
        x = 4
    tl.store(p, x)


@wt.jit
def swapped(p, n):
    pair = [1, 2]
    for i in range(n):
        pair = [pair[1], pair[0] + i]
        for e in tl.static_range(2):
            pair = [pair[0] + e, pair[1]]
    tl.store(p, pair[0])


@wt.jit
def types_by_iteration(p, n):
    for i in range(n):
        if i > 1:
            x = 1.5
            tl.store(p, x)
        x = i
        tl.store(p, x)


@wt.jit
def count_from(start, n):
    for _ in range(n):
        start = start + 1
    return start


@wt.jit
def three():
    return 3


@wt.jit
def constant_of_a_function(p, n):
    tl.store(p, count_from(three(), n))


@wt.jit
def augmented_constants(p, n, SIZE: tl.constexpr = 8):
    SIZE += 1
    for i in tl.static_range(2):
        i += 1
        for _ in range(n):
            SIZE += n
            i += n
        tl.store(p + i, SIZE)


@wt.jit
def annotated(p, n):
    x: tl.int32 = 0
    y: tl.int32 = 0
    for _ in range(n):
        x += n
    if n > 3:
        y = n
    tl.store(p, x + y)


@wt.jit
def conditional_number(p, n):
    half = tl.zeros((16,), tl.float16)
    acc = tl.zeros((16,), tl.float32)
    for i in range(n):
        acc = half * (1.0 if i > (2 if n > 3 else 1) else 2.0)
        half = half * (1.0 if p is not None else 2.0)
    tl.store(p + tl.arange(0, 16), acc)


ACCEPTED = [
    unrolled,
    two_types_by_a_constant,
    optional,
    swapped,
    types_by_iteration,
    constant_of_a_function,
    augmented_constants,
    annotated,
    conditional_number,
]


@pytest.mark.parametrize("kernel", ACCEPTED, ids=lambda kernel: kernel.__name__)
def test_the_interpreter_accepts_what_the_compiler_accepts(kernel: wt.Kernel) -> None:
    x = torch.zeros(64)
    kernel.compile_for(x, 5, target="sm_90")
    assert kernel[1].check(x, 5) == []


@wt.jit
def loop_variable(p, last, step):
    x = last
    for i in range(last - 2, last, step):
        x = i
    if step == 1:
        x = 2.5
    tl.store(p, x)


def test_a_loop_variable_has_the_type_of_the_bounds_and_an_argument_of_1_is_a_constant() -> None:
    x = torch.zeros(16)
    loop_variable.compile_for(x, 2**40, 1, target="sm_90")
    loop_variable[1](x, 2**40, 1)
    assert x[0] == 2.5
    loop_variable[1](x, 2**40, 2)
    assert x[0] == 2**40 - 2


@wt.jit
def argument_of_1(p, n, step):
    step += 1
    for _ in range(n):
        step += n
    tl.store(p, step)


def test_an_augmented_assignment_makes_a_variable_of_an_argument_of_1() -> None:
    x = torch.zeros(1)
    argument_of_1.compile_for(x, 5, 1, target="sm_90")
    argument_of_1[1](x, 5, 1)
    assert x[0] == 27


@wt.jit
def optional_pointer(p, w, n):
    if w:  # noqa: SIM108
        x = tl.load(w)
    else:
        x = 1.0
    if not w:
        x += 10
    if w and n > 3:
        x += 20
    tl.store(p, x + (tl.load(w) if w else 0.5))


def test_a_pointer_is_a_condition() -> None:
    x, w = torch.zeros(1), torch.full((1,), 2.0)
    for pointer, expected in ((w, 24.0), (None, 11.5)):
        optional_pointer.compile_for(x, pointer, 5, target="sm_90")
        assert optional_pointer[1].check(x, pointer, 5) == []
        assert x[0] == expected
