"""Each rule with counts to which it applies, and with counts to which it does not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchmarks.microbenchmarks.patterns import four_rows
from tests.lab.explain.handmade import SOMETIMES, Row, explained, load, made, row, sample
from tests.lab.explain.test_time_model import naive_matmul

from warpwise.lab.explain.hints.hint import Hint, stride
from warpwise.machine.counts import Buffer, Sample


def titled(found: list[Hint], title: str) -> Hint | None:
    matching = [hint for hint in found if hint.title == title]
    return matching[0] if matching else None


def titles(found: list[Hint]) -> set[str]:
    return {hint.title for hint in found}


def test_uncoalesced_loads_name_the_line_the_stride_and_the_gain() -> None:
    counts = naive_matmul()
    counts.samples[0] = (sample(0, 4096),)
    _, _, found = explained(counts)
    first = found[0]
    assert (first.title, first.kind, first.file, first.line) == ("uncoalesced loads", "OPT", "kernel.cu", 16)
    assert "touches 32.0 sectors where 4.0 would hold its bytes" in first.text and "4,096 bytes apart" in first.text
    assert first.metric == "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum" and first.value == 32 * 1024**3 / 32
    assert first.speedup is not None and 3 < first.speedup < 30
    assert "kernel.cu:16" in str(first) and "estimated" in str(first)


def test_broadcast_and_dense_accesses_are_coalesced() -> None:
    counts = made(
        load("LDG.E", 3, 10**6, sectors=1, ideal=1, tags=1, bytes=4),
        load("LDG.E", 4, 10**6, sectors=4, ideal=4, tags=1),
        load("LDG.E", 5, 10**6, sectors=5, ideal=4, tags=2),
        sectors_read=5 * 10**6,
    )
    assert not {"uncoalesced loads", "uncoalesced stores"} & titles(explained(counts)[2])


def rows(name: str) -> Sample:
    return replace(sample(0, 16, bytes=16), addresses=tuple(four_rows(16)[name]))


def test_bank_conflicts_of_rows_that_fill_their_sectors() -> None:
    """As rows of q of 64 domains in potts_em_step. On an H200 ncu counts 16 wavefronts; 4 with exchanged vectors."""
    row_loads = load("LDG.E.128", 9, 10**6, sectors=16, ideal=16, tags=4, bytes=512)
    found = explained(made(row_loads, samples={0: (rows("rows_128"),)}))[2]
    hint = titled(found, "bank conflicts of global loads")
    assert hint is not None and hint.line == 9 and "takes 16.0 wavefronts of L1 where 4.0 would" in hint.text
    assert hint.speedup is not None and hint.speedup > 1.5 and "uncoalesced loads" not in titles(found)
    turned = made(row_loads, samples={0: (rows("rows_128_exchanged"),)})
    assert "bank conflicts of global loads" not in titles(explained(turned)[2])


def test_uncoalesced_stores() -> None:
    counts = made(load("STG.E", 9, 10**6, sectors=32, ideal=4, tags=32), sectors_written=4 * 10**6)
    hint = titled(explained(counts)[2], "uncoalesced stores")
    assert hint is not None and hint.line == 9 and hint.kind == "OPT"


def test_lanes_side_by_side_that_touch_too_much_are_not_told_to_stand_side_by_side() -> None:
    counts = made(
        load("STG.E", 9, 10**6, sectors=8, ideal=4, tags=8),
        sectors_written=4 * 10**6,
        samples={0: (sample(0, 4),)},
    )
    hint = titled(explained(counts)[2], "uncoalesced stores")
    assert (
        hint is not None and "4 bytes apart" in hint.text and "divergent" in hint.idea and "threadIdx" not in hint.idea
    )


def test_the_hint_for_data_read_again_is_shared_memory() -> None:
    hint = titled(explained(naive_matmul())[2], "repeated loads of the same data")
    assert hint is not None and hint.line == 16 and "fetched 640 times" in hint.text
    once = made(load("LDG.E", 3, 10**6, sectors=4, ideal=4, tags=1), sectors_read=4 * 10**6)
    assert titled(explained(once)[2], "repeated loads of the same data") is None


def test_narrow_accesses_ask_for_vectors() -> None:
    def elementwise(text: str, width: int):
        requests = 2**28 // 32 * 4 // width
        tags, sectors = max(1, width // 4), width
        return made(
            load(text, 3, requests, sectors=sectors, ideal=sectors, tags=tags, bytes=32 * width),
            load(text.replace("LDG", "STG"), 4, requests, sectors=sectors, ideal=sectors, tags=tags, bytes=32 * width),
            blocks=2**28 * 4 // width // 256,
            cycles=1200.0,
            sectors_read=2**25,
            sectors_written=2**25,
            l2_misses=2**25,
        )

    hint = titled(explained(elementwise("LDG.E", 4))[2], "narrow accesses")
    assert hint is not None and hint.kind == "OPT" and "4 bytes per lane" in hint.text and hint.line in (3, 4)
    assert hint.speedup is not None and 1.1 < hint.speedup < 4
    assert titled(explained(elementwise("LDG.E.128", 16))[2], "narrow accesses") is None


def test_a_few_narrow_accesses_among_wide_ones_gain_nothing() -> None:
    counts = made(
        load("STG.E", 9, 256, sectors=4, ideal=4, tags=1),
        load("LDG.E.128", 3, 90_000, sectors=16, ideal=16, tags=4, bytes=512),
        blocks=132 * 8,
        cycles=30_000.0,
        sectors_read=16 * 90_000,
        sectors_written=1024,
    )
    assert titled(explained(counts)[2], "narrow accesses") is None


def test_spills_and_local_arrays() -> None:
    rows = (load("LDL", 6, 10**6, sectors=4, ideal=4, tags=1), load("STL", 7, 10**5, sectors=4, ideal=4, tags=1))
    spilled = titled(explained(made(*rows, spill_stores=16))[2], "spilled registers")
    assert spilled is not None and spilled.line == 6 and "1,100,000 requests" in spilled.text
    array = titled(explained(made(*rows))[2], "local memory")
    assert array is not None and "Unroll" in array.idea
    called = titled(explained(made(*rows, row("CALL.REL.NOINC", 6, 10)))[2], "stack")
    assert called is not None and "Inline the function" in called.idea and "0 bytes" not in called.text


def test_contended_atomics() -> None:
    def counts(nbytes: int):
        return made(
            load("RED.E.ADD", 5, 2**20, sectors=4, ideal=4, tags=1),
            samples={0: (sample(0, 4),)},
            buffers=(Buffer("bins", 0, nbytes, 4),),
        )

    hint = titled(explained(counts(1024))[2], "contended atomics")
    assert hint is not None and hint.kind == "OPT" and "256 addresses" in hint.text and hint.speedup > 2
    assert titled(explained(counts(2**28))[2], "contended atomics") is None


def test_bank_conflicts() -> None:
    counts = made(
        row("LDS", 8, 10**6, requests=10**6, wavefronts=32 * 10**6, ideal_wavefronts=10**6, conflicts=31 * 10**6),
        samples={0: (sample(0, 128),)},
    )
    hint = titled(explained(counts)[2], "bank conflicts")
    assert hint is not None and hint.line == 8 and hint.kind == "OPT"
    assert "32.0 wavefronts where 1.0" in hint.text and "128 bytes apart" in hint.text
    assert hint.speedup is not None and hint.speedup > 5 and "Pad" in hint.idea
    clean = made(row("LDS", 8, 10**6, requests=10**6, wavefronts=10**6, ideal_wavefronts=10**6))
    assert titled(explained(clean)[2], "bank conflicts") is None


def test_crowded_atomics_in_shared_memory() -> None:
    counts = made(row("ATOMS.ADD", 4, 10**6, requests=10**6, wavefronts=20 * 10**6))
    hint = titled(explained(counts)[2], "contended atomics in shared memory")
    assert hint is not None and hint.kind == "OPT" and "20.0 wavefronts" in hint.text


def test_values_from_shared_memory_that_serve_once() -> None:
    counts = made(
        row("LDS", 20, 10**8, requests=10**8, wavefronts=10**8, ideal_wavefronts=10**8), row("FFMA", 20, 10**8)
    )
    hint = titled(explained(counts)[2], "little reuse of values from shared memory")
    assert hint is not None and "1.0 multiply-adds" in hint.text and "registers" in hint.idea


@pytest.mark.parametrize(
    "rows, idle",
    [
        (["BAR.SYNC", "EXIT"], True),
        (["STS", "BAR.SYNC", "LDS", "EXIT"], False),
        (["LDS", "BAR.SYNC", "STS", "EXIT"], False),
        (["LDS", "BAR.SYNC", "LDS", "EXIT"], True),
        (["STS", "BAR.SYNC", "FADD", "EXIT"], True),
        (["STG", "BAR.SYNC", "LDG", "EXIT"], False),
        (["STS", "BAR.SYNC", "LDG.CONSTANT", "EXIT"], True),
        (["LDGSTS", "BAR.SYNC", "HGMMA.64x64x16.F32", "EXIT"], False),
        (["HGMMA.64x64x16.F32", "BAR.SYNC", "LDGSTS", "EXIT"], False),
        (["UTMALDG.2D", "BAR.SYNC", "LDSM", "EXIT"], False),
    ],
)
def test_barriers_that_separate_nothing(rows: list[str], idle: bool) -> None:
    counts = made(*(row(text, 10 + i, 100) for i, text in enumerate(rows)))
    hint = titled(explained(counts)[2], "redundant barrier")
    assert (hint is not None) == idle
    if hint is not None:
        assert hint.line == 10 + rows.index("BAR.SYNC")


def test_a_barrier_at_a_loops_end_separates_its_rounds() -> None:
    loop = [
        row("LDS", 1, 9),
        row("BAR.SYNC", 2, 9),
        row("BRA", 3, 9, to=4, guard=SOMETIMES),
        row("EXIT", 4, 9),
        row("STS", 5, 9),
    ]
    assert titled(explained(made(*loop, row("BRA", 6, 9, to=0)))[2], "redundant barrier") is None
    straight: list[Row] = [*loop[:4], row("NOP", 5, 9), row("BRA", 6, 9, to=0)]
    assert titled(explained(made(*straight))[2], "redundant barrier") is not None
    unknown = [*straight, row("BRX", 7, 9)]
    assert titled(explained(made(*unknown))[2], "redundant barrier") is None


def test_low_occupancy_names_its_cause() -> None:
    counts = made(row("FFMA", 1, 10**6), blocks=132 * 64, cycles=50_000.0, registers=128)
    hint = titled(explained(counts)[2], "low occupancy")
    assert hint is not None and "128 registers per thread" in hint.text and "allow 2 blocks" in hint.text
    assert hint.speedup == pytest.approx(4, rel=0.1) and hint.value == 25 and "__launch_bounds__" in hint.idea
    shared = titled(
        explained(made(row("FFMA", 1, 1), blocks=132 * 64, cycles=5e4), dynamic_shared=100 * 1024)[2], "low occupancy"
    )
    assert shared is not None and "shared memory per block" in shared.text
    assert titled(explained(made(row("FFMA", 1, 1), blocks=132 * 64, cycles=5e4))[2], "low occupancy") is None


def test_partial_waves_and_small_grids() -> None:
    hint = titled(explained(made(row("FFMA", 1, 10**6), blocks=1057, cycles=50_000.0))[2], "partial wave")
    assert hint is not None and "1.00 waves of 1,056" in hint.text and hint.speedup == pytest.approx(2, rel=0.2)
    assert titled(explained(made(row("FFMA", 1, 10**6), blocks=1056, cycles=5e4))[2], "partial wave") is None
    small = titled(explained(made(row("FFMA", 1, 10**8), blocks=4, cycles=50_000.0))[2], "grid too small")
    assert small is not None and "4 blocks leave 128 of 132 SMs idle" in small.text and small.speedup > 10


@pytest.mark.parametrize("blocks,uneven", [(132, False), (528, False), (600, True), (950, True), (951, False)])
def test_blocks_that_need_more_than_half_of_the_places_are_uneven(blocks: int, uneven: bool) -> None:
    hint = titled(explained(made(row("FFMA", 1, 10**8), blocks=blocks, cycles=5e4))[2], "uneven blocks")
    assert (hint is not None) == uneven
    if hint is not None and blocks == 600:
        assert "600 blocks for 1,056 places (8 on each of 132 SMs): 5 blocks per SM would be even" in hint.text
        assert "of which an SM holds 5 blocks, or at least 10" in hint.idea and hint.speedup is None


def test_more_blocks_do_not_shorten_the_path_of_a_warp_without_a_loop() -> None:
    def loads(each_warp: int) -> float:
        row = load("LDG.E", 3, 4 * 8 * each_warp, sectors=4, ideal=4, tags=1)
        hint = titled(explained(made(row, blocks=4, cycles=2000.0))[2], "grid too small")
        assert hint is not None and hint.speedup is not None
        return hint.speedup

    assert loads(1) < 1.01, "the latency of one load stays"
    assert loads(100) > 1.2, "a loop over the data is divided among more warps"


def test_divergence() -> None:
    counts = made(row("FFMA", 3, 10**8), row("FFMA", 7, 10**8, threads=10**8), cycles=1e5)
    hint = titled(explained(counts)[2], "divergent warps")
    assert hint is not None and hint.line == 7 and "16.5 of 32 threads" in hint.text and "1.0 are active" in hint.text
    assert titled(explained(made(row("FFMA", 3, 10**8)))[2], "divergent warps") is None


def test_waiting_names_the_line() -> None:
    counts = made(
        load("LDG.E", 3, 10**5, sectors=4, ideal=4, tags=1, stall_cycles=10**6),
        row("FADD", 4, 10**5, stall_cycles=9 * 10**6),
        blocks=1056 * 100,
        cycles=20_000.0,
        sectors_read=400_000,
    )
    hint = titled(explained(counts)[2], "waiting for memory")
    assert hint is not None and hint.line == 4 and "90 %" in hint.text and hint.kind == "OPT"


def test_integer_division() -> None:
    rows = (
        row("I2F.RP", 5, 10**7),
        row("MUFU.RCP", 5, 10**7),
        row("F2I.FTZ.U32.TRUNC.NTZ", 5, 10**7),
        row("IMAD.HI.U32", 5, 3 * 10**7),
        row("IADD3", 6, 10**7),
    )
    source = {"kernel.cu": ["", "", "", "", "  int row = i / columns;", "j += 1;"]}
    hint = titled(explained(made(*rows), source)[2], "integer division")
    assert hint is not None and hint.line == 5 and hint.speedup is not None and hint.speedup > 2
    for other in ("", '  printf("%d / %d", i, j);', "  f(i);  // i / columns"):
        source["kernel.cu"][4] = other
        assert titled(explained(made(*rows), source)[2], "integer division") is None


def test_double_precision_by_accident() -> None:
    counts = made(row("F2F.F64.F32", 4, 10**7), row("DMUL", 4, 10**8), row("F2F.F32.F64", 4, 10**7))
    hint = titled(explained(counts)[2], "unintended double precision")
    assert hint is not None and hint.line == 4 and "1.0f" in hint.idea


def test_at_the_roof_nothing_is_to_gain() -> None:
    requests = 2**28 * 4 // 512
    counts = made(
        load("LDG.E.128", 3, requests, sectors=16, ideal=16, tags=4, bytes=512),
        load("STG.E.128", 4, requests, sectors=16, ideal=16, tags=4, bytes=512),
        blocks=2**18,
        sectors_read=2**25,
        sectors_written=2**25,
        l2_misses=2**25,
    )
    found = explained(counts)[2]
    roof = titled(found, "near the roofline")
    assert roof is not None and roof.kind == "INF" and "2,147.5 MB" in roof.text
    assert not [hint for hint in found if hint.kind == "OPT"]


def test_a_launch_that_takes_most_of_the_time_is_not_at_the_roof() -> None:
    requests = 2**16 * 4 // 128
    counts = made(
        load("LDG.E", 3, requests, sectors=4, ideal=4, tags=1),
        load("STG.E", 4, requests, sectors=4, ideal=4, tags=1),
        blocks=256,
        cycles=500.0,
        sectors_read=2**13,
        sectors_written=2**13,
        l2_misses=2**13,
    )
    found = explained(counts)[2]
    assert "launch overhead" in titles(found) and "near the roofline" not in titles(found)


def test_the_hint_at_the_arithmetic_roof_is_tensor_cores() -> None:
    hint = titled(explained(made(row("FFMA", 1, 10**10), cycles=1.0))[2], "near the roofline")
    assert hint is not None and "FMA pipe" in hint.text and "Tensor cores" in hint.idea


def test_the_order_is_by_gain_and_information_comes_last() -> None:
    counts = made(
        load("LDG.E", 3, 10**7, sectors=32, ideal=4, tags=32),
        row("LDS", 8, 10**6, requests=10**6, wavefronts=2 * 10**6, ideal_wavefronts=10**6),
        sectors_read=10**7,
    )
    found = explained(counts)[2]
    gains = [hint.speedup for hint in found if hint.kind == "OPT" and hint.speedup is not None]
    assert gains == sorted(gains, reverse=True) and len(gains) >= 1
    kinds = [hint.kind for hint in found]
    assert kinds == sorted(kinds, reverse=True) and titled(found, "bank conflicts").kind == "INF"


def test_stride_of_neighbouring_lanes() -> None:
    assert stride(sample(0, 4096)) == 4096 and stride(sample(0, 0)) == 0
    assert stride(sample(0, 4, lanes=1)) is None and stride(None) is None
    assert stride(sample(0, 8, lanes=0b1111)) == 8
