"""``warpwise train``: values that are refused before a run starts."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from warpwise.apps import data
from warpwise.apps.train import Settings, Trainer
from warpwise.cli import cli


@pytest.mark.parametrize("option", ["--lr", "--momentum"])
@pytest.mark.parametrize("value", ["nan", "inf"])
def test_a_rate_that_is_not_finite_is_refused(option: str, value: str) -> None:
    done = CliRunner().invoke(cli, ["train", "digits", option, value])
    assert done.exit_code == 2 and f"{value} is not finite" in done.output, done.output


def test_every_seed_of_the_option_has_an_order() -> None:
    done = CliRunner().invoke(cli, ["train", "digits", "--seed", str(2**63)])
    assert done.exit_code == 2 and f"range 0<=x<={2**63 - 1}" in done.output, done.output
    pixels, labels = torch.zeros(6, 4, 4, dtype=torch.uint8), torch.arange(6) % 2
    images = data.ImageSet("made up", data.Images(pixels, labels), data.Images(pixels, labels), ("a", "b"), "a test")
    trainer = Trainer(Settings("digits", "mlp", batch=2, seed=2**63 - 1), images, torch.device("cpu"))
    assert trainer.order(0).sort().values.tolist() == list(range(6))
    assert trainer.order(0).tolist() != trainer.order(1).tolist()


@pytest.mark.parametrize("name", ["digits", "mnist", "fashion"])
def test_a_folder_without_the_files_names_them(tmp_path: Path, name: str) -> None:
    with pytest.raises(data.DataError, match="--data expects train-images-idx3-ubyte, ") as caught:
        data.load(name, tmp_path)
    assert "--download" not in str(caught.value), "--download does not write to the folder of --data"
