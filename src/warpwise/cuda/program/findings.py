"""Findings of a program's host code, with the lines of its sources."""

from __future__ import annotations

import ctypes
import functools
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from warpwise.cuda.emulator import runtime
from warpwise.cuda.emulator.pointer_hints import IN_A_STRUCTURE
from warpwise.cuda.errors import Finding, shown_path
from warpwise.cuda.program import native

_MEMORY = {
    native.DEVICE: "device memory",
    native.MANAGED: "managed memory",
    native.PINNED: "pinned host memory",
    native.SYMBOL: "device memory of a global variable",
}


@dataclass(frozen=True)
class HostFinding:
    """An error of host code. ``kind`` is one word, such as "DoubleFree"; ``where`` is "file:line", "" if unknown."""

    kind: str
    message: str
    where: str = ""
    text: str = ""

    def __str__(self) -> str:
        line = f"\n    at {self.where}:  {self.text}" if self.where else ""
        return f"{self.kind}: {self.message}{line}"


class Symbols:
    """Source lines of addresses in the program's library."""

    def __init__(self, library: Path) -> None:
        self._library = library
        self._base = self._end = 0

    def loaded(self) -> None:
        """Read where the library is loaded."""
        mapped = [
            [int(part, 16) for part in line.split()[0].split("-")]
            for line in Path("/proc/self/maps").read_text().splitlines()
            if line.endswith(str(self._library))
        ]
        self._base, self._end = mapped[0][0], mapped[-1][1]

    def line(self, trace: native.Trace) -> tuple[str, str]:
        """The "file:line" of the innermost frame in the program's own sources, and the text of the line."""
        for address in trace.frames[: trace.count]:
            if self._base <= address < self._end:
                for file, number in self._resolve(address - self._base - 1):
                    return f"{shown_path(file)}:{number}", _text(file, number)
        return "", ""

    @functools.lru_cache(maxsize=4096)  # noqa: B019 - one object a process
    def _resolve(self, offset: int) -> list[tuple[str, int]]:
        tool = shutil.which("addr2line")
        if tool is None:
            return []
        command = [tool, "-i", "-e", str(self._library), hex(offset)]
        printed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        found = []
        for line in printed.splitlines():
            file, _, number = line.partition(" (discriminator")[0].rpartition(":")
            if number.isdigit() and int(number) and not _is_ours(file):
                found.append((file, int(number)))
        return found


def _is_ours(file: str) -> bool:
    return Path(__file__).parents[1] in Path(file).parents or file.startswith("/usr/")


def _text(file: str, number: int) -> str:
    try:
        return Path(file).read_text(errors="replace").splitlines()[number - 1].strip()
    except (OSError, IndexError):
        return ""


def of_problem(problem: native.Problem, block: native.Block | None, symbols: Symbols) -> HostFinding:
    """The finding for an error that the support library reports."""
    where, text = symbols.line(problem.at)
    function, address = (problem.function or b"").decode(), problem.address
    made = f" ({_memory(block)} of {block.bytes:,} bytes{_at('allocated', block.allocated, symbols)})" if block else ""
    if problem.kind == native.BAD_TENSOR_MAP:
        return HostFinding("InvalidTensorMap", function, where, text)
    if problem.kind == native.MANAGED_ACCESS:
        message = f"the host accesses managed memory{made} after a launch; call cudaDeviceSynchronize before"
        return HostFinding("MissingSynchronization", message, where, text)
    if problem.kind == native.DEVICE_ACCESS and block is not None:
        if not block.live:
            return HostFinding("UseAfterFree", f"the host accesses freed memory{made}", where, text)
        offset = address - block.address
        message = f"the host accesses device memory at byte {offset:,}{made}; copy it by cudaMemcpy"
        return HostFinding("HostAccess", message, where, text)
    if problem.kind == native.HOST_FAULT or block is None:
        if function and not function.startswith("cudaFree"):
            message = f"{function}: the address {address:#x} is not in device memory"
            return HostFinding("InvalidCopy", message, where, text)
        if function:
            message = f"{function}: {address:#x} is not the start of a live allocation"
            return HostFinding("InvalidFree", message, where, text)
        near = "a null pointer" if address < 4096 else f"the invalid address {address:#x}"
        return HostFinding("SegmentationFault", f"the host accesses {near}", where, text)
    if not block.live:
        freed = _at("freed", block.freed, symbols)
        kind = "DoubleFree" if function.startswith("cudaFree") else "UseAfterFree"
        return HostFinding(kind, f"{function}: the memory is already freed{freed}{made}", where, text)
    if function.startswith("cudaFree"):
        offset = address - block.address
        return HostFinding(
            "InvalidFree", f"{function}: the pointer is {offset:,} bytes into a block{made}", where, text
        )
    if problem.bytes <= block.bytes - (address - block.address):
        return HostFinding("InvalidCopy", f"{function}: the host pointer is {_memory(block)}{made}", where, text)
    start = f" from byte {address - block.address:,}" if address != block.address else ""
    message = f"{function}: {problem.bytes:,} bytes{start} exceed the block{made}"
    return HostFinding("OutOfBounds", message, where, text)


