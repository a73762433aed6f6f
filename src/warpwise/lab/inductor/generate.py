"""``generate``: compile an expression with torch.compile and return the code that TorchInductor writes."""

from __future__ import annotations

import contextlib
import copy
import difflib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import torch

Backend = Literal["triton", "cpp"]


class InductorError(ValueError):
    """The expression cannot be compiled as requested; the message gives the reason."""


@dataclass(frozen=True)
class Generated:
    """The ``code`` that Inductor generated for ``expression`` of the tensors ``inputs`` and the numbers ``constants``.

    ``order`` lists the inputs' names in the order in which the code takes them. ``outputs`` are those of eager mode.
    ``configs`` holds the ``triton.Config`` that Inductor's autotuning chose for each kernel, if it ran on a GPU.
    """

    expression: str
    inputs: Mapping[str, torch.Tensor]
    constants: Mapping[str, Any]
    backend: Backend
    device: torch.device
    code: str
    order: tuple[str, ...]
    outputs: tuple[torch.Tensor, ...]
    configs: Mapping[str, Any] = field(default_factory=dict)


def generate(
    expression: str, arguments: Mapping[str, Any], device: torch.device, backend: Backend = "triton"
) -> Generated:
    """Compile ``expression``, Python that may use ``torch`` and the ``arguments``, as one graph.

    On a GPU the code also runs, which tunes its kernels. On a CPU it is only generated, for the backend "triton" by
    Inductor's Triton back end for CPUs: that needs neither a GPU nor a Triton compiler. Raises ``InductorError`` if
    the expression is invalid or cannot be compiled as one graph.
    """
    if backend == "cpp" and device.type != "cpu":
        raise InductorError("backend cpp: generates code for the CPU; expected the device cpu")
    tensors = {name: value.to(device) for name, value in arguments.items() if isinstance(value, torch.Tensor)}
    constants = {name: value for name, value in arguments.items() if not isinstance(value, torch.Tensor)}
    if not tensors:
        raise InductorError("expected at least one tensor among the arguments, such as x=f32[64,64]")
    literals = "".join(f"    {name} = {value!r}\n" for name, value in constants.items())
    space: dict[str, Any] = {"torch": torch, "__builtins__": {}}
    try:
        compile(expression.strip(), "<expression>", "eval")
        source = f"def asked({', '.join(tensors)}):\n{literals}    return ({expression.strip()})\n"
        exec(source, space)  # noqa: S102 - the user's own expression
        eager = space["asked"](*tensors.values())
    except SyntaxError as error:
        raise InductorError(f"{expression!r}: expected one Python expression: {error.msg}") from error
    except Exception as error:
        raise InductorError(f"{expression!r}: {_message(error, list(arguments))}") from error
    expected = tuple(eager) if isinstance(eager, (tuple, list)) else (eager,)
    if not expected or not all(isinstance(part, torch.Tensor) for part in expected):
        raise InductorError(f"{expression!r}: expected a tensor or a tuple of tensors, got {type(eager).__name__}")
    code, order = _compile(space["asked"], tensors, backend, device)
    configs = _configs(code) if device.type == "cuda" else {}
    return Generated(expression, tensors, constants, backend, device, code, order, expected, configs)


def _message(error: Exception, names: Sequence[str] = ()) -> str:
    """The type and first line of an error; for an unknown name also a similar one of ``names`` or of the object."""
    text = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
    if not isinstance(error, (NameError, AttributeError)):
        return text
    known = dir(error.obj) if isinstance(error, AttributeError) else ("torch", *names)
    near = difflib.get_close_matches(error.name or "", known, n=1)
    return text + (f"; did you mean {near[0]}" if near else f"; there are {', '.join(known)}" if names else "")


def _compile(
    function: Callable[..., Any], tensors: Mapping[str, torch.Tensor], backend: Backend, device: torch.device
) -> tuple[str, tuple[str, ...]]:
    """Inductor's code, and the names of its inputs in order."""
    from torch._functorch import config as functorch
    from torch._inductor import config
    from torch._inductor.compile_fx import compile_fx
    from torch._inductor.utils import get_code, run_and_get_code

    order: list[str] = []

    def inductor(graph: torch.fx.GraphModule, examples: Sequence[Any]) -> Any:
        placeholders = [str(node.target) for node in graph.graph.nodes if node.op == "placeholder"]
        order.extend(_input(placeholder, list(tensors)) for placeholder in placeholders)
        compiled = compile_fx(copy.deepcopy(graph), list(examples))
        return compiled if device.type == "cuda" else graph.forward

    torch.compiler.reset()
    compiled = torch.compile(function, backend=inductor, fullgraph=True, dynamic=False)
    try:
        # A cached graph has no source code to return.
        with (
            config.patch(fx_graph_cache=False, fx_graph_remote_cache=False),
            functorch.patch(enable_autograd_cache=False),
            warnings.catch_warnings(),
        ):
            warnings.filterwarnings("ignore", "TensorFloat32 tensor cores")
            if device.type == "cuda":
                codes = run_and_get_code(compiled, *tensors.values())[1]
            else:
                with config.patch(cpu_backend=backend), _triton_target():
                    codes = get_code(compiled, *tensors.values())
    except Exception as error:
        raise InductorError(f"torch.compile: {_message(error)}") from error
    codes = [code for code in dict.fromkeys(codes) if "def call(" in code]  # each kernel's own file is listed too
    if len(codes) != 1:
        raise InductorError(
            f"torch.compile generated {len(codes)} graphs, expected one: does the expression compute anything?"
        )
    if unknown := sorted(set(order) - set(tensors)):
        raise InductorError(f"torch.compile added the inputs {', '.join(unknown)}")
    return codes[0], tuple(order)


def _input(placeholder: str, names: Sequence[str]) -> str:
    """The input of a Dynamo placeholder: ``L_x_``, or ``L_args_0_`` by position up to torch 2.11."""
    name = placeholder.removeprefix("L_").removesuffix("_")
    position = name.removeprefix("args_")
    by_position = name != position and position.isdigit() and name not in names and int(position) < len(names)
    return names[int(position)] if by_position else name


@contextlib.contextmanager
def _triton_target() -> Iterator[None]:
    """Give Triton a target without a driver, which suffices to generate code, and restore its state afterwards."""
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver

    target = GPUTarget("cuda", 90, 32)
    driver.set_active(SimpleNamespace(get_current_target=lambda: target, get_current_device=lambda: 0))
    try:
        yield
    finally:
        try:
            driver.reset_active()
        except RuntimeError:  # there is no driver: leave the search to the next use
            driver.set_active(None)


def _configs(code: str) -> dict[str, Any]:
    """The configuration of each kernel of the module that Inductor loaded from ``code``, if it has exactly one."""
    from torch._inductor.codecache import PyCodeCache

    for module in reversed(PyCodeCache.modules):
        path = Path(getattr(module, "__file__", None) or "")
        if path.is_file() and path.read_text() == code:
            found = {name: getattr(value, "launchers", None) for name, value in vars(module).items()}
            return {name: made[0].config for name, made in found.items() if isinstance(made, list) and len(made) == 1}
    return {}
