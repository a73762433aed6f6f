"""The timers' logic on a fake GPU and a fake clock; no test looks at the wall clock."""

from __future__ import annotations

import math

import pytest
import torch
from tests.lab.fakes import MICRO, FakeGpu, Ticks

from warpwise.lab.timing.cpu_timer import CpuTimer
from warpwise.lab.timing.gpu_timer import GRAPH_REPEATS, LONGEST_SPIN, SPIN, GpuTimer, GraphTimer
from warpwise.lab.timing.rotation import copied, rotated, sets_needed
from warpwise.lab.timing.samples import Reading, keep


def test_a_sample_holds_the_kernel_and_no_launch():
    gpu = FakeGpu()
    timer, call = GpuTimer(gpu), gpu.kernel(3 * MICRO, host=30 * MICRO)
    timer.prepare(call)
    reading = timer.sample(call)
    assert reading.seconds == pytest.approx(3 * MICRO)
    assert not reading.exposed


def test_the_order_in_the_stream_is_reset_spin_spin_flush_kernel():
    gpu = FakeGpu()
    timer, call = GpuTimer(gpu), gpu.kernel(3 * MICRO)
    timer.prepare(call)
    gpu.log.clear()
    timer.sample(call)
    assert gpu.log == ["reset", "spin", "spin", "flush", "kernel"]


def test_a_slow_launch_makes_the_spin_longer_until_it_is_hidden():
    gpu = FakeGpu()
    timer, call = GpuTimer(gpu), gpu.kernel(3 * MICRO, host=900 * MICRO)
    timer.sample(call)
    timer.prepare(call)
    reading = timer.sample(call)
    assert reading.seconds == pytest.approx(3 * MICRO)
    assert not reading.exposed


def test_without_a_spin_the_launch_would_be_in_the_time():
    gpu = FakeGpu()
    reading = GpuTimer(gpu).sample(gpu.kernel(3 * MICRO, host=900 * MICRO))
    assert reading.exposed
    assert reading.seconds > 100 * MICRO


def test_a_call_that_waits_for_the_device_is_marked_and_does_not_spin_for_ever():
    gpu = FakeGpu()
    timer, call = GpuTimer(gpu), gpu.kernel(3 * MICRO, waits=True)
    timer.prepare(call)
    before = gpu.device
    assert timer.sample(call).exposed
    assert gpu.device - before < 2 * SPIN / (gpu.mhz * 1e6)
    assert LONGEST_SPIN > 10 * SPIN


@pytest.mark.parametrize("mhz", [500.0, 1980.0])
def test_the_clock_beside_a_sample_is_measured(mhz):
    gpu = FakeGpu(mhz)
    timer, call = GpuTimer(gpu), gpu.kernel(3 * MICRO)
    timer.prepare(call)
    assert timer.sample(call).mhz == pytest.approx(mhz, rel=0.01)


def test_a_graph_divides_by_its_repeats():
    gpu = FakeGpu()
    gpu.graph_seconds = 2 * MICRO
    timer, call = GraphTimer(gpu), gpu.kernel(2 * MICRO)
    timer.prepare(call)
    assert timer.sample(call).seconds == pytest.approx(2 * MICRO)
    assert str(GRAPH_REPEATS) in timer.method
    assert "L2 warm" in timer.method


def test_the_method_says_whether_persisting_lines_are_reset():
    gpu = FakeGpu()
    assert "persisting lines reset" in GpuTimer(gpu).method
    gpu.resets_persisting = False
    assert "persisting lines not reset" in GpuTimer(gpu).method


def test_a_cpu_sample_averages_as_many_calls_as_the_clock_needs():
    clock, calls = Ticks(1 * MICRO), []
    timer = CpuTimer(clock, "cpu: test")

    def call() -> None:
        calls.append(1)
        clock.now += 2 * MICRO

    timer.prepare(call)
    calls.clear()
    reading = timer.sample(call)
    assert len(calls) == 32
    assert reading.seconds == pytest.approx(2 * MICRO, rel=0.05)
    assert timer.place == "cpu: test"
    assert CpuTimer().place.startswith("cpu: ")


def test_a_long_cpu_call_is_a_sample_by_itself():
    clock, calls = Ticks(1 * MICRO), []

    def call() -> None:
        calls.append(1)
        clock.now += 1.0

    timer = CpuTimer(clock, "cpu: test")
    timer.prepare(call)
    calls.clear()
    assert timer.sample(call).seconds == pytest.approx(1.0, rel=1e-3)
    assert len(calls) == 1


def readings(*mhz, exposed=()):
    return [Reading(1.0 + index, clock, index in exposed) for index, clock in enumerate(mhz)]


def test_samples_at_a_slow_clock_are_dropped_and_counted():
    kept = keep(readings(1980, 1400, 1980, 1900), 1980)
    assert kept.values == [1.0, 3.0, 4.0]
    assert math.isnan(kept.rounds[1])
    assert kept.dropped == {"slow clock": 1}
    assert not kept.throttled


def test_a_clock_that_is_always_slow_is_said_and_nothing_dropped():
    kept = keep(readings(1400, 1380, 1410, 1980), 1980)
    assert len(kept.values) == 4
    assert kept.throttled
    assert kept.dropped == {}


def test_without_a_known_maximum_the_highest_clock_seen_counts():
    assert keep(readings(1000, 1000, 1000, 700), None).dropped == {"slow clock": 1}


def test_samples_with_launch_overhead_are_dropped_where_others_have_none():
    kept = keep(readings(1980, 1980, 1980, exposed=[1]), 1980)
    assert kept.dropped == {"launch overhead": 1}
    assert not kept.exposed
    always = keep(readings(1980, 1980, exposed=[0, 1]), 1980)
    assert always.exposed
    assert len(always.values) == 2


def test_rounds_without_a_sample_count_for_nothing():
    gaps = [Reading(math.nan)] * 10
    kept = keep([*readings(1980, 1400, 1980), *gaps], 1980)
    assert kept.values == [1.0, 3.0]
    assert kept.dropped == {"slow clock": 1}


def test_small_inputs_are_rotated_and_large_ones_are_not():
    import torch

    small = torch.arange(10.0).reshape(2, 5)[:, 1:4]
    assert sets_needed((small, 3), 0) == 1
    assert sets_needed((small, 3), small.nbytes) == 1
    assert sets_needed((small, 3), 4 * small.nbytes) == 8
    assert sets_needed((small, 3), 10**6) == 16
    assert sets_needed((3, 0.5), 10**6) == 1
    sets = rotated((small, 3), 4 * small.nbytes)
    assert len(sets) == 8
    assert sets[0][0] is small
    assert len({values.data_ptr() for values, _ in sets}) == 8
    again = copied(small)
    assert torch.equal(again, small)
    assert (again.stride(), again.storage_offset()) == (small.stride(), small.storage_offset())


def test_tensors_in_lists_are_rotated_too():
    """An optimiser's parameters come as a list: their bytes count, and each set has its own."""
    parameters = [torch.ones(256), torch.ones(256)]
    assert sets_needed((parameters, 0.1), 2048) == 1
    assert sets_needed((parameters, 0.1), 8192) == 8
    first, second = rotated((parameters, 0.1), 2049)[:2]
    assert first[0] is parameters
    assert second[0][1].data_ptr() != parameters[1].data_ptr() and torch.equal(second[0][1], parameters[1])
    assert second[1] == 0.1
