"""Partitions of ``gl.warp_specialize``: one runs at a time, until it waits for an mbarrier that is not complete."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


class _Stopped(BaseException):
    """Ends a partition after another one raised an error."""


class Partitions:
    """Runs the partitions of a program in threads, of which one holds the turn."""

    def __init__(self) -> None:
        self.current = 0
        self._turns: list[threading.Semaphore] = []
        self._unfinished: set[int] = set()
        self._blocked = 0  # consecutive waits that did not end
        self._error: BaseException | None = None

    @property
    def nested(self) -> bool:
        return bool(self._turns)

    def run(self, bodies: Sequence[Callable[[], Any]]) -> Any:
        """Run all bodies to their end and return the result of the first; raise the first error."""
        results: list[Any] = [None] * len(bodies)
        self._turns = [threading.Semaphore(0) for _ in bodies]
        self._unfinished, self._blocked, self._error = set(range(len(bodies))), 0, None

        def work(number: int) -> None:
            self._turns[number].acquire()
            try:
                if self._error is None:
                    self.progress()
                    with np.errstate(all="ignore"):
                        results[number] = bodies[number]()
            except _Stopped:
                pass
            except BaseException as error:  # noqa: BLE001  (raised again by run)
                self._error = error
            self._unfinished.discard(number)
            self.progress()
            self._resume_next()

        threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(len(bodies))]
        for thread in threads:
            thread.start()
        self.current = 0
        self._turns[0].release()
        for thread in threads:
            thread.join()
        self.current, self._turns = 0, []
        if self._error is not None:
            raise self._error
        return results[0]

    def progress(self) -> None:
        """Record that a partition ran on."""
        self._blocked = 0

    def switch(self) -> bool:
        """Let the other partitions run; return False if each of them waits too."""
        self._blocked += 1
        if self._blocked > len(self._unfinished) or len(self._unfinished) < 2:
            return False
        self._resume_later()
        return True

    def yield_to_others(self) -> None:
        """Let the other partitions run before this one goes on."""
        if len(self._unfinished) > 1:
            self.progress()
            self._resume_later()
            self.progress()

    def _resume_later(self) -> None:
        number = self.current
        self._resume_next()
        self._turns[number].acquire()
        if self._error is not None:
            raise _Stopped

    def _resume_next(self) -> None:
        if self._unfinished:
            later = [number for number in self._unfinished if number > self.current]
            self.current = min(later or self._unfinished)
            self._turns[self.current].release()