def leaks(blocks: Iterable[native.Block], symbols: Symbols) -> list[HostFinding]:
    """One finding for each line that allocates blocks that are never freed."""
    lines: dict[tuple[str, str], list[native.Block]] = {}
    for block in blocks:
        lines.setdefault(symbols.line(block.allocated), []).append(block)
    found = []
    for (where, text), each in lines.items():
        total = sum(block.bytes for block in each)
        count = "a block" if len(each) == 1 else f"{len(each):,} blocks"
        found.append(HostFinding("Leak", f"{count} of {_memory(each[0])}, {total:,} bytes, never freed", where, text))
    return found


def used_after_free(kernel: str, argument: str, block: native.Block, symbols: Symbols, where: str) -> HostFinding:
    """A launch with a pointer to freed memory."""
    freed = _at("freed", block.freed, symbols)
    message = f"{kernel}: argument '{argument}' points to memory that is already freed{freed}"
    file, _, number = where.rpartition(":")
    text = _text(file, int(number)) if number.isdigit() else ""
    return HostFinding("UseAfterFree", message, shown_path(where), text)


# Of the emulator's runtime, which knows the arguments.
OUTSIDE = "the address is not in an argument, a shared variable or a local variable"
HOST_MEMORY = "the address is in host memory, which kernels cannot access: copy the data to device memory"
_ADDRESS = re.compile(r"\baddress 0x([0-9a-f]+)")


def with_block(found: Finding, find: Callable[[int], native.Block | None], symbols: Symbols) -> Finding:
    """``found`` with the block of memory in place of an address that a kernel reached without an argument's name.

    An address in host memory, such as that of a local array of ``main``, is reported as such. The hint
    about a pointer in a structure is for launches from Python: a program's memory is known.
    """
    if found.hint.endswith(IN_A_STRUCTURE):
        found = replace(found, hint="")
    named = None if found.variable else _ADDRESS.search(found.message)
    block = find(int(named[1], 16)) if named else None
    if named is None:
        return found
    if block is None:
        if found.message.endswith(OUTSIDE) and _is_host_memory(int(named[1], 16)):
            return replace(found, message=found.message.removesuffix(OUTSIDE) + HOST_MEMORY)
        return found
    made = _at("allocated", block.allocated, symbols)
    if not block.live:
        made += _at("freed", block.freed, symbols)
    offset, freed = int(named[1], 16) - block.address, "" if block.live else "freed "
    what = f"byte {offset:,} of {freed}{_memory(block)} ({block.bytes:,} bytes{made})"
    rest = found.message[named.end() :].removesuffix(f": {OUTSIDE}")
    return replace(found, message=found.message[: named.start()] + what + rest)


def _is_host_memory(address: int) -> bool:
    """True for an address in the process's own memory: its stack and its heap, for example."""
    if runtime.handle().ww_resident_contains(ctypes.c_uint64(address)):
        return False
    for line in Path("/proc/self/maps").read_text().splitlines():
        bounds, permissions = line.split(maxsplit=2)[:2]
        start, end = (int(each, 16) for each in bounds.split("-"))
        if start <= address < end:
            return permissions.startswith("r")
    return False


def host_tensor_map(kernel: str, argument: str, where: str) -> HostFinding:
    """A launch with a pointer to a tensor map in host memory."""
    message = (
        f"{kernel}: argument '{argument}' points to a tensor map in host memory: copy it to device memory, or pass it "
        "by value to a parameter const __grid_constant__ CUtensorMap"
    )
    file, _, number = where.rpartition(":")
    return HostFinding("InvalidTensorMap", message, shown_path(where), _text(file, int(number)) if file else "")


def _memory(block: native.Block) -> str:
    return _MEMORY[block.memory]


def _at(what: str, trace: native.Trace, symbols: Symbols) -> str:
    where, _ = symbols.line(trace)
    return f", {what} at {where}" if where else ""
