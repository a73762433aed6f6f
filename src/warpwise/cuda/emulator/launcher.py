"""An emulated launch: pass the arguments to the runtime and return its reports as findings."""

from __future__ import annotations

import ctypes
import functools
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from warpwise.cuda.emulator import runtime, uninitialised
from warpwise.cuda.errors import Access, Finding, Index3, LaunchError

if TYPE_CHECKING:
    from warpwise.cuda.emulator.compiler import Build
    from warpwise.cuda.launch.arguments import Buffer, Scalar
    from warpwise.device.profiles import Profile

ORDERS = {"forward": 0, "reverse": 1, "shuffle": 2, "preempt": 3}
CHECKS = {"all": (1, 1, 1, 1), "bounds": (1, 0, 0, 0), "none": (0, 0, 0, 0)}
MAX_THREADS = 1024
_ARGUMENT = struct.Struct("=QQQQIBBBB")
_NO_POINTER = (0,) * 6
_SCALAR_ALIGNMENT = 128  # at least that of every argument; a tensor map needs 64
_ANY_SHARED = 2**63


@dataclass
class Watch:
    """The address of an element of a CPU tensor, and the access that last wrote it, which a launch fills in."""

    address: int
    access: Access | None = None


@dataclass(frozen=True)
class Options:
    """Options of an emulated launch.

    ``timeout`` is in seconds (0: none). ``checks`` is "all", "bounds" (no races, no uninitialised memory) or "none" (a
    build without instrumentation). ``order`` is the order of blocks and threads: "forward", "reverse", or by
    ``seed`` "shuffle" or "preempt", which also preempts threads and blocks at atomics, volatile accesses, fences and
    barriers. At most ``max_findings`` different findings are kept. ``numbers`` also reports the first NaN, infinity and
    denormal number that arise. ``cluster`` is the shape of the clusters in blocks, as the launch attribute of CUDA.
    ``watch`` is an element whose last write is wanted; it is recorded with ``checks="all"`` only.
    """

    timeout: float = 60.0
    checks: str = "all"
    order: str = "forward"
    seed: int = 0
    max_findings: int = 64
    numbers: bool = False
    cluster: Index3 = (1, 1, 1)
    watch: Watch | None = None


@functools.lru_cache(maxsize=512)
def _entry(library: str, number: int) -> int:
    """Return the address of a kernel's entry in its library, which stays loaded."""
    runtime.handle()
    loaded = ctypes.CDLL(library)
    _LOADED.append(loaded)
    return ctypes.cast(loaded[f"ww_entry_{number}"], ctypes.c_void_p).value or 0


_LOADED: list[ctypes.CDLL] = []


@functools.lru_cache(maxsize=4096)
def _name(name: str) -> tuple[ctypes.Array[ctypes.c_char], int]:
    buffer = ctypes.create_string_buffer(name.encode())
    return buffer, ctypes.addressof(buffer)


