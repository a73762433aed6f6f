"""Latencies and throughputs in SM cycles, from kernels that read the clock."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from warpwise import cuda
from warpwise.device import describe
from warpwise.lab.timing import Timing, time
from warpwise.lab.timing.compare import timer_for

HERE = Path(__file__).parent
LATENCY, THROUGHPUT = cuda.load(HERE / "latency.cu"), cuda.load(HERE / "throughput.cu")
TYPES = {
    "float": torch.float32,
    "double": torch.float64,
    "int": torch.int32,
    "long": torch.int64,
    "unsigned": torch.uint32,
}
CHAINS: dict[str, str] = {
    "ffma": "float", "fadd": "float", "dfma": "double", "hfma2": "unsigned", "imad": "int", "imad_wide": "long",
    "iadd_and_lop3": "int",
    "lop3": "int", "shf": "int", "popc": "int", "ex2": "float", "rsqrt": "float", "sqrt": "float",
    "int_to_float_and_back": "float", "integer_division": "unsigned", "float_division": "float", "exp": "float",
    "shfl": "int",
    "vote": "unsigned", "redux": "int", "match_any": "unsigned", "syncwarp": "int", "barrier": "int",
    "membar_block": "int",
    "membar_gpu": "int",
}  # fmt: skip
STREAMS: dict[str, str] = {
    "ffma": "float", "fadd": "float", "dfma": "double", "hfma2": "unsigned", "imad": "int", "iadd_and_lop3": "int",
    "lop3": "int",
    "shf": "int", "popc": "int", "ex2": "float", "int_to_float": "float", "float_to_half": "float",
    "shfl": "int", "vote": "unsigned", "redux": "int", "barrier": "int",
}  # fmt: skip
REQUESTS: dict[str, dict[int, tuple[int, ...]]] = {
    "shared_load": {4: (0, 4, 8, 12, 16, 32, 64, 128), 8: (0, 8, 16, 32, 128), 16: (0, 16, 32, 48, 64, 128)},
    "shared_store": {4: (0, 4, 8, 16, 32, 64, 128), 8: (8, 16, 32, 128), 16: (16, 32, 64, 128)},
    "shared_atomic": {4: (0, 4, 8, 16, 32, 128)},
    "global_load_cached_in_l1": {4: (0, 4, 8, 16, 32, 64, 128, 256), 8: (8, 16, 32, 128), 16: (16, 32, 64, 128)},
    "global_load_cached_in_l2": {4: (0, 4, 8, 16, 32, 128), 16: (16, 32, 128)},
    "global_store": {4: (0, 4, 8, 16, 32, 128), 8: (8,), 16: (16, 32, 128)},
    "global_reduction": {4: (0, 4, 8, 32, 128)},
    "global_atomic": {4: (0, 4, 32, 128)},
}  # fmt: skip
LINKS, CHAINS_A_THREAD = 32, 64  # of latency.cu; independent instructions a round, of throughput.cu
REPEATS = 5


def expressions() -> list[tuple[cuda.Module, str]]:
    """Every kernel that is timed."""
    latencies = [f"latency_{name}<>" for name in (*CHAINS, "hmma", "shared_atomic", "global_atomic")]
    latencies += [
        "latency_shared<4>",
        "latency_shared<16>",
        "latency_global_cached_in_l1<>",
        "latency_global_cached_in_l2<>",
    ]
    throughputs = [f"throughput_{name}<>" for name in (*STREAMS, "hmma", "read", "write")]
    throughputs += [f"throughput_{name}<{width}>" for name, widths in REQUESTS.items() for width in widths]
    return [*((LATENCY, name) for name in latencies), *((THROUGHPUT, name) for name in (*throughputs, "nothing<>"))]


def zeros(count: int, dtype: torch.dtype) -> torch.Tensor:
    """Zeros on the GPU; for an unsigned dtype a view of the signed one."""
    plain = {torch.uint32: torch.int32}.get(dtype, dtype)
    return torch.zeros(count, dtype=plain, device="cuda").view(dtype)


def fastest(run: Callable[[], int]) -> int:
    """The minimum number of cycles of several runs."""
    return min(run() for _ in range(REPEATS))


def per_round(run: Callable[[int], int], few: int = 4, many: int = 20) -> float:
    """Cycles a round, from the difference of two numbers of rounds."""
    return (fastest(partial(run, many)) - fastest(partial(run, few))) / (many - few)


def latencies() -> dict[str, float]:
    """Latency of each instruction, in cycles from issue to use."""
    found = {}
    cycles = zeros(1, torch.int64)
    for name, kind in CHAINS.items():
        for threads in (32, 256, 1024) if name == "barrier" else (32,):
            out = zeros(1024, TYPES[kind])
            values = (0.5, 0.25) if kind in ("float", "double") else (1, 1)

            def run(
                rounds: int, name: str = name, out: torch.Tensor = out, values: Any = values, threads: int = threads
            ) -> int:
                LATENCY[f"latency_{name}<>"][1, threads](cycles, out, *values, rounds)
                return int(cycles.item())

            label = f"{name}_{threads}_threads" if name == "barrier" else name
            found[label] = per_round(run) / LINKS
    out_float, out = zeros(1024, torch.float32), zeros(1024, torch.uint32)

    def hmma(rounds: int) -> int:
        LATENCY["latency_hmma<>"][1, 32](cycles, out_float, 0, 0, rounds)
        return int(cycles.item())

    def shared(width: int, rounds: int) -> int:
        LATENCY[f"latency_shared<{width}>"][1, 32](cycles, out, 128, rounds)
        return int(cycles.item())

    def atomic(rounds: int) -> int:
        LATENCY["latency_shared_atomic<>"][1, 32](cycles, out, 0, rounds)
        return int(cycles.item())

    found["hmma_m16n8k16"] = per_round(hmma) / LINKS
    found["shared_load_4"] = per_round(partial(shared, 4)) / LINKS
    found["shared_load_16"] = per_round(partial(shared, 16)) / LINKS
    found["shared_atomic_add"] = per_round(atomic) / LINKS
    found |= {name: chase(*how) for name, how in CHASES.items()}
    return found


# Kernel, bytes that the chain spans, bytes between its links, number of timed links, whether a warm-up precedes.
CHASES: dict[str, tuple[str, int, int, int, bool]] = {
    "global_load_l1_hit": ("global_cached_in_l1", 8 << 10, 128, 64, True),
    "global_load_l2_hit": ("global_cached_in_l2", 1 << 20, 128, 4096, True),
    "global_load_l2_hit_of_16_mib": ("global_cached_in_l2", 16 << 20, 512, 8192, True),
    "global_load_dram": ("global_cached_in_l2", 512 << 20, 4096, 2048, False),
    "global_load_dram_through_l1": ("global_cached_in_l1", 512 << 20, 4096, 2048, False),
    "global_atomic_l2_hit": ("global_atomic", 1 << 20, 128, 4096, True),
}


def chase(kernel: str, span: int, spacing: int, hops: int, warm: bool) -> float:
    """Cycles for each link of a random cyclic chain through ``span`` bytes."""
    nodes = span // spacing
    order = np.random.default_rng(0).permutation(np.arange(1, nodes))
    places = np.concatenate([[0], order, [0]]) * spacing
    following = np.zeros(span // 8, np.int64)
    following[places[:-1] // 8] = places[1:]
    data = torch.from_numpy(following).cuda().view(torch.uint8)
    cycles, out = zeros(1, torch.int64), zeros(1, torch.uint32)
    flush = torch.empty(2 * (describe(data.device).l2_bytes or 1), dtype=torch.uint8, device="cuda")

    def run() -> float:
        flush.zero_()
        LATENCY[f"latency_{kernel}<>"][1, 1](cycles, out, data, hops, nodes if warm else 0)
        return int(cycles.item()) / hops

    return min(run() for _ in range(3))


def throughputs() -> dict[str, dict[str, float]]:
    """Throughput of one SM with 32 warps: warp instructions a cycle, or cycles a memory request."""
    found: dict[str, dict[str, float]] = {}
    warps = 32
    times = zeros(2 * warps, torch.int64)

    def cycles_of(launch: Callable[[], None]) -> int:
        launch()
        starts, ends = times.view(-1, 2).unbind(1)
        return int(ends.max() - starts.min())

    for name, kind in (*STREAMS.items(), ("hmma", "")):
        out = zeros(1024, TYPES[kind] if kind else torch.float32)
        values = (0.5, 0.25) if kind in ("float", "double") else (1, 1)

        def run(rounds: int, name: str = name, out: torch.Tensor = out, values: Any = values) -> int:
            return cycles_of(lambda: THROUGHPUT[f"throughput_{name}<>"][1, 1024](times, out, *values, rounds))

        each = 8 if name == "barrier" else CHAINS_A_THREAD
        rate = warps * each / per_round(run)
        found[name] = {"warp_instructions_per_cycle": rate, "threads_per_cycle": 32 * rate}
    data, out = zeros(1 << 16, torch.uint8), zeros(1024, torch.uint32)
    for name, widths in REQUESTS.items():
        for width, strides in widths.items():
            for stride in strides:
                kernel = THROUGHPUT[f"throughput_{name}<{width}>"]

                def requests(rounds: int, kernel: cuda.Kernel = kernel, stride: int = stride) -> int:
                    return cycles_of(lambda: kernel[1, 1024](times, out, data, stride, 0, rounds))

                found[f"{name}_{width}_bytes_stride_{stride}"] = {
                    "cycles_per_request": per_round(requests) / (warps * 8)
                }
    return found


def whole_gpu() -> dict[str, dict[str, Any]]:
    """Throughput of all SMs: bytes from L2 and DRAM, contended atomics; and the time of an empty launch."""
    device = torch.device("cuda", torch.cuda.current_device())
    described = describe(device)
    sms = described.sm_count or torch.cuda.get_device_properties(device).multi_processor_count
    timer = timer_for(device)
    out = zeros(2 * sms * 1024, torch.uint32)
    found: dict[str, dict[str, Any]] = {}

    def rate(name: str, function: Callable[[], None], work: float, unit: str) -> None:
        timing: Timing = time(function, device=device, timer=timer, budget_s=0.4, precision=0.01)
        mhz = timing.clock.median if timing.clock else 0.0
        found[name] = {
            "seconds": timing.median, "sm_mhz": mhz, unit: work,
            f"{unit}_per_second": work / timing.median if work else None,
            f"{unit}_per_sm_cycle": work / timing.median / (mhz * 1e6) if work and mhz else None,
        }  # fmt: skip

    for name, size, rounds in (("l2", 16 << 20, 64), ("dram", 4 << 30, 1)):
        data = torch.zeros(size // 4, dtype=torch.int32, device=device)
        vectors = size // 16
        read, write = THROUGHPUT["throughput_read<>"][2 * sms, 1024], THROUGHPUT["throughput_write<>"][2 * sms, 1024]
        rate(f"read_{name}", partial(read, out, data, vectors, rounds), size * rounds, "bytes")
        rate(f"write_{name}", partial(write, data, vectors, rounds), size * rounds, "bytes")
        del data
    times, target = zeros(2 * 32 * sms, torch.int64), zeros(1 << 16, torch.uint8)
    for kind in ("global_reduction", "global_atomic"):
        for stride in (0, 4, 32, 128):
            launch = THROUGHPUT[f"throughput_{kind}<4>"][sms, 1024]
            requests = sms * 32 * 8 * 16
            rate(
                f"{kind}_stride_{stride}_from_all_sms",
                partial(launch, times, out, target, stride, 0, 16),
                requests,
                "requests",
            )
    rate("empty_launch", partial(THROUGHPUT["nothing<>"][1, 32]), 0, "bytes")
    found["device"] = {"name": described.name, "multiprocessors": sms, "max_mhz": (described.clock_hz or 0) / 1e6}
    return found
