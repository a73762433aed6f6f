"""``generate``: an expression put through torch.compile, and the code that comes out."""

from __future__ import annotations

import ast
import contextlib
import copy
import difflib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch

from warpwise.lab.inductor.parse import Program, parse
from warpwise.operation.spec import as_tuple

Backend = Literal["triton", "cpp"]
Blocks = Mapping[str, Mapping[str, int]]
NEEDS = (
    "the Triton code that torch.compile makes for a GPU needs a CUDA device, and there is none here. Inductor's own Triton back end "
    "for the CPU writes its kernels without one: ask for the backend 'triton' to have those"
)


class InductorError(ValueError):
    """The expression cannot be compiled as asked; the message says why."""


@dataclass(frozen=True)
class Generated:
    """What torch.compile made of ``expression`` for the tensors ``inputs`` (by name) and the numbers ``constants``.

    ``code`` is Inductor's text and ``program`` that text read. ``order`` names the inputs as ``program.arguments`` has them.
    ``outputs`` are eager's, and ``difference`` the largest between them and the compiled ones, None where those were not run.
    ``blocks`` are the block sizes, warps and stages of each kernel that Inductor's tuning settled on, empty where nothing ran.
    """

    expression: str
    inputs: Mapping[str, torch.Tensor]
    constants: Mapping[str, Any]
    backend: Backend
    device: torch.device
    code: str
    program: Program
    order: tuple[str, ...]
    outputs: tuple[torch.Tensor, ...]
    difference: float | None = None
    blocks: Blocks = field(default_factory=dict)


def generate(
    expression: str, arguments: Mapping[str, Any], device: torch.device, backend: Backend | None = None
) -> Generated:
    """Compile ``expression``, in which ``torch`` and the ``arguments`` are known, and take the code.

    On a GPU, and for the backend "cpp" on a CPU, the compiled code is run and compared with eager; "triton" on a CPU writes
    the code without compiling it, since no Triton compiler for CPUs is installed with torch. By default "triton" on a GPU and
    "cpp" on a CPU. Raises ``InductorError`` for what is no expression of these names, or cannot be compiled as one graph.
    """
    asked = backend or ("triton" if device.type == "cuda" else "cpp")
    if asked == "cpp" and device.type != "cpu":
        raise InductorError("backend cpp: is for the CPU; say device cpu")
    tensors = {name: value.to(device) for name, value in arguments.items() if isinstance(value, torch.Tensor)}
    constants = {name: value for name, value in arguments.items() if not isinstance(value, torch.Tensor)}
    if not tensors:
        raise InductorError("expected at least one tensor among the arguments, such as x=f32[64,64]")
    function = _function(expression, tuple(tensors), constants)
    expected = _eager(function, expression, tensors)
    order: list[str] = []
    code, result = _compiled(function, tensors, asked, device, order)
    difference = None if result is None else _difference(as_tuple(result), expected)
    program = parse(code)
    return Generated(
        expression, tensors, constants, asked, device, code, program, tuple(order), expected, difference,
        {} if result is None or asked == "cpp" else _tuned(code, program),
    )  # fmt: skip


def _function(expression: str, names: Sequence[str], constants: Mapping[str, Any]) -> Callable[..., Any]:
    """``def asked(x): return expression``, with the constants written into it so that the compiler sees numbers."""
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except SyntaxError as error:
        raise InductorError(f"{expression!r}: expected one Python expression: {error.msg}") from error
    known = ["torch", *names, *constants]
    bound = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    bound |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in known and node.id not in bound:
            like = difflib.get_close_matches(node.id, known, n=1)
            hint = f"; did you mean {like[0]}" if like else ""
            raise InductorError(f"{expression!r}: no {node.id!r}{hint}; there are {', '.join(known)} (--arg adds more)")
        if isinstance(node, ast.Attribute):
            _require_known(expression, node)
    fixed = "".join(f"    {name} = {value!r}\n" for name, value in constants.items())
    source = f"def asked({', '.join(names)}):\n{fixed}    return ({expression.strip()})\n"
    space: dict[str, Any] = {"torch": torch}
    exec(compile(source, "<expression>", "exec"), space)  # noqa: S102 - the user's own expression, on the user's machine
    return space["asked"]


def _require_known(expression: str, node: ast.Attribute) -> None:
    """Raise ``InductorError`` with the name that was perhaps meant if ``torch.something`` is nothing."""
    names: list[str] = []
    place: ast.expr = node
    while isinstance(place, ast.Attribute):
        names.insert(0, place.attr)
        place = place.value
    if not isinstance(place, ast.Name) or place.id != "torch":
        return
    found: Any = torch
    for at, name in enumerate(names):
        if not hasattr(found, name):
            like = difflib.get_close_matches(name, dir(found), n=1)
            hint = f"; did you mean {like[0]}" if like else ""
            raise InductorError(f"{expression!r}: {'.'.join(['torch', *names[:at]])} has no {name!r}{hint}")
        found = getattr(found, name)


