"""The device side of an extension: its CUDA source as a module of the emulator, and its global variables."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
import re
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from warpwise.cuda.errors import CompileError, Finding, Index3, UnsupportedFeature
from warpwise.cuda.inline import native, source
from warpwise.cuda.launch import origin
from warpwise.cuda.launch.arguments import Buffer, Scalar
from warpwise.cuda.launch.kernel import build_together
from warpwise.cuda.launch.module import Module
from warpwise.cuda.source.signature import demangle
from warpwise.device.profiles import Profile

if TYPE_CHECKING:
    from warpwise.cuda.emulator.compiler import Build

_PRELUDE = Path(__file__).parent / "include/device/torch.cuh"
# c10's macros for qualifiers, which kernels of extensions use.
_MACROS = {
    "C10_DEVICE": "__device__", "C10_HOST": "__host__", "C10_HOST_DEVICE": "__host__ __device__",
    "C10_RESTRICT": "__restrict__", "C10_LAUNCH_BOUNDS_0": "", "C10_LAUNCH_BOUNDS_1(...)": "",
    "C10_LAUNCH_BOUNDS_2(...)": "", "CUDA_KERNEL_ASSERT(...)": "assert(__VA_ARGS__)",
}  # fmt: skip


_MAX_POINTERS = 16  # as in include/device/torch.cuh
_NULL = Buffer("", 0, 0, 1, "char", False, False, 0, False)


@dataclass(frozen=True)
class ExtensionLaunch:
    """One launch of the kernel ``instance``, a mangled name.

    ``pointers`` lists the pointers that objects among the arguments contain, as (parameter, byte offset, memory).
    ``whole_tensors`` holds the complete tensor for each pointer to an element other than its first.
    """

    instance: bytes
    grid: Index3
    block: Index3
    shared_bytes: int
    cluster: Index3 = (1, 1, 1)
    arguments: list[Buffer | Scalar] = field(default_factory=list)
    pointers: list[tuple[int, int, Buffer]] = field(default_factory=list)
    whole_tensors: list[Buffer] = field(default_factory=list)

    def buffers(self) -> list[Buffer]:
        """All memory that the launch may access."""
        embedded = (buffer for _, _, buffer in self.pointers)
        return [buffer for buffer in (*self.arguments, *embedded) if isinstance(buffer, Buffer) and buffer.nbytes]


class Extension:
    """The kernels of one extension. ``key`` identifies the extension; its library passes it with each launch."""

    _known: ClassVar[dict[str, Extension]] = {}

    def __init__(self, key: str, name: str, text: str, include: Sequence[str], defines: Sequence[str]) -> None:
        self.key, self.text, self.file = key, text, f"{name}.cu"
        given = dict(_split_define(define) for define in defines)
        whole = source.with_prelude(text, _PRELUDE.read_text())
        self.module = Module(whole, self.file, [Path(folder) for folder in include], {**_MACROS, **given})
        self.module.shown, self.module.origin = text, origin.of_caller(text)
        Extension._known[key] = self

    @staticmethod
    def of(key: str) -> Extension:
        return Extension._known[key]

    def instance(self, mangled: bytes) -> str:
        return instance_name(mangled)

    def build_kernels(self) -> None:
        """Compile the kernels that are not templates and whose names are unique. Raises ``CompileError``."""
        declarations = self.module.declarations.values()
        self._build_all(one.name for one in declarations if not one.template and not one.overloaded)

    def build_first_instances(self, library: Path) -> None:
        """Compile one instance of each template that the host code launches. Raises ``CompileError``."""
        first: dict[str, str] = {}
        for mangled in re.findall(rb"N13warpwise_host8instanceI[^\0]+", library.read_bytes()):
            name = instance_name(mangled)
            if "<" in name:
                first.setdefault(name.partition("<")[0], name)
        self._build_all(first.values())

    def _build_all(self, names: Iterable[str]) -> None:
        found = [self.module[name] for name in names]
        build_together(found)
        for kernel in found:
            kernel.build(checked=True)

    def run(self, name: str, launch: ExtensionLaunch, profile: Profile) -> list[Finding]:
        """Run one launch of the kernel ``name`` on the emulator.

        Copies the extension's global variables to the kernel's library before the launch, and back after it.
        """
        from warpwise.cuda.emulator import launcher
        from warpwise.cuda.emulator.constants import library_variables, mark_set

        build, arguments = self._build(name, launch, profile)
        copies = library_variables(build.library)
        variables = [(symbol, copies[found]) for found, symbol in native.symbols(self.key).items() if found in copies]
        for symbol, (address, size) in variables:
            ctypes.memmove(address, symbol.data, size)
            if symbol.constant and native.is_set(symbol):
                mark_set(build.library, address)
        try:
            options = launcher.Options(cluster=launch.cluster)
            return launcher.launch(build, launch.grid, launch.block, launch.shared_bytes, arguments, options, profile)
        finally:
            for symbol, (address, size) in variables:
                if not symbol.constant:
                    ctypes.memmove(symbol.data, address, size)

    def _build(self, name: str, launch: ExtensionLaunch, profile: Profile) -> tuple[Build, list[Buffer | Scalar]]:
        """The compiled kernel, with the user's source text for messages, and its arguments."""
        from warpwise.cuda.emulator import compiler

        if not launch.pointers:
            return build_instance(self.module, launch.instance), [*launch.arguments, *launch.whole_tensors]
        if len(launch.pointers) > _MAX_POINTERS:
            raise UnsupportedFeature(
                f"{name}: the parameters contain {len(launch.pointers)} pointers; at most {_MAX_POINTERS} are supported"
            )
        module = self.module
        build = compiler.build(
            module.text,
            module.file,
            f"warpwise_pointers::with_pointers<{name}>::run",
            include=module.include,
            define=module.define,
            target=profile.name,
            checked=True,
            shown=self.text,
        )
        places = [(parameter, offset) for parameter, offset, _ in launch.pointers]
        places += [(0, 0)] * (_MAX_POINTERS - len(places))
        packed = struct.pack(
            f"<{2 * _MAX_POINTERS}HI", *(number for place in places for number in place), len(launch.pointers)
        )
        embedded = [buffer for _, _, buffer in launch.pointers]
        embedded += [_NULL] * (_MAX_POINTERS - len(embedded))
        return (
            dataclasses.replace(build, expression=name),
            [*launch.arguments, Scalar("places", packed), *embedded, *launch.whole_tensors],
        )


