"""``warpwise train``: values that are refused before a run starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from warpwise.apps import data
from warpwise.cli import cli


@pytest.mark.parametrize("option", ["--lr", "--momentum"])
@pytest.mark.parametrize("value", ["nan", "inf"])
def test_a_rate_that_is_not_finite_is_refused(option: str, value: str) -> None:
    done = CliRunner().invoke(cli, ["train", "digits", option, value])
    assert done.exit_code == 2 and f"{value} is not finite" in done.output, done.output


@pytest.mark.parametrize("name", ["digits", "mnist", "fashion"])
def test_a_folder_without_the_files_names_them(tmp_path: Path, name: str) -> None:
    with pytest.raises(data.DataError, match="--data expects train-images-idx3-ubyte, ") as caught:
        data.load(name, tmp_path)
    assert "--download" not in str(caught.value), "--download does not write to the folder of --data"
