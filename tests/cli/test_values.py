"""Arguments written on a command line."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
import pytest
import torch

from warpwise.cli.commands.options import Dim3
from warpwise.cli.values import DTYPES, parse


@pytest.mark.parametrize(
    "text, expected", [("n=1000", 1000), ("n = -3", -3), ("n=0x10", 16), ("a=1.5", 1.5), ("a=1e-3", 1e-3)]
)
def test_numbers_keep_their_kind(text: str, expected: float) -> None:
    value = parse(text, seed=0)
    assert value.value == expected
    assert type(value.value) is type(expected)
    assert not value.output


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_makes_a_tensor_of_its_shape(name: str) -> None:
    for fill in ("", "out:", "zeros:", "ones:", "arange:"):
        value = parse(f"x={fill}{name}[3,5]", seed=0)
        assert isinstance(value.value, torch.Tensor)
        assert value.value.dtype == DTYPES[name]
        assert value.value.shape == (3, 5)
        assert value.output == (fill == "out:")


@pytest.mark.parametrize("text, total", [("zeros:i32[4]", 0), ("ones:i32[4]", 4), ("arange:i32[4]", 6)])
def test_an_argument_that_is_read_and_written_has_any_values(text: str, total: int) -> None:
    value = parse(f"x=inout:{text}", seed=0)
    assert isinstance(value.value, torch.Tensor) and value.value.sum() == total
    assert (value.output, value.inout, value.returned) == (False, True, True)


@pytest.mark.parametrize(
    "text, expected", [("b=none", None), ("b=true", True), ('a="relu"', "relu"), ("a='x=1'", "x=1"), ('a=""', "")]
)
def test_words_and_texts(text: str, expected: object) -> None:
    assert parse(text, seed=0).value == expected


def test_dtypes_of_triton() -> None:
    tl = pytest.importorskip("triton.language")
    assert parse("T=tl.bfloat16", seed=0).value is tl.bfloat16
    with pytest.raises(click.BadParameter, match="triton.language has no dtype 'load'"):
        parse("T=tl.load", seed=0)


def test_random_values_follow_the_seed() -> None:
    first, again, other = (parse("x=f32[100]", seed=seed).value for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_file_is_read(tmp_path: Path) -> None:
    np.save(tmp_path / "w.npy", np.arange(6, dtype=np.int32).reshape(2, 3))
    value = parse(f"w=@{tmp_path / 'w.npy'}", seed=0)
    assert torch.equal(value.value, torch.arange(6, dtype=torch.int32).reshape(2, 3))


@pytest.mark.parametrize(
    "text, said",
    [
        ("n", "NAME=VALUE"),
        ("=3", "NAME=VALUE"),
        ("n=", "NAME=VALUE"),
        ("2n=3", "NAME=VALUE"),
        ("x=f33[4]", "no dtype 'f33'"),
        ("x=inout:3", "expected a tensor after inout:"),
        ("x=inout:out:f32[4]", "expected a tensor after inout:"),
        ("x=oat:f32[4]", "no fill 'oat'"),
        ("x=f32(4)", "expected a number"),
        ("x=@nowhere.npy", "nowhere.npy"),
    ],
)
def test_what_does_not_parse_says_what_was_expected(text: str, said: str) -> None:
    with pytest.raises(click.BadParameter, match=said.replace("[", r"\[")):
        parse(text, seed=0)


@pytest.mark.parametrize("text, expected", [("256", (256,)), ("16,16", (16, 16)), ("8x4x2", (8, 4, 2))])
def test_dimensions(text: str, expected: tuple[int, ...]) -> None:
    assert Dim3().convert(text, None, None) == expected


@pytest.mark.parametrize("text", ["", "a", "1,2,3,4", "1.5"])
def test_bad_dimensions(text: str) -> None:
    with pytest.raises(click.BadParameter, match="one to three integers"):
        Dim3().convert(text, None, None)
