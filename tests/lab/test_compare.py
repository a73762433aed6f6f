"""The timing loop: turns, stopping, voiding; with samples that the test wrote."""

from __future__ import annotations

import math
import random

import pytest
import torch
from tests.lab.fakes import FakeTimer, Ticks

from warpwise.lab import ImpossibleTime, MeasurementError, Roofline, WrongAfterTiming, ratio, time
from warpwise.lab.timing.compare import ENOUGH, FEWEST, Rules, measure, timer_for
from warpwise.lab.timing.samples import Reading
from warpwise.lab.timing.timing import duration
from warpwise.operation import Cost


def first() -> str:
    return "first's result"


def second() -> str:
    return "second's result"


PATIENT = Rules(0.005, 1e9)
CALLS = {"first": first, "second": second}


def noisy(around: float, spread: float, seed: int, count: int = 4000) -> list[float | Reading]:
    drawn = random.Random(seed)
    return [around * (1 + spread * drawn.uniform(-1, 1)) for _ in range(count)]


def test_steady_samples_stop_as_soon_as_there_are_enough():
    timer = FakeTimer(first=[2.0], second=[1.0])
    found = measure(CALLS, timer, PATIENT, clock=Ticks(0.1))
    assert found["first"].samples == ENOUGH
    assert found["first"].median == found["first"].low == found["first"].high == 2.0
    assert found["first"].converged
    assert timer.prepared == ["first", "second"]
    assert timer.finished


def test_noisy_samples_go_on_until_the_interval_is_narrow():
    found = measure(CALLS, FakeTimer(first=noisy(1.0, 0.1, 1), second=[1.0]), PATIENT, clock=Ticks(0.1))
    noisy_one, steady = found["first"], found["second"]
    assert noisy_one.samples > 5 * ENOUGH
    assert (noisy_one.high - noisy_one.low) / 2 / noisy_one.median <= 0.005
    assert noisy_one.low <= 1.0 <= noisy_one.high
    assert steady.samples == ENOUGH


def test_the_budget_ends_it_and_the_timing_says_so():
    found = measure(CALLS, FakeTimer(first=noisy(1.0, 0.9, 1), second=[1.0]), Rules(1e-6, 100.0), clock=Ticks(1.0))
    assert not found["first"].converged
    assert found["first"].samples < 30


def test_a_spent_budget_still_gives_three_rounds():
    found = measure(CALLS, FakeTimer(first=[1.0], second=[1.0]), Rules(0.005, 1e-9), clock=Ticks(1.0))
    assert found["first"].samples == FEWEST


def test_a_slow_call_leaves_after_its_share_so_that_a_fast_one_can_go_on():
    clock = Ticks(0.0)

    class Slow(FakeTimer):
        def sample(self, call):
            clock.now += 10.0 if call is first else 0.01
            return super().sample(call)

    timer = Slow(first=noisy(10.0, 0.3, 1), second=noisy(0.01, 0.05, 2))
    found = measure(CALLS, timer, Rules(0.005, 100.0), clock=clock)
    assert found["first"].samples == 6
    assert not found["first"].converged
    assert found["second"].samples > ENOUGH
    assert found["second"].converged
    assert ratio(found["first"], found["second"]).median == pytest.approx(1000, rel=0.3)


def test_contestants_take_turns_in_random_order():
    timer = FakeTimer(first=[2.0], second=[1.0])
    measure(CALLS, timer, PATIENT, clock=Ticks(0.1))
    rounds = [tuple(timer.log[start : start + 2]) for start in range(0, len(timer.log), 2)]
    assert all(sorted(pair) == ["first", "second"] for pair in rounds)
    assert set(rounds) == {("first", "second"), ("second", "first")}


def test_the_order_comes_from_the_seed():
    logs = []
    for seed in (1, 1, 2):
        timer = FakeTimer(first=[2.0], second=[1.0])
        measure(CALLS, timer, PATIENT, seed=seed, clock=Ticks(0.1))
        logs.append(timer.log)
    assert logs[0] == logs[1] != logs[2]


def test_a_ratio_uses_the_rounds_of_both():
    drift: list[float | Reading] = [1 + step / 100 for step in range(200)]
    timer = FakeTimer(first=[3 * float(value) for value in drift], second=drift)  # type: ignore[arg-type]
    found = measure(CALLS, timer, PATIENT, clock=Ticks(10.0))
    beside = ratio(found["first"], found["second"])
    assert beside.median == pytest.approx(3.0)
    assert beside.high - beside.low < 1e-6


def test_cost_and_ceilings_give_rates_floor_and_percent():
    ceilings = Roofline(bandwidth=4e12, flops=50e12)
    found = measure(
        CALLS, FakeTimer(first=[2e-3], second=[1e-3]), PATIENT, Cost(4 * 10**9, 10**9), ceilings, clock=Ticks(0.1)
    )
    timing = found["first"]
    assert timing.floor == pytest.approx(1e-3)
    assert timing.percent == pytest.approx(50.0)
    assert timing.gbps == pytest.approx(2000.0)
    assert timing.tflops == pytest.approx(0.5)
    assert timing.bound == "memory"
    assert str(timing) == "first: 2 ms (2 ms to 2 ms, 20 samples), 2000 GB/s, 50.0 % of the ceiling on Fake GPU"
    compute = measure({"first": first}, FakeTimer(first=[2e-3]), PATIENT, Cost(1, 10**11), ceilings, clock=Ticks(0.1))[
        "first"
    ]
    assert compute.bound == "compute"
    assert "50 TFLOP/s, 100.0 % of the ceiling" in str(compute)


