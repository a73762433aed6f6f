"""Parsing of demangled function types into parameters."""

from __future__ import annotations

import pytest

from warpwise.cuda.source.signature import Parameter, demangle, parse, parse_parameter, split


def test_parameters_of_a_function_type() -> None:
    assert parse("void (*)(int, float const*, unsigned long)") == (
        Parameter("int", "int"),
        Parameter("float const*", "float", 1, const=True),
        Parameter("unsigned long", "unsigned long"),
    )


def test_the_type_from_nvrtc_is_parsed_the_same() -> None:
    assert parse("void ww_signature<void (*)(int, float const*)>()") == parse("void (*)(int, float const*)")


@pytest.mark.parametrize("text", ["void (*)()", "void (*)(void)", "void ww_signature<void (*)()>()"])
def test_a_kernel_without_parameters(text: str) -> None:
    assert parse(text) == ()


@pytest.mark.parametrize("text", ["int (*)(int)", "float", "void (*)(int", ""])
def test_other_types_raise(text: str) -> None:
    with pytest.raises(ValueError, match="expected the type of a kernel"):
        parse(text)


@pytest.mark.parametrize(
    "text, element, pointers, const",
    [
        ("float*", "float", 1, False),
        ("float const*", "float", 1, True),
        ("const float *", "float", 1, True),
        ("float volatile*", "float", 1, False),
        ("float const volatile*", "float", 1, True),
        ("float const* const*", "float", 2, True),
        ("float const**", "float", 2, False),
        ("float* const*", "float", 2, True),
        ("unsigned char*", "unsigned char", 1, False),
        ("long long", "long long", 0, False),
        ("unsigned", "unsigned int", 0, False),
        ("short int", "short", 0, False),
        ("void const*", "void", 1, True),
        ("Pair<float const*, int>", "Pair<float const*, int>", 0, False),
        ("Pair<float const*, int>*", "Pair<float const*, int>", 1, False),
        ("Pair<float const*, int> const*", "Pair<float const*, int>", 1, True),
        ("Outer<int>::Inner*", "Outer<int>::Inner", 1, False),
        ("std::complex<float> const*", "std::complex<float>", 1, True),
    ],
)
def test_pointers_and_their_element_types(text: str, element: str, pointers: int, const: bool) -> None:
    parameter = parse_parameter(text)
    assert (parameter.pointers, parameter.const) == (pointers, const)
    if "<" not in text:
        assert parameter.element == element
    else:
        assert parameter.element.replace(" ", "").split("<")[0] == element.replace(" ", "").split("<")[0]


def test_a_pointer_to_an_array_gives_its_length() -> None:
    parameter = parse_parameter("float const (*) [4][16]")
    assert (parameter.element, parameter.pointers, parameter.const, parameter.extent) == ("float", 1, True, 64)


def test_a_reference_parameter() -> None:
    assert parse_parameter("float const&").reference and parse_parameter("float const&").const
    assert parse_parameter("int&&").reference


def test_a_pointer_to_a_function_is_opaque() -> None:
    parameter = parse_parameter("float (*)(float, int)")
    assert (parameter.pointers, parameter.element) == (0, "float (*)(float, int)")


def test_commas_inside_brackets_do_not_split() -> None:
    assert split("Pair<int, A<float, 2> >, int (*)(int, int), float [2]") == [
        "Pair<int, A<float, 2> >",
        "int (*)(int, int)",
        "float [2]",
    ]
    assert split("") == []


def test_demangle() -> None:
    assert demangle("_Z12ww_signatureIPFvPfPKfiEEvv") == "void ww_signature<void (*)(float*, float const*, int)>()"
    with pytest.raises(ValueError, match="not a mangled C"):
        demangle("sgemm")
