"""Clusters in machine code: special registers, the barrier, distributed shared memory, multicast, st.async."""

from __future__ import annotations

import pytest
import torch
from tests.cuda.hopper.test_bulk_copies import MULTICAST
from tests.cuda.hopper.test_clusters import EXITS, GROUPS, SOURCE
from tests.machine.launching import agree, machine_run
from tests.sampled import FULL

from warpwise import cuda


def test_the_special_registers_of_a_cluster():
    agree(cuda.load(SOURCE)["places"][(4, 6), 1], (torch.zeros(24, 6, dtype=torch.int32),))


@pytest.mark.parametrize("threads", [64, pytest.param(32, marks=FULL)])
def test_atomics_in_distributed_shared_memory(threads):
    values = torch.randint(0, 32, (1000,), dtype=torch.int32)
    agree(cuda.load(GROUPS)["histogram"][4, threads], (values, torch.zeros(32, dtype=torch.int32), 1000))


def test_remote_stores_complete_at_the_barrier_of_the_other_block():
    agree(cuda.load(MULTICAST)["ring"][8, 32], (torch.zeros(8, 8, 4),))


def test_multicast_loads_for_all_blocks_of_a_cluster():
    x = torch.randn(8, 32)
    agree(
        cuda.load(MULTICAST)["multicast"][8, 32],
        (cuda.tensor_map(x, (1, 32), swizzle=0), torch.zeros(8, 4, 32), 512),
    )


def test_a_ring_that_both_blocks_fill_by_multicast():
    x = torch.randn(6, 64)
    agree(
        cuda.load(SOURCE)["multicast"][2, 64],
        (cuda.tensor_map(x, (1, 32), swizzle=0), torch.zeros(2, 6, 64), 6, 0),
    )


def test_threads_that_arrive_at_the_barrier_and_exit():
    agree(cuda.load(EXITS)["arrive_and_exit"][4, 64], (torch.zeros(4, dtype=torch.int32), 0))


def test_distributed_shared_memory_is_read_and_whole_clusters_are_sampled():
    counts = agree(cuda.load(MULTICAST)["exchange"][6, 32], (torch.randn(6, 32), torch.zeros(6, 32)))
    assert counts.blocks_run == 6
    launcher = cuda.load(MULTICAST)["exchange"][200, 32]
    args = torch.randn(200, 32), torch.zeros(200, 32)
    every, some = machine_run(launcher, args), machine_run(launcher, args, blocks=20)
    assert some.sampled and some.blocks_run % 2 == 0 and some.blocks_run < 40
    assert some.column("executed").sum() == every.column("executed").sum()


def test_a_grid_that_clusters_do_not_divide_is_refused():
    with pytest.raises(ValueError, match="clusters of .* blocks do not divide the grid"):
        machine_run(cuda.load(MULTICAST)["exchange"][3, 32], (torch.zeros(96), torch.zeros(96)))
