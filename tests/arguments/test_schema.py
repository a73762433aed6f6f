"""Schemas: what is parsed, what is refused, and how arguments are bound to names."""

from __future__ import annotations

import pytest
import torch

from warpwise.arguments.schema import REQUIRED, parse

SCHEMA = (
    "mypackage::step(Tensor(a!)[] params, Tensor?[] grads, Tensor? scale, int[2] stride=1, bool nesterov=False, "
    'str mode="a, b", *, float lr, float? eps=None) -> (Tensor norm, Tensor count)'
)


def test_what_a_schema_says():
    schema = parse(SCHEMA)
    assert (schema.namespace, schema.name, schema.qualified) == ("mypackage", "step", "mypackage::step")
    assert schema.outputs == ("norm", "count")
    assert schema.mutated == ("params",)
    by_name = {argument.name: argument for argument in schema.arguments}
    assert list(by_name) == ["params", "grads", "scale", "stride", "nesterov", "mode", "lr", "eps"]
    assert by_name["params"].is_list and by_name["params"].is_tensor and not by_name["params"].optional
    assert by_name["scale"].optional and not by_name["scale"].is_list
    assert (by_name["stride"].default, by_name["stride"].length) == ((1, 1), 2)
    assert (by_name["nesterov"].default, by_name["mode"].default) == (False, "a, b")
    assert by_name["lr"].default is REQUIRED and by_name["lr"].keyword_only
    assert by_name["eps"].default is None and by_name["eps"].optional


@pytest.mark.parametrize(
    "text,outputs",
    [("f(Tensor x) -> Tensor", ("output",)), ("f(Tensor x) -> (Tensor y)", ("y",)), ("f(Tensor(a!) x) -> ()", ())],
)
def test_outputs(text, outputs):
    assert parse(text).outputs == outputs


def test_torch_library_takes_the_schema():
    """torch.library parses the schema too, with the keyword-only rung at its end."""
    for text in (SCHEMA, "f(Tensor x, int dim=-1) -> Tensor", "f(Tensor x) -> (Tensor y)", "f() -> Tensor"):
        schema = parse(text)
        definition = torch.library.Library(f"schema_{abs(hash(text))}", "FRAGMENT")
        definition.define(schema.name + schema.library())
    assert (
        parse(SCHEMA).library().endswith("*, float lr, float? eps=None, str? rung=None) -> (Tensor norm, Tensor count)")
    )
    assert parse("f(Tensor x) -> Tensor").library() == "(Tensor x, *, str? rung=None) -> Tensor"


@pytest.mark.parametrize(
    "text,message",
    [
        ("Tensor x", "expected a schema like"),
        ("f(Tensor x)", "expected a schema like"),
        ("größe(Tensor x) -> Tensor", "expected names of ASCII characters, as torch.library needs them, got 'größe'"),
        ("f(Tensor x) -> (Tensor y, Tensor länge)", "expected names of ASCII characters, .* got 'länge'"),
        ("f(Tensor) -> Tensor", "expected an argument like 'Tensor\\? bias'"),
        ("f(Matrix x) -> Tensor", "got 'Matrix x'"),
        ("f(Tensor x, int n=two) -> Tensor", "expected a Python literal as the default in 'int n=two'"),
        ("f(Tensor x, Tensor x) -> Tensor", "different names in the schema, got x twice"),
        ("f(Tensor x) -> (Tensor, Tensor)", "expected outputs like"),
        ("f(Tensor x, *, Tensor y) -> Tensor", "expected tensors before the '\\*'"),
        ("f(Tensor x) -> int", "expected outputs like"),
        ("f(Tensor(a!) x) -> Tensor(a!)", r"or '\(\)': a mutated argument is not returned, got 'Tensor\(a!\)'"),
        ("m::f.out(Tensor x, Tensor(a!) y) -> ()", "-> Tensor' without an overload's name, got"),
        ("f(int n=1, Tensor x) -> Tensor", "non-default argument follows default argument"),
        ("f(Tensor x, str? rung=None) -> Tensor", "a schema without rung"),
    ],
)
def test_what_is_no_schema(text, message):
    with pytest.raises(ValueError, match=message):
        parse(text)


def test_arguments_are_bound_as_in_a_python_call():
    schema = parse("f(Tensor x, int n=2, *, float lr=0.5) -> Tensor")
    assert schema.bind(("x",), {}) == ("x", 2, 0.5)
    assert schema.bind(("x", 3), {"lr": 1.0}) == ("x", 3, 1.0)
    assert schema.bind((), {"n": 1, "x": "y"}) == ("y", 1, 0.5)
    for args, named, message in (
        ((), {}, "missing a required argument: 'x'"),
        (("x", 1, 2), {}, "too many positional arguments"),
        (("x",), {"x": 1}, "multiple values for argument 'x'"),
        (("x",), {"m": 1}, "unexpected keyword argument 'm'; expected f\\(x, n=2, \\*, lr=0.5\\)"),
    ):
        with pytest.raises(TypeError, match=message):
            schema.bind(args, named)
