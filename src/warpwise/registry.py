"""What an operation is: a specification that knows no kernel, and a ladder of rungs that compute it.

>>> op = registry.get("softmax")
>>> op(x, -1)                        # PyTorch on CPU tensors, the default rung on CUDA tensors
>>> op(x, -1, rung="k02_block_per_row")   # that rung: on the GPU, or emulated and checked on the CPU
"""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Protocol

import torch

from warpwise import ranges

Outputs = torch.Tensor | tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Cost:
    """The least that an operation must do: bytes with each input read once and each output written once, and FLOPs."""

    bytes: int
    flops: int = 0


@dataclass(frozen=True)
class Case:
    """One point to test or time at: sizes for ``Spec.inputs``, the kind of values, and how inputs lie in memory."""

    name: str
    sizes: Mapping[str, int]
    values: Literal["normal", "huge"] = "normal"
    layout: Literal["contiguous", "strided", "unaligned"] = "contiguous"

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{key}={value}' for key, value in self.sizes.items())})"


def _magnitude_of_reference(spec: Spec, *args: Any) -> Outputs:
    result = spec.reference(*args)
    return result.abs() if isinstance(result, torch.Tensor) else tuple(part.abs() for part in result)


@dataclass(frozen=True)
class Spec:
    """What an operation is. Every callable but ``inputs`` takes the operation's own arguments.

    ``inputs(case, dtype, device, seed)`` makes arguments; ``check`` raises ``TypeError`` or ``ValueError`` naming the
    argument; ``outputs`` allocates empty outputs (and serves as the meta kernel, so it only uses shapes);
    ``reference`` computes in float64 (exactly, for integers); ``eager`` is PyTorch's own; ``cost`` counts the floor.
    A tolerance follows from ``terms``, the length of the longest sum behind one output element, and ``magnitude``,
    that sum taken over absolute values (by default the reference's own absolute value).
    ``vendor`` names what runs under ``eager`` on a GPU ("cuBLAS"), if it is a vendor's library. ``exempt`` gives the
    reason for each kind of case that ``cases`` does without: {"huge": "an image's values are bytes"}. ``units`` names the
    arithmetic units that a ceiling is asked for ("tf32", as ``warpwise device`` does), where the dtype does not tell them.
    """

    name: str
    summary: str
    inputs: Callable[[Case, torch.dtype, torch.device, int], tuple[Any, ...]]
    check: Callable[..., None]
    outputs: Callable[..., Outputs]
    reference: Callable[..., Outputs]
    eager: Callable[..., Outputs]
    cost: Callable[..., Cost]
    cases: tuple[Case, ...]
    sizes: tuple[Case, ...]
    dtypes: tuple[torch.dtype, ...] = (torch.float32,)
    terms: Callable[..., int] = lambda *args: 1
    magnitude: Callable[..., Outputs] | None = None
    opponents: Mapping[str, Callable[..., Outputs]] = field(default_factory=lambda: MappingProxyType({}))
    vendor: str = ""
    units: str = ""
    exempt: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def magnitudes(self, *args: Any) -> Outputs:
        """The scale that rounding errors of each output element are measured against, float64."""
        return self.magnitude(*args) if self.magnitude else _magnitude_of_reference(self, *args)


@dataclass(frozen=True)
class Rung:
    """One kernel and its launch: ``launch(output, *args)`` fills the outputs and does nothing else.

    ``limits(*args)`` says why these arguments are beyond this rung, or None. A rung that is not ``strided`` is handed
    contiguous inputs. ``devices`` says where it runs: a "cuda" or "triton" rung runs on "cuda" and, emulated, on "cpu".

    A rung ``by_name`` is right only for whom its limits on values suit: it runs when it is asked for, and is never chosen.

    A rung that can be tuned names its configurations (tiles, stages) for given arguments by ``configs(*args)``, the one
    that it takes by itself first, and its ``launch`` takes a keyword ``config``, one of those names or None.

    ``units`` names the arithmetic units of a rung that computes by others than the operation's ("bf16"): its ceiling is theirs.
    """

    name: str
    idea: str
    language: Literal["cuda", "triton", "c", "python"]
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
        """This rung held to one of its configurations, under the name ``name@config``."""

        def limits(*args: Any) -> str | None:
            reason, known = self.limits(*args), self.configs(*args)
            if reason or config in known:
                return reason
            return f"has no configuration {config!r} for these arguments; there are {', '.join(known) or 'none'}"

        launch = functools.partial(self.launch, config=config)
        return replace(self, name=f"{self.name}@{config}", launch=launch, limits=limits, configs=lambda *args: ())


