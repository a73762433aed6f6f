"""A model of the time of a kernel whose blocks read one row each: kernels choose their threads by it."""

from __future__ import annotations

import math
from typing import NamedTuple

from warpwise.operation import cdiv

LOAD_TIME = 0.2  # µs of a load of 1024 threads
EVEN_USE = 0.9  # minimum fraction of the resident blocks of all SMs with which each SM has as many


class RowBlocks(NamedTuple):
    """What differs between kernels.

    ``latency`` and ``later``: µs of the first batch of loads of a thread, and of each further one. ``uneven``: the
    factor of blocks of which some SMs have more than others. ``even``: the fraction of the resident blocks of all SMs
    up to which each SM has as many.
    """

    latency: float
    later: float
    uneven: float
    even: float = 0.0

    def predicted_time(
        self, rows: int, loads: int, sms: int, threads: int, batch: int, resident: int, traffic: float = 1.0
    ) -> float:
        """Microseconds on an H200 without the launch, for a comparison of ``threads`` and ``batch``.

        A block has ``threads``, of which an SM holds ``resident`` in all blocks, and each thread has ``batch`` of the
        ``loads`` of a row in flight. It reads ``traffic`` times the bytes of these loads. The blocks of an SM take
        turns in its slots. The loads of each turn wait for their latency. Blocks that leave slots free are distributed
        unevenly, if they are more than ``even`` of the slots.
        """
        each, slots = cdiv(rows, sms), max(1, resident // threads)
        time = self._time(cdiv(each, slots), each, loads, threads, batch, traffic)
        use = rows / (slots * sms)
        return self.uneven * time if 1 < each <= slots and self.even < use < EVEN_USE else time

    def time_in_turns(
        self, rows: int, loads: int, sms: int, threads: int, batch: int, resident: int, traffic: float = 1.0
    ) -> float:
        """As ``predicted_time``, for blocks of several turns, of which the last is distributed unevenly if it has more
        than ``even`` of the slots and does not fill them: it then takes ``uneven`` times as long as a full turn.
        """
        slots = max(1, resident // threads)
        turns, rest = divmod(rows, slots * sms)
        last = self.uneven * slots if self.even < rest / (slots * sms) < EVEN_USE else cdiv(rest, sms)
        return self._time(turns + (rest > 0), turns * slots + last, loads, threads, batch, traffic)

    def _time(self, turns: int, blocks: float, loads: int, threads: int, batch: int, traffic: float) -> float:
        """Microseconds of an SM with this many ``blocks`` in this many ``turns``."""
        batches = cdiv(loads, batch * threads)
        latency = (self.latency + self.later * (batches - 1)) * turns
        return math.hypot(latency, traffic * LOAD_TIME * blocks * threads * batch * batches / 1024)
