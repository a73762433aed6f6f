"""Everything in ``warpwise.triton`` that depends on Triton internals, for Triton 3.5 to 3.9."""

from __future__ import annotations

import copy
import functools
import hashlib
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from types import ModuleType
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton import knobs
from triton._C.libtriton import ir
from triton._utils import canonicalize_dtype
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend
from triton.language.semantic import TritonSemantic
from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.errors import OutOfResources
from triton.runtime.interpreter import InterpretedFunction, InterpreterBuilder, TensorHandle
from triton.runtime.jit import JITFunction, KernelInterface, create_function_from_signature, mangle_type
from triton.tools.tensor_descriptor import TensorDescriptor

from warpwise.triton import constructors

__all__ = [
    "ATOMICS_WAIT_FOR_ALL_THREADS",
    "COMPILATION_DISABLED",
    "LANGUAGE_IS_INTERPRETED",
    "ASTSource",
    "Autotuner",
    "GPUTarget",
    "Heuristics",
    "InterpretedFunction",
    "InterpreterBuilder",
    "JITFunction",
    "KernelInterface",
    "OutOfResources",
    "TensorDescriptor",
    "TensorHandle",
    "TritonSemantic",
    "bind_semantic",
    "bound_builtins",
    "direct_launcher",
    "distinct_by_file",
    "interpreted_options",
    "ir",
    "is_descriptor",
    "is_gluon",
    "jit_options",
    "language_modules",
    "launch_options",
    "mangle_type",
    "numpy_dtype",
    "patches",
    "run_front_end",
    "specialised_source",
    "tl_dtype",
]

Patch = tuple[Any, str, Any]
LANGUAGE_IS_INTERPRETED = isinstance(tl.sum, InterpretedFunction)
COMPILATION_DISABLED = (
    "TRITON_INTERPRET was set when Triton was imported, so kernels cannot be compiled; "
    "unset it: CPU tensors are interpreted without it"
)
# Since Triton 3.9 a barrier of the program precedes each atomic that releases.
ATOMICS_WAIT_FOR_ALL_THREADS = tuple(int(part) for part in version("triton").split(".")[:2]) >= (3, 9)
_STUBS = "triton.language.extra.libdevice"
_OPERATORS = [
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "and",
    "or",
    "xor",
    "lshift",
    "rshift",
    "gt",
    "ge",
    "lt",
    "le",
    "eq",
    "ne",
    "pow",
]
_COMPARISONS = {"gt": "lt", "lt": "gt", "ge": "le", "le": "ge", "eq": "eq", "ne": "ne"}  # with swapped operands


def jit_options(function: JITFunction | InterpretedFunction) -> dict[str, Any]:
    """Return the ``triton.jit`` options that ``function`` was created with."""
    if isinstance(function, InterpretedFunction):
        return dict(function.kwargs)
    names = ("version", "do_not_specialize", "do_not_specialize_on_alignment", "debug", "noinline", "launch_metadata")
    return {**{name: getattr(function, name) for name in names}, "repr": function._repr}


def is_gluon(function: Any) -> bool:
    """Return True for a function of ``triton.experimental.gluon.jit``."""
    return bool(getattr(function, "is_gluon", lambda: False)())


def is_descriptor(value: Any) -> bool:
    """Return True for a host-side tensor descriptor of Triton or of Gluon."""
    gluon = sys.modules.get("triton.experimental.gluon.nvidia.hopper")
    return isinstance(value, TensorDescriptor) or (gluon is not None and isinstance(value, gluon.TensorDescriptor))


def tl_dtype(dtype: torch.dtype) -> tl.dtype:
    """Return the Triton dtype of a PyTorch dtype; raise ``KeyError`` if Triton has none."""
    return tl.int1 if dtype == torch.bool else tl.str_to_ty(canonicalize_dtype(dtype), None)


def specialised_source(
    function: JITFunction, target: GPUTarget, args: tuple[Any, ...], kwargs: dict[str, Any], options: dict[str, Any]
) -> ASTSource:
    """Return the source as a launch specialises it: pointer types, divisibility by 16, integers equal to 1."""
    backend = make_backend(target)
    binder = create_function_from_signature(function.signature, function.params, backend)
    bound, specialization, rest = binder(*args, **kwargs)
    _, signature, constexprs, attributes = function._pack_args(backend, options, bound, specialization, rest)
    if is_gluon(function):
        from triton.experimental.gluon._runtime import GluonASTSource

        return GluonASTSource(function, signature, constexprs, attributes)
    return ASTSource(function, signature, constexprs, attributes)


def distinct_by_file(source: ASTSource) -> ASTSource:
    """``source`` with the kernel's file in its key of Triton's cache: the line table of the machine code names it.

    Triton's key has the text of the kernel and its line. A copy of a file would get the code of the original.
    """
    hash_of, file = source.hash, source.fn.fn.__code__.co_filename
    source.hash = lambda: hashlib.sha256(f"{hash_of()}-{file}".encode()).hexdigest()
    return source


