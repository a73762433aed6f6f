"""The path of a first call is short enough to be read: few files and functions up to the rung's launcher."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import warpwise
from warpwise import operation, ops
from warpwise.cuda import Module
from warpwise.operation import dispatch

HOME = str(Path(warpwise.__file__).parent)
FILES, FUNCTIONS = 15, 60
# Of a choice by a model of the time, which reads the limits and the configurations of every rung: files outside the
# folder of the operation, whose number grows with its rungs.
MODEL_FILES, MODEL_FUNCTIONS = 20, 104
INLINE = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")  # part of the function that they stand in


def traced(call: Callable[[], object], last: object = None) -> tuple[set[str], set[tuple[str, str]]]:
    """The files and functions of this package that ``call`` enters, up to the code object ``last``."""
    functions: set[tuple[str, str]] = set()
    done = False

    def profile(frame, event, argument):
        nonlocal done
        code = frame.f_code
        if event != "call" or done:
            return
        own = code.co_filename.startswith(HOME) or code.co_filename == dispatch.GENERATED
        if own and code.co_name not in INLINE:
            functions.add((code.co_filename, code.co_qualname if hasattr(code, "co_qualname") else code.co_name))
        done = code is last

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    assert last is None or done, "the launcher was not reached"
    return {file for file, _ in functions}, functions


@pytest.mark.parametrize("name,rung", [("softmax", "k02"), ("vector_add", "k03"), ("matmul", "k04"), ("square", "k01")])
def test_of_an_emulated_rung(name, rung):
    shapes = {
        "softmax": [(5, 7)],
        "vector_add": [(33,), (33,)],
        "matmul": [(5, 6), (6, 7)],
        "square": [(33,)],
    }[name]
    function, op = getattr(ops, name), operation.get(name)
    given = [torch.ones(shape) for shape in shapes]
    last = Module.__getitem__.__code__  # the launcher looks its kernel up
    files, functions = traced(lambda: function(*given, rung=rung), last)
    assert len(files) <= FILES, sorted(files)
    assert len(functions) <= FUNCTIONS, sorted(functions)
    assert op.rung(rung)


@pytest.mark.parametrize("name", ["softmax", "matmul", "linear"])
def test_of_a_choice(name):
    """Of a GPU's table, on meta tensors: nothing is computed."""
    shapes = {"softmax": [(512, 512)], "matmul": [(512, 512), (512, 512)], "linear": [(512, 512), (512, 512)]}[name]
    op, given = operation.get(name), [torch.empty(shape, device="meta") for shape in shapes]
    device = "NVIDIA H200" if name == "matmul" else None
    files, functions = traced(lambda: operation.chosen(op, *given, device=device))
    if device:
        files = {file for file in files if not file.startswith(f"{HOME}/ops/{name}/")}
    assert len(files) <= (MODEL_FILES if device else FILES), sorted(files)
    assert len(functions) <= (MODEL_FUNCTIONS if device else FUNCTIONS), sorted(functions)
