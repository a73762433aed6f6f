"""torch.func.vmap of operations: PyTorch's batched operators, or a call for each value. Warnings are errors here."""

from __future__ import annotations

import pytest
import torch
from torch.func import grad, vmap

from warpwise import ops
from warpwise.operation import vmap as rules

A, B = torch.randn(4, 5, 6), torch.randn(4, 6, 7)


@pytest.fixture
def calls(monkeypatch) -> list[int]:
    """Counts the calls for single values by the rule of ``vmap``."""
    seen: list[int] = []
    value = rules._value
    monkeypatch.setattr(rules, "_value", lambda *args: (seen.append(args[-1]), value(*args))[1])
    return seen


def test_pytorch_computes_all_values_at_once(calls):
    torch.testing.assert_close(vmap(ops.matmul)(A, B), A @ B)
    torch.testing.assert_close(vmap(ops.matmul, in_dims=(2, None))(A.permute(1, 2, 0), B[0]), A @ B[0])
    torch.testing.assert_close(vmap(vmap(lambda row: ops.softmax(row, -1)))(A), A.softmax(-1))
    assert calls == []


def test_a_named_rung_is_called_for_each_value(calls):
    torch.testing.assert_close(vmap(lambda a, b: ops.matmul(a, b, rung="k03"))(A, B), A @ B)
    assert calls == [0, 1, 2, 3]


def test_an_operation_without_gradient_is_called_for_each_value(calls):
    a, b = (torch.randn(3, *shape).to(torch.float8_e4m3fn) for shape in ((16, 32), (32, 16)))
    one = torch.ones(())
    found = vmap(ops.scaled_matmul, in_dims=(0, 0, None, None))(a, b, one, one)
    torch.testing.assert_close(found, (a.float() @ b.float()).bfloat16(), atol=0.05, rtol=0.02)
    assert calls == [0, 1, 2]


def test_gradients_of_each_value(calls):
    weight = torch.randn(3, 6)
    one = grad(lambda weight, x: ops.linear(x, weight, activation="gelu").sum())
    found = vmap(one, in_dims=(None, 0))(weight, A)
    torch.testing.assert_close(found, torch.stack([one(weight, x) for x in A]))
    a = A.clone().requires_grad_()
    vmap(ops.matmul)(a, B).sum().backward()
    torch.testing.assert_close(a.grad, B.sum(2)[:, None].expand_as(A))
    assert calls == []


def test_vmap_under_compile():
    compiled = torch.compile(vmap(ops.matmul), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(A, B), A @ B)
