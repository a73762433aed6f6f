"""``generate``: torch.compile on this machine, without a GPU, and the errors for what it cannot compile."""

from __future__ import annotations

import re

import pytest
import torch

from warpwise.lab.inductor import InductorError, checked, generate, standalone
from warpwise.lab.inductor.generate import _input

CPU = torch.device("cpu")


def test_inputs_are_known_by_name_or_by_position():
    names = ["x", "args_1", "k"]
    assert [_input(place, names) for place in ("L_x_", "L_args_0_", "L_args_1_", "L_args_2_", "L_args_9_")] == [
        "x",
        "x",
        "args_1",
        "k",
        "args_9",
    ]


EXPRESSIONS = {
    "torch.softmax(x, -1)": {"x": (9, 100)},
    "torch.relu(b.t() @ a + n)": {"a": (20, 30), "b": (20, 40), "n": 2.5},
    "torch.nn.functional.layer_norm(X, (50,)), X.sum()": {"X": (8, 50)},
    "torch.softmax(x, 0).t() * k": {"x": (40, 6), "k": 3},
}


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=["softmax", "matmul", "two outputs", "a view"])
def test_triton_code_generated_without_a_gpu_becomes_a_correct_file(expression):
    drawn = {
        name: torch.randn(value) if isinstance(value, tuple) else value
        for name, value in EXPRESSIONS[expression].items()
    }
    made = generate(expression, drawn, CPU, "triton")
    assert "async_compile.triton(" in made.code
    assert sorted(made.order) == sorted(name for name, value in drawn.items() if isinstance(value, torch.Tensor))
    checked(standalone(made, [expression]))


def test_the_stand_in_driver_is_removed():
    from triton.runtime import driver

    generate("x + 1", {"x": torch.ones(64)}, CPU, "triton")
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError, match="active drivers"):
            driver.active.get_current_target()


def test_cpp_code_for_the_cpu():
    made = generate("x * 2 + n", {"x": torch.ones(3, 5), "n": 1}, CPU, "cpp")
    assert 'extern "C"' in made.code
    with pytest.raises(InductorError, match="expected the device cpu"):
        generate("x + 1", {"x": torch.ones(3)}, torch.device("meta"), "cpp")


WRONG = [
    ("torch.sofmax(x, -1)", "AttributeError: .*; did you mean softmax"),
    ("x + y", "NameError: .*'y'.*; there are torch, x"), ("x +", "expected one Python expression"),
    ("xs + 1", "'xs' is not defined; did you mean x"), ("open('f')", "NameError: .*'open'"),
    ("torch.nn.functional.rellu(x)", "did you mean relu"), ("x.sofmax(-1)", "did you mean softmax"),
    ("3 + 4", "expected a tensor or a tuple of tensors, got int"), ("x @ x", "RuntimeError: "),
    ("x.shape", "expected a tensor or a tuple"),
]  # fmt: skip


@pytest.mark.parametrize("expression,message", WRONG, ids=[expression for expression, _ in WRONG])
def test_invalid_expressions(expression, message):
    with pytest.raises(InductorError, match=message):
        generate(expression, {"x": torch.ones(3, 4)}, CPU)


def test_expressions_that_compute_nothing_or_break_the_graph():
    with pytest.raises(InductorError, match="torch.compile"):
        generate("x", {"x": torch.ones(3)}, CPU)
    with pytest.raises(InductorError, match="torch.compile"):
        generate("x if x.sum() > 0 else -x", {"x": torch.ones(3)}, CPU)
    with pytest.raises(InductorError, match="at least one tensor"):
        generate("torch.ones(n)", {"n": 3}, CPU)


@pytest.mark.gpu
@pytest.mark.parametrize("expression", EXPRESSIONS, ids=["softmax", "matmul", "two outputs", "a view"])
def test_on_a_gpu_the_tuned_configurations_are_used(expression):
    drawn = {
        name: torch.randn(value) if isinstance(value, tuple) else value
        for name, value in EXPRESSIONS[expression].items()
    }
    made = generate(expression, drawn, torch.device("cuda", 0))
    assert made.backend == "triton"
    assert set(made.configs) == set(re.findall(r"(\w+) = async_compile\.triton\(", made.code))
    checked(standalone(made, [expression]))
