"""benchmarks/robust_kbench.py on a task of the same form: the settings, both directions, and a wrong result."""

from __future__ import annotations

import json

import pytest
import torch
from benchmarks import robust_kbench

TASK = """
import torch
import torch.nn.functional as F


class AutogradFunction(torch.autograd.Function):
    backward_fn = None

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return F.max_pool2d(x, 2)

    @staticmethod
    def backward(ctx, grad):
        return AutogradFunction.backward_fn(ctx.saved_tensors, grad)


def forward_fn(x):
    return F.max_pool2d(x, 2)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x, fn=forward_fn):
        return fn(x)


def get_inputs(batch_size=2, height=4):
    return [torch.randn(batch_size, 3, height, 6, requires_grad=True)]
"""


@pytest.mark.parametrize("backward", [False, True])
def test_a_task(tmp_path, monkeypatch, backward):
    folder, direction = tmp_path / "mnist_pool", "backward" if backward else "forward"
    folder.mkdir()
    (folder / f"func_{direction}.py").write_text(TASK)
    listed = {"multi_input_configs": [{"batch_size": 1}, {"batch_size": 3}], "multi_init_configs": [{}, {}],
              "multi_shared_configs": [{"height": 8}]}  # fmt: skip
    (folder / f"config_{direction}.json").write_text(json.dumps(listed))
    run = lambda: list(robust_kbench.measured(tmp_path, "mnist_pool", backward, torch.device("cpu"), 0.0))
    points = run()
    assert [point["settings"][0] for point in points] == [{"batch_size": size, "height": 8} for size in (1, 3)]
    assert all(point["right"] and point["speed"] > 0 and point["worst"] == 0 for point in points)
    wrong = (lambda saved, grad: torch.zeros_like(*saved)) if backward else (lambda x: x[..., ::2, ::2] + 10)
    monkeypatch.setitem(robust_kbench.BACKWARD if backward else robust_kbench.FORWARD, "mnist_pool", wrong)
    assert [(point["right"], "speed" in point) for point in run()] == [(False, False)] * 2
