"""Run a program: set up memory and constant banks, call the C++ runtime, raise faults, return ``Counts``."""

from __future__ import annotations

import ctypes
import struct
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from warpwise.device.profiles import Profile
from warpwise.machine import memory, runtime
from warpwise.machine.block_sampling import sample_clusters
from warpwise.machine.counts import FIELDS, Buffer, Counts, Sample
from warpwise.machine.elf import VARIABLES_BASE
from warpwise.machine.errors import LaunchTimeout, MachineFault, NeedsAllBlocks, Unsupported
from warpwise.machine.program import Program
from warpwise.machine.sass import GRID_BARRIER

Index3 = tuple[int, int, int]

PIPES = ("alu", "fma", "fp16", "fp64", "xu", "lsu", "tex", "uniform", "tensor", "adu", "cbu")
"""Pipes in the order of ``Pipe`` in runtime/machine.h."""
_BANK_BYTES = 64 * 1024
_SHARED_WINDOW, _LOCAL_WINDOW = 0x7E01, 0x7E02  # upper words of kSharedWindow and kLocalWindow in machine.h
_WORKSPACE_ADDRESS = 0x7E30_0000_0000
_PARAMETERS_ADDRESS = 0x7E38_0000_0000
_WORKSPACE_BYTES = 4096
_CALL_STACK = 32 * 1024  # per thread, for recursive functions; the driver's default is 1 KiB (cudaLimitStackSize)
# SM count and L2 bytes of the largest GPU of each architecture.
_DEVICES = {
    (7, 5): (72, 6 << 20), (8, 0): (108, 40 << 20), (8, 6): (84, 6 << 20), (8, 9): (142, 96 << 20),
    (9, 0): (132, 60 << 20), (10, 0): (148, 126 << 20),
}  # fmt: skip
_FAULT_UNSUPPORTED, _FAULT_TIMEOUT, _FAULT_INTERRUPT, _FAULT_NEEDS_ALL_BLOCKS = 2, 3, 4, 5
_lock = threading.Lock()  # the runtime has global state: one launch at a time


def _decoded(program: Program) -> int:
    """Return the runtime's handle of the decoded ``program``; it is freed with the program."""
    handle = _PROGRAMS.get(id(program))
    if handle is None:
        library = runtime.handle()
        text = program.encoded
        handle = library.ww_machine_load(text, len(text))
        _PROGRAMS[id(program)] = handle
        weakref.finalize(program, _unload, id(program))
    return handle


def _unload(identity: int) -> None:
    runtime.handle().ww_machine_unload(_PROGRAMS.pop(identity))


_PROGRAMS: dict[int, int] = {}


def pipes(program: Program) -> list[str]:
    """Return the pipe of each instruction ("fma", "lsu" ...; see ``PIPES``), or "" if it is not supported."""
    codes = (ctypes.c_uint8 * max(1, len(program.instructions)))()
    with _lock:
        runtime.handle().ww_machine_pipes(_decoded(program), codes)
    return [PIPES[code] if code < len(PIPES) else "" for code in codes[: len(program.instructions)]]


def grades(program: Program) -> list[tuple[int, str]]:
    """Return for each instruction 0 (exact), 1 (approximate) or 2 (unsupported), and what differs from the hardware."""
    count = len(program.instructions)
    codes, notes = (ctypes.c_uint8 * max(1, count))(), (ctypes.c_char_p * max(1, count))()
    with _lock:
        runtime.handle().ww_machine_fidelity(_decoded(program), codes, notes)
    return [(code, (note or b"").decode()) for code, note in zip(codes[:count], notes[:count], strict=True)]


def unsupported(program: Program) -> list[str]:
    """Return the unsupported instructions as text, without duplicates, in program order."""
    texts = (each.text for each, pipe in zip(program.instructions, pipes(program), strict=True) if not pipe)
    return list(dict.fromkeys(texts))


