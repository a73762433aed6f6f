"""The stages of L1 and the way to L2, against what ncu counted on an H200."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchmarks.microbenchmarks.patterns import four_rows
from tests.lab.explain.handmade import load, made, row, sample

from warpwise.lab.explain.model import stages
from warpwise.lab.explain.model.metrics import CounterTable


@pytest.mark.parametrize(
    "step, width, passes",
    [
        (4, 4, 1), (0, 4, 1), (1, 1, 1), (8, 8, 2), (16, 16, 4), (128, 4, 32), (4096, 4, 32), (64, 4, 16), (8, 4, 2),
        (256, 8, 32), (256, 16, 32),
    ],
)  # fmt: skip
def test_lines_have_the_banks_of_shared_memory(step: int, width: int, passes: int) -> None:
    assert stages.request_passes((sample(0, step, bytes=width),)) == passes


def test_lines_of_one_tag_bank_are_served_one_after_another() -> None:
    """ncu counts 9.3 wavefronts for a load of k02 of transpose with rows of 16,380 bytes, whose words have 32 banks."""
    assert 8 <= stages.request_passes((sample(0, 16380),)) <= 10
    assert [stages.tag_bank(line) for line in (0, 1, 4, 5, 16, 21, 64)] == [0, 1, 1, 0, 1, 1, 1]


# Wavefronts that ncu counts on an H200, per request, of loads of four rows whose distance is in bytes: lane (g, t)
# reads vector g ^ 2 t of row t, or vector g.
@pytest.mark.parametrize(
    "distance, width, turns, wavefronts",
    [
        (128, 16, False, 16), (128, 16, True, 4), (144, 16, False, 11.8), (160, 16, False, 7.1), (160, 16, True, 13.6),
        (192, 16, False, 11.75), (192, 16, True, 7.7), (208, 16, False, 9.7), (64, 8, False, 4), (96, 8, False, 2.3),
        (192, 8, False, 6),
    ],
)  # fmt: skip
def test_wavefronts_of_rows(distance: int, width: int, turns: bool, wavefronts: float) -> None:
    total, offsets = 0.0, four_rows(width)[f"rows_{distance}{'_exchanged' if turns else ''}"]
    for first in range(0, 128, 4):
        places = tuple(distance * first + offset for offset in offsets)
        total += stages.request_passes((replace(sample(0, 0, bytes=width), addresses=places),))
    assert total / 32 == pytest.approx(wavefronts, rel=0.05)


def test_requests_whose_addresses_are_unknown_take_one_pass() -> None:
    assert stages.request_passes(()) == 1
    assert stages.request_passes((sample(0, 128, lanes=0),)) == 1


def test_four_lines_are_looked_up_at_a_time() -> None:
    table = CounterTable(
        made(load("LDG.E", 1, 10, sectors=32, ideal=4, tags=32), load("LDG.E", 2, 10, sectors=4, ideal=4, tags=1))
    )
    assert stages.tag_passes(table) == 10 * 8 + 10


def test_the_data_stage_passes_shared_memory_shuffles_and_lines() -> None:
    counts = made(
        row("LDS", 1, 5, requests=5, wavefronts=40),
        row("SHFL", 1, 7),
        row("S2R", 1, 3),
        load("LDG.E", 2, 10, sectors=4, ideal=4, tags=1),
        samples={3: (sample(3, 128),)},
    )
    assert stages.data_passes(CounterTable(counts)) == (40, 7 + 3 + 320)


@pytest.mark.parametrize(
    "text, sectors, nbytes, tags, packets",
    [
        ("LDG.E", 4, 128, 1, 1),
        ("LDG.E.128", 16, 512, 4, 4),
        ("LDG.E", 32, 128, 32, 32),
        ("STG.E", 4, 128, 1, 4),
        ("STG.E.128", 16, 512, 4, 16),
        ("STG.E", 32, 128, 32, 64),
        ("STG.E", 5, 128, 2, 7),
        ("STG.E", 16, 128, 4, 20),
        ("RED.E.ADD", 4, 128, 1, 8),
    ],
)
def test_packets_to_l2(text: str, sectors: int, nbytes: int, tags: int, packets: float) -> None:
    counts = made(load(text, 1, 100, sectors=sectors, ideal=4, tags=tags, bytes=nbytes))
    assert stages.l2_packets(CounterTable(counts)) == 100 * packets


def test_hits_in_l1_send_nothing() -> None:
    counts = made(load("LDG.E", 1, 100, sectors=4, ideal=4, tags=1, l2_sectors=0, l1_hits=400))
    assert stages.l2_packets(CounterTable(counts)) == 0
