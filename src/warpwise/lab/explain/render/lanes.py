"""The layout of a warp's request: lanes by sector of global memory, or by bank and wavefront of shared memory."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from warpwise.lab.explain.model.explanation import Explanation, Line
from warpwise.lab.explain.model.source_lines import LOCAL, SHARED

if TYPE_CHECKING:
    from warpwise.machine.counts import Buffer, Counts, Sample

WORD, SECTOR, LINE, BANKS, LANES = 4, 32, 128, 32, 32
WORDS = LINE // WORD


@dataclass(frozen=True)
class MemoryRow:
    """A 128-byte line of memory, or a wavefront: the lanes that access each of its 32 words or banks."""

    label: str
    cells: tuple[tuple[int, ...], ...]
    address: int = 0

    @property
    def sectors(self) -> tuple[bool, ...]:
        """True for each of the line's four sectors that is accessed."""
        return tuple(any(self.cells[first : first + 8]) for first in range(0, WORDS, 8))


@dataclass(frozen=True)
class Request:
    """The lanes of one request. ``kind`` is "global", "shared" or "local"; ``cost`` counts sectors or wavefronts.

    ``ideal`` is the least cost for the same bytes. ``rows`` are lines of memory in order of address, or wavefronts in
    order. ``lanes`` gives the address of each active lane as text. ``requests`` are those of all ``alike`` instructions
    together; ``counted`` is the cost that ``rows`` show.
    """

    instruction: int
    text: str
    kind: str
    action: str
    bytes: int
    active: int
    cost: int
    ideal: int
    requests: int
    rows: tuple[MemoryRow, ...]
    lanes: tuple[tuple[int, str], ...]
    where: str = ""
    block: tuple[int, int, int] = (0, 0, 0)
    warp: int = 0
    pattern: str = ""
    counted: int = 0
    alike: int = 1

    @property
    def unit(self) -> str:
        return "wavefront" if self.kind == "shared" else "sector"

    @property
    def factor(self) -> float:
        """The cost over the ideal cost."""
        return self.cost / self.ideal if self.ideal else 1.0


def requests(explanation: Explanation, line: Line) -> list[Request]:
    """The worst request of each memory instruction of ``line``, by excess cost; equal instructions are merged."""
    counts = explanation.counts
    if counts is None:
        return []
    alike: dict[object, list[Request]] = {}
    for index in line.instructions:
        if samples := counts.samples.get(index, ()):
            one = _of_instruction(counts, index, samples)
            alike.setdefault((one.kind, one.action, one.where, one.bytes, one.cost, one.pattern), []).append(one)
    found = [replace(same[0], requests=sum(one.requests for one in same), alike=len(same)) for same in alike.values()]
    return sorted(found, key=lambda one: (one.cost - one.ideal) * one.requests, reverse=True)


def _of_instruction(counts: Counts, index: int, samples: Sequence[Sample]) -> Request:
    if counts.program.instructions[index].opcode in SHARED:
        return shared_request(counts, max(samples, key=lambda sample: sample.wavefronts))
    return global_request(counts, max(samples, key=lambda sample: sample.sectors))


def _active(sample: Sample) -> list[tuple[int, int]]:
    """Lane and address of every active lane."""
    return [(lane, sample.addresses[lane]) for lane in range(LANES) if sample.lanes >> lane & 1]