def run(
    program: Program,
    grid: Index3,
    block: Index3,
    shared_bytes: int,
    arguments: Sequence[Any],
    *,
    constants: Mapping[str, bytes],
    blocks: int | None,
    timeout: float,
    profile: Profile | None,
) -> Counts:
    """See ``warpwise.machine.run``."""
    threads = block[0] * block[1] * block[2]
    if min(grid) < 1 or min(block) < 1 or threads > 1024:
        raise ValueError(f"{program.symbol}: grid {grid} of blocks {block}: expected 1 to 1024 threads per block")
    if len(arguments) < len(program.parameters):  # the tensors of tensor maps follow
        raise ValueError(f"{program.symbol}: expected {len(program.parameters)} arguments, got {len(arguments)}")
    profile = profile or _profile(program.architecture)
    segments, locations = memory.copy_buffers(arguments)
    device_segments = [*segments, *_variables(program, constants)]
    if program.cooperative:
        device_segments.append(memory.Segment(_WORKSPACE_ADDRESS, np.zeros(_WORKSPACE_BYTES, np.uint8)))
    shared = program.reserved_shared + -(-program.static_shared // 16) * 16 + shared_bytes
    local = _local_bytes(program)
    banks = _banks(program, grid, block, arguments, locations, local, constants)
    parameters = banks[0][program.parameter_base :].copy()
    device_segments.append(memory.Segment(_PARAMETERS_ADDRESS, parameters))
    total = grid[0] * grid[1] * grid[2]
    if any(extent % of for extent, of in zip(grid, program.cluster, strict=True)):
        raise ValueError(f"{program.symbol}: clusters of {program.cluster} blocks do not divide the grid {grid}")
    block_indices, weights = sample_clusters(
        grid, program.cluster, total if blocks is None or program.cooperative else blocks
    )
    table = np.zeros((len(program.instructions), len(FIELDS)))
    resident = _resident_blocks(program, threads, shared_bytes, profile)
    sm_count, l2_bytes = _DEVICES.get(program.architecture, _DEVICES[(9, 0)])
    blocks_per_sm = min(resident, -(-total // sm_count))
    params = runtime.LaunchParams(
        grid,
        block,
        program.cluster,
        program.architecture[0] * 10 + program.architecture[1],
        program.reserved_shared,
        shared,
        shared_bytes,
        local,
        sm_count,
        resident,
        int(program.cooperative),
        int(program.waits_for_blocks and total > 1),
        len(device_segments),
        _l1_bytes(program, shared_bytes, resident, profile) // blocks_per_sm,
        l2_bytes,
        timeout,
    )
    device_segments.sort(key=lambda each: each.address)
    segment_table = (runtime.Segment * max(1, len(device_segments)))(
        *(runtime.Segment(each.address, each.data.nbytes, each.data.ctypes.data) for each in device_segments)
    )
    params.segments = segment_table
    for number, data in banks.items():
        params.banks[number] = data.ctypes.data
        params.bank_bytes[number] = data.nbytes
    params.block_indices, params.block_count = block_indices.ctypes.data, len(block_indices)
    params.weights = weights.ctypes.data if weights is not None else None
    params.table = table.ctypes.data
    result = runtime.RunResult()
    with _lock:
        library = runtime.handle()
        library.ww_machine_run(_decoded(program), ctypes.byref(params), ctypes.byref(result))
    try:
        _raise_fault(program, result, timeout, total)
        samples = _samples(result)
    finally:
        library.ww_machine_release(ctypes.byref(result))
    warps = -(-threads // 32)
    scale = total / len(block_indices)
    return Counts(
        program=program,
        table=np.rint(table).astype(np.int64),
        grid=grid,
        block=block,
        shared_bytes=shared_bytes,
        blocks=total,
        blocks_run=len(block_indices),
        warps=warps * total,
        warp_cycles=result.warp_cycles,
        mean_warp_cycles=result.warp_cycles_sum / (warps * total),
        sectors_read=round(result.sectors_read * scale),
        sectors_written=round(result.sectors_written * scale),
        l2_misses=round(result.l2_misses * scale),
        l2_rereads=round(result.l2_rereads * scale),
        barriers=round(result.barriers),
        seconds=result.seconds,
        buffers=tuple(
            Buffer(
                arguments[position].name, place.address, arguments[position].nbytes, arguments[position].element_bytes
            )
            for position, place in sorted(locations.items())
        ),
        samples=samples,
        outputs={
            arguments[position].name: place.segment.data[place.offset : place.offset + arguments[position].nbytes]
            for position, place in sorted(locations.items())
            if place.segment is not None and not arguments[position].const
        },
    )


def _profile(architecture: Index3 | tuple[int, int]) -> Profile:
    try:
        return Profile.of((architecture[0], architecture[1]))
    except ValueError:
        return Profile.of((9, 0))


def _local_bytes(program: Program) -> int:
    """Return the bytes of local memory per thread: the frame, and a stack if functions that use it are called."""
    opcodes = {each.opcode for each in program.instructions}
    stack = _CALL_STACK if "CALL" in opcodes and opcodes & {"STL", "LDL"} else 0
    frame = program.local_bytes
    return -(-(frame + stack) // 16) * 16


def _resident_blocks(program: Program, threads: int, shared_bytes: int, profile: Profile) -> int:
    """Return the approximate number of resident blocks per SM, for the cache models."""
    warps = -(-threads // 32)
    registers = -(-max(program.registers, 16) // 8) * 8 * 32 * warps
    shared = program.static_shared + shared_bytes + profile.shared_reserved_per_block
    limits = (
        profile.blocks_per_sm,
        profile.warps_per_sm // warps,
        profile.registers_per_sm // registers,
        profile.shared_per_sm // max(1, shared),
    )
    return max(1, min(limits))


def _l1_bytes(program: Program, shared_bytes: int, resident: int, profile: Profile) -> int:
    """Return the bytes of L1 that shared memory, configured in steps of 8 KiB, leaves free."""
    used = resident * (program.static_shared + shared_bytes + profile.shared_reserved_per_block)
    return max(profile.l1_and_shared_per_sm - -(-used // 8192) * 8192, 8192)


def _variables(program: Program, constants: Mapping[str, bytes]) -> list[memory.Segment]:
    if not program.device_image:
        return []
    image = np.frombuffer(program.device_image, np.uint8).copy()
    for name, data in constants.items():
        variable = program.variables.get(name)
        if variable is not None and variable.bank < 0:
            image[variable.offset : variable.offset + len(data)] = np.frombuffer(data, np.uint8)
    return [memory.Segment(VARIABLES_BASE, image)]


def _banks(
    program: Program,
    grid: Index3,
    block: Index3,
    arguments: Sequence[Any],
    locations: Mapping[int, memory.BufferLocation],
    local: int,
    constants: Mapping[str, bytes],
) -> dict[int, np.ndarray]:
    """Return the constant banks. The driver fills bank 0: launch dimensions, memory windows, then the parameters."""
    banks = {number: np.frombuffer(data, np.uint8).copy() for number, data in program.banks.items() if data}
    for name, data in constants.items():
        variable = program.variables.get(name)
        if variable is not None and variable.bank == 3:
            if len(data) != variable.nbytes:
                raise ValueError(
                    f"{program.symbol}: __constant__ {name}: expected {variable.nbytes} bytes, got {len(data)}"
                )
            banks[3][variable.offset : variable.offset + len(data)] = np.frombuffer(data, np.uint8)
    zero = bytearray(_BANK_BYTES)
    _pack_cluster(zero, grid, program.cluster)
    if program.architecture >= (10, 0):
        struct.pack_into("<2I", zero, 0x2F8, 0, _LOCAL_WINDOW)
        struct.pack_into("<3I", zero, 0x360, *block)
        struct.pack_into("<3II", zero, 0x370, *grid, local)
        barrier = GRID_BARRIER[0x380]
    else:
        struct.pack_into("<6I", zero, 0, *block, *grid)
        struct.pack_into("<4II", zero, 0x18, 0, _SHARED_WINDOW, 0, _LOCAL_WINDOW, local)
        struct.pack_into("<Q", zero, 0x198, _PARAMETERS_ADDRESS)  # the generic address of __grid_constant__ parameters
        barrier = GRID_BARRIER[0x210 if program.architecture >= (9, 0) else 0x160]
    if program.cooperative:
        for low, high in (
            barrier,
            (barrier[0] - 0xA0, barrier[1] - 0xA0),
        ):  # sm_100 subtracts 0xa0 per CTA of the cluster
            if high >= 0x28:
                struct.pack_into("<I", zero, low, _WORKSPACE_ADDRESS & 0xFFFFFFFF)
                struct.pack_into("<I", zero, high, _WORKSPACE_ADDRESS >> 32)
    for position, (offset, nbytes) in enumerate(program.parameters):
        argument = arguments[position]
        data = argument.data if hasattr(argument, "data") else struct.pack("<Q", locations[position].address)
        if len(data) != nbytes:
            raise ValueError(
                f"{program.symbol}: parameter {position} ({argument.name!r}): expected {nbytes} bytes, got {len(data)}"
            )
        start = program.parameter_base + offset
        zero[start : start + nbytes] = data
        if getattr(argument, "relocation", None) is not None:
            at, buffer = argument.relocation
            struct.pack_into("<Q", zero, start + at, locations[buffer].address)
    banks[0] = np.frombuffer(bytes(zero), np.uint8)
    return banks


def _pack_cluster(bank: bytearray, grid: Index3, cluster: Index3) -> None:
    """Write sm_90's cluster parameters to bank 0: size, 1 / size (rounded up), clusters, blocks per cluster."""
    struct.pack_into("<3I", bank, 0x144, *cluster)
    reciprocals = (np.nextafter(np.float32(1 / extent), np.float32(2)) for extent in cluster)
    struct.pack_into("<3f", bank, 0x150, *map(float, reciprocals))
    struct.pack_into("<3I", bank, 0x15C, *(extent // of for extent, of in zip(grid, cluster, strict=True)))
    struct.pack_into("<I", bank, 0x188, cluster[0] * cluster[1] * cluster[2])


def _samples(result: runtime.RunResult) -> dict[int, tuple[Sample, ...]]:
    found: dict[int, tuple[Sample, ...]] = {}
    for number in range(result.sample_count):
        request = result.samples[number]
        block = tuple(request.block)
        sample = Sample(
            request.instruction,
            (block[0], block[1], block[2]),
            request.warp,
            request.lanes,
            request.bytes,
            tuple(request.addresses),
            request.sectors,
            request.wavefronts,
        )
        found[request.instruction] = (*found.get(request.instruction, ()), sample)
    return found


def _raise_fault(program: Program, result: runtime.RunResult, timeout: float, total: int) -> None:
    if not result.fault:
        return
    message = result.message.decode(errors="replace")
    where = ""
    if result.instruction < len(program.instructions) and result.fault not in (_FAULT_TIMEOUT, _FAULT_INTERRUPT):
        instruction = program.instructions[result.instruction]
        where = f" at {instruction.file}:{instruction.line}" if instruction.line else f" at 0x{instruction.address:x}"
    text = f"{program.symbol}: {message}{where}"
    if result.fault == _FAULT_INTERRUPT:
        raise KeyboardInterrupt(text)
    if result.fault == _FAULT_TIMEOUT:
        raise LaunchTimeout(
            f"{program.symbol}: still running after {timeout:g} s ({result.blocks_done} blocks of {total} done)"
        )
    if result.fault == _FAULT_NEEDS_ALL_BLOCKS:
        raise NeedsAllBlocks(f"{text}; run all blocks (blocks=None)")
    raise Unsupported(text) if result.fault == _FAULT_UNSUPPORTED else MachineFault(text)
