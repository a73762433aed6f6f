"""Products that PyTorch computes: ATen called in C++, and the choice by precision."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch.autograd import forward_ad
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from warpwise import fastcall
from warpwise.cuda.gpu import recording
from warpwise.ops.linear.spec import activated

A, B, C = torch.randn(3, 4), torch.randn(4, 5), torch.randn(5)
OPERANDS = {"mm": (A, B), "mv": (A, B[:, 0]), "bmm": (A[None], B[None]), "addmm": (C, A, B)}


def aten(name: str, otherwise: Any = None) -> Any:
    recording.native_library()
    return fastcall.library().Aten(name, otherwise or getattr(torch, name))


def refused(*args: Any) -> str:
    return "otherwise"


@pytest.mark.parametrize("name", OPERANDS)
def test_the_operator_in_cpp(name: str):
    call, operands = aten(name, refused), OPERANDS[name]
    expected = getattr(torch, name)(*operands)
    assert torch.equal(call(*operands), expected)
    assert torch.equal(call(*operands, 1.0, 1.0), expected), "later arguments are ignored"


def test_scales_of_addmm():
    expected = torch.addmm(C, A, B, beta=-1.5, alpha=0.5)
    assert torch.equal(aten("addmm", refused)(C, A, B, -1.5, 0.5), expected)


@pytest.mark.parametrize("name", OPERANDS)
def test_autograd_records_it(name: str):
    call = aten(name, refused)
    ours, theirs = ([value.clone().requires_grad_() for value in OPERANDS[name]] for _ in range(2))
    call(*ours).square().sum().backward()
    getattr(torch, name)(*theirs).square().sum().backward()
    for left, right in zip(ours, theirs, strict=True):
        assert torch.equal(left.grad, right.grad)
    with torch.no_grad():
        assert not call(*ours).requires_grad
    with torch.inference_mode():
        assert call(*OPERANDS[name]).is_inference()
    assert not call(*OPERANDS[name]).is_inference()


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("activation", [None, "relu", "gelu", "gelu_tanh"])
def test_a_linear_layer_in_cpp(activation: str | None, biased: bool):
    recording.native_library()
    x, w, bias = torch.randn(2, 3, 4), torch.randn(5, 4), torch.randn(5) if biased else None
    before = functional.linear(x, w, bias)
    call = fastcall.library().Linear(activation, False, False, refused)
    output, kept = call(x, w, bias, activation)
    assert torch.equal(output, activated(before, activation)) and kept is None
    output, kept = fastcall.library().Linear(activation, False, True, refused)(x, w, bias)
    assert torch.equal(output, activated(before, activation)) and torch.equal(kept, before)
    ours, theirs = ([value.clone().requires_grad_() for value in (x, w)] for _ in range(2))
    call(*ours, bias)[0].square().sum().backward()
    activated(functional.linear(*theirs, bias), activation).square().sum().backward()
    for left, right in zip(ours, theirs, strict=True):
        assert torch.equal(left.grad, right.grad)
    with torch.inference_mode():
        assert call(x, w, bias)[0].is_inference()
    assert call(x, 1, bias) == call(x) == call(x, w[:, :3], bias) == "otherwise"


def test_a_linear_layer_with_a_fused_activation():
    recording.native_library()
    x, w, bias = torch.randn(2, 3, 4), torch.randn(5, 4), torch.randn(5)
    for activation in ("relu", "gelu_tanh"):
        call = fastcall.library().Linear(activation, True, False, refused)
        for rows in (x, x[0]):
            output, kept = call(rows, w, bias)
            expected = activated(functional.linear(rows, w, bias), activation)
            assert kept is None and output.shape == expected.shape
            torch.testing.assert_close(output, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("biased", [False, True])
def test_a_convolution_and_its_backward_in_cpp(biased: bool):
    recording.native_library()
    settings = ([2, 1], [1, 0], [1, 1], 2)
    x, w = torch.randn(2, 4, 7, 6), torch.randn(6, 2, 3, 3)
    bias = torch.randn(6) if biased else None
    for format in (torch.contiguous_format, torch.channels_last):
        nhwc = format is torch.channels_last
        x = x.contiguous(memory_format=format)
        call = fastcall.library().Convolution(*settings, None, nhwc, None, refused)
        expected = torch.conv2d(x, w, bias, *settings)
        made = call(x, w, bias, *settings)
        assert torch.equal(made, expected) and made.is_contiguous(memory_format=format)
        grad = torch.randn_like(made)
        for needs in ((True, True, True), (False, True, False)):
            back = fastcall.library().Convolution(*settings, needs, nhwc, None, refused)
            mask = [*needs[:2], needs[2] and biased]
            wanted = torch.ops.aten.convolution_backward(
                grad, x, w, [6] if biased else None, *settings[:3], False, [0, 0], 2, mask
            )
            for ours, theirs, needed in zip(back(grad, x, w, bias), wanted, mask, strict=True):
                assert torch.equal(ours, theirs) if needed else ours is None
        assert call(x, w[:, :1], bias) == call(x, w) == back(grad, x, w, 1) == "otherwise"


def test_a_recorded_convolution_in_a_precision():
    recording.native_library()
    x, w, conv = torch.randn(1, 2, 4, 4, requires_grad=True), torch.randn(3, 2, 3, 3), torch.backends.cudnn.conv
    before, seen = conv.fp32_precision, []
    for tf32 in (False, True):
        call = fastcall.library().Convolution([1, 1], [1, 1], [1, 1], 1, None, False, tf32, refused)
        with torch.autograd.graph.saved_tensors_hooks(lambda value: seen.append(conv.fp32_precision), refused):
            assert call(x, w, None).requires_grad
        assert (seen.pop() == "tf32") == tf32
        assert conv.fp32_precision == before


def test_the_result_takes_part_in_autograd():
    weight = torch.ones(5, requires_grad=True)
    product = aten("mm")(A, B)
    product.add_(1)
    (product * weight).sum().backward()
    assert torch.equal(weight.grad, product.sum(0))


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_python_computes_otherwise():
    class Own(torch.Tensor):
        pass

    call = aten("mm", refused)
    assert call(A.as_subclass(Own), B) == call(A, 1) == call(A) == "otherwise"
    with FlopCounterMode(display=False):
        assert call(A, B) == "otherwise"
    with forward_ad.dual_level():
        assert call(forward_ad.make_dual(A, A), B) == "otherwise"
    seen = []
    torch.func.vmap(lambda row: seen.append(call(row[None], B)) or row)(A)
    assert seen == ["otherwise"]


def test_an_error_of_a_hook_is_raised_and_python_does_not_compute_again():
    def pack(value):
        raise KeyError("pack")

    a = A.clone().requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value), pytest.raises(KeyError, match="pack"):
        aten("mm", refused)(a, B.clone().requires_grad_())


def test_an_excluded_key_does_not_dispatch():
    """The threads of autograd exclude a key, too: named tensors."""
    excluded = torch._C.DispatchKeySet(torch._C._dispatch_key_parse("ZeroTensor"))
    with torch._C._ExcludeDispatchKeyGuard(excluded):
        assert torch.equal(aten("mm", refused)(A, B), A @ B)


def test_errors_are_those_of_python():
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        aten("mm")(A, A)
    with pytest.raises(ValueError, match="expected mm, mv, bmm, addmm or _scaled_mm, got conv2d"):
        aten("conv2d")


def test_a_product_in_a_precision():
    """The setting of PyTorch is restored, also after an error."""
    recording.native_library()
    for convolution, backend in ((False, torch.backends.cuda.matmul), (True, torch.backends.cudnn.conv)):
        _changes_only_its_precision(backend, convolution)


def _changes_only_its_precision(matmul: Any, convolution: bool):
    before, default = matmul.fp32_precision, torch.backends.fp32_precision

    def product(*args: Any) -> tuple[Any, ...]:
        if not args:
            raise ValueError("no arguments")
        return (matmul.fp32_precision, *args)

    try:
        for general, setting in itertools.product(("none", "tf32"), ("ieee", "tf32", "none")):
            torch.backends.fp32_precision = general
            matmul.fp32_precision = setting
            shown = matmul.fp32_precision
            for tf32 in (False, True):
                call = fastcall.library().InPrecision(product, tf32, convolution)
                made = call(1, 2)
                assert made[1:] == (1, 2)
                assert (made[0] == "tf32") == tf32
                with pytest.raises(ValueError, match="no arguments"):
                    call()
                assert matmul.fp32_precision == shown
            if setting == "none":
                torch.backends.fp32_precision = "ieee"
                assert matmul.fp32_precision == "ieee", "it follows the general setting"
    finally:
        torch.backends.fp32_precision, matmul.fp32_precision = default, before
