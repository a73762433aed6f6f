"""benchmarks/cudnn_patterns.py without a GPU: references and blocks, with patterns that PyTorch computes in float64."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from benchmarks import cudnn_blocks, cudnn_cases, cudnn_patterns
from benchmarks.cudnn_cases import AXES, Data, half, vector
from benchmarks.cudnn_graphs import EPS, MOMENTUM, SIGNATURES, Sizes, Unsupported, is_half, shape
from torch.nn import functional

SIZES = (Sizes(3, 8, 6, 4, 16), Sizes(2, 3, 5, 7, 8), Sizes(4, 1, 8, 8, 8))


def data_of(size: Sizes) -> Data:
    return Data(size, size._replace(c=(size.c + 7) // 8 * 8), torch.device("cpu"))


def conv_statistics(x: torch.Tensor, w: torch.Tensor) -> Sequence[torch.Tensor]:
    y = functional.conv2d(x, w, padding=1)
    return y, y.sum(AXES), y.square().sum(AXES)


def normalise_relu(y: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> Sequence[torch.Tensor]:
    return ((y * scale + shift).relu(),)


def running(sums: torch.Tensor, squares: torch.Tensor, count: int, mean: Any, var: Any) -> Sequence[torch.Tensor]:
    found = sums / count, (squares / count - (sums / count) ** 2) * count / (count - 1)
    return [MOMENTUM * new + (1 - MOMENTUM) * old for new, old in zip(found, (mean, var), strict=True)]


def finalize(count: int, sums: Any, squares: Any, gamma: Any, beta: Any, *old: Any) -> Sequence[torch.Tensor]:
    mean = sums / count
    deviation = (squares / count - mean**2 + EPS).rsqrt()
    scale = gamma * deviation
    return scale, beta - scale * mean, mean, deviation, *running(sums, squares, count, *old)


def batch_norm_relu(count: int, y: torch.Tensor, *vectors: Any) -> Sequence[torch.Tensor]:
    scale, shift, *rest = finalize(count, y.sum(AXES, True), y.square().sum(AXES, True), *vectors)
    return *normalise_relu(y, scale, shift), *rest


def relu_batch_norm_backward(dy: Any, y: Any, *vectors: Any) -> Sequence[torch.Tensor]:
    return cudnn_cases.normalised_backward(dy, y, *(one.flatten() for one in vectors))[1:]


def dgrad_drelu_dbn(dy: Any, w: Any, x: Any, mean: Any, deviation: Any, gamma: Any, beta: Any) -> Any:
    vectors = [one.flatten() for one in (mean, deviation, gamma, beta)]
    dgrad = cudnn_cases.conv_backward(dy, x, w, (True, False))[0]
    g, _, dgamma, dbeta = cudnn_cases.normalised_backward(dgrad, x, *vectors)
    count = x.numel() // x.shape[1]
    mean, deviation, gamma = vectors[:3]
    b = -gamma * deviation**2 * dgamma / count
    return g, dgamma, dbeta, gamma * deviation, b, -gamma * deviation * dbeta / count - b * mean


def runs_of(data: Data) -> dict[str, Callable[..., tuple[torch.Tensor, ...]]]:
    """Patterns in float64 by name, with inputs and results of the shapes and dtypes of cuDNN's."""
    by_name: dict[str, Callable[..., Any]] = {
        "conv_statistics": conv_statistics,
        "normalise_relu_conv_statistics": lambda x, w, *affine: conv_statistics(*normalise_relu(x, *affine), w),
        "normalise_relu": normalise_relu,
        "normalise_pool": lambda *args: (functional.max_pool2d(*normalise_relu(*args), 2),),
        "finalize": lambda *args: finalize(data.count, *args),
        "batch_norm_relu": lambda *args: batch_norm_relu(data.count, *args),
        "relu_batch_norm_backward": relu_batch_norm_backward,
        "normalise_relu_wgrad": lambda x, dy, *affine: (
            cudnn_cases.conv_backward(dy, *normalise_relu(x, *affine), data.padded_w.double(), (False, True))[1],
        ),
        "dgrad_drelu_dbn": dgrad_drelu_dbn,
    }

    def run(name: str, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        signature = SIGNATURES[name]
        for kind, one in zip(signature.inputs, inputs, strict=True):
            assert tuple(one.shape) == shape(kind, data.padded) and one.is_contiguous(memory_format=torch.channels_last)
            assert one.dtype == (torch.float16 if is_half(kind) else torch.float32)
        found = by_name[name](*(one.double() for one in inputs))
        return tuple(
            half(one) if is_half(kind) else vector(one.flatten())
            for kind, one in zip(signature.outputs, found, strict=True)
        )

    return {name: lambda *inputs, name=name: run(name, *inputs) for name in SIGNATURES}


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", SIGNATURES)
def test_a_right_pattern_is_within_the_tolerance_and_a_wrong_one_is_not(name: str, size: Sizes) -> None:
    data = data_of(size)
    if data.is_padded and name in cudnn_cases.ACROSS_LAYERS:
        pytest.skip("no layer before it")
    case = cudnn_cases.pattern_case(name, data)
    found = runs_of(data)[name](*case.inputs)
    assert all(error <= cudnn_cases.TOLERANCE for error in case.errors(found).values())
    for position in range(min(len(found), 3)):
        shifted, unwritten = ([one.clone() for one in found] for _ in range(2))
        shifted[position] += 0.1 * shifted[position].abs().max()
        unwritten[position][-1] = torch.nan
        for wrong in (shifted, unwritten):
            assert not all(error <= cudnn_cases.TOLERANCE for error in case.errors(wrong).values())


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("what", cudnn_blocks.BLOCKS)
def test_blocks_of_right_patterns_are_right(what: str, size: Sizes) -> None:
    data = data_of(size)
    exact = cudnn_blocks.exact(what, data)
    contestants = cudnn_blocks.BLOCKS[what](data, runs_of(data))
    found = {who: cudnn_blocks.errors(function(*args), exact) for who, (function, args) in contestants.items()}
    assert sum("cuDNN" in who for who in found) == {"forward": 3, "backward": 1, "training": 2}[what]
    for who in found:
        assert cudnn_blocks.is_right(what, who, found), (who, found)


class FakePattern:
    """A pattern with three plans, of which cuDNN cannot build the first, and the second is wrong."""

    count = 3

    def __init__(self, name: str, data: Data) -> None:
        self.results: tuple[torch.Tensor, ...] = ()
        self._run = runs_of(data)[name]

    def build(self, plan: int) -> None:
        if not plan:
            raise Unsupported("no")

    def run(self, plan: int, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = self._run(*inputs)
        return tuple(one * 0 for one in found) if plan == 1 else found

    def plan_name(self, plan: int) -> str:
        return f"plan {plan}"


class FakeTime:
    gpu = SimpleNamespace(l2_bytes=1, device=torch.device("cpu"), graph=lambda call, repeats: call())

    def replayed(self, calls: Mapping[Any, Callable[[], Any]], sets: int, budget: float) -> dict[Any, list[float]]:
        for call in calls.values():
            call()
        return {who: [1e-5, 2e-5] for who in calls}


def test_a_record(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    data, gpu = data_of(SIZES[0]), FakeTime()
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *args: None)
    monkeypatch.setattr(torch, "batch_norm_stats", lambda *args: None)
    monkeypatch.setattr(torch, "batch_norm_backward_reduce", lambda *args: None)

    def make(name: str, size: Sizes) -> FakePattern:
        if name == "normalise_pool":
            raise Unsupported("not on a CPU")
        return FakePattern(name, data)

    patterns: Any = SimpleNamespace(make=make)
    rows, runs = cudnn_patterns.measured_patterns(patterns, data, gpu, 3, 0.0, {})
    assert rows["normalise_pool"] == {"unsupported": "not on a CPU"} and "normalise_pool" not in runs
    row = rows["conv_statistics"]
    assert (row["proposed"], row["built"], row["right"], row["plan"], row["refused"]) == (3, 2, 1, "plan 2", "no")
    assert row["us"]["cudnn"] == [15.0, 10.0, 20.0] and row["ratio"] == [1.0, 1.0, 1.0]
    found = cudnn_patterns.measured_blocks(data, runs, gpu, 0.0)  # type: ignore[arg-type]
    assert "failed" not in found["forward"] and "cuDNN, three patterns" not in found["forward"]["us"]
    assert found["training"]["ratios"]["cuDNN, four patterns"] == [1.0, 1.0, 1.0]
    cudnn_patterns.show(data.size, {"patterns": rows, "blocks": found})
    assert "plans 3 proposed, 2 built, 1 right" in capsys.readouterr().out


def test_points_are_kept_and_replaced(tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    shapes = (cudnn_patterns.OTHERS[0], cudnn_patterns.NETWORK[1], cudnn_patterns.NETWORK[0])
    record: dict[str, Any] = {"place": "a GPU", "points": []}
    for size in shapes:
        record = cudnn_patterns.updated(record, {"shape": list(size), "run": 1})
    assert [tuple(point["shape"]) for point in record["points"]] == list(reversed(shapes))
    file.write_text(json.dumps(record))
    assert cudnn_patterns.kept(file, "a GPU") == record["points"] and cudnn_patterns.kept(file, "another") == []
    again = cudnn_patterns.updated(record, {"shape": shapes[1], "run": 2})
    assert [point["run"] for point in again["points"]] == [1, 2, 1]
