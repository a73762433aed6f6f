"""Tests marked ``gpu`` need a CUDA device and are left out without one. Those marked ``full`` run with ``-m full``.
Nothing is written to the user's results store."""

from __future__ import annotations

import gc
import itertools
import os
from pathlib import Path

# Inductor then reads the CPU's vector instructions from its flags, instead of compiling a program for each in 28 s.
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "1")
# Triton's cache is keyed by a kernel's text and not by its file: another checkout's entry names that checkout's files.
os.environ.setdefault("TRITON_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "triton"))

# Calls go through C++ from the first one on: otherwise the build in the background decides which tests see it.
os.environ.setdefault("WARPWISE_FASTCALL", "1")

# The workers of pytest-xdist share the cores: more threads of PyTorch in each would wait for one another.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# The garbage collector would search torch and 7,000 tests again and again: it begins after the collection of the tests.
gc.disable()

import hypothesis
import pytest
import torch
from tests import commands, sampled


def seed(value: int) -> None:
    """Seed the default generators. Without a GPU `torch.manual_seed` formats a stack trace for each kind of GPU."""
    seeds = torch.manual_seed if torch.cuda.is_available() else torch.default_generator.manual_seed
    seeds(value)


class TorchRandom:
    """PyTorch's default generator: hypothesis seeds it before each example, so that a failing one can be repeated."""

    seed = staticmethod(seed)
    getstate = staticmethod(torch.get_rng_state)
    setstate = staticmethod(torch.set_rng_state)


torch_random = TorchRandom()
hypothesis.register_random(torch_random)


def pytest_configure(config: pytest.Config) -> None:
    sampled.complete = bool(config.option.markexpr)
    # No test depends on the machine's speed: an example may take any time, and so may drawing one.
    hypothesis.settings.register_profile(
        "no deadline",
        deadline=None,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
        max_examples=sampled.examples(100),
        derandomize=not sampled.complete,  # `make test` draws the same examples on each run, `make test-full` new ones
    )
    hypothesis.settings.load_profile("no deadline")


def left_out(config: pytest.Config) -> set[str]:
    """The marks of the tests that this run does not have."""
    chosen = config.option.markexpr
    absent = not torch.cuda.is_available() and chosen != "gpu"
    return {mark for mark, out in (("full", "full" not in chosen), ("gpu", absent)) if out}


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, obj: object) -> list[pytest.Item] | None:
    """No item for each combination of parameters of a function that is left out."""
    marks = getattr(obj, "pytestmark", ())
    names = {mark.name for mark in marks} if isinstance(marks, list) else set()
    return [] if names & left_out(collector.config) else None


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """No item for a value of `parametrize` that is left out, unless all values are."""
    out, markers = left_out(metafunc.config), metafunc.definition.own_markers
    for place, mark in enumerate(markers):
        if mark.name == "parametrize" and len(mark.args) > 1:
            values = list(mark.args[1])
            kept = [value for value in values if not out & {each.name for each in getattr(value, "marks", ())}]
            if 0 < len(kept) < len(values):
                markers[place] = pytest.mark.parametrize(mark.args[0], kept, *mark.args[2:], **mark.kwargs).mark


@pytest.hookimpl(tryfirst=True)  # before -m is applied
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    marks = left_out(config)
    if not config.option.markexpr or "full" in config.option.markexpr:
        sampled.mark_sampled(items)
    out = [item for item in items if any(map(item.get_closest_marker, marks))]
    if out:
        config.hook.pytest_deselected(items=out)
        dropped = set(out)
        items[:] = [item for item in items if item not in dropped]
    if not torch.cuda.is_available():
        absent = pytest.mark.skip(reason="no CUDA device")
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(absent)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(50_000)  # tokens and graphs of 10,000 objects are usual
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    if "PYTEST_XDIST_WORKER" in os.environ and not torch.cuda.is_available():
        commands.fork_server()


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Seed PyTorch's default generators, so that a test draws the same values in each run."""
    seed(0)


_STORES = itertools.count()


@pytest.fixture(autouse=True)
def own_store(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The results store of this test alone, also for the processes that it starts. Its folder need not exist."""
    path = tmp_path_factory.getbasetemp() / f"store{next(_STORES)}" / "runs.sqlite3"
    monkeypatch.setenv("WARPWISE_STORE", str(path))
    # pytest-xdist sets COLUMNS to 80: a command chooses its width of output into a pipe.
    monkeypatch.delenv("COLUMNS", raising=False)
    return path