def launch(
    build: Build,
    grid: Index3,
    block: Index3,
    shared_bytes: int,
    arguments: Sequence[Buffer | Scalar],
    options: Options,
    profile: Profile | None,
) -> list[Finding]:
    """Run the kernel on copies of its buffers, copy the writable ones back, and return the findings.

    No buffer is copied back after a finding that ends the launch, such as an access out of bounds. The kernel prints to
    ``sys.stdout``. Raises ``LaunchError`` if the launch exceeds a limit of the emulator and ``KeyboardInterrupt`` if
    Ctrl-C stopped it.
    """
    threads = block[0] * block[1] * block[2]
    if not 0 < threads <= MAX_THREADS or min(grid) < 1:
        raise LaunchError(
            f"{build.expression}: grid {grid} of blocks {block}: expected 1 to {MAX_THREADS} threads a block"
        )
    if options.checks not in CHECKS or options.order not in ORDERS:
        raise ValueError(
            f"checks={options.checks!r}, order={options.order!r}: expected one of {', '.join(CHECKS)} and one of "
            f"{', '.join(ORDERS)}"
        )
    if not isinstance(options.timeout, (int, float)) or not options.timeout >= 0:
        raise ValueError(f"timeout={options.timeout!r}: expected seconds, or 0 for none")
    handle = runtime.handle()
    packed, kept = _pack(arguments)
    asked = runtime.LaunchRequest(
        _entry(str(build.library), build.entry),
        ctypes.addressof(packed),
        len(arguments),
        grid,
        block,
        options.cluster,
        shared_bytes,
        profile.shared_per_block_optin if profile else _ANY_SHARED,
        *(CHECKS[options.checks] if build.checked else CHECKS["none"]),
        ORDERS[options.order],
        options.seed & 0xFFFFFFFF,
        options.max_findings,
        int(options.numbers),
        options.timeout,
        options.watch.address if options.watch else 0,
    )
    result = runtime.Result()
    if handle.ww_run(ctypes.byref(asked), ctypes.byref(result)):
        raise LaunchError(
            f"{build.expression}: the emulator reserves 16 TiB of address space (no memory) and was refused: "
            "lift `ulimit -v`, or the container's limit on virtual memory"
        )
    del kept
    try:
        if result.text_bytes:
            sys.stdout.write(ctypes.string_at(result.text, result.text_bytes).decode(errors="replace"))
        if result.text_dropped:
            sys.stdout.write(f"\n({result.text_dropped:,} more bytes printed by {build.expression} were dropped)\n")
        if result.interrupted:
            _interrupted(build.expression)
        if options.watch and result.has_last_write:
            from warpwise.cuda.emulator.findings import access_of

            options.watch.access = access_of(build, result.last_write, result.load_bias)
        local = uninitialised.findings(build) if build.checked and CHECKS[options.checks][2] else []
        if not result.report_count:
            return local
        from warpwise.cuda.emulator import findings
        from warpwise.cuda.emulator.pointer_hints import with_pointer_hint

        reports = [result.reports[index] for index in range(result.report_count)]
        found = findings.translate(build, reports, result.load_bias, block)
        return [*(with_pointer_hint(each, arguments) for each in found), *local]
    finally:
        handle.ww_release_result(ctypes.byref(result))


def _pack(arguments: Sequence[Buffer | Scalar]) -> tuple[ctypes.Array[ctypes.c_char], object]:
    """Return the ``ww_argument`` structures, and the object that must live as long as they do."""
    packed = ctypes.create_string_buffer(_ARGUMENT.size * max(1, len(arguments)))
    scalars = bytearray()
    places = []
    for index, argument in enumerate(arguments):
        if hasattr(argument, "data"):
            places.append((index, len(scalars), argument))
            scalars += argument.data
            scalars += bytes(-len(scalars) % _SCALAR_ALIGNMENT)
        else:
            _ARGUMENT.pack_into(
                packed,
                index * _ARGUMENT.size,
                _name(argument.name)[1],
                argument.address,
                argument.nbytes,
                argument.storage,
                argument.element_bytes,
                1,
                argument.const,
                argument.output,
                argument.writable,
            )
    values = ctypes.create_string_buffer(len(scalars) + _SCALAR_ALIGNMENT)
    start = -(-ctypes.addressof(values) // _SCALAR_ALIGNMENT) * _SCALAR_ALIGNMENT
    ctypes.memmove(start, bytes(scalars), len(scalars))
    for index, offset, argument in places:
        place = index * _ARGUMENT.size
        _ARGUMENT.pack_into(packed, place, _name(argument.name)[1], start + offset, len(argument.data), *_NO_POINTER)
    return packed, values


def _interrupted(kernel: str) -> None:
    """Raise ``KeyboardInterrupt``: Python's signal handler raises it in the main thread only."""
    raise KeyboardInterrupt(f"{kernel}: interrupted")
