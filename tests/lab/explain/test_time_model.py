"""The time of each unit, and the time of a kernel that follows from them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.lab.explain.handmade import H200, explained, load, made, row, sample

from warpwise.device import Profile
from warpwise.lab.explain.model.hardware import hardware
from warpwise.lab.explain.model.occupancy import occupancy
from warpwise.lab.explain.model.time_model import combined, imbalance, latency, predict
from warpwise.machine.counts import Buffer

MS = 1e-3


def naive_matmul():
    """1024 x 1024 x 1024, one thread an element, rows first: 32 x 32 blocks, 33 lines looked up a step and warp."""
    steps = 1024 * 1024 // 32 * 1024
    return made(
        load("LDG.E", 16, steps, sectors=32, ideal=4, tags=32, l2_sectors=steps // 8),
        load("LDG.E", 17, steps, sectors=1, ideal=1, tags=1, bytes=4, l2_sectors=steps // 8),
        row("FFMA", 16, steps),
        blocks=1024,
        threads=1024,
        sectors_read=262144,
        sectors_written=131072,
        l2_misses=262144,
        samples={0: (sample(0, 4096),), 1: (sample(1, 0),)},
    )


def test_naive_matmul_is_bound_by_the_data_stage_of_l1() -> None:
    _, prediction, _ = explained(naive_matmul())
    assert prediction.units["L1 data stage"] == pytest.approx(
        4.37 * MS, rel=0.01
    )  # 8 blocks on the busiest SM; ncu measured 4.42 on an H200
    assert prediction.units["L1 tag stage"] == pytest.approx(4.37 * MS * 9 / 33, rel=0.01)
    assert prediction.limiter == prediction.busiest == "L1 data stage"
    assert 4.2 * MS < prediction.time < 4.8 * MS
    demand = prediction.demands["L1 data stage"]
    assert demand.amount == 33 * 1024**3 / 32 and "wavefronts" in str(demand)


def test_a_copy_is_bound_by_dram() -> None:
    n = 2**28
    requests = n * 4 // 512
    counts = made(
        load("LDG.E.128", 3, requests, sectors=16, ideal=16, tags=4, bytes=512),
        load("STG.E.128", 4, requests, sectors=16, ideal=16, tags=4, bytes=512),
        blocks=n // 1024,
        sectors_read=n // 8,
        sectors_written=n // 8,
        l2_misses=n // 8,
    )
    _, prediction, _ = explained(counts)
    assert prediction.limiter == "DRAM"
    assert prediction.floor == pytest.approx(8 * n / H200.dram_bytes_per_s + H200.launch_s)
    assert H200.dram_rate(4, 4) == H200.dram_bytes_per_s == H200.dram_rate(0, 0)
    assert H200.dram_rate(8, 0) == H200.dram_rate(0, 8) == pytest.approx(1.03 * H200.dram_bytes_per_s)
    assert prediction.floor <= prediction.time <= 1.3 * prediction.floor
    assert 0.7 < prediction.utilisation("DRAM") <= 1


@pytest.mark.parametrize(
    "opcode, unit, per_clock",
    [
        ("FFMA", "FMA", 4),
        ("IMAD", "FMA", 2),
        ("LOP3", "ALU", 2),
        ("MUFU", "SFU (XU)", 0.5),
        ("DFMA", "FP64", 2),
        ("S2R", "LSU issue", 1),
    ],
)
def test_instructions_take_their_pipe(opcode: str, unit: str, per_clock: float) -> None:
    _, prediction, _ = explained(made(row(opcode, 1, 132_000_000)))
    assert prediction.units[unit] == pytest.approx(1e6 / per_clock / H200.clock_hz)
    assert prediction.busiest in (unit, "issue slots", "L1 data stage")


def test_matrix_instructions_count_flops() -> None:
    _, prediction, _ = explained(made(row("HMMA.16816.F32.BF16", 1, 132_000_000)))
    assert prediction.demands["tensor"].amount == 4096 * 132e6
    assert prediction.units["tensor"] == pytest.approx(1e6 / H200.clock_hz)


def test_a_warpgroups_product_counts_once_for_its_four_warps() -> None:
    _, prediction, _ = explained(made(row("HGMMA.64x64x16.F32.BF16", 1, 4)))
    assert prediction.demands["tensor"].amount == 2 * 64 * 64 * 16


def test_one_block_keeps_one_multiprocessor_busy() -> None:
    assert imbalance(1, 132) == 132 and imbalance(132, 132) == 1 and imbalance(133, 132) == pytest.approx(264 / 133)
    _, alone, _ = explained(made(row("FFMA", 1, 1_000_000), blocks=1))
    _, spread, _ = explained(made(row("FFMA", 1, 1_000_000), blocks=132))
    assert alone.units["FMA"] == pytest.approx(132 * spread.units["FMA"])


def test_latency_counts_rounds_of_blocks() -> None:
    fits = occupancy("sm_90", 256, 32)
    one = made(row("FFMA", 1, 1), blocks=132, cycles=1000)
    per_round = (1000 + H200.block_cycles) / H200.clock_hz
    assert latency(one, fits, H200) == pytest.approx(per_round)
    assert latency(replace(one, blocks=132 * 8), fits, H200) == pytest.approx(per_round)
    assert latency(replace(one, blocks=132 * 8 + 1), fits, H200) == pytest.approx(2 * per_round)
    assert latency(replace(one, blocks=132 * 80), fits, H200) == pytest.approx(10 * per_round)
    assert latency(replace(one, blocks=132 * 80), occupancy("sm_90", 256, 128), H200) == pytest.approx(40 * per_round)


def test_additions_to_one_address_wait_for_each_other() -> None:
    def counts(nbytes: int, step: int = 4):
        return made(
            load("RED.E.ADD.STRONG.GPU", 5, 2**20, sectors=4, ideal=4, tags=1, threads_on=2**25),
            samples={0: (sample(0, step),)},
            buffers=(Buffer("bins", 0, nbytes, 4),),
        )

    _, few, _ = explained(counts(128))
    _, many, _ = explained(counts(1 << 20))
    assert few.limiter == "atomics"
    assert few.units["atomics"] == pytest.approx(many.units["atomics"] * H200.l2_slices)
    assert few.units["atomics"] == pytest.approx(4 * 2**20 * 1.25 / H200.l2_clock_hz)  # four sectors a request
    _, one, _ = explained(counts(128, step=0))
    assert one.units["atomics"] == pytest.approx(8 * few.units["atomics"])  # 32 lanes, one word
    assert one.limiter == "atomics" and one.busiest == "L2"  # of whose slices all but one are idle


def test_an_empty_launch_takes_the_launch() -> None:
    _, prediction, found = explained(made(row("EXIT", 1, 32), blocks=1, cycles=0))
    assert prediction.time == pytest.approx(H200.launch_s + H200.block_cycles / H200.clock_hz, rel=0.01)
    assert prediction.limiter == "launch"
    assert "launch overhead" in [hint.title for hint in found]


@given(st.dictionaries(st.sampled_from(["DRAM", "L2", "FMA", "latency", "launch"]), st.floats(1e-9, 1.0), min_size=1))
def test_together_at_least_the_slowest_and_at_most_the_sum(units: dict[str, float]) -> None:
    whole = combined(units)
    assert max(units.values()) * (1 - 1e-9) <= whole <= sum(units.values()) * (1 + 1e-9)


def test_less_of_what_binds_is_faster_and_of_what_does_not_is_not() -> None:
    _, prediction, _ = explained(naive_matmul())
    assert prediction.speedup({"L1 data stage": 0.5}) == pytest.approx(2, rel=0.05)
    assert prediction.speedup({"DRAM": 0.5}) == pytest.approx(1, rel=1e-3)
    assert prediction.scaled({}) == pytest.approx(prediction.time)


@pytest.mark.parametrize("profile", Profile.known(), ids=lambda profile: profile.name)
def test_every_target_has_hardware(profile: Profile) -> None:
    found = hardware(profile)
    assert found.profile == profile and found.source
    assert found.sm_count > 0 and found.clock_hz > 1e9 and found.dram_bytes_per_s > 1e11
    counts = naive_matmul()
    fits = occupancy(profile, 256, 32)
    prediction = predict(counts, fits, found)
    assert prediction.time >= max(prediction.units.values()) and prediction.time >= prediction.floor * 0.99


def test_faster_devices_are_predicted_to_be_faster() -> None:
    fits = {name: occupancy(name, 256, 32) for name in ("sm_75", "sm_80", "sm_90")}
    times = [predict(naive_matmul(), fits[name], hardware(Profile.of(name))).time for name in fits]
    assert times == sorted(times, reverse=True)


def test_unknown_targets_are_named() -> None:
    with pytest.raises(ValueError, match="no profile for target 'sm_61'"):
        hardware("sm_61")