def test_an_impossible_time_is_void():
    ceilings = Roofline(4e12, 0.0, peak_bandwidth=4.8e12, cache_bytes=10**8)
    cost = Cost(48 * 10**8)
    found = measure(CALLS, FakeTimer(first=[0.5e-3], second=[1.1e-3]), PATIENT, cost, ceilings, clock=Ticks(0.1))
    assert "impossible: 500 µs, but the hardware needs at least 930.2 µs" in found["first"].void
    assert math.isnan(found["first"].median)
    assert found["first"].gbps is None
    assert str(found["first"]).startswith("first: void: impossible")
    assert not found["second"].void
    with pytest.raises(ValueError, match="first has no time"):
        ratio(found["second"], found["first"])


def test_too_many_flops_are_impossible_too():
    ceilings = Roofline(peak_flops=66.9e12)
    found = measure({"first": first}, FakeTimer(first=[1e-3]), PATIENT, Cost(0, 10**12), ceilings, clock=Ticks(0.1))
    assert "impossible" in found["first"].void


def test_what_stays_in_the_cache_is_not_impossible():
    ceilings = Roofline(4e12, 0.0, peak_bandwidth=4.8e12, cache_bytes=10**8)
    found = measure({"first": first}, FakeTimer(first=[1e-6]), PATIENT, Cost(10**7), ceilings, clock=Ticks(0.1))[
        "first"
    ]
    assert not found.void
    assert found.percent is not None
    assert found.percent > 100


def test_outputs_are_reset_after_the_warm_up_and_checked_after_the_runs():
    events: list[str] = []
    timer = FakeTimer(first=[1.0])

    class Call:
        name, result = "first", "what the last run left"

        def __call__(self) -> None:
            events.append("run")

    def check(name: str, result: object) -> None:
        events.append(f"check {name}: {result}")

    measure({"first": Call()}, timer, PATIENT, check=check, reset=lambda: events.append("reset"), clock=Ticks(0.1))
    assert events[0] == "reset"
    assert events[-1] == "check first: what the last run left"
    assert events.count("run") == ENOUGH


def test_a_failed_check_voids_that_timing_alone():
    timer = FakeTimer(first=[1.0], second=[1.0])
    reasons = {"first": "output[3] is nan", "second": None}
    found = measure(CALLS, timer, PATIENT, check=lambda name, result: reasons[name], clock=Ticks(0.1))
    assert found["first"].void == "wrong after the timed runs: output[3] is nan"
    assert not found["second"].void


def test_clock_and_dropped_samples_are_reported():
    readings: list[float | Reading] = [Reading(1.0, 1900.0), Reading(9.0, 1200.0), Reading(1.0, 1980.0)]
    timer = FakeTimer(first=readings)
    timer.max_mhz = 1980.0
    found = measure({"first": first}, timer, PATIENT, clock=Ticks(0.1))["first"]
    assert found.dropped == {"slow clock": 1}
    assert found.clock is not None
    assert (found.clock.low, found.clock.highest) == (1900.0, 1980.0)
    assert found.high == 1.0


def test_time_of_one_function_gives_one_timing():
    def first(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    class Named(FakeTimer):
        @staticmethod
        def _name(call: object) -> str:
            return "first"

    seen = []
    found = time(first, torch.ones(3), timer=Named(first=[1.0]), check=lambda name, result: seen.append((name, result)))
    assert found.median == 1.0
    assert found.name == "first"
    assert seen[0][0] == "first"
    assert torch.equal(seen[0][1], torch.full((3,), 2.0))


def test_time_of_one_function_raises_what_several_would_only_flag():
    class Named(FakeTimer):
        @staticmethod
        def _name(call: object) -> str:
            return "first"

    with pytest.raises(ImpossibleTime, match="first: impossible"):
        time(first, timer=Named(first=[1e-9]), cost=Cost(10**12), ceilings=Roofline(peak_bandwidth=4e12), device="cpu")
    with pytest.raises(WrongAfterTiming, match="the sum is off"):
        time(first, timer=Named(first=[1.0]), check=lambda name, result: "the sum is off", device="cpu")


def test_time_on_a_cpu_says_cpu():
    found = time({"add": torch.add, "mul": torch.mul}, torch.ones(10), torch.ones(10), budget_s=0.02)
    assert set(found) == {"add", "mul"}
    assert all(timing.place.startswith("cpu: ") for timing in found.values())
    assert "on cpu: " in str(found["add"])
    assert found["add"].method == "perf_counter, caches warm"


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="budget_s and precision above 0"):
        time(first, budget_s=0)
    with pytest.raises(ValueError, match="at least one function"):
        time({})
    with pytest.raises(MeasurementError, match="cuda or cpu device, got meta"):
        timer_for(torch.device("meta"))


@pytest.mark.parametrize(
    "seconds,text", [(1.5, "1.5 s"), (0.0123456, "12.35 ms"), (7.89e-6, "7.89 µs"), (5e-8, "0.05 µs")]
)
def test_durations_have_their_unit(seconds, text):
    assert duration(seconds) == text


def test_an_unknown_mode_is_an_error() -> None:
    with pytest.raises(ValueError, match="expected mode to be 'events' or 'graph', got 'graphs'"):
        time(lambda: None, device="cpu", mode="graphs")
