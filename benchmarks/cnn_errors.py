"""Compare the errors of every tensor of a training step of the small network with PyTorch's, relative to float64.

    python benchmarks/cnn_errors.py --data DIR [--dataset fashion] [--batch 512 2048] [--after 0 50 100] [--batches B]
                                    [--json FILE]

From the same weights, which eager PyTorch trained for ``--after`` steps, each engine takes a step with each of
``--batches`` batches; the reference takes it in float64. Tensors are the outputs of both blocks and of the hidden
layer, the statistics of the blocks, the loss, all gradients and the updated weights.

Where the two largest values of a pooling window, or a value and 0, differ by less than ``CLOSE``, two correct engines
choose different pixels, and gradients differ by more than rounding. The gradients of such outputs are therefore set to
0 in every engine. What remains is the error of the arithmetic. An error is the norm of the difference over the norm of
the reference, the root of the mean square over the batches; ``shrink`` is the part of the reference that is missing, 0
for errors without a direction, as truncated sums would have.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

import torch
from benchmarks.cnn import cudnn, steps, trainer
from torch.nn import functional

from warpwise.apps import data
from warpwise.apps.train import Trainer
from warpwise.cache import atomic_write
from warpwise.lab.timing.environment import environment, place
from warpwise.nn import CompiledStep

CLOSE = 2e-5  # values of order 1 that rounding may exchange, with a margin of 10
EXACT = 1e-11  # below, the values of equal patches, of which each choice has the same gradient of the weights
ENGINES: dict[str, tuple[str, dict[str, bool]]] = {  # way and settings of cuDNN
    "eager": ("torch", {}), "eager, deterministic": ("torch", {"deterministic": True}),
    "eager, measured": ("torch", {"benchmark": True}), "eager without cuDNN": ("torch", {"enabled": False}),
    "ours": ("ours", {}),
}  # fmt: skip
Tensors = dict[str, torch.Tensor]


@contextmanager
def observed(model: torch.nn.Module, hidden: str, masks: Tensors, found: Tensors) -> Iterator[None]:
    """Keep the outputs of the layers and their gradients, which then are multiplied by ``masks``."""

    def observe(name: str) -> Callable[..., None]:
        def masked(grad: torch.Tensor) -> torch.Tensor:
            found[f"{name} gradient"] = grad
            return grad * masks[name]

        def hook(module: torch.nn.Module, inputs: Any, output: torch.Tensor) -> None:
            found[f"{name} output"] = output.detach()
            output.register_hook(masked)

        return hook

    named = {"block1": "block1", "block2": "block2", "hidden": hidden}
    hooks = [getattr(model, module).register_forward_hook(observe(name)) for name, module in named.items()]
    try:
        yield
    finally:
        for one in hooks:
            one.remove()


def masks_of(model: Any, x: torch.Tensor) -> Tensors:
    """1 where the outputs of a float64 ``model`` do not depend on rounding, and 0 elsewhere.

    ``block1 gradient`` is 1 where no window of the second block has equal patches, whose choice moves the gradient.
    """
    found = {}
    for name in ("block1", "block2"):
        block = getattr(model, name)
        rows = block.norm(block.conv(x)).unflatten(2, (-1, 2)).unflatten(4, (-1, 2))
        a, b = rows.max(5).values.unbind(3)  # of each row of a window the larger value
        least = rows.min(5).values
        most = torch.maximum(a, b)
        second = torch.maximum(torch.minimum(a, b), torch.where(a > b, least[:, :, :, 0], least[:, :, :, 1]))
        gap = most - second
        found[name] = ~((gap < CLOSE) & (gap > EXACT) & (most > -CLOSE) | (most.abs() < CLOSE))
        if name == "block2":
            tied = ((gap <= EXACT) & (most > 0)).any(1, keepdim=True).double()
            reach = functional.interpolate(tied, scale_factor=2.0, mode="nearest")
            found["block1 gradient"] = functional.max_pool2d(reach, 3, 1, 1) == 0
        x = block(x)
    h = model.linear1(x.flatten(1))
    found["hidden"] = h.abs() > CLOSE
    return found


def reference(model: Any, x: torch.Tensor, target: torch.Tensor, lr: float) -> tuple[Tensors, Tensors]:
    """The tensors of a step of ``model``, of PyTorch's modules, in float64, and the masks."""
    double = copy.deepcopy(model).double()
    reset(double)
    with torch.no_grad():
        masks = masks_of(copy.deepcopy(double), x.double())
    found: Tensors = {}
    with observed(double, "relu1", masks, found):
        loss = functional.cross_entropy(double(x.double()), target)
        loss.backward()
    found["loss"] = loss.detach()
    kept(double, found)
    with torch.no_grad():
        for name, param in double.named_parameters():
            if param.grad is not None:
                found[f"{name} updated"] = param - lr * param.grad
    return found, masks


