"""Run a function on several cores, in forks of this process."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

import torch

Item = TypeVar("Item", bound=Hashable)
Result = TypeVar("Result")
_work: Callable[[Any], Any] | None = None  # of the forks, which inherit it: a function need not be picklable


def on_all_cores(items: Sequence[Item], work: Callable[[Item], Result]) -> Iterator[tuple[Item, Result]]:
    """Yield each item with the result of ``work(item)``, as they are done. Items and results must be picklable.

    The forks continue while the caller uses a result. If a fork ends, as by a fault of native code, the items that have
    no result yet run in this process. If the caller stops early, items that have not started are dropped.
    """
    global _work
    left = dict.fromkeys(items)
    cores = min(len(os.sched_getaffinity(0)), len(items))
    if cores > 1:
        _work = work
        pool = ProcessPoolExecutor(cores, multiprocessing.get_context("fork"), _one_thread)
        try:
            running = {pool.submit(_run, item): item for item in items}
            for done in as_completed(running):
                result = done.result()
                del left[running[done]]
                yield running[done], result
        except BrokenProcessPool:
            pass
        finally:
            pool.shutdown(cancel_futures=True)
            _work = None
    for item in left:
        yield item, work(item)


def _one_thread() -> None:
    torch.set_num_threads(1)


def _run(item: Any) -> Any:
    assert _work is not None
    return _work(item)
