"""The cases of unseen_shapes.py: sizes, attributes, dtypes and layouts, drawn from a seed for each operation."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from warpwise.arguments.draw import channels_last
from warpwise.arguments.values import map_tensors
from warpwise.operation import Case, Op

MOST_ELEMENTS = 2**28  # of one tensor
MOST_IMAGES, MOST_FLOPS = 2**25, 2**36  # elements of the images of a convolution or pooling, and its FLOPs


NETWORKS = tuple(  # (m, n, k) of linear layers: tokens, output features, input features
    (tokens, *layer)
    for tokens in (1, 8, 64, 512, 2048)
    for layer in ((768, 768), (3072, 768), (768, 3072), (4096, 4096), (14336, 4096), (4096, 14336), (6144, 4096),
                  (1000, 2048), (50257, 768), (32000, 4096))
)  # fmt: skip


@dataclass(frozen=True)
class Drawn:
    """A case, its dtype, and for operations with tables the arrangement of the operands ("nt"); of images, "nhwc"."""

    case: Case
    dtype: torch.dtype
    arrangement: str = ""


def arguments(op: Op, given: tuple[Any, ...], arrangement: str) -> tuple[Any, ...]:
    """The arguments ``given`` in the layout ``arrangement``."""
    if arrangement == "nhwc":
        return tuple(map_tensors(channels_last, given))
    if not arrangement or op.tables is None:
        return given
    return tuple(op.tables.arrangements[arrangement](*given))


def log_uniform(rng: random.Random, low: int, high: int) -> int:
    return round(math.exp(rng.uniform(math.log(low), math.log(high))))


def gemm_sizes(rng: random.Random, high: int = 16384) -> dict[str, int]:
    """m, n, k; two thirds of the cases have multiples of 8 only."""
    sizes = {name: log_uniform(rng, 16, high) for name in "mnk"}
    return sizes if rng.random() < 1 / 3 else {name: (size + 7) // 8 * 8 for name, size in sizes.items()}


def plane(rng: random.Random, first: str = "rows", second: str = "columns") -> dict[str, int]:
    """Two sizes from 1 to 131072 whose product is at most MOST_ELEMENTS."""
    while True:
        sizes = {first: log_uniform(rng, 1, 131072), second: log_uniform(rng, 1, 131072)}
        if math.prod(sizes.values()) <= MOST_ELEMENTS:
            return sizes


def sums(rng: random.Random) -> tuple[dict[str, int], dict[str, Any]]:
    """The sum of all elements in a quarter of the cases, of columns in another quarter, of rows in the others."""
    dim = rng.choice((None, 0, -1, -1))
    return ({"n": log_uniform(rng, 1, MOST_ELEMENTS)}, {}) if dim is None else (plane(rng), {"dim": dim})


def image(rng: random.Random) -> dict[str, int]:
    return {"n": log_uniform(rng, 1, 32), "channels": 3, **{name: log_uniform(rng, 16, 2048) for name in SIDES}}


SIDES = ("height", "width")
LAYOUTS = ("", "nhwc")


def eighths(rng: random.Random, *sizes: int) -> tuple[int, ...]:
    """Two thirds of the draws are rounded up to multiples of 8."""
    return sizes if rng.random() < 1 / 3 else tuple((size + 7) // 8 * 8 for size in sizes)


def images(rng: random.Random, filters: bool = False) -> dict[str, int]:
    """n, c, h and w, with ``filters`` also k; a quarter have 1 or 3 channels, as the first layer of a network."""
    while True:
        n, h, w = log_uniform(rng, 1, 512), log_uniform(rng, 4, 224), log_uniform(rng, 4, 224)
        c, k = eighths(rng, log_uniform(rng, 2, 512), log_uniform(rng, 2, 512))
        c = rng.choice((1, 3)) if rng.random() < 0.25 else c
        if n * max(c, k if filters else 0) * h * w <= MOST_IMAGES:
            return {"n": n, "c": c, "h": h, "w": w} | ({"k": k} if filters else {})


def convolution(rng: random.Random) -> tuple[dict[str, int], dict[str, Any]]:
    """Filters of 1 x 1 to 7 x 7, half of them 3 x 3; stride 2 in a third; padding; groups in a quarter."""
    while True:
        sizes, kernel = images(rng, True), rng.choice((1, 3, 3, 3, 5, 7))
        padding, stride = rng.choice((0, kernel // 2, kernel // 2)), rng.choice((1, 1, 2))
        groups = rng.choice((1, 1, 1, 2, 4, sizes["c"]))
        if groups > 1:
            sizes["c"], sizes["k"] = (-(-sizes[name] // groups) * groups for name in "ck")
        places = [(sizes[name] + 2 * padding - kernel) // stride + 1 for name in "hw"]
        flops = 2 * sizes["n"] * sizes["k"] * sizes["c"] // groups * kernel**2 * math.prod(places)
        pixels = sizes["n"] * math.prod(places)
        if min(places) > 0 and flops <= MOST_FLOPS and max(sizes["k"], sizes["c"]) * pixels <= MOST_IMAGES:
            pairs = {"stride": (stride, stride), "padding": (padding, padding)}
            more = {"groups": groups, "biased": rng.random() < 0.5, "tf32": rng.random() < 0.5}
            return {**sizes, "r": kernel, "s": kernel}, pairs | more


def pooling(rng: random.Random) -> tuple[dict[str, int], dict[str, Any]]:
    """Half of the windows are 2 x 2 side by side."""
    size, stride, padding = (2, 2, 0) if rng.random() < 0.5 else (rng.choice((2, 3, 5)), rng.choice((1, 2, 3)), None)
    padding = rng.choice((0, size // 2)) if padding is None else padding
    pairs = {"kernel_size": (size, size), "stride": (stride, stride), "padding": (padding, padding)}
    while True:
        sizes = images(rng)
        if min(sizes["h"], sizes["w"]) >= size:
            return sizes, pairs


def block(rng: random.Random) -> tuple[dict[str, int], dict[str, Any]]:
    while True:
        sizes = images(rng, True)
        if 18 * sizes["n"] * sizes["k"] * sizes["c"] * sizes["h"] * sizes["w"] <= MOST_FLOPS:
            return sizes, {"tf32": rng.random() < 0.5}


BOTH = (torch.float32, torch.bfloat16)
THREE = (torch.float32, torch.float32, torch.bfloat16)  # the second in TF32
Draw = Callable[[random.Random], tuple[dict[str, int], dict[str, Any]]]
CASES: dict[str, tuple[tuple[torch.dtype, ...], tuple[str, ...], Draw]] = {
    "matmul": (BOTH, ("nn", "nt", "tn"), lambda rng: (gemm_sizes(rng), {})),
    "matmul_tf32": ((torch.float32,), ("nn", "nt", "tn"), lambda rng: (gemm_sizes(rng), {})),
    "scaled_matmul": (
        (torch.float8_e4m3fn,), (),
        lambda rng: (
            {name: (size + 15) // 16 * 16 for name, size in gemm_sizes(rng).items()}, {"by_row": rng.random() < 0.5}
        ),
    ),
    "batched_matmul": (BOTH, ("nn", "nt", "tn"), lambda rng: (
        {"batch": log_uniform(rng, 2, 64), **gemm_sizes(rng, 2048)}, {})),
    "grouped_matmul": (BOTH, (), lambda rng: (
        {"rows": log_uniform(rng, 16, 16384), "groups": log_uniform(rng, 2, 64),
         **{name: log_uniform(rng, 2, 512) * 8 for name in "nk"}}, {})),
    "linear": (BOTH, (), lambda rng: (
        gemm_sizes(rng), {"activation": rng.choice((None, "relu", "gelu", "gelu_tanh")), "with": ("bias",)})),
    "addmm": (BOTH, (), lambda rng: (gemm_sizes(rng), {"input_shape": rng.choice(("row", "matrix"))})),
    "matvec": (BOTH, (), lambda rng: (plane(rng, "m", "k"), {"column_major": rng.random() < 0.5})),
    "softmax": (BOTH, (), lambda rng: (plane(rng), {"dim": rng.choice((0, -1))})),
    "reduce_sum": (BOTH, (), lambda rng: sums(rng)),
    "transpose": ((torch.float32, torch.float16), (), lambda rng: (plane(rng, "rows", "cols"), {})),
    "square": (BOTH, (), lambda rng: (plane(rng, "rows", "cols"), {})),
    "polynomial": (BOTH, (), lambda rng: (plane(rng, "rows", "cols"), {})),
    "matrix_add": (BOTH, (), lambda rng: (plane(rng, "rows", "cols"), {})),
    "vector_add": (BOTH, (), lambda rng: ({"n": log_uniform(rng, 1, MOST_ELEMENTS)}, {})),
    "histogram": ((torch.uint8,), (), lambda rng: ({"n": log_uniform(rng, 1, MOST_ELEMENTS), "bins": 256}, {})),
    "rgb_to_grayscale": ((torch.uint8,), (), lambda rng: (
        {name: size for name, size in image(rng).items() if name != "channels"}, {})),
    "gaussian_blur": (BOTH[:1], (), lambda rng: ({**image(rng), "kernel": rng.choice((3, 5, 9, 15))}, {})),
    "softmax_backward": (BOTH, (), lambda rng: (plane(rng), {"dim": rng.choice((0, -1))})),
    "polynomial_backward": (BOTH, (), lambda rng: (plane(rng, "rows", "cols"), {})),
    "gaussian_blur_backward": (BOTH[:1], (), lambda rng: ({**image(rng), "kernel": rng.choice((3, 5, 9, 15))}, {})),
    "conv2d": (THREE, LAYOUTS, convolution),
    "conv2d_backward": (THREE, LAYOUTS, convolution),
    "batch_norm": (BOTH, LAYOUTS, lambda rng: (images(rng), {})),
    "batch_norm_backward": (BOTH, LAYOUTS, lambda rng: (images(rng), {})),
    "max_pool2d": (BOTH, LAYOUTS, pooling),
    "max_pool2d_backward": (BOTH, LAYOUTS, pooling),
    "avg_pool2d": (BOTH, LAYOUTS, pooling),
    "avg_pool2d_backward": (BOTH, LAYOUTS, pooling),
    "conv_block": (THREE, LAYOUTS, block),
    "conv_block_backward": (THREE, LAYOUTS, block),
}  # fmt: skip
GEMMS = tuple(CASES)[:7]


def drawn(name: str, seed: int, count: int) -> Iterator[Drawn]:
    """``count`` cases of the operation ``name``; the first are the same for every ``count``.

    The dtypes follow one another, then the layouts; the second dtype of ``THREE`` is float32 in TF32. So six cases have
    every dtype in every layout.
    """
    dtypes, arrangements, draw = CASES[name]
    rng = random.Random(f"{name} {seed}")
    for number in range(count):
        sizes, attributes = draw(rng)
        arrangement = arrangements[number // len(dtypes) % len(arrangements)] if arrangements else ""
        if "tf32" in attributes:
            attributes["tf32"] = number % len(dtypes) == 1
        yield Drawn(Case(f"{name}_{number}", sizes, attributes), dtypes[number % len(dtypes)], arrangement)


def network_cases(name: str) -> Iterator[Drawn]:
    """The shapes of ``NETWORKS`` for the operations that have m, n and k."""
    if name in ("matmul", "matmul_tf32", "scaled_matmul"):
        for number, shape in enumerate(NETWORKS):
            sizes = {
                letter: -(-size // 16) * 16 if name == "scaled_matmul" else size
                for letter, size in zip("mnk", shape, strict=True)
            }
            arrangement = "nt" if CASES[name][1] else ""
            yield Drawn(Case(f"network_{number}", sizes), CASES[name][0][-1], arrangement)
