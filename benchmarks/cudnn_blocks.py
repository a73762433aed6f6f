"""Whole blocks for cudnn_patterns.py: of cuDNN's patterns, by PyTorch's operations, and by conv_block."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from benchmarks import unseen_opponents
from benchmarks.cudnn_cases import (
    Data,
    conv_backward,
    forward_of_norm,
    half,
    norm_error,
    plain,
    relu_norm_backward,
    saved,
    vector,
)
from benchmarks.cudnn_graphs import EPS
from torch.nn import functional

from warpwise import ops
from warpwise.ops.conv_block.op import CONV_BLOCK

aten: Any = torch.ops.aten
Run = Callable[..., tuple[torch.Tensor, ...]]
Contestants = dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]
OURS, PYTORCH = "ours, float32", "PyTorch, float16"
FORWARD_TOLERANCES = {"float32": 1e-5, "bfloat16": 2e-2}  # others float16, 5e-3
GRADIENT_FACTOR, GRADIENT_TOLERANCES = 1.5, {"float32": 2e-2}  # others: relative to the error of PyTorch in float16


def exact(what: str, data: Data) -> dict[str, torch.Tensor]:
    """The results of a block in float64: output, or the gradients of w, gamma and beta, and of x if it needs one."""
    leaves = [one.detach().double().requires_grad_() for one in (data.x, data.w, data.gamma, data.beta)]
    with torch.enable_grad():
        output = unseen_opponents.conv_block(*leaves, EPS)
        if what == "forward":
            return {"output": output.detach()}
        gradients = torch.autograd.grad(output, leaves, data.dz.double())
    names = ("dx", "dw", "dgamma", "dbeta")
    return {name: one for name, one in zip(names, gradients, strict=True) if name != "dx" or data.needs_input}


def errors(found: Any, exact: Mapping[str, torch.Tensor]) -> dict[str, float]:
    given = (found,) if isinstance(found, torch.Tensor) else [one for one in found if one is not None]
    return {name: norm_error(one, exact[name]) for name, one in zip(exact, given, strict=True)}


def is_right(what: str, who: str, found: Mapping[str, Mapping[str, float]]) -> bool:
    """True if the errors of ``who`` are within the tolerance.

    Gradients: the maximum of a window depends on the last bit where two values are nearly equal, and with it a
    gradient of the size of the others. In 16 bits the error is compared with that of PyTorch in float16, bfloat16 with
    eight times it.
    """
    dtype = who.rpartition(", ")[2].partition(" ")[0]
    if what == "forward":
        return all(error <= FORWARD_TOLERANCES.get(dtype, 5e-3) for error in found[who].values())
    factor = GRADIENT_FACTOR * (8 if dtype == "bfloat16" else 1)
    return all(
        error <= GRADIENT_TOLERANCES.get(dtype, factor * max(found[PYTORCH][name], 4e-3))
        for name, error in found[who].items()
    )


def _ours(data: Data) -> Contestants:
    """conv_block's arguments in each dtype: float32 in NCHW order, 16 bits in NHWC."""
    given = (data.x, data.w, data.gamma, data.beta)
    single = plain(*given)
    made: Contestants = {OURS: (lambda *args: ops.conv_block(*args, EPS)[0], single)}
    for dtype in (torch.float16, torch.bfloat16):
        name = f"ours, {str(dtype).removeprefix('torch.')}"
        made[name] = (lambda *args: ops.conv_block(*args, EPS)[0], tuple(one.to(dtype) for one in given))
    return made


def _theirs(*args: Any) -> torch.Tensor:
    result: torch.Tensor = unseen_opponents.conv_block(*args, EPS)
    return result


def _without_patterns(data: Data) -> Contestants:
    """The forwards of conv_block and of PyTorch."""
    affine = data.gamma, data.beta
    return _ours(data) | {
        PYTORCH: (_theirs, (data.x, data.w, *affine)),
        f"{PYTORCH} NCHW": (_theirs, (*plain(data.x, data.w, dtype=torch.float16), *affine)),
    }


