"""The training loop: batches, checkpoints, evaluation; resumable to the same weights."""

from __future__ import annotations

import copy
import functools
import signal
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import warpwise.nn
from warpwise.apps.data import ImageSet
from warpwise.apps.train import emulated, engines, networks
from warpwise.apps.train.checkpoint import Checkpoint, CheckpointError
from warpwise.apps.train.settings import Settings
from warpwise.ops.gather_images.op import gather_images

CHECK_EVERY = 50  # steps between checks of the losses, each of which waits for the GPU
TEST_BATCH = 1000


class NonFiniteLoss(ArithmeticError):
    """The loss became NaN or infinite; the message says at which step, and where the last good checkpoint is."""


@dataclass(frozen=True)
class Epoch:
    """One finished epoch: the mean loss of its steps, the accuracy on the test images, and images trained a second."""

    number: int
    loss: float
    accuracy: float
    rate: float
    losses: tuple[float, ...] = ()


class Trainer:
    """A run of ``settings`` on ``data``. ``run`` trains what is missing and writes ``checkpoint`` after each epoch.

    On a GPU the steps are CUDA graphs, of several steps each, unless ``captured`` is false; the data set stays on the
    device as uint8.

    In a process group of torch.distributed each process trains with its part of every batch; the weights and losses are
    those of one process up to the order of sums. The first process writes the checkpoint, and all processes read it.
    If a process receives Ctrl-C, all end the run at the next check of the losses.

    Raises ``ValueError`` for settings that do not fit the data or the device.
    """

    def __init__(
        self,
        settings: Settings,
        data: ImageSet,
        device: torch.device,
        checkpoint: Path | None = None,
        captured: bool = True,
    ) -> None:
        if settings.batch < 1 or settings.epochs < 1:
            raise ValueError(f"expected a batch and epochs of at least 1, got {settings.batch} and {settings.epochs}")
        if settings.batch > len(data.train):
            raise ValueError(
                f"expected a batch of at most the {len(data.train):,} images of {data.name}, got {settings.batch:,}"
            )
        self.rank, self.processes = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
        if self.processes > 1 and settings.engine != "ours":
            raise ValueError(f"engine {settings.engine}: expected one process, got {self.processes}; choose ours")
        if settings.batch % self.processes:
            raise ValueError(f"expected a batch that {self.processes} processes divide evenly, got {settings.batch}")
        engines.check(settings, device)
        self.settings, self.data, self.device, self.checkpoint = settings, data, device, checkpoint
        size = (data.train.pixels.shape[-2], data.train.pixels.shape[-1])
        engine = engines.engine(settings, captured)
        self.model = networks.build(
            settings.model, engine.modules, data.channels, size, len(data.classes), settings.seed, settings.features
        ).to(device)
        if device.type == "cuda":
            engines.set_precision(settings, self.model)
        self.train, self.test = data.train.to(device), data.test.to(device)
        self.mean, self.std = data.statistics()
        self.optimizer, self.step = engine.make_step(self.model, self.batch)
        if self.processes > 1:
            warpwise.nn.DataParallel(self.model, self.optimizer)
        self.history: list[Epoch] = []
        self.epoch = self.at = 0  # epochs that are finished, and steps of the next one
        self.losses: list[float] = []  # of the steps of this epoch
        self.stopped = False
        self.saved = ""

    @property
    def steps(self) -> int:
        """Steps of an epoch. The last, incomplete batch is dropped; the images in it differ from epoch to epoch."""
        return len(self.train) // self.settings.batch

    def batch(self, indices: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The training images at ``indices``, normalised, (B, C, H, W), and their labels, (B,)."""
        gather = emulated.gathered if self.settings.engine == "emulated" else gather_images
        images, labels = gather(self.train.pixels, indices, self.mean, self.std, self.train.labels)
        return _with_channel(images), labels

    def order(self, epoch: int) -> torch.Tensor:
        """The order of the training images in an epoch, from the seed and the epoch's number alone."""
        generator = torch.Generator().manual_seed((1_000_003 * self.settings.seed + epoch) % 2**63)
        return torch.randperm(len(self.train), generator=generator).to(self.device)

    def run(
        self,
        progress: Callable[[Trainer, int], None] | None = None,
        finished: Callable[[Epoch], None] | None = None,
    ) -> None:
        """Train up to ``settings.epochs``.

        ``progress(trainer, step)`` is called after each check of the losses, ``finished(epoch)`` after each epoch.

        Ctrl-C ends the run after the step, or after the graphs up to the next check of the losses, with a checkpoint of
        that step; ``stopped`` is then true. An emulated step, which takes longer, is abandoned: the checkpoint is that
        of the step before. Raises ``NonFiniteLoss`` and does not change the last checkpoint.
        """
        with _interrupts() as interrupted:
            while self.epoch < self.settings.epochs and not self.stopped:
                self._epoch(interrupted, progress)
                if finished is not None and not self.stopped:
                    finished(self.history[-1])

    def release(self) -> None:
        """Free the CUDA graphs of the step, before the process group is destroyed."""
        if isinstance(self.step, warpwise.nn.CompiledStep):
            self.step.release()

    def _epoch(self, interrupted: threading.Event, progress: Callable[[Trainer, int], None] | None) -> None:
        self.model.train()
        order, batch, first = self.order(self.epoch), self.settings.batch, self.at
        own = batch // self.processes
        losses = torch.zeros(self.steps, device=self.device)
        seen = first
        started = time.perf_counter()
        while self.at < self.steps:
            count = self._together()
            indices = order[self.at * batch :][: count * batch].view(count, self.processes, own)[:, self.rank]
            before = self._kept() if self.settings.engine == "emulated" else None
            try:
                losses[self.at : self.at + count] = self._take(indices)
                self.at += count
            except KeyboardInterrupt:  # of the emulator, which ends a launch at once
                if before is None or not interrupted.is_set():
                    raise
                self.model.load_state_dict(before[0])
                self.optimizer.load_state_dict(before[1])
            check = self.at % CHECK_EVERY == 0 or self.at == self.steps
            stop = self._stops(interrupted, check)
            if stop or check:
                self._check_losses(losses, seen)
                seen = self.at
                if progress is not None:
                    progress(self, self.at)
            if stop:
                self.stopped = True
                self.save()
                return
        spent = time.perf_counter() - started
        rate = (self.steps - first) * batch / spent if spent > 0 else 0.0
        mean = sum(self.losses) / len(self.losses)
        self.epoch, self.at = self.epoch + 1, 0
        self.history.append(Epoch(self.epoch, mean, self.accuracy(), rate, tuple(self.losses)))
        self.losses = []
        self.save()

    def _together(self) -> int:
        """The number of steps of the next call: those up to the next check of the losses if they are CUDA graphs.

        Several processes take the same steps between two checks.
        """
        captured = isinstance(self.step, warpwise.nn.CompiledStep) and self.step.graph and self.device.type == "cuda"
        if not captured:
            return 1
        return min(CHECK_EVERY - self.at % CHECK_EVERY, self.steps - self.at)

    def _kept(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Copies of the states of the model and of the optimizer."""
        return copy.deepcopy(self.model.state_dict()), copy.deepcopy(self.optimizer.state_dict())

    def _take(self, indices: torch.Tensor) -> torch.Tensor:
        """Train on the batches ``indices``, (steps, batch); the losses, (steps,) or a scalar for one step."""
        if len(indices) > 1 and isinstance(self.step, warpwise.nn.CompiledStep):
            return self.step.many(indices)
        return self.step(indices[0])

    def _stops(self, interrupted: threading.Event, check: bool) -> bool:
        """True if the run ends after this step. Several processes agree on it when they check the losses."""
        if self.processes == 1:
            return interrupted.is_set()
        return check and bool(self._total(torch.tensor(float(interrupted.is_set()), device=self.device)))

    def _total(self, tensor: torch.Tensor) -> torch.Tensor:
        """``tensor``, replaced by its sum over all processes."""
        if self.processes > 1:
            dist.all_reduce(tensor)
        return tensor

    def _check_losses(self, losses: torch.Tensor, seen: int) -> None:
        """Fetch the losses of the steps from ``seen`` on. Raises ``NonFiniteLoss`` if one is not finite."""
        fetched = (self._total(losses[seen : self.at].clone()) / self.processes).tolist()
        for number, loss in enumerate(fetched):
            if not abs(loss) < float("inf"):
                kept = f"the last good checkpoint is {self.saved}" if self.saved else "no checkpoint was written yet"
                raise NonFiniteLoss(
                    f"the loss is {loss} at step {seen + number + 1} of epoch {self.epoch + 1}; {kept}; "
                    f"a smaller --lr than {self.settings.lr:g} may help"
                )
        self.losses += fetched

    @torch.no_grad()
    def probabilities(self, images: torch.Tensor | None = None) -> torch.Tensor:
        """The probabilities of the classes for test images, all or those at the indices ``images``, (N, classes).

        They are computed by running statistics.
        """
        self.model.eval()
        chosen = torch.arange(len(self.test), device=self.device) if images is None else images
        parts = [
            torch.softmax(
                self.model(_with_channel(gather_images(self.test.pixels, part, self.mean, self.std))).float(), 1
            )
            for part in chosen.split(TEST_BATCH)
        ]
        self.model.train()
        return torch.cat(parts)

    def accuracy(self) -> float:
        """The fraction of the test images that are classified correctly."""
        own = torch.arange(self.rank, len(self.test), self.processes, device=self.device)
        correct = (self.probabilities(own).argmax(1) == self.test.labels[own]).double().sum()
        return float(self._total(correct)) / len(self.test)

    def save(self) -> None:
        """Write the checkpoint, if the run has one."""
        if self.checkpoint is None:
            return
        self.saved = str(self.checkpoint)
        if self.rank:
            return
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        for name, param in self.model.named_parameters():
            buffer = self.optimizer.state[param].get("momentum_buffer") if param in self.optimizer.state else None
            if buffer is not None:
                tensors[f"momentum.{name}"] = buffer
        state = {
            "settings": self.settings.to_json(), "epoch": self.epoch, "at": self.at, "losses": self.losses,
            "history": [asdict(epoch) for epoch in self.history], "classes": self.data.classes,
            "images": self._checksum,
        }  # fmt: skip
        Checkpoint(tensors, state).save(self.checkpoint)

    def resume(self, path: Path) -> None:
        """Continue from a checkpoint. Raises ``CheckpointError`` if it is not one of this run."""
        found = Checkpoint.load(path)
        settings, epoch, at, losses, history = _progress(path, found.state)
        if difference := self.settings.difference(settings):
            raise CheckpointError(f"{path}: a checkpoint with {difference}")
        ours = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        for name, tensor in ours.items():
            expected, got = tuple(tensor.shape), found.tensors.get(name)
            if got is None or tuple(got.shape) != expected:
                what = "nothing" if got is None else str(tuple(got.shape))
                raise CheckpointError(f"{path}: a checkpoint of another model: expected {name} {expected}, got {what}")
        prefix = len("model.")
        if found.state.get("images", self._checksum) != self._checksum or at > self.steps:
            raise CheckpointError(
                f"{path}: a checkpoint of a run on other training images than those of {self.data.source}; continue "
                "with the same files"
            )
        self.model.load_state_dict({name[prefix:]: found.tensors[name] for name in ours})
        for name, param in self.model.named_parameters():
            if (buffer := found.tensors.get(f"momentum.{name}")) is not None:
                self.optimizer.state[param]["momentum_buffer"] = buffer.to(self.device)
        self.epoch, self.at, self.losses, self.history = epoch, at, losses, history
        self.saved = str(path)

    @functools.cached_property
    def _checksum(self) -> int:
        """The CRC-32 of the training images and labels, which identifies them in a checkpoint."""
        pixels, labels = (tensor.cpu().contiguous().numpy() for tensor in self.data.train)
        return zlib.crc32(labels.data, zlib.crc32(pixels.data))


def _progress(path: Path, state: Any) -> tuple[dict[str, Any], int, int, list[float], list[Epoch]]:
    """Settings, finished epochs, steps of the next one, their losses and the history of a checkpoint's state.

    Raises ``CheckpointError`` if they are not those that ``Trainer.save`` writes.
    """
    try:
        settings, epoch, at = dict(state["settings"]), int(state["epoch"]), int(state["at"])
        losses = [float(loss) for loss in state["losses"]]
        history = [Epoch(**{**each, "losses": tuple(each["losses"])}) for each in state["history"]]
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: the state in its metadata is damaged ({error!r})") from error
    if len(losses) != at or len(history) != epoch:
        raise CheckpointError(
            f"{path}: the state in its metadata is damaged: expected the losses of {at} steps and the history of "
            f"{epoch} epochs, got {len(losses)} and {len(history)}"
        )
    return settings, epoch, at, losses, history


def _with_channel(images: torch.Tensor) -> torch.Tensor:
    """(B, C, H, W) of images (B, H, W) or (B, C, H, W)."""
    return images if images.dim() == 4 else images.unsqueeze(1)


@contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """Ctrl-C sets the event instead of raising, so that no step is torn; a second one raises as usual."""
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return
    before = signal.getsignal(signal.SIGINT)

    def handle(number: int, frame: Any) -> None:
        event.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, handle)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, before)