def _eager(
    function: Callable[..., Any], expression: str, tensors: Mapping[str, torch.Tensor]
) -> tuple[torch.Tensor, ...]:
    try:
        result = function(*tensors.values())
    except Exception as error:
        raise InductorError(
            f"{expression!r}: {type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        ) from error
    made = (result,) if isinstance(result, torch.Tensor) else result
    if not isinstance(made, (tuple, list)) or not made or not all(isinstance(part, torch.Tensor) for part in made):
        raise InductorError(f"{expression!r}: expected a tensor or a tuple of tensors, got {type(result).__name__}")
    return tuple(made)


def _compiled(
    function: Callable[..., Any],
    tensors: Mapping[str, torch.Tensor],
    backend: Backend,
    device: torch.device,
    order: list[str],
) -> tuple[str, Any]:
    """Inductor's text and, where it was run, its result; ``order`` is filled with the inputs' names as the graph takes them."""
    from torch._functorch import config as functorch
    from torch._inductor import config
    from torch._inductor.compile_fx import compile_fx
    from torch._inductor.utils import get_code, run_and_get_code

    emulated = backend == "triton" and device.type == "cpu"

    def through(graph: torch.fx.GraphModule, examples: Sequence[Any]) -> Any:
        places = [str(node.target) for node in graph.graph.nodes if node.op == "placeholder"]
        order.extend(_input(place, list(tensors)) for place in places)
        made = compile_fx(copy.deepcopy(graph), list(examples))
        return graph.forward if emulated else made

    torch.compiler.reset()
    compiled = torch.compile(function, backend=through, fullgraph=True, dynamic=False)
    try:
        # From a cache there would be no text.
        with (
            config.patch(fx_graph_cache=False, fx_graph_remote_cache=False),
            functorch.patch(enable_autograd_cache=False),
            warnings.catch_warnings(),
        ):
            warnings.filterwarnings("ignore", "TensorFloat32 tensor cores")  # whoever asks for code is not asked back
            if emulated:
                with config.patch(cpu_backend="triton"), _a_target():
                    codes, result = get_code(compiled, *tensors.values()), None
            else:
                result, codes = run_and_get_code(compiled, *tensors.values())
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        raise InductorError(f"torch.compile: {type(error).__name__}: {reason}") from error
    codes = [code for code in dict.fromkeys(codes) if "def call(" in code]  # without the kernels again by themselves
    if not codes:
        raise InductorError("torch.compile wrote no code: the expression computes nothing")
    if len(codes) > 1:
        raise InductorError(f"torch.compile wrote {len(codes)} graphs, expected one")
    if sorted(set(order) - set(tensors)):
        raise InductorError(f"torch.compile took inputs of its own: {', '.join(sorted(set(order) - set(tensors)))}")
    return codes[0], result


def _input(placeholder: str, names: Sequence[str]) -> str:
    """The input behind a placeholder of Dynamo's: ``L_x_``, or by its position, ``L_args_0_``, up to torch 2.11."""
    place = placeholder.removeprefix("L_").removesuffix("_")
    position = place.removeprefix("args_")
    by_position = place != position and position.isdigit() and place not in names and int(position) < len(names)
    return names[int(position)] if by_position else place


class _Target:
    """In place of a driver: it names a target, which is all that writing code asks for."""

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0


@contextlib.contextmanager
def _a_target() -> Iterator[None]:
    """A target for Triton where it finds no driver; what was active comes back after."""
    from triton.runtime import driver

    driver.set_active(_Target())
    try:
        yield
    finally:
        try:
            driver.reset_active()
        except RuntimeError:  # it looks for a driver at once, and there is none: look when one is asked for
            driver.set_active(None)


def _difference(made: tuple[torch.Tensor, ...], expected: tuple[torch.Tensor, ...]) -> float:
    """The largest difference of any two elements; infinity where shapes or dtypes differ or only one is NaN."""
    worst = 0.0
    for got, wanted in zip(made, expected, strict=True):
        if got.shape != wanted.shape or got.dtype != wanted.dtype:
            return float("inf")
        if not got.numel():
            continue
        same = (got == wanted) | (got.isnan() & wanted.isnan())
        apart = torch.where(same, 0.0, (got.double() - wanted.double()).abs()).nan_to_num(nan=float("inf"))
        worst = max(worst, float(apart.max()))
    return worst


def _tuned(code: str, program: Program) -> dict[str, dict[str, int]]:
    """The configuration that each kernel was run with, from the module that was made of ``code``."""
    from torch._inductor.codecache import PyCodeCache

    found: dict[str, dict[str, int]] = {}
    for module in reversed(PyCodeCache.modules):
        path = Path(getattr(module, "__file__", None) or "")
        if not path.is_file() or path.read_text() != code:
            continue
        for kernel in program.kernels:
            launchers: Any = getattr(getattr(module, kernel.name, None), "launchers", ())
            config = getattr(launchers[0], "config", None) if len(launchers) == 1 else None
            if config is not None:
                sizes = {name: value for name, value in config.kwargs.items() if name in kernel.constants}
                found[kernel.name] = {**sizes, "num_warps": config.num_warps, "num_stages": config.num_stages}
        break
    return found
