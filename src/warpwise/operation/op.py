"""An operation: its specification and its ladder of rungs. Calling it dispatches to a rung or to PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from warpwise import ranges
from warpwise.arguments import values
from warpwise.arguments.schema import NAMESPACE
from warpwise.arguments.values import as_tuple, first_tensor, map_tensors, tensors
from warpwise.cuda.launch import intercept
from warpwise.cuda.launch.intercepted import InterceptedLaunch
from warpwise.device.target import HOPPER_SMS, assume_sm_count, assumed_sm_count
from warpwise.operation.choice import GPU_TIME, Choice, choose
from warpwise.operation.dispatch import dispatcher
from warpwise.operation.rung import Rung, UnknownRung, Unsized, require_valid
from warpwise.operation.spec import Spec

if TYPE_CHECKING:
    from warpwise.operation.tables import Tables


@dataclass(frozen=True)
class Op:
    """A specification and its rungs, slowest idea first.

    ``default(*args)`` returns the rung for CUDA tensors, ``name`` or ``name@config``, or None for PyTorch. If there
    are ``tables`` of measurements, they choose instead. ``op(*args, rung=None)`` is the public call: differentiable if
    the specification has a gradient, traced by torch.compile as ``torch.ops.<namespace>.<name>``.

    Raises ``ValueError`` or ``TypeError`` for two rungs with one name, and for a rung of another language or dtype.
    """

    spec: Spec
    rungs: tuple[Rung, ...]
    default: Callable[..., str | None] = lambda *args: None
    tables: Tables | None = None
    call: Callable[..., Any] = field(init=False, repr=False, compare=False)
    """``call(*args, rung=None)`` with all arguments in the schema's order; the typed public functions call it."""
    every: Callable[..., Any] = field(init=False, repr=False, compare=False)
    """``call``, but with the saved outputs in the result."""
    planned: Callable[..., Rung | None] = field(init=False, repr=False, compare=False)
    """``planned(*args)``: the chosen rung for these arguments, or None for PyTorch, cached by key."""

    def __post_init__(self) -> None:
        require_valid(self.name, self.rungs)

    @property
    def name(self) -> str:
        """The name in the lab, the store and the command: that of the schema, with the namespace of another package."""
        parsed = self.spec.parsed
        return parsed.name if parsed.namespace == NAMESPACE else parsed.qualified

    def __getattr__(self, name: str) -> Any:
        """Build the dispatcher at its first use, which registers the library operator."""
        if name not in ("call", "every", "planned"):
            raise AttributeError(f"Op has no attribute {name!r}")
        if torch.compiler.is_compiling():
            reason = "torch.compile cannot trace the first call of an Op that is not registered"
            raise RuntimeError(f"{self.name}: {reason}; pass it to warpwise.operation.register")
        for built, function in zip(("call", "every", "planned"), dispatcher(self), strict=True):
            object.__setattr__(self, built, function)
        return self.__dict__[name]

    def fill(self, outputs: Sequence[torch.Tensor | Unsized | None], *args: Any) -> bool:
        """Run the chosen rung for ``args``, writing to ``outputs``; return False if PyTorch is chosen.

        For launchers that call another operation: the choice is cached, and nothing is allocated or recorded.
        """
        rung = self.planned(*args)
        if rung is None:
            return False
        self.launch(rung, outputs, *args)
        return True

    def kernels(self, rung: Rung, *args: Any) -> list[InterceptedLaunch]:
        """The launches that ``rung`` makes for ``args``, on meta tensors, in order. Nothing runs, and no GPU is needed.

        >>> [launch.compile("sm_90").registers for launch in op.kernels(op.rung("k02"), *args)]

        Meta tensors represent tensors on the rung's GPU. The SM count is that of ``assume_sm_count``, by default that
        of an H100 and an H200. A rung that only computes on a CPU, in C or Python, makes no launches.
        """
        launches: list[InterceptedLaunch] = []
        if "cuda" not in rung.devices:
            return launches

        def keep(launcher: Any, given: tuple[Any, ...], options: Mapping[str, Any]) -> None:
            launches.append(InterceptedLaunch(launcher, given, options))

        with assume_sm_count(assumed_sm_count() or HOPPER_SMS), intercept.intercepting(keep):
            self.launch(rung, self.allocate(*args), *args)
        return launches

    def __call__(self, *args: Any, rung: str | None = None, **named: Any) -> Any:
        """Check the arguments, choose a rung and run it; on CPU tensors PyTorch computes unless ``rung`` names one."""
        return self.call(*self.spec.parsed.bind(args, named), rung=rung)

    def rung(self, name: str) -> Rung:
        """The rung called ``name``; its number (``k02``) or the rest of its name is enough if it is unique.

        ``name@config`` is that rung with a fixed configuration. Raises ``UnknownRung``.
        """
        if not isinstance(name, str):
            raise TypeError(f"{self.name}: expected rung to be a name or None, got {type(name).__name__}")
        name, _, config = name.partition("@")
        if config:
            return self.rung(name).at(config)
        exact = [rung for rung in self.rungs if rung.name == name]
        found = exact or [r for r in self.rungs if name in (r.name.partition("_")[0], r.name.partition("_")[2])]
        if len(found) != 1:
            raise UnknownRung(f"{self.name}: no rung {name!r}; there are {', '.join(rung.name for rung in self.rungs)}")
        return found[0]

    def refusal(self, rung: Rung, *args: Any) -> str | None:
        """The reason why ``rung`` does not take these arguments, or None if it does."""
        kind = first_tensor(args).device.type
        if kind not in rung.devices:
            return f"runs on {' and '.join(rung.devices)}, not on {kind}"
        return self.unsupported(rung, *args)

    def unsupported(self, rung: Rung, *args: Any) -> str | None:
        """``refusal`` by the rung's dtypes and limits, without its devices."""
        dtype = self.spec.dtype(args)
        if rung.dtypes is not None and dtype not in rung.dtypes:
            return f"takes {', '.join(str(dtype) for dtype in rung.dtypes)}, not {dtype}"
        return rung.limits(*args)

    def choice(self, *args: Any) -> Choice:
        """The choice, with its reason, for a call with these arguments that does not name a rung."""
        return choose(self, args)

    def chosen(self, *args: Any, rung: str | None = None) -> Rung | None:
        """The rung that a call runs, or None for PyTorch. Raises ``ValueError`` if ``rung`` refuses the arguments."""
        named = rung is not None and rung != GPU_TIME
        name = rung if named else choose(self, args, runs=True).name
        if name is None:
            return None
        found = self.rung(name)
        if named and (reason := self.refusal(found, *args)):
            raise ValueError(f"{self.name}: {found.name} {reason}")
        return found

    def allocate(self, *args: Any) -> tuple[torch.Tensor | Unsized | None, ...]:
        """The uninitialised outputs in the schema's order. Only shapes are read: ``args`` may be meta tensors."""
        return tuple(self._allocated(name, args) for name in self.spec.parsed.outputs)

    def _allocated(self, name: str, args: Sequence[Any]) -> torch.Tensor | Unsized | None:
        output, position = self.spec.outputs[name], self.spec.parsed.index
        if output.present is not None and not output.present(*args):
            return None
        like = args[position(output.like)] if output.like else first_tensor(args)
        dtype = self.output_dtype(name, args)
        shape = self._shape(name, args) if output.shape is not None else like.shape
        if None in shape:
            return Unsized(f"{self.name}, {name}", shape, dtype, like.device)
        memory = output.memory_format(*args) if output.memory_format else torch.contiguous_format
        return torch.empty(shape, dtype=dtype, device=like.device, memory_format=memory)

    def _shape(self, name: str, args: Sequence[Any]) -> tuple[Any, ...]:
        made = self.spec.outputs[name].shape(*args)  # type: ignore[misc]
        if not isinstance(made, Iterable):
            kind = type(made).__name__
            raise TypeError(f"{self.name}: expected the shape of {name} to be a sequence of sizes, got {kind} {made}")
        return tuple(made)

    def output_dtype(self, name: str, args: Sequence[Any]) -> torch.dtype:
        """The dtype of the output ``name`` for these arguments."""
        output, position = self.spec.outputs[name], self.spec.parsed.index
        if isinstance(output.dtype, torch.dtype):
            return output.dtype
        if callable(output.dtype):
            return output.dtype(*args)
        source = output.dtype or output.like
        dtype: torch.dtype = (args[position(source)] if source else first_tensor(args)).dtype
        return dtype

    def launch(self, rung: Rung, outputs: Sequence[torch.Tensor | Unsized | None], *args: Any) -> None:
        """Run ``rung``, which writes to ``outputs`` from ``allocate`` and to the mutated arguments.

        Nothing is launched if neither outputs nor mutated arguments have an element. Negated and conjugated views are
        resolved and, for a rung that is not strided, tensors are made contiguous; outputs and mutated arguments are
        copied back.
        """
        spec = self.spec
        mutated = [args[spec.parsed.index(name)] for name in spec.parsed.mutated]
        written = [*tensors(list(outputs)), *tensors(mutated)]
        if not any(tensor.numel() for tensor in written) and not any(isinstance(out, Unsized) for out in outputs):
            return
        if spec.empty == "eager" and any(tensor.numel() == 0 for tensor in tensors(args)):
            fill_by_pytorch(spec, outputs, args)
            return
        given = map_tensors(lambda tensor: values.argument_for(tensor, rung.strided), args)
        made = [values.output_for(output, rung.strided) for output in outputs]
        filled = made[0] if len(made) == 1 else tuple(made)
        if ranges.profiling_active():
            with ranges.named(f"{self.name}:{rung.name}"):
                rung.launch(filled, *given)
        else:
            rung.launch(filled, *given)
        values.copy_back(list(outputs), made)
        values.copy_back(mutated, [given[spec.parsed.index(name)] for name in spec.parsed.mutated])


def fill_by_pytorch(spec: Spec, outputs: Sequence[Any], args: Sequence[Any]) -> None:
    """Compute by ``spec.eager`` and copy the results into ``outputs``."""
    for output, value in zip(outputs, as_tuple(spec.eager(*args)), strict=True):
        if isinstance(output, Unsized):
            output.allocate(*value.shape).copy_(value)
        elif output is not None:
            output.copy_(value)
