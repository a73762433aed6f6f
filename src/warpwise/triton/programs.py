"""The programs of a launch, one after the other; a program that waits for another one lets the others run.

The first program runs in the calling thread. Only if it waits in a loop, for a flag or a lock, the next programs run in
a second thread, and so on. One thread holds the turn at any time, so that a launch is deterministic.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

import numpy as np


class _Stopped(BaseException):
    """Ends a waiting program after another one raised an error."""


class Programs:
    """Runs ``run(number)`` for each program, the last one first if ``reverse`` is true.

    ``resume(number)`` is called before a waiting program goes on.
    """

    def __init__(
        self, count: int, run: Callable[[int], None], resume: Callable[[int], None], reverse: bool = False
    ) -> None:
        self._count, self._reverse = count, reverse
        self._run = run
        self._resume = resume
        self._next = 0  # the next program to start
        self._current = 0
        self._waiting: deque[threading.Semaphore] = deque()
        self._threads: list[threading.Thread] = []
        self._finished = threading.Semaphore(0)
        self._error: BaseException | None = None

    def run_all(self) -> None:
        """Run all programs; raise the first error."""
        try:
            self._start_programs()
            if self._waiting:
                self._waiting.popleft().release()
                self._finished.acquire()
        except _Stopped:
            pass
        except BaseException as error:  # noqa: BLE001  (raised again below)
            self._error = self._error or error
        if self._error is not None:
            self._wake_all()
        for thread in self._threads:
            thread.join()
        if self._error is not None:
            raise self._error

    def let_others_run(self) -> None:
        """Run other programs until the current one gets the turn again; return at once if it is the only one."""
        if self._error is not None:
            raise _Stopped
        if self._next == self._count and not self._waiting:
            return
        number, turn = self._current, threading.Semaphore(0)
        self._waiting.append(turn)
        if self._next < self._count:
            thread = threading.Thread(target=self._work, daemon=True)
            self._threads.append(thread)
            thread.start()
        else:
            self._waiting.popleft().release()
        turn.acquire()
        if self._error is not None:
            raise _Stopped
        self._current = number
        self._resume(number)

    def _wake_all(self) -> None:
        """After an error: each waiting program ends."""
        for turn in (*self._waiting, self._finished):
            turn.release()
        self._waiting.clear()

    def _start_programs(self) -> None:
        while self._next < self._count and self._error is None:
            self._current = self._count - 1 - self._next if self._reverse else self._next
            self._next += 1
            self._run(self._current)

    def _work(self) -> None:
        """The body of a thread: start programs until there are none left, then pass the turn on."""
        try:
            with np.errstate(all="ignore"):
                self._start_programs()
        except _Stopped:
            return
        except BaseException as error:  # noqa: BLE001  (raised again by run_all)
            self._error = error
            self._wake_all()
            return
        (self._waiting.popleft() if self._waiting else self._finished).release()
