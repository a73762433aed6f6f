"""The launcher of k06."""

from __future__ import annotations

from pathlib import Path

from warpwise import cuda
from warpwise.ops.scaled_matmul._shared import tiled

TWO_WGMMA_IN_FLIGHT = cuda.load(Path(__file__).with_suffix(".cu"))

launch = tiled(TWO_WGMMA_IN_FLIGHT, "scaled_matmul_two_wgmma_in_flight")
