"""The choice of a GEMM kernel at sizes without a measured point, by a model of the time.

PyTorch's time is modelled as that of the fastest of a set of tiles, as cuBLAS chooses among its kernels.
``benchmarks/fit_model.py`` fits the coefficients of ``gemm.time_model`` to measured times and finds their error by
cross-validation; they are shipped in ``model/`` in an operation's folder, one file for each GPU.

The time of a call is the host's time or the GPU's, whichever is longer. Small GEMMs therefore run on the kernels with
the least host time of a launch. PyTorch computes unless a kernel is faster by more than 1.5 standard errors. In a
step of ``nn.compile_step`` the time on the GPU decides alone, and PyTorch computes unless a kernel is a tenth faster.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from warpwise.arguments.values import tensors
from warpwise.device.target import Device
from warpwise.gemm.time_model import Coefficients, Family, Geometry, Product, alignment, microseconds
from warpwise.operation.choice import wanted
from warpwise.tuned import TORCH, Cache, Choice

if TYPE_CHECKING:
    from warpwise.operation import Op, Rung

# Standard errors by which a rung must be faster than PyTorch. The fastest of many predictions is often one that is too
# short. With 1 standard error, 11 of 524 chosen rungs had less than 0.95 of PyTorch's speed; with 1.5, 4 of 475.
CAUTION = 1.5
GAIN = 1.1  # where the GPU's time alone decides: PyTorch's predicted time over a rung's, above which the rung runs
FEW = 16  # rows or columns: the fewest of the shapes that were measured to fit the coefficients
STREAM = 4e6  # bytes per µs: cuBLAS reads the operands at 3.6e6 to 4e6 for one row in float32
HOST, FITTED_ON = "host", "device"  # keys of a coefficients file that are not dtypes
FALLBACK = {"float16": "bfloat16"}  # dtype: the dtype whose times are used for it

# Tiles by which cuBLAS is modelled: for float32, and for the types that it multiplies on tensor cores.
_SPLITS = (1, 2, 4, 8, 16)
_OF_FLOAT32 = tuple(
    Geometry(*tile, splits, stages=3)
    for tile in ((128, 128, 16), (128, 64, 16), (64, 64, 16), (32, 128, 16), (32, 32, 32), (256, 128, 8))
    for splits in _SPLITS
)
_OF_TENSOR_CORES = tuple(
    Geometry(*side, 64, splits, threads=384)
    for side in ((128, 256), (128, 128), (64, 128), (64, 64), (256, 128), (64, 32), (64, 256))
    for splits in _SPLITS
)


@dataclass(frozen=True)
class Host:
    """Host times in microseconds: of PyTorch's function, of the dispatch to it, and of a replayed rung.

    ``launch``: each further kernel of a rung; ``operator``: each further operator of PyTorch; ``gradient``: recording a
    rung for autograd, minus PyTorch's own node; ``unrecorded``: a rung whose Python code runs at each call;
    ``fastest``: the factor that converts PyTorch's times to those on the fastest host measured, where a replay takes
    5.1 µs in place of 6.8. A rung that is faster than PyTorch there is also faster on a slower host.
    """

    pytorch: float = 11.0
    fallback: float = 3.0
    rung: float = 10.0
    launch: float = 5.0
    operator: float = 5.0
    gradient: float = 8.0
    unrecorded: float = 310.0
    fastest: float = 1.0


NO_HOST = Host(**dict.fromkeys((each.name for each in fields(Host)), 0.0))  # of a CUDA graph


class Prediction(NamedTuple):
    """A candidate, ``name@config`` or "torch": seconds of the GPU and of the host, and the standard error of the
    logarithm of the GPU time.

    In a step of ``nn.compile_step`` the host time is 0.
    """

    name: str
    gpu: float
    error: float
    host: float

    @property
    def seconds(self) -> float:
        """The time of a call in a loop of calls."""
        return max(self.gpu, self.host)

    def cautious(self, other: float, captured: bool = False) -> float:
        """``seconds`` with the GPU time increased by CAUTION times the combined relative error.

        ``other`` is the error of the time that it is compared with; errors are of logarithms. ``captured``: in a step
        of ``nn.compile_step``, the GPU time, multiplied by ``GAIN`` if it is predicted.
        """
        if captured:
            return self.gpu * (GAIN if self.error else 1)
        return max(self.gpu * (1 + CAUTION * math.hypot(math.expm1(self.error), math.expm1(other))), self.host)


@dataclass(frozen=True)
class Model:
    """The model of one operation, with the coefficients in ``folder/<device>.json``.

    ``families`` describes the rungs that may be chosen; ``dtype_fallback`` is as in ``Tables``. ``passes(kind)`` is the
    number of passes over C that PyTorch makes after the GEMM, and ``copied(product, kind)`` the number of elements of
    the operands that it copies before. ``aligned_c``: if the lines of C are unaligned, PyTorch's
    GEMM of aligned operands takes the time of one with unaligned operands.
    """

    op: str
    folder: Path
    families: Mapping[str, Family]
    dtype_fallback: Mapping[str, str] = field(default_factory=dict)
    passes: Callable[[str], int] = lambda kind: 0
    copied: Callable[[Product, str], int] = lambda product, kind: 0
    aligned_c: bool = False

    def predictions(
        self, op: Op, args: Sequence[Any], kind: str, sizes: Mapping[str, int], device: Device, here: bool
    ) -> list[Prediction]:
        """Predictions of PyTorch and of each rung and configuration that takes ``args``; empty without coefficients."""
        dtype = op.spec.dtype(args)
        name = str(dtype).removeprefix("torch.")
        known = _coefficients(self.folder, device)
        fitted = known.get(name) or known.get(self.dtype_fallback.get(name, ""), {})
        aligned = alignment(kind, sizes, dtype)
        if (pytorch := _best(fitted, TORCH, kind, alignment(kind, sizes, dtype, self.aligned_c))) is None:
            return []
        product = Product.of(kind, sizes, dtype, device.multiprocessors or 132)
        host = self._host(op, args, device, here)
        gpu = self.pytorch_microseconds(product, kind, pytorch, name == "float32")
        of_host = host.fastest * (host.pytorch + host.fallback + self.passes(kind) * host.operator)
        found = [Prediction(TORCH, 1e-6 * gpu, pytorch.error_at(gpu), 1e-6 * of_host)]
        for rung in op.rungs:
            by = _best(fitted, rung.name, kind, aligned) if rung.name in self.families else None
            if by is not None and (op.refusal(rung, *args) if here else op.unsupported(rung, *args)) is None:
                found += self._of_rung(rung, args, product, kind, by, host)
        return found

    def pytorch_microseconds(self, product: Product, kind: str, by: Coefficients, float32: bool) -> float:
        """The GPU time of cuBLAS, modelled as the fastest of a set of tiles, and of the passes over operands and C.

        With fewer than ``FEW`` rows or columns in float32, the time is at most that of reading the operands: cuBLAS has
        kernels for such shapes, of which few were measured.
        """
        tiles = _OF_FLOAT32 if float32 else _OF_TENSOR_CORES
        multiplied = min(microseconds(product, tile, by, self.copied(product, kind)) for tile in tiles)
        if float32 and min(product.m, product.n) < FEW:
            read = product.batch * (product.m + product.n) * product.k * product.size
            multiplied = min(multiplied, by.start + read / STREAM)
        passed = 2 * product.batch * product.m * product.n * product.out_size / by.copy + by.start
        return multiplied + self.passes(kind) * passed

    def _of_rung(
        self, rung: Rung, args: Sequence[Any], product: Product, kind: str, by: Coefficients, host: Host
    ) -> Iterator[Prediction]:
        family = self.families[rung.name]
        for config in rung.configs(*args) or ("",):
            name, gpu = f"{rung.name}@{config}" if config else rung.name, family.microseconds(product, config, kind, by)
            yield Prediction(name, 1e-6 * gpu, by.error_at(gpu), self._of_launches(rung.name, config, kind, host))

    def _host(self, op: Op, args: Sequence[Any], device: Device, here: bool) -> Host:
        """The host times; if autograd records a call with ``args``, a rung's include the recording.

        In a step of ``nn.compile_step`` they are 0.
        """
        if wanted[0] is not None:
            return NO_HOST
        host: Host = _coefficients(self.folder, device)[HOST]
        recorded = here and torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors(args))
        return replace(host, rung=host.rung + host.gradient) if recorded and op.spec.gradient is not None else host

    def _of_launches(self, rung: str, config: str, kind: str, host: Host) -> float:
        """Seconds of the host for a call of a rung."""
        if (family := self.families.get(rung)) is None:
            return 1e-6 * (host.rung + host.launch)
        more = host.launch * (family.launches(config, kind) - 1)
        return 1e-6 * (host.rung + more if family.replayed(config, kind) else host.unrecorded)

    def choice(
        self, op: Op, args: Sequence[Any], kind: str, sizes: Mapping[str, int], device: Device, here: bool,
        near: Choice | None,
    ) -> Choice | None:  # fmt: skip
        """The rung that is faster than PyTorch by more than the errors, else PyTorch.

        If ``args`` have exactly the sizes of ``near``, the nearest point of a table, its times replace predictions, and
        only its winner and rival are considered, because all rungs were measured there. The times of another point are
        used for rungs that the model does not describe; for others a prediction is closer to the time, because the last
        wave of tiles differs between sizes (docs/decisions.md, 25). Without coefficients for ``args``, returns
        ``near``.
        """
        predicted = self.predictions(op, args, kind, sizes, device, here)
        if not predicted:
            return near
        known = {each.name.partition("@")[0] for each in predicted}
        times = {} if near is None else {near.name or TORCH: near.seconds, near.rival: near.rival_seconds}
        if near is not None and near.error:
            times = {name: time for name, time in times.items() if name.partition("@")[0] not in known}
        host = self._host(op, args, device, here)
        found = self._with_measured(predicted, times, near.error if near else 0.0, kind, host)
        exact = [each for each in found[1:] if near is not None and not near.error and each.name in times]
        pytorch, captured = found[0], wanted[0] is not None
        ours = min(exact or found[1:], key=lambda one: (one.cautious(pytorch.error, captured), one.gpu), default=None)
        source = f"model of {_coefficients(self.folder, device)[FITTED_ON]}"
        if ours is None:
            reason = "no rung takes these arguments"
            return Choice(None, reason=reason, source=source, seconds=pytorch.seconds, error=pytorch.error)
        faster = ours.cautious(pytorch.error, captured) < pytorch.seconds
        if near is not None and ours.name in times and TORCH in times:
            if near.name == (ours.name if faster else None):
                return near
            source, reason = near.source, f"{near.reason}, which the host's time or the distance outweighs"
        else:
            margin = "a tenth" if captured else f"{CAUTION:g} times the error of the prediction"
            reason = f"{'faster than torch' if faster else 'no rung is faster'} by more than {margin}"
        rung, _, config = ours.name.partition("@") if faster else ("", "", "")
        first, second = (ours, pytorch) if faster else (pytorch, ours)
        error = math.hypot(ours.error, pytorch.error)
        return Choice(rung or None, config, reason, source, first.seconds, second.name, second.seconds, error)

    def _with_measured(
        self, predicted: Sequence[Prediction], measured: Mapping[str, float | None], error: float, kind: str,
        host: Host,
    ) -> list[Prediction]:  # fmt: skip
        """``predicted`` with measured GPU times in place of predicted ones, and measured rungs that it lacks."""
        listed = {each.name for each in predicted}
        found = [
            each if (seconds := measured.get(each.name)) is None else each._replace(gpu=seconds, error=error)
            for each in predicted
        ]
        for name, seconds in measured.items():
            if seconds is not None and name not in listed and name != TORCH:
                rung, _, config = name.partition("@")
                found.append(Prediction(name, seconds, error, self._of_launches(rung, config, kind, host)))
        return found


def _best(fitted: Mapping[str, Coefficients], name: str, kind: str, alignment: str) -> Coefficients | None:
    """The coefficients of ``name`` for this kind of arguments: their epilogue, alignment or layouts, else for all."""
    kinds = (alignment, "unaligned") if alignment else (suffix(kind), kind[:2])
    return next((by for each in kinds if (by := fitted.get(f"{name} {each}"))), fitted.get(name))


def suffix(kind: str) -> str:
    """``kind`` without its layouts: "unaligned", "bias gelu"."""
    return kind.partition(" ")[2]


_READ = Cache()  # from a folder and a device to the coefficients


def _coefficients(folder: Path, device: Device) -> Mapping[str, Any]:
    key = folder, device
    return _READ[key] if key in _READ else _READ.setdefault(key, _load(folder, device))


def _load(folder: Path, device: Device) -> dict[str, Any]:
    """Coefficients by dtype and name, and ``Host``: of this GPU, else of one with the same target and SM count."""
    files = [folder / device.file, *sorted(folder.glob("*.json"))]
    for data in (json.loads(file.read_text()) for file in files if file.exists()):
        about = Device(**data["device"])
        alike = (about.target, about.multiprocessors) == (device.target, device.multiprocessors)
        if alike or about.name == device.name:
            named = {
                dtype: {name: Coefficients(**values) for name, values in kernels.items()}
                for dtype, kernels in data["coefficients"].items()
            }
            return {**named, HOST: Host(**data[HOST]), FITTED_ON: about.name}
    return {}
