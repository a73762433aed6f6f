"""Races found, missed and falsely reported in a labelled suite of CUDA kernels, which run unmodified on the emulator.

    python benchmarks/race_suites.py FOLDER [--json FILE]

FOLDER is a checkout of ScoR (https://github.com/csl-iisc/ScoR), whose microbenchmarks are named `race_...` or
`norace_...`. Each runs under three schedules, each in a process of its own: `__device__` variables start at zero.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from warpwise import cuda
from warpwise.cuda.errors import DataRace, KernelError

SCHEDULES = ("forward", "reverse", "shuffle")


def races(path: Path, order: str) -> int:
    """Return the number of data races that one schedule of the file's kernel ``kmain`` has. Raises ``KernelError``."""
    text = path.read_text()
    blocks, threads = (int(re.findall(rf"#define {name}\s+(\d+)", text)[0]) for name in ("NBLOCKS", "TPERBLK"))
    data = np.zeros(blocks * threads, np.uint32)
    findings = cuda.load(text)["kmain"][blocks, threads].check(data, order=order, timeout=10)
    return sum(finding.kind is DataRace for finding in findings)


def verdict(path: Path) -> tuple[str, str]:
    """Return the file's name, and `found`, `missed`, `none` (no race, no finding), `false`, or an error."""
    counts = []
    for order in SCHEDULES:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as process:
            try:
                counts.append(process.submit(races, path, order).result())
            except (KernelError, IndexError, ValueError) as error:
                return path.stem, f"error: {error}"
    racy = path.stem.startswith("race")
    return path.stem, ("found" if any(counts) else "missed") if racy else ("false" if any(counts) else "none")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", type=Path, help="also write the verdicts to this file")
    arguments = parser.parse_args()
    verdicts = dict(verdict(path) for path in sorted((arguments.folder / "microbenchmarks" / "src").glob("*.cu")))
    if not verdicts:
        parser.error(f"no microbenchmarks in {arguments.folder}")
    for name, found in verdicts.items():
        print(f"{found:8} {name}")
    print(dict(Counter(found.partition(":")[0] for found in verdicts.values())))
    if arguments.json:
        arguments.json.write_text(json.dumps(verdicts, indent=1) + "\n")


if __name__ == "__main__":
    main()
