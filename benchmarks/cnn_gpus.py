"""Compare the training step of the small convolutional network on several GPUs with one GPU.

    python benchmarks/cnn_gpus.py [--gpus N] [--batch 2048 8192] [--features A B] [--rounds R] [--json FILE]

For each batch per GPU: the time of a step of one process with that batch, and of N processes (NCCL) with N times the
batch, in CUDA graphs of ten steps. ``scaling`` is N times the first over the second: N where communication costs
nothing. The losses of 100 steps of N processes are compared with those of one process with the same global batch. The
images are random. ``--device cpu`` checks the script with gloo.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

import torch
import torch.distributed as dist
import torch.multiprocessing
from benchmarks.cnn import STEPS, WARM_UP, many, random_images, trainer

from warpwise.cache import atomic_write
from warpwise.lab.timing.environment import environment, place

COMPARED = 100  # steps


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--gpus", type=int, default=torch.cuda.device_count() or 2)
    made.add_argument("--batch", type=int, nargs="+", default=[2048, 8192], help="images per GPU in a step")
    made.add_argument("--features", type=int, nargs=2, default=[16, 32], metavar=("A", "B"))
    made.add_argument("--rounds", type=int, default=7)
    made.add_argument("--steps", type=int, default=STEPS, help="steps in each round")
    made.add_argument("--compared", type=int, default=COMPARED, help="number of steps whose losses are compared")
    made.add_argument(
        "--limit", type=float, default=120.0, help="seconds after which a process prints its stack and ends"
    )
    made.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    made.add_argument("--json", type=Path)
    return made


def indices(images: int, batch: int, count: int, rank: int, processes: int, device: torch.device) -> torch.Tensor:
    """The part of process ``rank`` of ``count`` global batches of ``batch`` images, (count, batch / processes)."""
    generator = torch.Generator().manual_seed(batch)
    drawn = torch.stack([torch.randperm(images, generator=generator)[:batch] for _ in range(min(count, 20))])
    repeated = drawn.repeat(-(-count // len(drawn)), 1)[:count]
    return repeated.view(count, processes, -1)[:, rank].contiguous().to(device)


def now(device: torch.device) -> float:
    """Seconds, after the device's work is done: a round takes milliseconds."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def measured(given: argparse.Namespace, batch: int, rank: int, processes: int) -> tuple[list[float], list[float]]:
    """Microseconds of a step in each round, and the first losses, for ``batch`` images in all processes together."""
    device = torch.device(given.device, rank) if given.device == "cuda" else torch.device("cpu")
    images = random_images((1, 28, 28), 10, 4 * max(given.batch))
    one = trainer(images, "ours", batch, device, features=tuple(given.features))
    whole = indices(len(images.train), batch, max(given.steps, given.compared), rank, processes, device)
    losses = many(one, whole[: given.compared]).clone()
    if processes > 1:
        dist.all_reduce(losses)
    many(one, whole[:WARM_UP])
    times = []
    for _ in range(given.rounds):
        if processes > 1:
            dist.barrier()
        start = now(device)
        many(one, whole[: given.steps])
        times.append((now(device) - start) * 1e6 / given.steps)
    one.release()
    return times, (losses / processes).tolist()


def process(rank: int, given: argparse.Namespace, batch: int, processes: int, port: int, folder: str) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    faulthandler.dump_traceback_later(given.limit, exit=True)  # a process that waits for another one forever
    if given.device == "cuda":
        torch.cuda.set_device(rank)
    if processes > 1:
        backend = "nccl" if given.device == "cuda" else "gloo"
        device = torch.device("cuda", rank) if given.device == "cuda" else None
        dist.init_process_group(backend, rank=rank, world_size=processes, device_id=device)
    found = measured(given, batch, rank, processes)
    Path(folder, f"{rank}.json").write_text(json.dumps(found))
    if processes > 1:
        dist.destroy_process_group()
    faulthandler.cancel_dump_traceback_later()


def in_processes(given: argparse.Namespace, batch: int, processes: int) -> tuple[list[float], list[float]]:
    """``measured`` in ``processes`` processes: the slowest one's times, and the losses."""
    with socket.socket() as listening, tempfile.TemporaryDirectory() as folder:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        listening.close()
        torch.multiprocessing.spawn(process, (given, batch, processes, port, folder), processes)
        results = [json.loads(Path(folder, f"{rank}.json").read_text()) for rank in range(processes)]
    return [max(each) for each in zip(*(times for times, _ in results), strict=True)], results[0][1]


def difference(found: Sequence[float], expected: Sequence[float]) -> float:
    """The largest relative difference of two curves of losses."""
    return max(abs(one - other) / abs(other) for one, other in zip(found, expected, strict=True))


def main() -> None:
    given = parser().parse_args()
    device = torch.device(given.device)
    kept: dict[str, Any] = {"environment": environment(device), "gpus": given.gpus, "points": {}}
    print(f"{given.gpus} x {place(device)}", flush=True)
    for batch in given.batch:
        alone, _ = in_processes(given, batch, 1)
        together, losses = in_processes(given, given.gpus * batch, given.gpus)
        _, expected = in_processes(given, given.gpus * batch, 1)
        one_us, all_us = statistics.median(alone), statistics.median(together)
        point = {
            "one_us": one_us, "all_us": all_us, "scaling": given.gpus * one_us / all_us, "rounds": [alone, together],
            "losses": losses, "expected": expected, "first_20": difference(losses[:20], expected[:20]),
            "largest": difference(losses, expected),
        }  # fmt: skip
        kept["points"][str(batch)] = point
        print(
            f"batch {batch:>5} a GPU: one {one_us:8.1f} µs a step, {given.gpus} together {all_us:8.1f} µs,"
            f" scaling {point['scaling']:.2f}; losses differ by {point['largest']:.1e},"
            f" the first 20 by {point['first_20']:.1e}",
            flush=True,
        )
        if given.json:
            atomic_write(given.json, json.dumps(kept, indent=1, default=str))


if __name__ == "__main__":
    main()
