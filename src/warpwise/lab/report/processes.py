"""Run a function on several cores, in forks of this process."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

import torch

Result = TypeVar("Result")
_work: Callable[[str], Any] | None = None  # of the forks, which inherit it: a function need not be picklable


def on_all_cores(names: Sequence[str], work: Callable[[str], Result]) -> Iterator[tuple[str, Result]]:
    """Yield each name with the result of ``work(name)``, as they are done. A result must be picklable.

    If a fork ends, as by a fault of native code, the names that have no result yet run in this process.
    """
    global _work
    left = dict.fromkeys(names)
    cores = min(len(os.sched_getaffinity(0)), len(names))
    if cores > 1:
        _work = work
        try:
            with ProcessPoolExecutor(cores, multiprocessing.get_context("fork"), _one_thread) as pool:
                running = {pool.submit(_run, name): name for name in names}
                for done in as_completed(running):
                    yield running[done], done.result()
                    del left[running[done]]
        except BrokenProcessPool:
            pass
        finally:
            _work = None
    for name in left:
        yield name, work(name)


def _one_thread() -> None:
    torch.set_num_threads(1)


def _run(name: str) -> Any:
    assert _work is not None
    return _work(name)
