"""The comparisons of benchmarks/cnn.py and cnn_errors.py, on a CPU and small images."""

import pytest
import torch
from benchmarks import cnn, cnn_errors

from warpwise.apps.data import Images, ImageSet

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def images() -> ImageSet:
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (48, 8, 8), dtype=torch.uint8, generator=generator)
    found = Images(pixels, torch.randint(0, 4, (48,), generator=generator))
    return ImageSet("made up", found, found, ("a", "b", "c", "d"), "a test")


def test_moved_weights_differ_by_a_unit_in_the_last_place():
    state = {"weight": torch.randn(100), "count": torch.tensor(3)}
    found = cnn.moved(state, 0)
    steps = found["weight"].view(torch.int32) - state["weight"].view(torch.int32)
    assert set(steps.tolist()) == {-1, 1} and found["count"] == 3
    assert not torch.equal(found["weight"], cnn.moved(state, 1)["weight"])


def test_losses_of_the_same_network_agree(images, monkeypatch):
    monkeypatch.setattr(cnn, "STEPS", 4)
    losses = cnn.losses_of_runs(images, 16, CPU, 2)
    assert {name: len(runs) for name, runs in losses.items()} == {
        "eager": 1, "eager, moved": 2, "ours": 2, **dict.fromkeys(cnn.ROUNDINGS, 1)
    }  # fmt: skip
    found = cnn.agreement(losses)
    assert found["pairs"]["ours and eager"]["largest"][2] < 1e-4
    losses["ours"] = [run * 1.5 for run in losses["ours"]]
    assert cnn.agreement(losses)["pairs"]["ours and eager"]["largest"][0] > 0.4


def test_two_groups_of_runs_that_differ_do_so_hardly_by_chance():
    def drawn(count: int, at: float) -> list[torch.Tensor]:
        return [at + 0.1 * torch.randn(50) for _ in range(count)]

    torch.manual_seed(0)
    assert cnn.by_chance(drawn(8, 1.0), drawn(8, 1.0), rounds=500) > 0.05
    assert cnn.by_chance(drawn(8, 1.0), drawn(8, 1.2), rounds=500) < 0.01


def test_errors_of_a_step(images):
    found = cnn_errors.measured(images, 16, CPU, 1, 2)
    assert {"block1 output", "hidden gradient", "loss", "block2.conv.weight gradient", "linear1.weight updated"} <= set(
        found
    )
    assert all(0 <= one["error"] < 1e-3 for engines in found.values() for one in engines.values())
    true = {"loss": torch.tensor(2.0, dtype=torch.float64)}
    assert cnn_errors.errors({"loss": torch.tensor(1.0)}, true, {}) == {"loss": (0.5, 0.5)}