class UnknownRung(LookupError):
    """No rung of that name; the message lists those there are."""


@dataclass(frozen=True)
class Choice:
    """What computes given arguments: a rung, held to ``config`` if it has configurations, or PyTorch where ``rung`` is None.

    ``reason`` says why in words, ``source`` who knew ("user's table", "shipped table", "heuristics", "device"). ``rival`` is
    the best of the others: "torch", or our best rung where PyTorch is chosen. ``seconds`` and ``rival_seconds`` are their
    times as predicted, None where nobody measured.
    """

    rung: str | None
    config: str = ""
    reason: str = ""
    source: str = "heuristics"
    seconds: float | None = None
    rival: str = ""
    rival_seconds: float | None = None

    @property
    def name(self) -> str | None:
        """The rung as ``Op.rung`` takes it, ``name@config``; None for PyTorch."""
        return f"{self.rung}@{self.config}" if self.rung and self.config else self.rung

    def __str__(self) -> str:
        times = [f"{1e6 * time:.4g} µs" for time in (self.seconds, self.rival_seconds) if time is not None]
        predicted = f", {' against '.join(times)} predicted" if times else ""
        return f"{self.name or 'PyTorch'}{predicted} ({self.source}: {self.reason})"


class Chooser(Protocol):
    """What knows better than a ladder's own ``default``: a table of what was measured (``warpwise.tuned.Tables``)."""

    def choice(self, op: Op, *args: Any) -> Choice | None:
        """What is to compute these arguments, or None where it does not know."""


