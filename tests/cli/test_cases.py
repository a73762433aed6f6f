"""``--size`` and ``--attr``: the cases that they select, and values that are errors."""

from __future__ import annotations

from dataclasses import replace

import click
import pytest
import torch
from tests.lab import toys

from warpwise.cli.cases import attributes_of, cases_named, with_attributes
from warpwise.operation import Case, Op, Spec

SPEC: Spec = replace(
    toys.MATMUL,
    schema=(
        "toys::scaled(Tensor a, Tensor b, float scale=1.0, str mode='plain', bool bias=False, int[2] pad=0, "
        "int? k=None) -> Tensor"
    ),
    inputs=lambda case, dtype, device, seed: {**toys.product_inputs(case, dtype, device, seed), "k": case.sizes["k"]},
    cases=(
        *toys.MATMUL.cases,
        Case("batch", {"batch": 2, "m": 3, "n": 4, "k": 5}),
        Case("turned", {"m": 3, "n": 4, "k": 5}, {"turned": True, "mode": "gelu"}),
    ),
    sizes=(Case("large", {"m": 64, "n": 64, "k": 64}, {"mode": "relu"}), Case("small", {"m": 8, "n": 8, "k": 8})),
)
OP = Op(SPEC, ())


def test_a_name_is_that_of_a_timing_size() -> None:
    assert cases_named(OP, []) == [SPEC.sizes[0]]
    assert cases_named(OP, ["small"]) == [SPEC.sizes[1]]
    assert cases_named(OP, ["small", "all"]) == list(SPEC.sizes)
    assert cases_named(OP, ["tuned"], more=[Case("tuned", {"m": 1})]) == [Case("tuned", {"m": 1})]


def test_a_size_is_spelled_out_with_the_attributes_of_one_like_it() -> None:
    assert cases_named(OP, ["m=3, n=4,k=5"]) == [Case("m=3, n=4,k=5", {"m": 3, "n": 4, "k": 5}, {"mode": "relu"})]
    assert cases_named(OP, ["batch=2,m=3,n=4,k=0"])[0].sizes == {"batch": 2, "m": 3, "n": 4, "k": 0}


@pytest.mark.parametrize(
    "size,attributes,text",
    [
        ("small", (), "small(m=8, n=8, k=8)"),
        ("small", ("bias=true",), "small,bias=true(m=8, n=8, k=8)"),
        ("m=3, n=4,k=5", (), "m=3, n=4,k=5(mode=relu)"),
        ("m=3,n=4,k=5", ("mode=gelu", "pad=(1,2)"), "m=3,n=4,k=5,mode=gelu,pad=(1,2)"),
    ],
)
def test_a_setting_that_the_name_contains_is_shown_once(size: str, attributes: tuple[str, ...], text: str) -> None:
    assert str(cases_named(OP, [size], attributes)[0]) == text


def test_a_shrunk_case_shows_all_its_sizes() -> None:
    case = replace(Case("m=3,n=4", {"m": 3, "n": 4}), sizes={"m": 1, "n": 4})
    assert str(case) == "m=3,n=4(m=1, n=4)"


@pytest.mark.parametrize(
    "size,message",
    [
        ("huge", "no size 'huge'; there are large, small"),
        ("m=3,n=4", "'m=3,n=4' lacks k: expected m=N,n=N,k=N or batch=N,m=N,n=N,k=N"),
        ("m=3,n=4,q=5", "'q=5': expected m=N,n=N,k=N or"),
        ("m=3,n=-4,k=5", "'n=-4': expected"),
        ("m=3,n=4,k=", "'k=': expected"),
    ],
)
def test_a_size_that_is_none_lists_what_there_is(size: str, message: str) -> None:
    with pytest.raises(click.BadParameter) as raised:
        cases_named(OP, [size])
    assert message in raised.value.message


def test_attributes_are_those_of_cases_and_scalars_that_do_not_follow_from_sizes() -> None:
    assert attributes_of(OP) == {
        "scale": (),
        "mode": ("gelu", "relu"),
        "bias": (),
        "pad": (),
        "turned": (True,),
    }


@pytest.mark.parametrize(
    "text,value",
    [
        ("scale=2.5", 2.5), ("scale=2", 2), ("mode=gelu", "gelu"), ("mode=3", "3"), ("mode=none", "none"),
        ("mode='x=y'", "x=y"), ("bias=true", True), ("bias=False", False), ("pad=(1, 2)", (1, 2)),
        ("pad=[1, 2]", (1, 2)), ("turned=false", False), ("turned=in part", "in part"),
    ],
)  # fmt: skip
def test_values_are_literals_true_or_false_else_text(text: str, value: object) -> None:
    (case,) = with_attributes(OP, [SPEC.sizes[0]], [text])
    assert case.attributes == {"mode": "relu", text.partition("=")[0]: value}
    assert case.name == f"large,{text}"
    args = SPEC.named(SPEC.arguments(case, torch.float32, torch.device("cpu"), 0))
    assert args.get(text.partition("=")[0], value) == value


@pytest.mark.parametrize(
    "text,message",
    [
        ("colour=red", "no attribute 'colour'; there are scale, mode, bias, pad, turned"),
        ("k=3", "no attribute 'k'"),
        ("a=3", "no attribute 'a'"),
        ("bias", "'bias': expected NAME=VALUE"),
        ("bias=", "expected NAME=VALUE"),
        ("bias=3", "expected bias to be bool, got '3'"),
        ("scale=true", "expected scale to be float, got 'true'"),
        ("scale=None", "expected scale to be float, got 'None'"),
        ("pad=(1, 'x')", "expected pad to be int[]"),
    ],
)
def test_an_attribute_that_is_none_says_what_is_expected(text: str, message: str) -> None:
    with pytest.raises(click.BadParameter) as raised:
        cases_named(OP, [], [text])
    assert message in raised.value.message


def test_an_attribute_that_inputs_do_not_take_or_would_not_use_is_refused() -> None:
    def strict(case, dtype, device, seed):
        if case.attributes.get("turned") not in (None, True):
            raise ValueError("expected turned to be True")
        return {**toys.product_inputs(case, dtype, device, seed), "mode": "plain"}

    op = Op(replace(SPEC, inputs=strict), ())
    with pytest.raises(click.BadParameter, match="cannot make inputs: ValueError: expected turned to be True"):
        cases_named(op, [], ["turned=3"])
    with pytest.raises(click.BadParameter, match="mode follows from the sizes and inputs"):
        cases_named(op, [], ["mode=gelu"])


def test_an_operation_without_attributes_says_so() -> None:
    with pytest.raises(click.BadParameter, match="no attribute 'bias'; it has none"):
        cases_named(toys.op(toys.AFFINE), [], ["bias=true"])