def _split_define(define: str) -> tuple[str, str]:
    name, _, value = define.partition("=")
    return name, value or "1"


_INSTANCE, _UNNAMED = b"N13warpwise_host8instanceIXadL", "(anonymous namespace)::"


@functools.lru_cache(maxsize=1024)
def instance_name(mangled: bytes) -> str:
    """The kernel's name, "kernel<float, 4>", from ``typeid(warpwise_host::instance<&kernel<float, 4>>).name()``."""
    text = native.type_name(mangled).removeprefix("warpwise_host::instance<").removesuffix(">").strip().lstrip("&")
    text = text.replace(_UNNAMED, "")
    if text.startswith("("):
        text = text[1:-1]
    depth = 0
    for position, letter in enumerate(text):
        depth += (letter in "<(") - (letter in ">)")
        if letter == "(" and depth == 1:  # the parameter list; a template's return type precedes its name
            text = text[:position]
            break
    depth = 0
    for position in range(len(text) - 1, -1, -1):
        depth += (text[position] in ">)") - (text[position] in "<(")
        if text[position] == " " and depth == 0:
            return text[position + 1 :]
    return text


def build_instance(module: Module, mangled: bytes, checked: bool = True) -> Build:
    """The compiled kernel of a launch. If its name alone does not compile, its parameters select an overload."""
    name = instance_name(mangled)
    try:
        return module[name].build(checked=checked)
    except CompileError:
        if "<" not in name:
            with contextlib.suppress(CompileError, ValueError):
                return module[overload_name(mangled)].build(checked=checked)
        raise


def overload_name(mangled: bytes) -> str:
    """``static_cast<void (*)(int*, int)>(kernel)``, which selects an overload. ``mangled`` does not name a template."""
    symbol = _renumbered(mangled.removeprefix(_INSTANCE).removesuffix(b"EEEE").decode())
    name, _, parameters = demangle(symbol).replace(_UNNAMED, "").partition("(")
    return f"static_cast<void (*)({parameters}>({name})"


def _renumbered(symbol: str) -> str:
    """``symbol``, a part of the name of an instance, with its own numbers of repeated types (``S2_``).

    In the whole name, the numbers 0 and 1 (``S_``, ``S0_``) are those of ``warpwise_host`` and its ``instance``.
    """
    renumbered, position = "", 0
    while match := _PART.match(symbol, position):
        part, position = match[0], match.end()
        if match["length"]:  # of an identifier
            part += symbol[position : position + int(part)]
            position += int(match[0])
        elif match["number"]:
            number = int(match["number"], 36) - 2
            part = "S_" if number < 0 else f"S{_base_36(number)}_"
        renumbered += part
    return renumbered


def _base_36(number: int) -> str:
    digit = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[number % 36]
    return _base_36(number // 36) + digit if number >= 36 else digit


_PART = re.compile(r"L[a-z]n?\d+E|A\d+_|S(?P<number>[0-9A-Z]+)_|(?P<length>\d+)|.", re.DOTALL)