def run_front_end(source: ASTSource, target: GPUTarget, options: dict[str, Any]) -> None:
    """Translate ``source`` to Triton's IR, without the compiler's later stages."""
    backend = make_backend(target)
    parsed = backend.parse_options({**options, **source.parse_options()})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    source.make_ir(target, parsed, backend.get_codegen_implementation(parsed), backend.get_module_map(), context)


def direct_launcher(
    compiled: Any, grid: tuple[int, int, int], values: Sequence[Any]
) -> Callable[[int, Sequence[Any]], None]:
    """Return ``launch(stream, values)`` for a compiled kernel; ``values`` are parameter values of the same types.

    Triton's ``run`` calls hook chains and builds their metadata even if no hook is set, and repeats look-ups whose
    result is the same for every launch. If no hook is set, the returned function calls Triton's C launcher directly.
    """
    with_hooks, runtime = compiled[grid], knobs.runtime
    run: Callable[..., None] = functools.partial(compiled.run, *grid)
    before: tuple[Any, ...] = ()
    after: tuple[Any, ...] = (compiled.function, compiled.packed_metadata, None, None, None)
    if (found := _c_launch_call(compiled.run, grid, after, values)) is not None:
        run, before, after = found

    def launch(stream: int, values: Sequence[Any]) -> None:
        enter, leave = runtime.launch_enter_hook, runtime.launch_exit_hook
        if (enter is None or not getattr(enter, "calls", True)) and (
            leave is None or not getattr(leave, "calls", True)
        ):
            run(*before, stream, *after, *values)
        else:
            with_hooks(*values, stream=stream)

    return launch


_STREAM = 0x57AE_A400  # sentinel stream handle, to find its position among the C launcher's arguments


def _c_launch_call(
    run: Any, grid: tuple[int, int, int], after: tuple[Any, ...], values: Sequence[Any]
) -> tuple[Callable[..., None], tuple[Any, ...], tuple[Any, ...]] | None:
    """Return Triton's C launch function and its arguments before and after the stream, without the parameter values.

    Return None if the launch allocates scratch memory, or if the argument list does not end in the parameter values.
    """
    seen: list[tuple[Any, ...]] = []
    if not hasattr(run, "launch") or any(getattr(run, f"{name}_scratch_size", 0) for name in ("global", "profile")):
        return None
    probe = copy.copy(run)  # a copy, so that the replaced function affects no other launch
    probe.launch = lambda *args: seen.append(args)
    try:
        probe(*grid, _STREAM, *after, *values)
        (args,) = seen
    except (TypeError, ValueError):  # the launcher of another Triton version
        return None
    first = len(args) - len(values)
    streams = [at for at, value in enumerate(args) if type(value) is int and value == _STREAM]
    if len(streams) != 1 or any(mine is not theirs for mine, theirs in zip(values, args[first:], strict=True)):
        return None
    return run.launch, args[: streams[0]], args[streams[0] + 1 : first]


def launch_options() -> frozenset[str]:
    """Return the names of Triton's launch options (``num_warps``, ``num_stages`` ...)."""
    from triton.backends.nvidia.compiler import CUDAOptions

    return frozenset(CUDAOptions.__dataclass_fields__)


@functools.cache
def interpreted_options() -> frozenset[str]:
    """Return the names of the launch options of NVIDIA's and AMD's backends, which do not change the results."""
    try:
        from triton.backends.amd.compiler import HIPOptions
    except ImportError:
        return launch_options()
    return launch_options() | frozenset(HIPOptions.__dataclass_fields__)


def numpy_dtype(dtype: tl.dtype) -> np.dtype[Any]:
    """Return the NumPy dtype that stores a Triton type: unsigned for bfloat16 and float8, uint64 for pointers."""
    scalar = dtype.scalar
    if scalar.is_ptr():
        return _POINTER
    found = _numpy_dtypes.get(scalar.name)
    if found is None:
        kind = "float" if scalar.is_floating() else "int" if scalar.is_int_signed() else "uint"
        kind = "uint" if scalar.is_bf16() or scalar.is_fp8() else kind
        found = np.dtype(np.bool_) if scalar.is_int1() else np.dtype(f"{kind}{scalar.primitive_bitwidth}")
        _numpy_dtypes[scalar.name] = found
    return found


_POINTER = np.dtype(np.uint64)
_numpy_dtypes: dict[str, np.dtype[Any]] = {}  # by the name of the Triton type


