"""``generate``: torch.compile on this machine, without a GPU, and what is said where it cannot."""

from __future__ import annotations

import pytest
import torch

from warpwise.lab.inductor import InductorError, checked, generate, standalone
from warpwise.lab.inductor.generate import _input

CPU = torch.device("cpu")


def test_inputs_are_known_by_name_or_by_position():
    names = ["x", "args_1", "k"]
    assert [_input(place, names) for place in ("L_x_", "L_args_0_", "L_args_1_", "L_args_2_", "L_args_9_")] == [
        "x", "x", "args_1", "k", "args_9",
    ]  # fmt: skip


EXPRESSIONS = {
    "torch.softmax(x, -1)": {"x": (9, 100)},
    "torch.relu(b.t() @ a + n)": {"a": (20, 30), "b": (20, 40), "n": 2.5},
    "torch.nn.functional.layer_norm(X, (50,)), X.sum()": {"X": (8, 50)},
    "torch.softmax(x, 0).t() * k": {"x": (40, 6), "k": 3},
}


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=["softmax", "matmul", "two outputs", "a view"])
def test_inductors_triton_for_this_machine_becomes_a_file_that_is_right(expression):
    drawn = {
        name: torch.randn(value) if isinstance(value, tuple) else value
        for name, value in EXPRESSIONS[expression].items()
    }
    made = generate(expression, drawn, CPU, "triton")
    assert made.difference is None
    assert all(kernel.language == "triton" for kernel in made.program.kernels)
    assert sorted(made.order) == sorted(name for name, value in drawn.items() if isinstance(value, torch.Tensor))
    checked(standalone(made, [expression]))


def test_no_driver_is_left_behind():
    from triton.runtime import driver

    generate("x + 1", {"x": torch.ones(64)}, CPU, "triton")
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError, match="active drivers"):
            driver.active.get_current_target()


WRONG = [
    ("torch.sofmax(x, -1)", "did you mean softmax"), ("x + y", "no 'y'.*there are torch, x"), ("x +", "expected one Python expression"),
    ("xx + 1", "no 'xx'; did you mean x"), ("open('f')", "no 'open'"), ("3 + 4", "expected a tensor or a tuple of tensors, got int"),
    ("x @ x", "RuntimeError: "), ("x.shape", "expected a tensor or a tuple"),
]  # fmt: skip


@pytest.mark.parametrize("expression,said", WRONG, ids=[expression for expression, _ in WRONG])
def test_what_is_no_expression_of_the_arguments_is_said(expression, said):
    with pytest.raises(InductorError, match=said):
        generate(expression, {"x": torch.ones(3, 4)}, CPU, "triton")


def test_what_computes_nothing_or_breaks_the_graph_is_said():
    with pytest.raises(InductorError, match="torch.compile"):
        generate("x", {"x": torch.ones(3)}, CPU, "triton")
    with pytest.raises(InductorError, match="torch.compile"):
        generate("x if x.sum() > 0 else -x", {"x": torch.ones(3)}, CPU, "triton")
    with pytest.raises(InductorError, match="at least one tensor"):
        generate("torch.ones(n)", {"n": 3}, CPU)


@pytest.mark.gpu
@pytest.mark.parametrize("expression", EXPRESSIONS, ids=["softmax", "matmul", "two outputs", "a view"])
def test_on_a_gpu_the_tuned_blocks_are_written_down(expression):
    drawn = {
        name: torch.randn(value) if isinstance(value, tuple) else value
        for name, value in EXPRESSIONS[expression].items()
    }
    made = generate(expression, drawn, torch.device("cuda", 0))
    assert made.backend == "triton"
    assert made.difference is not None
    assert made.difference < 1e-3
    assert set(made.blocks) == {kernel.name for kernel in made.program.kernels}
    checked(standalone(made, [expression]))
