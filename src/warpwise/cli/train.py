"""``warpwise train``: train an image classifier from a data file to a checkpoint."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import torch
import torch.distributed as dist
from rich.console import Console
from rich.markup import escape

from warpwise.apps import data
from warpwise.apps.train import (
    CheckpointError,
    Epoch,
    NonFiniteLoss,
    Settings,
    Trainer,
    pictures,
)
from warpwise.cli.console import counted, wide_console
from warpwise.cli.profile import profile_table
from warpwise.lab.profile import profile as record
from warpwise.lab.timing.environment import resolve

PROFILED = (2, 2, 6, 1)  # steps that --profile waits, warms up and records


def train(
    dataset: str,
    model: str,
    batch: int,
    epochs: int,
    lr: float,
    momentum: float,
    seed: int,
    where: str | None,
    dtype: str,
    engine: str,
    folder: Path | None,
    download: bool,
    checkpoint: Path | None,
    resume: bool,
    profile: bool,
    plots: Path | None,
) -> int:
    """Run ``warpwise train``, with the options of ``warpwise.cli.commands.train``."""
    settings = Settings(dataset, model, batch, epochs, lr, momentum, seed, dtype, engine)
    path = checkpoint or Path(f"{dataset}-{model}.safetensors")
    with _processes(where) as device:
        return _train(settings, path, device, folder, download, resume, profile, plots)


@contextmanager
def _processes(where: str | None) -> Iterator[torch.device]:
    """The device of this process. Under torchrun, joins the process group, with one GPU per process."""
    count = int(os.environ.get("WORLD_SIZE", "1"))
    try:
        device = resolve(where)
        if count > 1 and device.type == "cuda":
            device = resolve(f"cuda:{os.environ['LOCAL_RANK']}")
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    if count == 1:
        yield device
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield device
    finally:
        dist.destroy_process_group()


def _train(
    settings: Settings,
    path: Path,
    device: torch.device,
    folder: Path | None,
    download: bool,
    resume: bool,
    profile: bool,
    plots: Path | None,
) -> int:
    """Train and report. With several processes, only the first one downloads, reports and draws."""
    first = not dist.is_initialized() or dist.get_rank() == 0
    console = wide_console()
    console.quiet = not first
    try:
        trainer = Trainer(settings, _data(settings.dataset, folder, download, first), device, path)
        if resume:
            trainer.resume(path)
        if first:
            _check_outputs(path, plots)
    except FileNotFoundError as error:
        raise click.ClickException(f"--resume: there is no checkpoint {path}") from error
    except (data.DataError, CheckpointError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    try:
        return _run(console, trainer, first, resume, path, plots, profile)
    finally:
        trainer.release()


def _run(
    console: Console, trainer: Trainer, first: bool, resume: bool, path: Path, plots: Path | None, profile: bool
) -> int:
    """Train, draw and profile; the exit code."""
    _introduce(console, trainer, resume)
    done = trainer.epoch >= trainer.settings.epochs
    try:
        trainer.run(
            lambda trainer, step: _progress(console, trainer, step),
            lambda epoch: console.print(_line(epoch), markup=False),
        )
    except NonFiniteLoss as error:
        raise click.ClickException(str(error)) from error
    if trainer.stopped:
        if first:
            kept = f"{path} has epoch {trainer.epoch + 1}, step {trainer.at}"
            click.echo(f"interrupted; {kept}; --resume continues", err=True)
        return 130
    if done:
        console.print(
            f"nothing to train: {escape(str(path))} has {counted(trainer.epoch, 'epoch')}; more --epochs continue"
        )
    else:
        console.print(f"wrote {escape(str(path))}")
    if plots is not None and first:
        console.print(f"wrote {escape(str(pictures.write(trainer, plots)[-1]))}")
    if profile:
        _profile(console, trainer, path.with_suffix(f".{trainer.rank}.trace.json" if trainer.rank else ".trace.json"))
    return 0


def _check_outputs(path: Path, plots: Path | None) -> None:
    """Raise ``ClickException`` if the checkpoint or the plots cannot be written, before anything is trained."""
    for option, folder in (("--checkpoint", path.parent), ("--plots", plots)):
        try:
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
                with tempfile.TemporaryFile(dir=folder):
                    pass
        except OSError as error:
            raise click.ClickException(f"{option}: cannot write to {folder}: {error.strerror}") from error
    if path.is_dir():
        raise click.ClickException(f"--checkpoint: expected a file, got the folder {path}")


def _data(name: str, folder: Path | None, download: bool, first: bool) -> data.ImageSet:
    """Load the data set. The first process downloads it, and the others wait until it has."""
    if not dist.is_initialized():
        return data.load(name, folder, download)
    if first:
        found = data.load(name, folder, download)
    dist.barrier()
    return found if first else data.load(name, folder)


def _introduce(console: Console, trainer: Trainer, resumed: bool) -> None:
    settings, found, count = trainer.settings, trainer.data, sum(p.numel() for p in trainer.model.parameters())
    device = trainer.device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "the CPU"
    console.print(
        f"{settings.model}, {count:,} parameters, on {counted(len(found.train), 'image')} of {settings.dataset} "
        f"[dim]({escape(found.source)})[/], {settings.dtype}, engine {settings.engine}, {escape(name)}"
    )
    if settings.engine == "ours" and device.type == "cpu":
        console.print("[dim]on a CPU our operations run PyTorch's kernels[/]")
    if settings.engine == "emulated":
        console.print("[dim]our CUDA kernels run emulated and checked, about a third of a second an image[/]")
    if trainer.processes > 1:
        own = settings.batch // trainer.processes
        console.print(f"[dim]{trainer.processes} processes, each with {own:,} images of a batch[/]")
    if resumed:
        done = f"{counted(trainer.epoch, 'epoch')} and {counted(trainer.at, 'step')}"
        console.print(f"[dim]continuing after {done}[/]")


def _progress(console: Console, trainer: Trainer, step: int) -> None:
    """The last step and its loss, on a terminal."""
    if console.is_terminal and step < trainer.steps:
        text = f"epoch {trainer.epoch + 1}, step {step}/{trainer.steps}, loss {trainer.losses[-1]:.4f}"
        console.print(f"[dim]{text}[/]", end="\r")


def _line(epoch: Epoch) -> str:
    return (
        f"epoch {epoch.number:>3}  loss {epoch.loss:.4f}  test accuracy {100 * epoch.accuracy:.2f} %  "
        f"{epoch.rate:,.0f} images/s"
    )


def _profile(console: Console, trainer: Trainer, trace: Path) -> None:
    indices = torch.arange(trainer.settings.batch, device=trainer.device)

    def step() -> None:
        trainer.step(indices)

    result = record(step, schedule=PROFILED, trace=trace, device=trainer.device, name="a training step")
    console.print(f"[bold]{escape(result.heading)}[/]")
    if result.table:
        console.print(profile_table(result, rest="the trace has them"))
    for written in result.traces:
        console.print(f"trace: {escape(str(written))}  [dim]open in https://ui.perfetto.dev or chrome://tracing[/]")
