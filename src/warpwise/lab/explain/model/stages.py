"""Passes of a request through the stages of the L1 cache and to L2.

Derived from ncu on an H200 (benchmarks/results/h200): ``l1tex__t_output_wavefronts`` of microbenchmarks,
``l1tex__data_pipe_lsu_wavefronts`` and ``lts__xbar2lts_cycles_active`` of every rung.

- The tag stage looks up at most four 128-byte lines per clock, one in each tag bank. The tag bank of a line is the XOR
  of all pairs of bits of the line's number: this gives the lookups of 146 of 151 patterns of the microbenchmarks.
- The data stage has 32 banks of 4 bytes, for L1 lines as for shared memory. It serves 32 lanes of up to 4 bytes, 16
  lanes of 8 or 8 lanes of 16 bytes at a time. Lanes that read different words of one bank need one pass each: a column
  of 32 rows whose length is a multiple of 128 bytes needs 32 passes.
- Vectors of 8 and 16 bytes are served by lookup: for 36 patterns of four rows 64 to 208 bytes apart, the mean error of
  the number of passes is 1.3 % (20 % if all lookups are served together). Lanes of up to 4 bytes are served together,
  in at least one pass for each lookup: 10 % for ten such patterns, to which serving by lookup fits better (2 %); but
  by lookup, k03 of matmul at 200 x 130 x 72 has 1.9 times ncu's passes.
- L2 receives a packet for each line that is read, one for each sector that is written, and one more, with the byte
  mask, for each line with a partially written sector.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from warpwise.lab.explain.model.metrics import SECTOR, CounterTable
from warpwise.machine.counts import Sample

TAGS_AT_ONCE = 4
BANKS, WORD, LINE = 32, 4, 128
_PLACES = range(0, 64, TAGS_AT_ONCE)  # numbers of lines that are added: a mean over places in memory
_GROUP = {8: 16, 16: 8}  # lanes served together, by bytes per lane


def tag_passes(table: CounterTable) -> float:
    """Clocks of the tag stage for all requests to global and local memory."""
    chosen = table.accesses("global") | table.accesses("local")
    requests, tags = table.counts.column("requests")[chosen], table.counts.column("tags")[chosen]
    return float(np.maximum(requests, tags / TAGS_AT_ONCE).sum())


def data_passes(table: CounterTable) -> tuple[float, float]:
    """Clocks of the data stage for accesses of shared memory, and for L1 lines, shuffles and thread indices."""
    others = table.idle_passes(table.all)
    for i in np.flatnonzero(table.accesses("global") | table.accesses("local")):
        others += instruction_passes(table, int(i))
    return table.sum("wavefronts", table.all), others


def instruction_passes(table: CounterTable, index: int) -> float:
    """Passes of all requests of a memory instruction through the data stage, from its first sample. Requests with fewer
    active lanes than the sample take as many fewer, but at least one."""
    requests, nbytes = (float(table.counts.column(name)[index]) for name in ("requests", "bytes"))
    samples = table.counts.samples.get(index, ())
    if not requests or not samples:
        return requests
    sampled = samples[0].lanes.bit_count() * samples[0].bytes
    share = min(1.0, nbytes / requests / sampled) if sampled else 1.0
    return requests * max(1.0, share * request_passes(samples))


def request_passes(samples: Sequence[Sample]) -> float:
    """Passes of a request to global memory through the data stage: the mean over places in memory where the lanes of
    the first sample have the same distances."""
    if not samples:
        return 1.0
    sample = samples[0]
    lanes = [lane for lane in range(32) if sample.lanes >> lane & 1]
    if not lanes:
        return 1.0
    lines = {lane: sample.addresses[lane] // LINE for lane in lanes}
    base = min(lines.values()) // TAGS_AT_ONCE * TAGS_AT_ONCE
    total = sum(_passes(sample, {lane: line - base + place for lane, line in lines.items()}) for place in _PLACES)
    return total / len(_PLACES)


def _passes(sample: Sample, lines: Mapping[int, int]) -> int:
    """``lines``: the number of the line that each lane reads. Lines of one tag bank are looked up one after another."""
    found: defaultdict[int, int] = defaultdict(int)  # lines of each tag bank
    lookups: dict[int, int] = {}
    for line in lines.values():
        if line not in lookups:
            bank = tag_bank(line)
            lookups[line] = found[bank]
            found[bank] += 1
    group, by_lookup = _GROUP.get(sample.bytes, BANKS), sample.bytes > WORD
    words: defaultdict[tuple[int, int], set[int]] = defaultdict(set)  # of the lanes that are served together
    for lane, line in lines.items():
        last = (sample.addresses[lane] + sample.bytes - 1) // WORD
        of_lane = range(sample.addresses[lane] // WORD, last + 1)
        words[lookups[line] if by_lookup else 0, lane // group].update(of_lane)
    conflicts = sum(max(Counter(word % BANKS for word in together).values()) for together in words.values())
    return max(conflicts, *found.values())


def tag_bank(line: int) -> int:
    """One of four: the XOR of all pairs of bits."""
    bank = 0
    while line:
        bank ^= line % TAGS_AT_ONCE
        line //= TAGS_AT_ONCE
    return bank


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
