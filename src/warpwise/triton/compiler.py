"""Compile Triton kernels for any NVIDIA architecture; no GPU is needed."""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import triton
from triton.compiler.errors import CompilationError
from triton.runtime.errors import PTXASError

from warpwise.cuda.errors import ArgumentError, CompileError, LaunchError
from warpwise.device.profiles import Profile, parse_target
from warpwise.triton.arguments import bind, unwrap
from warpwise.triton.compat import (
    COMPILATION_DISABLED,
    LANGUAGE_IS_INTERPRETED,
    ASTSource,
    GPUTarget,
    JITFunction,
    distinct_by_file,
    launch_options,
    run_front_end,
    specialised_source,
)
from warpwise.triton.cubin import resources
from warpwise.triton.interpreter import INTERPRETER


@dataclass(frozen=True)
class CompiledKernel:
    """A kernel compiled for one target.

    ``registers`` is per thread, ``spills`` is the stack frame in bytes per thread, ``shared`` is bytes per block.
    ``signature`` maps each parameter to its Triton type. ``asm`` holds the text or the bytes of each stage of the
    compilation, ttir, ttgir, llir, ptx and cubin, which are also properties.
    """

    name: str
    target: str
    registers: int
    spills: int
    shared: int
    num_warps: int
    num_stages: int
    signature: Mapping[str, Any]
    asm: Mapping[str, Any] = field(repr=False)

    @property
    def ptx(self) -> str:
        return str(self.asm["ptx"])

    @property
    def cubin(self) -> bytes:
        return bytes(self.asm["cubin"])

    @property
    def ttir(self) -> str:
        return str(self.asm["ttir"])

    @property
    def ttgir(self) -> str:
        return str(self.asm["ttgir"])

    @property
    def llir(self) -> str:
        return str(self.asm["llir"])

    @property
    def sass(self) -> str:
        """The SASS, disassembled by the nvdisasm in Triton's package."""
        return str(self.asm["sass"])


def compile(
    kernel: Any,
    signature: Mapping[str, Any] | Sequence[Any],
    constexprs: Mapping[str, Any] | None = None,
    target: str = "sm_90",
    **options: Any,
) -> CompiledKernel:
    """Compile ``kernel`` for ``target`` ("sm_80", "sm_90" ...) without launching it; no GPU is needed.

    ``signature`` maps each parameter that is not a ``tl.constexpr`` to a Triton type: ``"*fp32"`` is a pointer to
    float32, ``"i32"`` an integer; ``"*fp32:16"`` and ``"i32:16"`` declare that the address or the value is divisible by
    16. Or it is a sequence of example arguments, as for ``kernel.compile_for``. ``constexprs`` are the values of the
    other parameters. ``options`` are launch options: ``num_warps=4``, ``num_stages=3``, ``maxnreg`` ...

    Raises ``CompileError`` with the kernel's line, ``ArgumentError`` for a missing or an unknown parameter, and
    ``LaunchError`` if the shared memory exceeds the limit of ``target``.
    """
    function = kernel.jit_function if hasattr(kernel, "jit_function") else kernel
    if not isinstance(function, JITFunction):
        raise ArgumentError(f"wt.compile: expected a Triton kernel, got {type(kernel).__name__}")
    constants = dict(constexprs or {})
    if not isinstance(signature, Mapping):
        return compile_for(function, tuple(signature), {**constants, **options}, target)
    parameters = {parameter.name: parameter for parameter in function.params}
    for name in (*signature, *constants):
        if name not in parameters:
            raise ArgumentError(f"{function.__name__}: no parameter {name!r}; parameters: {', '.join(parameters)}")
    types: dict[str, Any] = {}
    attributes: dict[tuple[int, ...], list[list[Any]]] = {}
    for number, (name, parameter) in enumerate(parameters.items()):
        if name in signature:
            kind, _, divisor = str(signature[name]).partition(":")
            types[name] = kind
            if divisor:
                attributes[(number,)] = [["tt.divisibility", int(divisor)]]
            continue
        if name not in constants:
            if not parameter.has_default:
                raise ArgumentError(f"{function.__name__}: expected a type or a constant value for {name}")
            constants[name] = parameter.default
        types[name] = "constexpr"
    return _compile_source(function, ASTSource(function, types, constants, attributes), target, options)


def compile_for(function: JITFunction, args: tuple[Any, ...], meta: Mapping[str, Any], target: str) -> CompiledKernel:
    """Compile as a launch with these arguments does: types, divisibility by 16, integers equal to 1."""
    source, options = _specialised(function, args, meta, target)
    return _compile_source(function, source, target, options)


