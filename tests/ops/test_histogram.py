"""histogram beyond its cases: skew, values outside all bins, alignment, limits, and the rung chosen within them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sampled import examples

from warpwise import operation, ops

FEW = settings(max_examples=examples(12), deadline=None)
RUNGS = [rung.name for rung in operation.get("histogram").rungs]


@pytest.mark.parametrize("rung", RUNGS)
def test_one_value_throughout(rung):
    counts = ops.histogram(torch.full((70, 100), 255, dtype=torch.uint8), rung=rung)
    assert counts[255].item() == 7000
    assert counts.sum().item() == 7000


@pytest.mark.parametrize("rung", RUNGS)
def test_values_that_are_no_bins_are_not_counted(rung):
    values = torch.tensor([-(2**31), -1, 0, 9, 10, 11, 2**31 - 1], dtype=torch.int32).repeat(50)
    assert ops.histogram(values, 11, rung=rung).tolist() == [50, 0, 0, 0, 0, 0, 0, 0, 0, 50, 50]


@FEW
@given(
    n=st.integers(1, 4000),
    shift=st.integers(0, 17),
    bins=st.integers(1, 300),
    wide=st.booleans(),
    rung=st.sampled_from(["k03_warp_copies", "k04_runs", "k05_lane_copies"]),
)
def test_vector_loads_at_any_length_and_alignment(n, shift, bins, wide, rung):
    values = torch.randint(0, 256, (n + shift,), generator=torch.Generator().manual_seed(n), dtype=torch.uint8)
    values = values.int()[shift:] if wide else values[shift:]
    expected = torch.bincount(values, minlength=bins)[:bins]
    assert torch.equal(ops.histogram(values, bins, rung=rung), expected)


def test_it_is_bincount_on_bytes():
    image = torch.randint(0, 256, (3, 33, 17), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    counts = ops.histogram(image)
    assert counts.dtype == torch.int64
    assert torch.equal(counts, torch.bincount(image.flatten(), minlength=256))
    assert torch.equal(ops.histogram(image.transpose(0, 2)), counts)


def test_copies_beyond_shared_memory_are_refused_and_fewer_chosen():
    x = torch.zeros(4, dtype=torch.int32)
    with pytest.raises(ValueError, match=r"k05_lane_copies takes up to 383 bins \(32 copies of 4 bytes in 49152 bytes"):
        ops.histogram(x, 384, rung="k05")
    with pytest.raises(ValueError, match="k06_triton takes up to 1024 bins"):
        ops.histogram(x, 1025, rung="k06")
    default = operation.get("histogram").default
    chosen = [default(x, bins) for bins in (256, 383, 384, 1535, 1536, 12288, 12289)]
    lanes, runs, block = "k05_lane_copies", "k04_runs", "k02_block_copies"
    assert chosen == [lanes, lanes, runs, runs, block, block, "k01_global_atomics"]


@pytest.mark.parametrize("bins,rung", [(383, "k05"), (1535, "k03"), (1535, "k04"), (12288, "k02"), (1024, "k06")])
def test_the_most_bins_a_rung_takes(bins, rung):
    values = torch.tensor([0, bins - 1, bins, bins - 1], dtype=torch.int32)
    counts = ops.histogram(values, bins, rung=rung)
    assert (counts[0].item(), counts[-1].item(), counts.sum().item()) == (1, 2, 3)


@pytest.mark.parametrize(
    "call,error,message",
    [
        (lambda x: ops.histogram(x, 0), ValueError, r"histogram: expected bins between 1 and 2\*\*31 - 1, got 0"),
        (lambda x: ops.histogram(x, 2.0), TypeError, "histogram: expected bins to be an int, got float"),
        (
            lambda x: ops.histogram(x.long()),
            TypeError,
            "histogram: expected input of dtype torch.uint8, torch.int32, got",
        ),
    ],
)
def test_wrong_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call(torch.zeros(3, dtype=torch.uint8))