def reset(model: torch.nn.Module) -> None:
    """Running statistics of 0, so that those of one step are seen."""
    for name, buffer in model.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            buffer.zero_()


def kept(model: torch.nn.Module, found: Tensors) -> None:
    """Add the gradients of the parameters, and the running statistics."""
    for name, param in model.named_parameters():
        if param.grad is not None and not name.endswith("conv.bias"):  # whose gradient is 0 but for rounding
            found[f"{name} gradient"] = param.grad.detach().clone()
    found.update({name: buffer.clone() for name, buffer in model.named_buffers() if "running" in name})


def taken(one: Trainer, state: Tensors, indices: torch.Tensor, masks: Tensors) -> Tensors:
    """The tensors of a step of an engine from the weights ``state``."""
    one.model.load_state_dict(state)
    reset(one.model)
    found: Tensors = {}
    with observed(one.model, "linear1" if one.settings.engine == "ours" else "relu1", masks, found):
        found["loss"] = one.step(indices).detach().clone()
    kept(one.model, found)
    found.update({f"{name} updated": param.detach().clone() for name, param in one.model.named_parameters()})
    return found


def errors(got: Tensors, expected: Tensors, masks: Tensors) -> dict[str, tuple[float, float]]:
    """The relative error and the part of the reference that is missing, of each tensor."""
    found = {}
    for name, true in expected.items():
        if name not in got or name.startswith("block") and name.endswith("conv.bias updated"):
            continue
        mask = masks.get(name, torch.ones((), device=true.device))
        right, difference = true * mask, (got[name].double() - true) * mask
        norm = right.norm().clamp_min(1e-300)
        found[name] = float(difference.norm() / norm), float(-(difference * right).sum() / norm**2)
    return found


def rounded(value: float) -> float:
    """``value`` to three digits."""
    return float(f"{value:.3g}")


def measured(
    images: data.ImageSet, batch: int, device: torch.device, after: int, batches: int
) -> dict[str, dict[str, dict[str, float]]]:
    """For each tensor the errors of each engine, at the weights after some steps of eager PyTorch."""
    first = trainer(images, "torch", batch, device)
    if after:
        steps(first, after)
    state = copy.deepcopy(first.model.state_dict())
    order = torch.cat([first.order(10 + epoch) for epoch in range(-(-batches * batch // len(first.train)))])
    sums: dict[str, dict[str, list[tuple[float, float]]]] = {}
    ready = {}
    for name, (way, _) in ENGINES.items():
        ready[name] = one = trainer(images, way, batch, device)
        assert isinstance(one.step, CompiledStep)
        one.step.graph = False
    for indices in order[: batches * batch].view(batches, batch):
        first.model.load_state_dict(state)
        input, target = first.batch(indices)
        true, masks = reference(first.model, input, target, first.settings.lr)
        for name, (_, settings) in ENGINES.items():
            with cudnn(**settings):
                got = taken(ready[name], state, indices, masks)
            for tensor, found in errors(got, true, masks).items():
                sums.setdefault(tensor, {}).setdefault(name, []).append(found)
    return {
        tensor: {
            name: {
                "error": rounded((sum(error**2 for error, _ in each) / len(each)) ** 0.5),
                "shrink": rounded(sum(shrink for _, shrink in each) / len(each)),
            }
            for name, each in engines.items()
        }
        for tensor, engines in sums.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the folder with the IDX files")
    parser.add_argument("--dataset", choices=data.NAMES, default="fashion")
    parser.add_argument("--batch", type=int, nargs="+", default=[512, 2048])
    parser.add_argument(
        "--after", type=int, nargs="+", default=[0, 50, 100], help="training steps after which the weights are taken"
    )
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    images = data.load(options.dataset, options.data)
    result: dict[str, Any] = {"environment": environment(device), "dataset": images.name, "points": {}}
    print(f"{images.name} on {place(device)}; errors, and ours divided by that of eager PyTorch")
    for batch in options.batch:
        for after in options.after:
            point = result["points"].setdefault(str(batch), {})[str(after)] = measured(
                images, batch, device, after, options.batches
            )
            print(f"batch {batch}, after {after} steps" + "".join(f"  {name:>20}" for name in ENGINES))
            for tensor, engines in point.items():
                shown = "".join(f"  {one['error']:9.1e} {one['shrink']:+10.0e}" for one in engines.values())
                ratio = engines["ours"]["error"] / max(engines["eager"]["error"], 1e-300)
                print(f"{tensor:<28}{shown}  {ratio:6.2f}")
            if options.json:
                atomic_write(options.json, json.dumps(result, default=str))


if __name__ == "__main__":
    main()
