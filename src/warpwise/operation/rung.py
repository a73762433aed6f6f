"""A rung: one kernel, or a few launched together, and how it is launched."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from warpwise.operation.spec import require_dtypes, require_unique

Language = Literal["cuda", "triton", "c", "python"]


@dataclass(frozen=True)
class Rung:
    """``launch(outputs, *args)`` writes ``outputs``: the tensor of a single output, else a tuple in the schema's order.

    An output that is not present is None. An output whose size depends on the data is an ``Unsized``, which ``launch``
    allocates. Arguments that the schema marks as mutated are written in place.

    ``name`` begins with the number of the rung (``k03_vectorised``), ``idea`` says in a line what it changes, and
    ``source`` is the kernel's file. ``dtypes`` are those that the rung takes, None for all of the operation's, and
    ``limits(*args)`` returns the reason why it does not take these arguments, or None. ``devices`` lists the device
    types: a "cuda" or "triton" rung runs on "cuda" and, emulated, on "cpu". A rung that is not ``strided`` gets
    contiguous tensors. A ``deterministic`` rung gives the same bits at each call. A ``by_name`` rung is correct only
    for some values, and runs only if a call names it.

    ``configs(*args)`` names the configurations (tiles, stages) that a tunable rung has for these arguments, its default
    first; its ``launch`` takes a keyword ``config``, one of these names or None. ``units`` names the arithmetic units
    ("bf16") if they are not the operation's; the rung's time is compared with their ceiling.
    """

    name: str
    idea: str
    language: Language
    launch: Callable[..., None]
    source: Path
    dtypes: tuple[torch.dtype, ...] | None = None
    limits: Callable[..., str | None] = lambda *args: None
    devices: tuple[str, ...] = ("cuda", "cpu")
    strided: bool = False
    deterministic: bool = True
    by_name: bool = False
    units: str = ""
    configs: Callable[..., Sequence[str]] = lambda *args: ()

    def at(self, config: str) -> Rung:
        """This rung with a fixed configuration, called ``name@config``."""

        def limits(*args: Any) -> str | None:
            reason = self.limits(*args)
            known = () if reason else self.configs(*args)
            if reason or config in known:
                return reason
            there = f"there are {', '.join(known)}" if known else f"{self.name} has none"
            return f"has no configuration {config!r} for these arguments; {there}"

        launch = functools.partial(self.launch, config=config)
        return replace(self, name=f"{self.name}@{config}", launch=launch, limits=limits, configs=lambda *args: ())


def make_rung(folder: Path, name: str, idea: str, launch: Callable[..., None], **options: Any) -> Rung:
    """The rung whose kernel is in ``folder/<name>.cu``, or in ``folder/<name>.py`` if it is written in Triton.

    ``idea``, ``launch`` and ``options``, ``dtypes=...``, ``limits=...``, are those of ``Rung``.
    """
    source = folder / f"{name}.cu"
    language: Language = "cuda" if source.exists() else "triton"
    return Rung(name, idea, language, launch, source if source.exists() else source.with_suffix(".py"), **options)


def require_valid(op: str, rungs: Sequence[Rung]) -> None:
    """Raise ``ValueError`` or ``TypeError`` for two rungs with one name, an unknown language, or wrong ``dtypes``."""
    require_unique(f"{op}: rungs", [rung.name for rung in rungs])
    languages = get_args(Language)
    for rung in rungs:
        if rung.language not in languages:
            known = ", ".join(map(repr, languages))
            raise ValueError(f"{op}: {rung.name}: expected language to be one of {known}, got {rung.language!r}")
        if rung.dtypes is not None:
            require_dtypes(f"{op}: {rung.name}", rung.dtypes)


class UnknownRung(LookupError):
    """There is no rung of that name; the message lists the rungs."""


class Unsized:
    """An output whose size depends on the data. A rung computes the size, calls ``allocate``, and fills the tensor."""

    def __init__(self, name: str, shape: Sequence[int | None], dtype: torch.dtype, device: torch.device) -> None:
        self.name, self.shape, self.dtype, self.device = name, tuple(shape), dtype, device
        self.tensor: torch.Tensor | None = None

    def allocate(self, *shape: int) -> torch.Tensor:
        """Allocate the output. Raises ``ValueError`` if ``shape`` contradicts the known sizes, or at a second call."""
        fits = len(shape) == len(self.shape) and all(
            known in (None, size) for known, size in zip(self.shape, shape, strict=True)
        )
        if not fits or self.tensor is not None:
            found = "a second allocation" if self.tensor is not None else f"{shape}"
            raise ValueError(
                f"{self.name}: expected one allocation of shape {self.shape} (None: any size), got {found}"
            )
        self.tensor = self.empty(shape)
        return self.tensor

    def empty(self, shape: Sequence[Any]) -> torch.Tensor:
        return torch.empty(tuple(shape), dtype=self.dtype, device=self.device)


def finished(outputs: Sequence[torch.Tensor | Unsized | None]) -> tuple[torch.Tensor | None, ...]:
    """The tensors of ``outputs`` after a launch. Raises ``RuntimeError`` for an ``Unsized`` that is not allocated."""
    for output in outputs:
        if isinstance(output, Unsized) and output.tensor is None:
            raise RuntimeError(f"{output.name}: the rung did not call allocate")
    return tuple(output.tensor if isinstance(output, Unsized) else output for output in outputs)