def _builtins_of(owner: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, member in list(vars(owner).items()):
        if callable(member) and (tl.core.is_builtin(member) or _takes_semantic(owner, member)):
            yield name, member


def _takes_semantic(owner: Any, member: Callable[..., Any]) -> bool:
    """Return True for a method such as ``tl.tensor.exp``, which Triton does not mark as built-in."""
    method = isinstance(owner, type) and inspect.isfunction(member)
    return method and "_semantic" in inspect.signature(member).parameters


def _with_semantic(member: Callable[..., Any], semantic: TritonSemantic) -> Callable[..., Any]:
    inner = getattr(member, "__wrapped__", member)

    def call(*args: Any, **kwargs: Any) -> Any:
        kwargs["_semantic"] = semantic
        return inner(*args, **kwargs)

    call.__name__ = getattr(member, "__name__", "call")
    return call


def _method(function: JITFunction) -> Callable[..., Any]:
    def call(self: tl.tensor, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    return call


def _constexpr_operator(name: str) -> Callable[[tl.constexpr, Any], Any]:
    original = getattr(tl.constexpr, name)

    def call(self: tl.constexpr, other: Any) -> Any:
        if isinstance(other, tl.tensor):
            reflected = getattr(other, _reflected_name(name))
            return reflected(self.value)
        return original(self, other)

    return call


def _reflected_operator(name: str) -> Callable[[tl.constexpr, Any], Any]:
    """Return ``number % constexpr`` and the like, which ``tl.constexpr`` lacks: the compiler has no plain numbers."""
    return lambda self, other: getattr(tl.constexpr(other), name)(self)


def _reflected_name(name: str) -> str:
    plain = name.strip("_")
    if plain in _COMPARISONS:
        return f"__{_COMPARISONS[plain]}__"
    return f"__{plain[1:]}__" if plain.startswith("r") and plain != "rshift" else f"__r{plain}__"


_MODULES = [
    f"triton.language{part}"
    for part in ("", ".core", ".math", ".extra.cuda", ".extra.cuda.libdevice", ".extra.cuda.gdc", ".extra.cuda.utils")
]


def language_modules() -> list[ModuleType]:
    """Return the loaded modules of ``triton.language``; a kernel's imports can load more.

    ``tl.extra.cuda`` is a second copy of the module in ``sys.modules``.
    """
    loaded = [sys.modules[name] for name in (*_MODULES, _STUBS) if name in sys.modules]
    attribute = getattr(getattr(tl, "extra", None), "cuda", None)
    return [*loaded, attribute] if isinstance(attribute, ModuleType) and attribute not in loaded else loaded


@functools.cache
def _cuda_libdevice() -> dict[str, Callable[..., Any]]:
    from triton.language.extra.cuda import libdevice

    return {name: value for name, value in vars(libdevice).items() if inspect.isfunction(value)}


def _libdevice_function(value: Any) -> Callable[..., Any] | None:
    """Return CUDA's function for a stub of ``tl.extra.libdevice``, by name, as Triton's compiler does.

    Programs also execute a copy of the module, so that a stub is not identified by the object.
    """
    stub = inspect.isfunction(value) and value.__module__ == _STUBS
    return _cuda_libdevice().get(value.__name__) if stub else None


def bind_semantic(value: Any, semantic: TritonSemantic) -> Callable[..., Any] | None:
    """Bind ``value`` to ``semantic`` if it is a ``triton.language`` function, else return None."""
    if not inspect.isfunction(value):
        return None
    if tl.core.is_builtin(value):
        return _with_semantic(value, semantic)
    real = _libdevice_function(value)
    return None if real is None else _with_semantic(real, semantic)


def bound_builtins(owner: Any, semantic: TritonSemantic) -> list[Patch]:
    """Return patches that bind the built-in functions of a module or class to ``semantic``."""
    return [(owner, name, _with_semantic(member, semantic)) for name, member in _builtins_of(owner)]


def patches(semantic: TritonSemantic, replaced: dict[str, Callable[..., Any]]) -> list[Patch]:
    """Return patches (object, attribute, value) that make ``triton.language`` compute in Python by ``semantic``.

    ``replaced`` maps names in ``triton.language`` to replacement functions (``range``, ``reduce`` ...).
    """
    classes = [value for value in vars(tl.core).values() if isinstance(value, type)]
    found: list[Patch] = []
    for owner in (*language_modules(), *dict.fromkeys(classes)):
        if owner is tl.constexpr:
            continue
        found += bound_builtins(owner, semantic)
    stubs = sys.modules.get(_STUBS)
    for name, stub in vars(stubs).items() if stubs is not None else ():
        if (real := _libdevice_function(stub)) is not None:
            found.append((stubs, name, _with_semantic(real, semantic)))
    for name, member in vars(tl.tensor).items():
        if isinstance(member, (JITFunction, InterpretedFunction)):
            found.append((tl.tensor, name, _method(member)))
    for plain in _OPERATORS:
        for name in (f"__{plain}__", f"__r{plain}__"):
            if name in vars(tl.constexpr):
                found.append((tl.constexpr, name, _constexpr_operator(name)))
            elif plain not in _COMPARISONS:
                found.append((tl.constexpr, name, _reflected_operator(f"__{plain}__")))
    found += constructors.PATCHES
    for name, function in replaced.items():
        found += [(module, name, function) for module in (tl, tl.core) if hasattr(module, name)]
    return found
