"""Races found, missed and falsely reported in labelled suites of CUDA kernels, which run unmodified on the emulator.

    python benchmarks/race_suites.py FOLDER ... [--json FILE]

FOLDER is a checkout of one of these suites:

- ScoR (https://github.com/csl-iisc/ScoR): microbenchmarks named `race_...` or `norace_...`.
- GPUVerify (https://github.com/mc-imperial/gpuverify): `testsuite/CUDA`, where each file begins with `//pass` or
  `//xfail:NOT_ALL_VERIFIED`. Its specifications, such as `__requires`, are defined as nothing; its predicates, such as
  `__enabled`, as true. Numbers are 1 and arrays hold small ones, but GPUVerify's labels hold for any. Left out: files
  whose label is an error of its compiler, assumes warps in lockstep, or depends on `__requires` for correctness.
- Indigo (https://github.com/burtscher/IndigoSuite): the files that its `generate_CUDA_codes.py` writes to a folder
  `indigo_cuda` of FOLDER, named by their bugs, such as `..._atomicBug.cu`.

Each file runs under three schedules, each in a process of its own: `__device__` variables start at zero. In ScoR a data
race counts; in the others a finding of any kind: GPUVerify's labels cover races, divergent barriers, assertions and
bounds, and Indigo has bounds bugs.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numpy as np

from warpwise import cuda
from warpwise.cuda.errors import DataRace, Finding, KernelError, LaunchError, UninitializedRead, UnsupportedFeature
from warpwise.cuda.source.kernels import kernels

SCHEDULES = ("forward", "reverse", "shuffle")
Run = Callable[[Path, str], list[Finding]]
MAX_BLOCKS = 4  # of a dimension of GPUVerify's grids, which have up to 1,024
BYTES = 1 << 20


# ---- ScoR


def run_scor(path: Path, order: str) -> list[Finding]:
    text = path.read_text()
    blocks, threads = (int(re.findall(rf"#define {name}\s+(\d+)", text)[0]) for name in ("NBLOCKS", "TPERBLK"))
    findings = cuda.load(text)["kmain"][blocks, threads].check(
        np.zeros(blocks * threads, np.uint32), order=order, timeout=10
    )
    return [finding for finding in findings if finding.kind is DataRace]


# ---- GPUVerify

SPECIFICATIONS = (
    "__requires", "__ensures", "__invariant", "__global_invariant", "__assume", "__axiom", "__requires_fresh_array",
    "__function_wide_invariant", "__function_wide_candidate_invariant",
)  # fmt: skip
PREDICATES = (
    "__enabled", "__no_read", "__no_write", "__read", "__write", "__read_implies", "__write_implies", "__uniform_int",
    "__uniform_bool", "__distinct_int", "__distinct_bool", "__all", "__at_most_one",
)  # fmt: skip
DEFINITIONS = {
    **{f"{name}(...)": "((void)0)" for name in SPECIFICATIONS},
    **{f"{name}(...)": "true" for name in PREDICATES},
    "__implies(a, b)": "(!(a) || (b))",
    "__assert(...)": "assert(__VA_ARGS__)",
}
HEADERS = {"cooperative_groups": "cooperative_groups.h", "curand": "curand_kernel.h"}  # GPUVerify's own cuda.h has them
FLAGS = re.compile(r"--(blockDim|gridDim)=\[?([\d,]+)\]?")


def run_gpuverify(path: Path, order: str) -> list[Finding]:
    text = path.read_text(errors="replace")
    shape = {name: tuple(map(int, sizes.split(","))) for name, sizes in FLAGS.findall(text)}
    grid = tuple(min(size, MAX_BLOCKS) for size in shape["gridDim"])
    defined = {**DEFINITIONS, **dict(re.findall(r"-D\s*(\w+)=(\S+)", text))}
    needed = "".join(f"#include <{header}>\n" for word, header in HEADERS.items() if word in text)
    module = cuda.load(needed + text, define=defined, include=[path.parent])
    findings: list[Finding] = []
    for name, declared in kernels(text).items():
        arguments = [_array(_dtype(kind)) if "*" in kind else 1 for kind, _ in declared.parameters]
        findings += module[name][grid, shape["blockDim"]].check(*arguments, order=order, timeout=20)
    return [finding for finding in findings if finding.kind is not UninitializedRead]  # GPUVerify has no such label


def _array(dtype: str) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 8, BYTES // np.dtype(dtype).itemsize).astype(dtype)


def gpuverify_applies(path: Path) -> bool:
    text = path.read_text(errors="replace")
    if not text.startswith("//pass"):
        return text.startswith("//xfail:NOT_ALL_VERIFIED") and "--warp-sync" not in text
    return "--warp-sync" not in text and "__requires(" not in text


def _dtype(type_name: str) -> str:
    """Return the dtype of an array for a pointer parameter; that of bytes for structures."""
    words = set(re.findall(r"\w+", type_name)) - {"const", "volatile", "__restrict__", "__restrict"}
    sizes = {"char": "i1", "bool": "i1", "short": "i2", "float": "f4", "double": "f8", "long": "i8"}
    if words - {*sizes, "int", "unsigned", "signed"}:
        return "u1"
    kind = next((sizes[word] for word in sizes if word in words), "i4")
    return kind.replace("i", "u") if "unsigned" in words else kind


# ---- Indigo

VERTICES = 24  # the first and the last have no edge: a missing bound reads before or past the list of edges
BLOCKS, THREADS = 32, 64


def run_indigo(path: Path, order: str) -> list[Finding]:
    generator = np.random.default_rng(0)
    connected = VERTICES - 2
    edges = generator.random((connected, connected)) < 0.4
    edges |= edges.T
    np.fill_diagonal(edges, False)
    degrees = np.concatenate([[0], edges.sum(1), [0]])
    index = np.concatenate([[0], np.cumsum(degrees)]).astype("i4")
    rows, columns = np.nonzero(edges)
    neighbours = (1 + columns[np.lexsort((generator.random(len(rows)), rows))]).astype("i4")
    first, second = (generator.integers(0, VERTICES, len(neighbours)).astype("i4") for _ in range(2))
    first[0] = second[0] = 0
    headers = path.parents[2] / "Generators" / "sources_include"
    kernel = cuda.load(path.read_text(), include=[headers])["test_kernel"]
    return kernel[BLOCKS, THREADS].check(index, neighbours, first, second, VERTICES, order=order, timeout=20)


# ---- All


def suite_of(folder: Path) -> tuple[str, list[Path], Run, Callable[[Path], bool]]:
    """Return the suite's name, its files, how one runs, and whether a file's label is a defect."""
    if (scor := folder / "microbenchmarks" / "src").is_dir():
        return "ScoR", sorted(scor.glob("*.cu")), run_scor, lambda path: path.stem.startswith("race")
    if (verify := folder / "testsuite" / "CUDA").is_dir():
        files = [path for path in sorted(verify.rglob("*.cu")) if gpuverify_applies(path)]
        return "GPUVerify", files, run_gpuverify, lambda path: path.read_text(errors="replace").startswith("//xfail")
    if (indigo := folder / "indigo_cuda").is_dir():
        return "Indigo", sorted(indigo.rglob("*.cu")), run_indigo, lambda path: "Bug" in path.stem
    raise SystemExit(f"{folder}: expected a checkout of ScoR, GPUVerify or Indigo")


def outcome(run: Run, path: Path, order: str) -> list[str]:
    return [finding.kind.__name__ for finding in run(path, order)]


def verdict(run: Run, path: Path, defect: bool) -> str:
    """Return `found`, `missed`, `none` (correct, and no finding), `false`, or `error: ...` if the file does not run."""
    kinds: list[str] = []
    for order in SCHEDULES:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as process:
            try:
                kinds += process.submit(outcome, run, path, order).result()
            except (KernelError, IndexError, KeyError, ValueError, TypeError, BrokenProcessPool) as error:
                return f"error: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        if kinds:
            break
    if refused := {UnsupportedFeature.__name__, LaunchError.__name__}.intersection(kinds):
        return f"error: {min(refused)}"
    word = ("found" if kinds else "missed") if defect else ("false" if kinds else "none")
    return f"{word}: {', '.join(sorted(set(kinds)))}" if kinds else word


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="run every N-th file")
    parser.add_argument("--json", type=Path, help="also write the verdicts to this file")
    arguments = parser.parse_args()
    results: dict[str, dict[str, str]] = {}
    for folder in arguments.folders:
        name, files, run, is_defect = suite_of(folder)
        results[name] = {}
        for path in files[:: arguments.every]:
            label = str(path.relative_to(folder))
            results[name][label] = verdict(run, path, is_defect(path))
            print(f"{results[name][label]:8} {label}", flush=True)
        print(name, dict(Counter(found.partition(":")[0] for found in results[name].values())), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