@dataclass(frozen=True)
class Op:
    """An operation: its specification and its ladder, slowest idea first; ``default(*args)`` names a CUDA device's rung.

    ``chooser``, if there is one, is asked before ``default``.
    """

    spec: Spec
    rungs: tuple[Rung, ...]
    default: Callable[..., str | None]
    chooser: Chooser | None = None

    @property
    def name(self) -> str:
        return self.spec.name

    def rung(self, name: str) -> Rung:
        """The rung called ``name``; its number alone (``k02``) or the rest alone is enough if it is unique.

        ``name@config`` is that rung held to one of its configurations.
        """
        if not isinstance(name, str):
            raise TypeError(f"{self.name}: expected rung to be a name or None, got {type(name).__name__}")
        name, _, config = name.partition("@")
        if config:
            return self.rung(name).at(config)
        exact = [rung for rung in self.rungs if rung.name == name]
        found = exact or [
            rung for rung in self.rungs if name in (rung.name.partition("_")[0], rung.name.partition("_")[2])
        ]
        if len(found) != 1:
            raise UnknownRung(f"{self.name}: no rung {name!r}; there are {', '.join(rung.name for rung in self.rungs)}")
        return found[0]

    def refusal(self, rung: Rung, *args: Any) -> str | None:
        """Why ``rung`` cannot take these arguments, or None if it can."""
        tensors = [value for value in args if isinstance(value, torch.Tensor)]
        kind = tensors[0].device.type
        if kind not in rung.devices:
            return f"runs on {' and '.join(rung.devices)}, not on {kind}"
        if rung.dtypes is not None and tensors[0].dtype not in rung.dtypes:
            return f"takes {', '.join(str(dtype) for dtype in rung.dtypes)}, not {tensors[0].dtype}"
        return rung.limits(*args)

    def __call__(self, *args: Any, rung: str | None = None) -> Outputs:
        """Check the arguments, choose a rung and run it; on CPU tensors PyTorch computes unless a rung is asked for."""
        self.spec.check(*args)
        chosen = self.chosen(*args, rung=rung)
        if chosen is None:
            return self.spec.eager(*args)
        outputs = self.spec.outputs(*args)
        self.launch(chosen, outputs, *args)
        return outputs

    def chosen(self, *args: Any, rung: str | None = None) -> Rung | None:
        """The rung that a call runs, or None where PyTorch computes. Raises ``ValueError`` if ``rung`` refuses the arguments."""
        name = rung if rung is not None else self.choice(*args).name
        if name is None:
            return None
        found = self.rung(name)
        if rung is not None and (reason := self.refusal(found, *args)):
            raise ValueError(f"{self.name}: {found.name} {reason}")
        return found

    def choice(self, *args: Any) -> Choice:
        """What a call with these arguments runs if it names no rung, and why."""
        if not any(isinstance(value, torch.Tensor) and value.is_cuda for value in args):
            kind = next((value.device.type for value in args if isinstance(value, torch.Tensor)), "cpu")
            where = "a CPU" if kind == "cpu" else kind
            reason = f"on {where} PyTorch computes unless a rung is named"
            return Choice(None, reason="on meta nothing is computed" if kind == "meta" else reason, source="device")
        if self.chooser is not None and (known := self.chooser.choice(self, *args)):
            return known
        name = self.default(*args)
        if name is None:
            return Choice(None, reason="the ladder leaves these arguments to PyTorch")
        rung, _, config = name.partition("@")
        return Choice(rung, config, "the ladder's own rule, from shapes alone")

    def launch(self, rung: Rung, outputs: Outputs, *args: Any) -> None:
        """Fill ``outputs`` by ``rung``. No kernel runs where no output has an element, nor where an input has none: what
        a sum over nothing gives, the reference says. Views that are only marked negated are copied with their sign first."""
        made = (outputs,) if isinstance(outputs, torch.Tensor) else outputs
        if all(tensor.numel() == 0 for tensor in made):
            return
        if any(isinstance(value, torch.Tensor) and value.numel() == 0 for value in args):
            told = self.spec.reference(*args)
            for tensor, value in zip(made, (told,) if isinstance(told, torch.Tensor) else told, strict=True):
                tensor.copy_(value)
            return
        args = tuple(value.resolve_neg() if isinstance(value, torch.Tensor) else value for value in args)
        if not rung.strided:
            args = tuple(value.contiguous() if isinstance(value, torch.Tensor) else value for value in args)
        if not ranges.profiling_active():
            rung.launch(outputs, *args)
            return
        with ranges.named(f"{self.name}:{rung.name}"):
            rung.launch(outputs, *args)


_OPS: dict[str, Op] = {}


def register(op: Op) -> Op:
    """Make ``op`` known by its name to the lab and the command; a name is taken once."""
    if _OPS.setdefault(op.name, op) is not op:
        raise ValueError(f"an operation called {op.name!r} is registered already")
    return op


def withdraw(name: str) -> None:
    """Forget the operation called ``name``, if there is one: the file that it comes from is about to run again."""
    _OPS.pop(name, None)


def load_entry_points() -> None:
    """Import what other packages offer under the entry point group ``warpwise.ops``; importing registers."""
    for entry in importlib.metadata.entry_points(group="warpwise.ops"):
        entry.load()


def get(name: str) -> Op:
    """The registered operation called ``name``; ``LookupError`` lists the others."""
    if name not in _OPS:
        none = "none: `import warpwise.ops` registers the package's own"
        raise LookupError(f"no operation {name!r}; there are {', '.join(sorted(_OPS)) or none}")
    return _OPS[name]


def all_ops() -> Iterable[Op]:
    """Every registered operation, by name."""
    return [_OPS[name] for name in sorted(_OPS)]


def arranged(values: torch.Tensor, layout: str) -> torch.Tensor:
    """``values`` again, lying in memory as ``layout`` says: strided has gaps in every row, unaligned starts one element in."""
    if layout == "strided" and values.dim():
        wide = values.new_empty((*values.shape[:-1], 2 * values.shape[-1] + 1))
        view = wide[..., 1::2]
        return view.copy_(values)
    if layout == "unaligned":
        shifted = values.new_empty(values.numel() + 1)
        return shifted[1:].view(values.shape).copy_(values)
    return values
