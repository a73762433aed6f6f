"""The ladder of scaled_matmul, slowest idea first."""

from __future__ import annotations

import torch

from warpwise.operation import make_rung
from warpwise.ops.scaled_matmul._hopper import configs, hopper, two_k_tile_promotion, two_wgmma_in_flight, warpgroups
from warpwise.ops.scaled_matmul._launch import (
    descriptor_limits,
    grid_of_rows,
    grid_of_tiles,
    naive,
    triton_descriptors,
    triton_tiled,
)
from warpwise.ops.scaled_matmul._operands import HERE
from warpwise.ops.scaled_matmul._skinny import any_size, few_tiles, skinny, skinny_configs

RUNGS = (
    make_rung(HERE, "k01_naive", "one thread an element", naive, limits=grid_of_rows, strided=True),
    make_rung(
        HERE,
        "k02_triton_tiled",
        "tiles in Triton, sums of k-tiles added in float32",
        triton_tiled,
        limits=grid_of_tiles,
        strided=True,
    ),
    make_rung(
        HERE,
        "k03_triton_descriptors",
        "persistent programs, operands by TMA",
        triton_descriptors,
        limits=descriptor_limits,
        strided=True,
    ),
    make_rung(
        HERE,
        "k04_warpgroups",
        "Hopper: two warpgroups alternate, one adds while the other multiplies",
        warpgroups,
        limits=hopper,
        devices=("cuda",),
        strided=True,
    ),
    make_rung(
        HERE,
        "k05_two_k_tile_promotion",
        "Hopper: sums of 256 products at a time in wgmma",
        two_k_tile_promotion,
        limits=hopper,
        devices=("cuda",),
        strided=True,
        configs=configs,
    ),
    make_rung(
        HERE,
        "k06_two_wgmma_in_flight",
        "Hopper: A in registers, two wgmma of 64 columns in flight in each warpgroup",
        two_wgmma_in_flight,
        limits=hopper,
        devices=("cuda",),
        strided=True,
        configs=configs,
    ),
    make_rung(
        HERE,
        "k07_skinny",
        "Hopper, few rows as wgmma's n, K divided",
        skinny,
        limits=any_size,
        devices=("cuda",),
        strided=True,
        configs=skinny_configs,
    ),
)


def default(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> str | None:
    """The rung for sizes that no table covers: on Hopper k07 for few rows or tiles, else k05; k02 on other GPUs; else k01."""
    first = "k07_skinny" if few_tiles(a, b) else "k05_two_k_tile_promotion"
    rules = {first: hopper, "k02_triton_tiled": grid_of_tiles, "k01_naive": grid_of_rows}
    usable = (name for name, limits in rules.items() if limits(a, b, scale_a, scale_b) is None)
    return next(usable, None)
