"""``naive_clock``: what each method of timing measures, on a simulated device whose launches return at once."""

from __future__ import annotations

import pytest

from warpwise.lab.profile import naive_clock

LAUNCH, KERNEL = 5e-6, 1e-3


class Device:
    """A GPU and a host clock: a launch takes the host 5 µs, the kernel the device 1 ms, and waking up 10 µs."""

    name, max_mhz, l2_bytes, resets_persisting = "fake", None, 0, False

    def __init__(self):
        self.now = self.busy_until = 0.0

    def clock(self):
        return self.now

    def launch(self):
        self.now += LAUNCH
        self.busy_until = max(self.now, self.busy_until) + KERNEL

    def synchronize(self):
        self.now = max(self.now, self.busy_until) + 10e-6

    def event(self):
        return Mark(self)


class Mark:
    def __init__(self, device):
        self.device, self.at = device, 0.0

    def record(self):
        self.device.now += 1e-6
        self.at = self.device.busy_until = max(self.device.now, self.device.busy_until)

    def synchronize(self):
        self.device.synchronize()

    def elapsed_time(self, end):
        return (end.at - self.at) * 1e3


class Lab:
    """A timer that finds the kernel's own time."""

    place, method, max_mhz, cache_bytes = "fake", "events", None, 0

    @staticmethod
    def clock():
        return 0.0

    def prepare(self, call):
        call()

    def sample(self, call):
        from warpwise.lab.timing.samples import Reading

        return Reading(KERNEL)

    def finish(self):
        pass


def test_on_a_gpu_each_way_gives_what_it_holds():
    device = Device()
    result = naive_clock(device.launch, device="cpu", gpu=device, clock=device.clock, timer=Lab(), repeats=50)
    seconds = {reading.method: reading.seconds for reading in result.readings}
    assert seconds["time.time, not synchronised"] == pytest.approx(LAUNCH)
    assert seconds["time.time, synchronised after each call"] == pytest.approx(LAUNCH + KERNEL + 10e-6)
    assert seconds["time.time, synchronised once after 50 calls"] == pytest.approx(KERNEL, rel=0.01)
    assert seconds["CUDA events around one call"] == pytest.approx(KERNEL + LAUNCH, rel=0.01)
    assert result.lab.seconds == KERNEL
    assert result.remark == ""
    assert [result.off(reading) for reading in result.readings[1:3]] == ["0.005 ×", "the same"]


def test_on_a_cpu_it_shows_what_it_can_and_says_what_it_cannot():
    result = naive_clock(lambda: sum(range(200)), device="cpu", timer=Lab(), name="sum", repeats=10)
    assert "On a CPU a call is synchronous" in str(result)
    assert "time.time, the first call" in result._repr_html_()
    assert not any("synchronised" in reading.method for reading in result.readings)
    assert result.to_json()["readings"][-1]["times_lab"] == 1
    assert all(reading.seconds >= 0 for reading in result.readings)


def test_a_median_needs_more_than_one_call():
    with pytest.raises(ValueError, match="repeats of at least 2, got 1"):
        naive_clock(sum, [1], repeats=1)
