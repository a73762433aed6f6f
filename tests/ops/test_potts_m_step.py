"""potts_m_step: covariances that are not positive definite, and GPUs without clusters."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from warpwise import ops
from warpwise.cuda.gpu import nvrtc
from warpwise.ops.potts_m_step.rungs import SYMMETRIC_SWEEP


@pytest.mark.parametrize("rung", ["k01", "k02", None])
def test_a_negative_definite_covariance_has_no_likelihood(rung: str | None) -> None:
    """The determinant of two features with negative variances is positive."""
    counts, sums = torch.tensor([[25.0, 25.0]]), torch.tensor([[[50.0, 0.0], [0.0, 50.0]]])
    likelihood = ops.potts_m_step(counts, sums, 10 * torch.eye(2), sums / 25, 50, 0.0, rung=rung)[4]
    assert likelihood.isnan().all()


@pytest.mark.parametrize("tiles", [1, 8])
def test_one_block_compiles_for_gpus_without_clusters(
    tiles: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By NVRTC from the source as it is, so that no host compiler is needed."""
    pytest.importorskip("cuda.bindings", reason="NVRTC is reached through cuda-bindings", exc_type=ImportError)

    def refuse(*args: object) -> None:
        pytest.fail("NVRTC refused the source")

    monkeypatch.setenv("WARPWISE_CACHE", str(tmp_path))
    monkeypatch.setattr(nvrtc, "_compile_flattened", refuse)
    compiled = SYMMETRIC_SWEEP[f"potts_m_step_one_block<{tiles}>"].compile("sm_80")
    assert compiled.cubin[:4] == b"\x7fELF" and not compiled.spill_stores
