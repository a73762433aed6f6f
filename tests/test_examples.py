"""The examples that run without a GPU do what they say."""

from __future__ import annotations

import runpy
from pathlib import Path

import torch

from warpwise.apps.data import Images, ImageSet

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def test_an_epilogue_of_ones_own():
    clamped = runpy.run_path(str(EXAMPLES / "gemm_epilogue.py"))["clamped_matmul"]
    for m, n, k in ((50, 70, 90), (1, 1, 1), (33, 130, 31)):
        generator = torch.Generator().manual_seed(m)
        a, b = torch.randn(m, k, generator=generator), torch.randn(k, n, generator=generator)
        torch.testing.assert_close(clamped(a, b, -1.0, 2.0), (a @ b).clamp(-1.0, 2.0))


def test_a_network_of_ones_own_learns(capsys):
    """On made-up images: classes are bright rows at different heights."""
    train = runpy.run_path(str(EXAMPLES / "train_cnn.py"))["train"]
    labels = torch.arange(80) % 4
    pixels = torch.randint(0, 60, (80, 28, 28), generator=torch.Generator().manual_seed(0))
    for number, label in enumerate(labels.tolist()):
        pixels[number, 7 * label : 7 * label + 4] += 150
    images = Images(pixels.to(torch.uint8), labels)
    assert train(ImageSet("rows", images, images, tuple("abcd"), "a test"), "cpu", epochs=2, batch=10) > 0.9
    assert "epoch 2: loss of the last batch" in capsys.readouterr().out
