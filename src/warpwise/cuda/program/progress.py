"""Notices about launches that take long: how far they are, and what makes the program faster."""

from __future__ import annotations

import ctypes
import signal
import threading
import time
from collections.abc import Callable

from warpwise.cuda.emulator import runtime

FIRST = 10.0  # seconds of launches until the first notice
_MOST = 300.0  # seconds between two notices: each waits twice as long as the one before, up to this
ADVICE = (
    "A smaller problem ends sooner: pass its size as an argument of the program after --, or by -D NAME=VALUE. "
    "--checks bounds omits the checks of races, 10 % to 30 % of the time; --timeout SECONDS ends a launch."
)


class Progress:
    """Calls ``notice`` from a thread of its own while a launch runs and the launches so far have taken long."""

    def __init__(self, notice: Callable[[str], None], first: float = FIRST, tick: float = 0.5) -> None:
        self._notice, self._next, self._tick = notice, first, tick
        self._launches, self._seconds = 0, 0.0
        self._name, self._began = "", 0.0
        self._thread: threading.Thread | None = None

    def began(self, name: str) -> None:
        """A launch begins; ``name`` is the kernel's, with the line of the launch."""
        self._launches += 1
        self._name, self._began = name, time.monotonic()
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()

    def ended(self) -> None:
        """The launch has ended."""
        self._seconds += time.monotonic() - self._began
        self._name = ""

    def _watch(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # the emulator's are for the launching thread
        counts = (ctypes.c_uint64 * 2)()
        advice = f"\n{ADVICE}"
        while True:
            time.sleep(self._tick)
            name, took = self._name, time.monotonic() - self._began
            total = self._seconds + took
            if not name or total < self._next:
                continue
            runtime.handle().ww_progress(counts)
            self._notice(text(name, took, counts[0], counts[1], self._launches, total) + advice)
            self._next, advice = total + min(total, _MOST), ""


def text(name: str, took: float, finished: int, blocks: int, launches: int, total: float) -> str:
    """Describe the running launch: its time in seconds, its blocks, and all launches of the program so far."""
    words = f"{name}: {finished:,} of {blocks:,} blocks after {took:.0f} s"
    if 0 < finished < blocks and took >= 1:
        words += f", about {_duration(took * (blocks - finished) / finished)} left"
    return words + (f"; {launches:,} launches in {total:.0f} s" if launches > 1 else "")


def _duration(seconds: float) -> str:
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(1, seconds):.0f} s"
