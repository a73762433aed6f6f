"""The help of the commands: no PyTorch is imported for it, and its choices and defaults are those of the library."""

from __future__ import annotations

import subprocess
import sys

from click.testing import CliRunner

import warpwise
from warpwise.apps import data
from warpwise.apps.train import DTYPES, MODELS
from warpwise.cli import COMMANDS, cli, cluster_input
from warpwise.cli import profile as run_profile
from warpwise.cli.commands import cluster, profile, train
from warpwise.lab.profile import result, tools
from warpwise.lab.store import comparison
from warpwise.lab.tune import online


def test_no_help_and_no_version_imports_torch() -> None:
    script = """
import sys
from warpwise.cli import COMMANDS, cli
for words in (["--version"], ["--help"], *([name, "--help"] for name in COMMANDS)):
    cli(words, standalone_mode=False)
    assert not {"torch", "numpy", "rich"} & set(sys.modules), words
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"version {warpwise.__version__}" in done.stdout
    assert all(f"  {name} " in done.stdout and f" {name} [OPTIONS]" in done.stdout for name in COMMANDS)


def test_the_options_name_the_choices_and_defaults_of_the_library() -> None:
    def help_of(name: str) -> str:
        return " ".join(CliRunner().invoke(cli, [name, "--help"], standalone_mode=False).output.split())

    assert (data.NAMES, tuple(MODELS), DTYPES) == (train.DATASETS, train.MODELS, train.DTYPES)
    assert tuple(result.COLUMNS) == profile.COLUMNS
    assert tuple(tools.TOOLS) == profile.TOOLS
    assert cluster.EXAMPLES == cluster_input.EXAMPLES
    assert f"[default: {100 * comparison.BETWEEN_RUNS:g}%]" in help_of("compare")
    assert f"[default: {run_profile.DEFAULT}]" in help_of("profile")
    assert f"with --online {online.BUDGET_S}]" in help_of("tune")
    assert f"with --online. [default: {online.TOTAL_S:g}]" in help_of("tune")


def test_the_formats_of_cluster_are_a_list() -> None:
    text = CliRunner().invoke(cli, ["cluster", "--help"], standalone_mode=False).output
    starts = [line.split()[0].rstrip(",") for line in text.splitlines() if line.startswith("  .")]
    assert starts == [".csv", ".h5ad", ".npy", ".npz", ".nii", ".png"]
