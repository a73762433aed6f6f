"""Options that several commands share, and their types."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

_FORMS = """\b
Values of --arg:
  n=1000, a=0.5, b=true  a number or a bool
  x=f32[32,100]          a tensor of random values: normal, or integers from 0 to 99
  x=zeros:f32[100]       a tensor of zeros; also ones:, and arange: (0, 1, 2, ...)
  w=@w.npy               an array that numpy.save wrote
  y=out:f32[100]         an output: the kernel must write every element
  s=inout:zeros:i32[64]  a tensor that the kernel reads and writes, with any of the values above{reference}
  b=none                 no tensor: a null pointer, None in Triton
  T=tl.float32           a dtype, of a Triton kernel; a text is in quotes: 'A="relu"'
Dtypes: f64 f32 f16 bf16 f8e4m3 f8e5m2 i64 i32 i16 i8 u64 u32 u16 u8 bool.
"""
_REFERENCE = """;
                         --reference is called with its values before the launch, and returns those
                         after it"""
FORMS = _FORMS.format(reference="")
FORMS_WITH_REFERENCE = _FORMS.format(reference=_REFERENCE)


Command = Callable[..., Any]


class Dim3(click.ParamType):
    """A grid or block: ``256``, ``16,16`` or ``16x16``."""

    name = "X[,Y[,Z]]"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        try:
            sizes = tuple(int(size) for size in re.split("[,x]", str(value)))
        except ValueError:
            sizes = ()
        if not 1 <= len(sizes) <= 3:
            self.fail(f"{value!r}: expected one to three integers, such as 256 or 16,16", param, ctx)
        return sizes


def kernel_options(required: bool) -> Callable[[Command], Command]:
    """``--kernel``, ``--grid``, ``--block``, ``--shared``, ``--arg``, ``--include``, ``--define``, ``--constant``."""
    options = (
        click.option(
            "--kernel",
            "expression",
            metavar="NAME",
            required=required,
            help="The kernel, with its template arguments: 'sgemm<32>'.",
        ),
        click.option("--grid", type=Dim3(), required=required, help="Number of blocks."),
        click.option("--block", type=Dim3(), required=required, help="Threads per block."),
        click.option(
            "--shared", type=click.IntRange(min=0), default=0, show_default=True, help="Dynamic shared memory, bytes."
        ),
        click.option(
            "--arg",
            "texts",
            multiple=True,
            metavar="NAME=VALUE",
            help="n=1000, x=f32[1000], y=out:f32[1000], w=@w.npy. Once for each parameter; see below.",
        ),
        click.option(
            "--include",
            multiple=True,
            type=click.Path(exists=True, file_okay=False, path_type=Path),
            help="Folder for #include. Repeatable.",
        ),
        click.option("--define", multiple=True, metavar="NAME[=VALUE]", help="A macro. Repeatable."),
        click.option(
            "--constant",
            "constants",
            multiple=True,
            metavar="NAME=VALUE",
            help="A __constant__ variable, by a value as for --arg; a number is an int or a float. Repeatable.",
        ),
    )

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


device_option = click.option(
    "--device", "where", metavar="DEVICE", help="cuda, cuda:1 or cpu.  [default: a GPU if there is one]"
)


def target_option(purpose: str) -> Callable[[Command], Command]:
    """``--target``, whose help says what the device is for."""
    return click.option("--target", metavar="TARGET", default="sm_90", show_default=True, help=f"The device {purpose}.")


def rungs_option(default: str, example: str = "k02") -> Callable[[Command], Command]:
    """``--rung``, which may be given several times; ``example`` is a number."""
    text = f"A rung by name or number ({example}). Repeatable.  [default: {default}]"
    return click.option("--rung", "rungs", metavar="RUNG", multiple=True, help=text)


def dtypes_option(default: str, names: str = "float32, bfloat16, ... or 'all'.") -> Callable[[Command], Command]:
    """``--dtype``, which may be given several times."""
    text = f"{names} Repeatable.  [default: {default}]"
    return click.option("--dtype", "dtypes", metavar="DTYPE", multiple=True, help=text)


def seed_option(uses: str) -> Callable[[Command], Command]:
    """``--seed``, whose help names what ``uses`` it."""
    return click.option("--seed", type=int, default=0, show_default=True, help=f"Seed of {uses}.")


timeout_option = click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    help="Time limit of a launch, in seconds.",
)
fidelity_option = click.option(
    "--fidelity",
    is_flag=True,
    help="Also list the executed machine instructions as exact, approximate or unsupported.",
)


def attr_option(command: Command) -> Command:
    """The option ``--attr NAME=VALUE``, which may be given several times."""
    return click.option(
        "--attr",
        "attributes",
        multiple=True,
        metavar="NAME=VALUE",
        help="An attribute of the operation: dim=0, bias=true, activation=gelu; `warpwise ops OP` lists them. "
        "Repeatable.",
    )(command)


def wait_without_spinning() -> None:
    """Let idle threads of OpenMP sleep, unless the user says otherwise. Must be called before PyTorch is imported.

    PyTorch's threads wait for one another after each operation. By default they spin, which takes the cores from the
    threads that they wait for if other programs run too: a fit then takes ten times as long.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