def check_front_end(
    kernel: Any, args: tuple[Any, ...], meta: Mapping[str, Any], target: str = "sm_90"
) -> CompileError | None:
    """Return the error of Triton's front end for a launch with these arguments, or None.

    The interpreter runs Python, so it accepts some code that Triton rejects: a variable that changes its type in a
    branch that no program takes, a global variable that is not a constexpr, a function of Python such as ``sum``.
    """
    if LANGUAGE_IS_INTERPRETED:
        return None
    args, applied, _ = kernel.apply_config(args, dict(meta))
    function = kernel.jit_function
    source, options = _specialised(function, args, applied, target)
    with INTERPRETER.lock:
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # Triton prints the module if its verifier rejects it
                run_front_end(source, _gpu_target(target), options)
        except CompilationError as error:
            return compile_error(function, error)
        except RuntimeError as error:  # of the verifier
            return CompileError(f"{function.__name__}: {error}")
    return None


def _specialised(
    function: JITFunction, args: tuple[Any, ...], meta: Mapping[str, Any], target: str
) -> tuple[ASTSource, dict[str, Any]]:
    """Return the source, specialised as a launch does it, and the launch options."""
    bind(function, args, meta, launch_options())
    options = {
        name: value for name, value in meta.items() if name in launch_options() and name not in function.arg_names
    }
    known = {name: unwrap(value) for name, value in meta.items() if name in function.arg_names}
    positional = tuple(_pointer(unwrap(value)) for value in args)
    try:
        return specialised_source(function, _gpu_target(target), positional, known, options), options
    except TypeError as error:
        raise ArgumentError(f"{function.__name__}: {error}") from error


def _pointer(value: Any) -> Any:
    """Convert a NumPy array to a CPU tensor; Triton's binder accepts the other types."""
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value


def _gpu_target(target: str) -> GPUTarget:
    try:
        major, minor = parse_target(target)
    except ValueError as error:
        raise ArgumentError(str(error)) from None
    return GPUTarget("cuda", major * 10 + minor, 32)


def _compile_source(
    function: JITFunction, source: ASTSource, target: str, options: Mapping[str, Any]
) -> CompiledKernel:
    unknown = [name for name in options if name not in launch_options()]
    if unknown:
        raise ArgumentError(f"{function.__name__}: {unknown[0]!r} is neither a parameter nor a Triton launch option")
    if LANGUAGE_IS_INTERPRETED:
        raise CompileError(f"{function.__name__}: {COMPILATION_DISABLED}")
    source = distinct_by_file(source)
    printed = io.StringIO()  # Triton prints the complete PTX if ptxas fails
    with INTERPRETER.lock:
        try:
            with contextlib.redirect_stdout(printed):
                built = triton.compile(source, target=_gpu_target(target), options=dict(options))
        except CompilationError as error:
            raise compile_error(function, error) from error
        except PTXASError as error:
            raise CompileError(f"{function.__name__}: {error}") from error
    sys.stdout.write(printed.getvalue())
    used = resources(built.asm["cubin"])
    metadata = built.metadata
    _check_shared(function.__name__, metadata.shared, target)
    return CompiledKernel(
        function.__name__,
        target,
        used.registers,
        used.stack,
        metadata.shared,
        metadata.num_warps,
        metadata.num_stages,
        source.signature,
        built.asm,
    )


def _check_shared(name: str, shared: int, target: str) -> None:
    limit = Profile.of(target).shared_per_block_optin
    if shared > limit:
        raise LaunchError(
            f"{name}: needs {shared:,} bytes of shared memory per block, {target} has {limit:,}: "
            "use smaller blocks or fewer num_stages"
        )


def compile_error(function: JITFunction, error: CompilationError) -> CompileError:
    """Return Triton's error with the file and line in the kernel, or in the device function that raised it."""
    current: Any = function
    innermost = error
    while isinstance(innermost.__cause__, CompilationError):
        called = _called_function(current, innermost.node)
        innermost = innermost.__cause__
        current = called if called is not None and called.src == innermost.src else None
        if current is None:
            break
    node = innermost.node
    reason = _reason(innermost)
    if current is None or not hasattr(node, "lineno"):
        return CompileError(f"{function.__name__}: {reason}\n{innermost}")
    lines, first = inspect.getsourcelines(current.fn)
    skipped = next(number for number, line in enumerate(lines) if line.lstrip().startswith("def "))
    file, line = current.fn.__code__.co_filename, first + skipped + node.lineno - 1
    text = lines[skipped + node.lineno - 1].rstrip()
    return CompileError(f"{file}:{line}: {function.__name__}: {reason}\n    {text.strip()}")


def _reason(error: CompilationError) -> str:
    if error.error_message:
        return error.error_message
    cause = error.__cause__
    return f"{type(cause).__name__}: {cause}" if cause is not None else type(error).__name__


def _called_function(function: JITFunction, node: ast.AST) -> Any:
    """Return the device function that the call ``node`` in ``function`` refers to, or None."""
    if not isinstance(node, ast.Call):
        return None
    path: list[str] = []
    target: Any = node.func
    while isinstance(target, ast.Attribute):
        path.append(target.attr)
        target = target.value
    if not isinstance(target, ast.Name):
        return None
    value = function.get_capture_scope().get(target.id) if hasattr(function, "get_capture_scope") else None
    value = function.fn.__globals__.get(target.id) if value is None else value
    for name in reversed(path):
        value = getattr(value, name, None)
    return value if isinstance(value, JITFunction) else None