def forwards(data: Data, runs: Mapping[str, Run]) -> Contestants:
    """Functions of the forward of a block, and their arguments."""
    made = _without_patterns(data)
    vectors = (*map(vector, (data.gamma, data.beta)), *data.running)
    given = (data.padded_x, data.padded_w, *vectors)

    def statistics(x: torch.Tensor, w: torch.Tensor, *rest: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y, sums, squares = runs["conv_statistics"](x, w)
        return (y, *runs["finalize"](sums, squares, *rest)[:2])

    if {"conv_statistics", "finalize", "normalise_pool"} <= set(runs):
        made["cuDNN, three patterns"] = (lambda *args: runs["normalise_pool"](*statistics(*args))[0], given)
    if {"conv_statistics", "finalize", "normalise_relu"} <= set(runs):
        made["cuDNN, three patterns and max_pool2d"] = (
            lambda *args: functional.max_pool2d(runs["normalise_relu"](*statistics(*args))[0], 2), given,
        )  # fmt: skip
    if "batch_norm_relu" in runs:

        def after_convolution(x: torch.Tensor, w: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
            return functional.max_pool2d(runs["batch_norm_relu"](torch.conv2d(x, w, padding=1), *rest)[0], 2)

        made["conv2d, cuDNN's batch_norm_relu, max_pool2d"] = (after_convolution, (data.x, data.w, *vectors))
    return made


def _pool_backward(dz: torch.Tensor, normal: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = aten.max_pool2d_with_indices_backward(
        dz, normal, [2, 2], [2, 2], [0, 0], [1, 1], False, indices
    )
    return result


def trainings(data: Data, runs: Mapping[str, Run]) -> Contestants:
    """Functions of forward and backward of a block, which return dx if it is needed, dw, dgamma and dbeta."""
    needs = data.needs_input
    made: Contestants = {}
    for name, (function, args) in _without_patterns(data).items():

        def trained(dz: torch.Tensor, *tensors: torch.Tensor, function: Any = function) -> tuple[Any, ...]:
            with torch.enable_grad():
                return unseen_opponents.trained(lambda *given: function(*given[:4]), dz, tensors, EPS, needs)

        in_order = name == OURS or name.endswith("NCHW")
        dz = plain(data.dz, dtype=args[0].dtype)[0] if in_order else data.dz.to(args[0].dtype)
        made[name] = trained, (dz, *args)
    vectors = (*map(vector, (data.gamma, data.beta)), *data.running)

    def backward(dz: torch.Tensor, x: torch.Tensor, w: torch.Tensor, y: torch.Tensor, *rest: Any) -> tuple[Any, ...]:
        normal, *affine = rest
        _, indices = functional.max_pool2d(normal, 2, return_indices=True)
        dy = _pool_backward(dz, normal, indices)
        d, dgamma, dbeta = runs["relu_batch_norm_backward"](dy, y, *affine)
        dx, dw = conv_backward(d, x, w, (needs, True))
        return dx, dw[:, : data.size.c], dgamma.flatten(), dbeta.flatten()

    def patterns(dz: torch.Tensor, x: torch.Tensor, w: torch.Tensor, *vectors: torch.Tensor) -> tuple[Any, ...]:
        y, sums, squares = runs["conv_statistics"](x, w)
        scale, shift, *saved = runs["finalize"](sums, squares, *vectors)[:4]
        return backward(dz, x, w, y, *runs["normalise_relu"](y, scale, shift), *saved, *vectors[:2])

    def around_convolution(dz: torch.Tensor, x: torch.Tensor, w: torch.Tensor, *vectors: torch.Tensor) -> Any:
        y = torch.conv2d(x, w, padding=1)
        return backward(dz, x, w, y, *runs["batch_norm_relu"](y, *vectors)[:3], *vectors[:2])

    if {"conv_statistics", "finalize", "normalise_relu", "relu_batch_norm_backward"} <= set(runs):
        made["cuDNN, four patterns"] = patterns, (data.dz, data.padded_x, data.padded_w, *vectors)
    if {"batch_norm_relu", "relu_batch_norm_backward"} <= set(runs):
        made["conv2d, cuDNN's batch_norm_relu"] = around_convolution, (data.dz, data.x, data.w, *vectors)
    return made


def backwards(data: Data, runs: Mapping[str, Run]) -> Contestants:
    """Functions of the backward of a block alone, from what its forward saves."""
    needs = data.needs_input
    single = plain(data.x, data.w, data.gamma, data.beta)
    output, mean, var, convolved = CONV_BLOCK.every(*single, EPS, None)

    def ours(dz: torch.Tensor, *args: Any) -> Any:
        *tensors, mean, var, convolved, output = args
        return ops.conv_block_backward(dz, None, None, None, *tensors, EPS, mean, var, convolved, needs, output)

    made: Contestants = {
        OURS: (ours, (*plain(data.dz), *single, mean, var, convolved, output)),
    }
    y = torch.conv2d(data.x, data.w, padding=1)
    normal, *reserved = forward_of_norm(y, data.gamma, data.beta)
    positive = normal.relu()
    _, indices = functional.max_pool2d(positive, 2, return_indices=True)

    def theirs(dz: torch.Tensor, x: torch.Tensor, w: torch.Tensor, y: torch.Tensor, *rest: Any) -> Any:
        positive, indices, gamma, *reserved = rest
        dy = _pool_backward(dz, positive, indices)
        d, dgamma, dbeta = relu_norm_backward(dy, positive, y, gamma, *reserved)
        return *conv_backward(d, x, w, (needs, True)), dgamma, dbeta

    made[PYTORCH] = theirs, (data.dz, data.x, data.w, y, positive, indices, data.gamma, *reserved)
    if "relu_batch_norm_backward" in runs:

        def patterns(dz: torch.Tensor, x: torch.Tensor, w: torch.Tensor, y: torch.Tensor, *rest: Any) -> Any:
            positive, indices, *vectors = rest
            dy = _pool_backward(dz, positive, indices)
            d, dgamma, dbeta = runs["relu_batch_norm_backward"](dy, y, *vectors)
            return *conv_backward(d, x, w, (needs, True)), dgamma.flatten(), dbeta.flatten()

        vectors = tuple(map(vector, (*saved(data), data.gamma, data.beta)))
        made["cuDNN's relu_batch_norm_backward"] = (
            patterns,
            (data.dz, data.x, data.w, half(y), positive, indices, *vectors),
        )
    return made


BLOCKS: dict[str, Callable[[Data, Mapping[str, Run]], Contestants]] = {
    "forward": forwards, "backward": backwards, "training": trainings,
}  # fmt: skip
