"""Programs that wait for other programs: flags, locks, grid barriers, and waits that do not end."""

from __future__ import annotations

import pytest
import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.cuda import DataRace, KernelTimeout, OutOfBounds


@wt.jit
def chain(x_ptr, flag_ptr, REVERSED: tl.constexpr, SEM: tl.constexpr):
    """A running sum over programs; each waits for its neighbour."""
    program, last = tl.program_id(0), tl.num_programs(0) - 1
    place = last - program if REVERSED else program
    before = 0
    if place > 0:
        neighbour = program + 1 if REVERSED else program - 1
        while tl.atomic_add(flag_ptr + neighbour, 0, sem=SEM) == 0:
            pass
        before = tl.load(x_ptr + neighbour)
    tl.store(x_ptr + program, before + 1)
    tl.atomic_xchg(flag_ptr + program, 1, sem="release")


@pytest.mark.parametrize("reversed", [False, True])
@pytest.mark.parametrize("programs", [2, 20])
def test_programs_that_wait_for_a_neighbour(programs: int, reversed: bool) -> None:
    x, flags = torch.zeros(programs, dtype=torch.int32), torch.zeros(programs, dtype=torch.int32)
    assert chain[programs].check(x, flags, reversed, "acquire") == []
    order = list(range(1, programs + 1))
    assert x.tolist() == (order[::-1] if reversed else order)


@pytest.mark.parametrize("reversed", [False, True])
def test_a_relaxed_wait_orders_nothing(reversed: bool) -> None:
    x, flags = torch.zeros(8, dtype=torch.int32), torch.zeros(8, dtype=torch.int32)
    findings = chain[8].check(x, flags, reversed, "relaxed")
    assert {finding.kind for finding in findings} == {DataRace}


@wt.jit
def rotate(x_ptr, arrived_ptr, rounds):
    """Each program stores, meets the others at a barrier, and takes the value of its neighbour, several times."""
    program, programs = tl.program_id(0), tl.num_programs(0)
    i = 0
    while i < rounds:
        value = tl.load(x_ptr + i % 2 * programs + (program + 1) % programs)
        tl.store(x_ptr + (i + 1) % 2 * programs + program, value)
        i += 1
        tl.atomic_add(arrived_ptr, 1, sem="acq_rel")
        while tl.atomic_add(arrived_ptr, 0, sem="acquire") < i * programs:
            pass


@pytest.mark.parametrize("rounds", [1, 5])
def test_barriers_of_all_programs(rounds: int) -> None:
    x = torch.cat([torch.arange(6), torch.zeros(6, dtype=torch.int64)])
    assert rotate[6].check(x, torch.zeros(1, dtype=torch.int32), rounds) == []
    result = x[6:] if rounds % 2 else x[:6]
    assert result.tolist() == torch.arange(6).roll(-rounds).tolist()


@wt.jit
def after_the_others(x_ptr, count_ptr, n):
    """Program 0 waits for all others; the last one stores out of bounds."""
    program = tl.program_id(0)
    if program == 0:
        while tl.load(count_ptr, volatile=True) < n:
            pass
    else:
        tl.store(x_ptr + program, 1)
        tl.atomic_add(count_ptr, 1)


def test_an_error_in_a_program_that_another_one_waits_for() -> None:
    with pytest.raises(OutOfBounds, match=r"program \(3, 0, 0\): write of x_ptr\[3\]") as caught:
        after_the_others[4](torch.zeros(3, dtype=torch.int32), torch.zeros(1, dtype=torch.int32), 3)
    assert "tl.store(x_ptr + program, 1)" in str(caught.value)


def test_a_wait_that_does_not_end() -> None:
    with pytest.raises(KernelTimeout, match="program .*: still running after 0.2 s.* waits for a value"):
        after_the_others[4](torch.zeros(4, dtype=torch.int32), torch.zeros(1, dtype=torch.int32), 4, timeout=0.2)


@wt.jit
def bounded_spin(flag_ptr, y_ptr, limit):
    tries = 0
    while (tl.load(flag_ptr, volatile=True) == 0) & (tries < limit):
        tries += 1
    tl.store(y_ptr + tl.program_id(0), tries)


def test_a_bounded_wait_ends_without_the_value() -> None:
    tries = torch.zeros(3, dtype=torch.int32)
    bounded_spin[3](torch.zeros(1, dtype=torch.int32), tries, 10)
    assert tries.tolist() == [10, 10, 10]
