"""Passes of a request through the stages of the L1 cache and to L2.

Derived from ncu on an H200 (benchmarks/results/h200): ``l1tex__t_output_wavefronts`` of microbenchmarks,
``l1tex__data_pipe_lsu_wavefronts`` and ``lts__xbar2lts_cycles_active`` of every rung.

- The tag stage looks up at most four 128-byte lines per clock, and fewer if the lanes' addresses are scattered.
- The data stage has 32 banks of 4 bytes, for L1 lines as for shared memory. Lanes that read different words of one
  bank need one pass each: a column of 32 rows whose length is a multiple of 128 bytes needs 32 passes.
- L2 receives a packet for each line that is read, one for each sector that is written, and one more, with the byte
  mask, for each line with a partially written sector.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from warpwise.lab.explain.model.metrics import SECTOR, CounterTable
from warpwise.machine.counts import Sample

TAGS_AT_ONCE = 4
BANKS, WORD = 32, 4
_GROUP = {8: 16, 16: 8}  # lanes served together, by bytes per lane


def tag_passes(table: CounterTable) -> float:
    """Clocks of the tag stage for all requests to global and local memory."""
    chosen = table.accesses("global") | table.accesses("local")
    requests, tags = table.counts.column("requests")[chosen], table.counts.column("tags")[chosen]
    return float(np.maximum(requests, tags / TAGS_AT_ONCE).sum())


def data_passes(table: CounterTable) -> tuple[float, float]:
    """Clocks of the data stage for accesses of shared memory, and for L1 lines, shuffles and thread indices."""
    others = table.idle_passes(table.all)
    requests = table.counts.column("requests")
    for i in np.flatnonzero(table.accesses("global") | table.accesses("local")):
        others += float(requests[i]) * request_passes(table.counts.samples.get(int(i), ()))
    return table.sum("wavefronts", table.all), others


def request_passes(samples: Sequence[Sample]) -> float:
    """Passes of a request to global memory through the data stage, from the first sample."""
    if not samples:
        return 1.0
    sample = samples[0]
    group = _GROUP.get(sample.bytes, BANKS)
    total = 0
    for first in range(0, 32, group):
        words = {
            word
            for lane in range(first, first + group)
            if sample.lanes >> lane & 1
            for word in range(sample.addresses[lane] // WORD, (sample.addresses[lane] + sample.bytes - 1) // WORD + 1)
        }
        of_bank: defaultdict[int, int] = defaultdict(int)
        for word in words:
            of_bank[word % BANKS] += 1
        total += max(of_bank.values(), default=0)
    return float(max(1, total))


def l2_packets(table: CounterTable) -> float:
    """Packets to L2: lines read, sectors written (two for atomics), and lines with partially written sectors."""
    counts = table.counts
    sectors, tags, crossed, nbytes = (
        counts.column(name).astype(float) for name in ("sectors", "tags", "l2_sectors", "bytes")
    )
    lines = np.divide(crossed * tags, sectors, out=np.zeros_like(sectors), where=sectors > 0)
    # The sectors at both ends of a contiguous range may be partial: up to twice the excess over the ideal.
    share = np.divide(crossed, sectors, out=np.zeros_like(sectors), where=sectors > 0)
    partial = np.clip(2 * (sectors - nbytes / SECTOR), 0, tags) * share
    writes = (table.ops == "st") & (table.spaces != "shared")
    updates = np.isin(table.ops, ("red", "atom")) & (table.spaces == "global")
    reads = (table.spaces != "") & (table.spaces != "shared") & ~writes & ~updates
    return float(lines[reads].sum() + (crossed + partial)[writes].sum() + 2 * crossed[updates].sum())
