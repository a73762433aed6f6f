"""potts_m_step: numbers of features and domains, covariances that are not positive definite, GPUs without clusters."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from warpwise import operation, ops
from warpwise.cuda.gpu import nvrtc
from warpwise.operation import Case
from warpwise.ops.potts_m_step import rungs
from warpwise.ops.potts_m_step.rungs import SYMMETRIC_SWEEP


@pytest.mark.parametrize("rung", ["k01", "k02", None])
def test_a_negative_definite_covariance_has_no_likelihood(rung: str | None) -> None:
    """The determinant of two features with negative variances is positive."""
    counts, sums = torch.tensor([[25.0, 25.0]]), torch.tensor([[[50.0, 0.0], [0.0, 50.0]]])
    likelihood = ops.potts_m_step(counts, sums, 10 * torch.eye(2), sums / 25, 50, 0.0, rung=rung)[4]
    assert likelihood.isnan().all()


@pytest.mark.parametrize(
    "domains,width,tiles,clustered",
    [(5, 16, 1, False), (260, 16, 1, True), (1140, 7, 1, True), (9, 17, 2, False), (4, 45, 3, False),
     (30, 50, 4, True), (3, 77, 5, False), (24, 81, 6, True), (2, 97, 8, False)],
)  # fmt: skip
def test_tiles_of_the_covariance(domains: int, width: int, tiles: int, clustered: bool) -> None:
    op = operation.get("potts_m_step")
    case = Case("tiles", {"restarts": 2, "domains": domains, "width": width}, {"highest_beta": 1.5})
    made = op.spec.inputs(case, torch.float32, torch.device("cpu"), 0)
    args = *(made[name] for name in ("counts", "sums", "total", "previous", "n_points")), 1e-3, made["derivatives"]
    args = *args, made["beta"], 1.5
    assert (rungs._tiles(width), rungs._clustered(made["sums"])) == (tiles, clustered)
    expected = op.spec.reference(*args)
    for found, wanted in zip(ops.potts_m_step(*args, rung="k02"), expected, strict=True):
        error = (found.double() - wanted).abs().max() / wanted.abs().max()
        assert error < (1e-12 if found.dtype == torch.float64 else 1e-6)


@pytest.mark.parametrize("domains,width", [(7, 16), (8, 50), (32, 50)])
def test_means_far_from_zero(domains: int, width: int) -> None:
    """The products of means round differently above and below the diagonal; the covariance is symmetric."""
    op = operation.get("potts_m_step")
    case = Case("means", {"restarts": 1, "domains": domains, "width": width}, {"highest_beta": 1.5})
    made = op.spec.inputs(case, torch.float32, torch.device("cpu"), 0)
    counts, sums = made["counts"], 100 * made["sums"]
    products = (sums.mT @ (sums / counts.clamp(min=1)[..., None]))[0] + counts.sum() * torch.eye(width)
    args = counts, sums, products, 100 * made["previous"], made["n_points"], 1e-3
    _, scale, *_ = ops.potts_m_step(*args, rung="k02")
    assert scale.equal(scale.mT)


def test_a_cluster_where_one_block_has_too_little_shared_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    sums = torch.zeros(1, 8, 128)
    assert not rungs._clustered(sums)
    monkeypatch.setattr(rungs, "most_bytes", lambda sums: 78 * 1024)
    assert rungs._clustered(sums)


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
