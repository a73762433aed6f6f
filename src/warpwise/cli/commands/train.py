"""The options and the help of ``warpwise train``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click

from warpwise.cli.commands.options import device_option, wait_without_spinning

DATASETS = ("mnist", "fashion", "digits")
MODELS = ("cnn", "mlp")
DTYPES = ("fp32", "tf32", "bf16")
DTYPE_HELP = "tf32 allows TF32 for float32 operands, on a GPU; bf16 is autocast."
ENGINES = {
    "ours": "our operations, the step captured in one CUDA graph",
    "torch": "PyTorch in eager mode",
    "compile": "torch.compile, captured in one CUDA graph",
    "graph": "PyTorch in eager mode, captured in one CUDA graph",
    "emulated": "our CUDA kernels on a CPU, with every access checked: for a few steps",
}
ENGINE_HELP = "; ".join(f"{name}: {text}" for name, text in ENGINES.items()) + "."


def finite(ctx: click.Context, parameter: click.Parameter, value: float) -> float:
    """Reject nan and inf: a range of click accepts nan, and inf without a maximum."""
    if not math.isfinite(value):
        raise click.BadParameter(f"{value} is not finite")
    return value


@click.command()
@click.argument("dataset", type=click.Choice(DATASETS), default="digits")
@click.option("--model", type=click.Choice(MODELS), default="cnn", show_default=True, help="The network.")
@click.option("--batch", type=click.IntRange(min=1), default=128, show_default=True, help="Images per step.")
@click.option("--epochs", type=click.IntRange(min=1), default=5, show_default=True, help="Passes over the images.")
@click.option(
    "--lr", type=click.FloatRange(min=0), callback=finite, default=0.05, show_default=True, help="Learning rate."
)
@click.option(
    "--momentum",
    type=click.FloatRange(min=0),
    callback=finite,
    default=0.9,
    show_default=True,
    help="Momentum of SGD.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    default=0,
    show_default=True,
    help="Seed of the parameters and the order of images.",
)
@device_option
@click.option("--dtype", type=click.Choice(DTYPES), default="fp32", show_default=True, help=DTYPE_HELP)
@click.option("--engine", type=click.Choice(list(ENGINES)), default="ours", show_default=True, help=ENGINE_HELP)
@click.option("--data", "folder", type=click.Path(path_type=Path), help="A folder with the four IDX files.")
@click.option("--download", is_flag=True, help="Fetch missing files of mnist or fashion into the cache.")
@click.option(
    "--checkpoint", type=click.Path(path_type=Path), help="The file to write.  [default: DATASET-MODEL.safetensors]"
)
@click.option("--resume", is_flag=True, help="Continue from the checkpoint.")
@click.option("--profile", is_flag=True, help="Show the time of each operation of a step, and write a trace.")
@click.option(
    "--plots", type=click.Path(path_type=Path), help="Write curves, misclassified images and filters to this folder."
)
def train(**given: Any) -> int:
    """Train an image classifier on mnist, fashion or digits (the default: 5,000 digits of MNIST, no download).

    cnn is two blocks of convolution 3 x 3, batch normalisation, relu and max pooling, and two linear layers; mlp has
    one hidden layer. After each epoch the command shows the test accuracy and writes the checkpoint (safetensors,
    atomically). After Ctrl-C it finishes the current step and writes the checkpoint; --resume continues to the same
    weights. A loss that is not finite ends the run with an error and keeps the last checkpoint. Under torchrun each
    process trains with its part of the batch, on a GPU of its own or on the CPU; the weights are those of a single
    process, up to rounding.

    \b
    warpwise train
    warpwise train fashion --download --batch 512 --epochs 10 --plots fashion
    warpwise train mnist --data ~/mnist --engine torch
    torchrun --nproc-per-node 2 -m warpwise train mnist --batch 4096
    """
    wait_without_spinning()
    from warpwise.cli.train import train as run_train

    return run_train(**given)