def global_request(counts: Counts, sample: Sample) -> Request:
    """The 128-byte lines that a request accesses, each with four sectors of eight words, and the lanes at each word."""
    instruction = counts.program.instructions[sample.instruction]
    active = _active(sample)
    local = instruction.opcode in LOCAL
    # Local memory is interleaved: the 4-byte words of the 32 lanes at one local address are consecutive.
    places = [(lane, (address // WORD * LANES + lane) * WORD if local else address) for lane, address in active]
    stride = LANES * WORD if local else WORD
    words = {lane: _words(address, sample.bytes, stride) for lane, address in places}
    buffer = None if local else next((one for one in counts.buffers if _holds(one, active)), None)
    name, start, element = (buffer.name, buffer.address, buffer.element_bytes) if buffer else ("", 0, 1)
    touched: dict[int, list[list[int]]] = {}
    for lane, _ in places:
        for byte in words[lane]:
            row = touched.setdefault(byte // LINE * LINE, [[] for _ in range(WORDS)])
            row[byte % LINE // WORD].append(lane)
    rows = tuple(
        MemoryRow(_place(name, address - start, element, local), tuple(tuple(cell) for cell in cells), address)
        for address, cells in sorted(touched.items())
    )
    distinct = (
        {byte for each in words.values() for word in each for byte in range(word, word + min(WORD, sample.bytes))}
        if local
        else {byte for _, address in places for byte in range(address, address + sample.bytes)}
    )
    lanes = tuple((lane, _place(name, address - start, element, local)) for lane, address in active)
    return Request(
        sample.instruction,
        instruction.text,
        "local" if local else "global",
        _action(instruction.opcode),
        sample.bytes,
        len(active),
        sample.sectors,
        -(-len(distinct) // SECTOR),
        _requests(counts, sample.instruction),
        rows,
        lanes,
        name,
        sample.block,
        sample.warp,
        _pattern([address for _, address in places], min(WORD, sample.bytes) if local else sample.bytes, element),
        sum(sum(row.sectors) for row in rows),
    )


def _words(address: int, size: int, stride: int) -> range:
    """The addresses of the 4-byte words that hold ``size`` bytes from ``address`` on, ``stride`` bytes apart."""
    first = address - address % WORD
    return range(first, first + -(-(address - first + size) // WORD) * stride, stride)


def shared_request(counts: Counts, sample: Sample) -> Request:
    """The 32 banks, one row per wavefront: different words of one bank are in different wavefronts.

    8-byte accesses are served by half warps and 16-byte accesses by quarter warps, two of them together if each lane
    accesses the same address as its neighbour or as the lane two further.
    """
    instruction = counts.program.instructions[sample.instruction]
    active, action = _active(sample), _action(instruction.opcode)
    rows: list[MemoryRow] = []
    for together in _groups(active, max(sample.bytes, WORD)):
        for cells in _wavefronts(together, max(sample.bytes, WORD), action != "atomic"):
            rows.append(MemoryRow(f"wavefront {len(rows) + 1}", cells))
    lanes = tuple((lane, f"byte {address}, bank {address // WORD % BANKS}") for lane, address in active)
    return Request(
        sample.instruction,
        instruction.text,
        "shared",
        action,
        sample.bytes,
        len(active),
        sample.wavefronts,
        _ideal_wavefronts(counts, sample),
        _requests(counts, sample.instruction),
        tuple(rows),
        lanes,
        "shared memory",
        sample.block,
        sample.warp,
        _pattern([address for _, address in active], sample.bytes, 1),
        len(rows),
    )


def _groups(active: Sequence[tuple[int, int]], width: int) -> Iterator[list[tuple[int, int]]]:
    """The lanes that are served together."""
    size = LANES * WORD // width
    pair = min(2 * size, LANES)
    for first in range(0, LANES, pair):
        together = [(lane, address) for lane, address in active if first <= lane < first + pair]
        halves = [
            [one for one in together if one[0] < first + size],
            [one for one in together if one[0] >= first + size],
        ]
        if pair == size or not all(halves) or _partners_agree(together, 1) or _partners_agree(together, 2):
            yield together
        else:
            yield from halves


def _partners_agree(together: Sequence[tuple[int, int]], distance: int) -> bool:
    by_lane = dict(together)
    return all(by_lane.get(lane ^ distance, address) == address for lane, address in together)


def _wavefronts(
    together: Sequence[tuple[int, int]], width: int, words_join: bool
) -> Iterator[tuple[tuple[int, ...], ...]]:
    """The lanes at every bank, by pass: each group of banks of ``width`` bytes delivers one unit per pass."""
    places: dict[int, dict[int, list[int]]] = {}
    for lane, address in together:
        unit = address // width
        waiting = places.setdefault(unit % (LINE // width), {})
        waiting.setdefault(unit if words_join else lane, []).append(lane)
    for layer in range(max((len(waiting) for waiting in places.values()), default=0)):
        cells: list[tuple[int, ...]] = [()] * BANKS
        for place, waiting in places.items():
            if layer < len(waiting):
                for word in range(width // WORD):
                    cells[place * width // WORD + word] = tuple(list(waiting.values())[layer])
        yield tuple(cells)


def _ideal_wavefronts(counts: Counts, sample: Sample) -> int:
    """The ideal wavefronts of a request: the instruction's mean."""
    requests = _requests(counts, sample.instruction)
    ideal = int(counts.column("ideal_wavefronts")[sample.instruction])
    return max(1, round(ideal / requests)) if requests else 1


def _requests(counts: Counts, index: int) -> int:
    return int(counts.column("requests")[index])


def _holds(buffer: Buffer, active: Sequence[tuple[int, int]]) -> bool:
    return bool(active) and buffer.address <= active[0][1] < buffer.address + max(buffer.nbytes, 1)


def _place(name: str, offset: int, element: int, local: bool) -> str:
    """``x[1024]``, or a byte offset if the element size is unknown."""
    if local:
        return f"local word {offset // (LANES * WORD)}"
    if not name:
        return f"{offset:#x}"
    element = max(element, 1)
    index, rest = divmod(offset, element)
    return f"{name}[{index:,}]" + (f"+{rest}" if rest else "")


def _action(opcode: str) -> str:
    if opcode.startswith(("LD", "UBLK")):
        return "copy" if opcode in ("LDGSTS", "UBLKCP") else "load"
    return "store" if opcode.startswith("ST") else "atomic"


def _pattern(addresses: Sequence[int], size: int, element: int) -> str:
    """The access pattern as text: consecutive, strided or irregular."""
    if not addresses:
        return "no lane is active"
    steps = Counter(after - before for before, after in itertools.pairwise(addresses))
    if len(addresses) == 1:
        return "one lane"
    if set(steps) == {0}:
        return "all lanes access one address"
    if set(steps) == {size}:
        return "neighbouring lanes access neighbouring addresses"
    if len(steps) == 1:
        return f"each lane is {_bytes(next(iter(steps)), element)} from the previous lane"
    for period in (2, 4, 8, 16):
        if len(addresses) == LANES and all(addresses[lane] == addresses[lane % period] for lane in range(LANES)):
            return f"lanes repeat after {period}: {_pattern(addresses[:period], size, element)}"
    if len(steps) == 2:
        (inner, _), (outer, _) = steps.most_common()
        if inner == 0:
            return f"groups of lanes share an address, {_bytes(outer, element)} apart"
        return f"lanes step by {_bytes(inner, element)}, with jumps of {_bytes(outer, element)} between groups"
    return "lanes access addresses without a common stride"


def _bytes(step: int, element: int) -> str:
    if element > 1 and step % element == 0:
        count = step // element
        return f"{count:,} elements" if abs(count) != 1 else f"{count} element"
    return f"{step:,} bytes"
