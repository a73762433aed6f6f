"""The average of small tensors through inboxes, emulated: the packets of the other process are already there."""

from __future__ import annotations

import pytest
import torch

from warpwise.nn import peers

PITCH = 2 * 1024  # packets of two blocks
WORDS = 2, 512  # of the elements of a block


def packets(values: torch.Tensor, number: int) -> torch.Tensor:
    """The packets that ``values`` are sent as, (PITCH,)."""
    made = torch.zeros(PITCH // 1024, *WORDS, dtype=torch.int64)
    for element, words in enumerate(values.view(torch.int32).view(len(values), -1).tolist()):
        for part, word in enumerate(words):
            made[element // 512, part, element % 512] = number << 32 | word & 0xFFFFFFFF
    return made.view(-1)


@pytest.mark.parametrize("dtype,sums", [*((dtype, dtype) for dtype in peers.DTYPES), (torch.float32, torch.float64)])
@pytest.mark.parametrize("rows,count,before", [(1, 1, 0), (1, 600, 1), (3, 7, 0)])
def test_the_average_is_that_of_all_processes(dtype, sums, rows, count, before):
    """Process 0 finds the packets of process 1; process 1 then finds those that process 0 has sent."""
    given = torch.randn(2, rows, count, dtype=dtype)
    inboxes = [torch.zeros(2, 2, PITCH, dtype=torch.int64) for _ in given]
    number = before + 1
    inboxes[0][number % 2, 1] = packets(given[1].to(sums).sum(0), number)
    averages = []
    for rank, values in enumerate(given.clone()):
        exchanges = torch.full((2,), before, dtype=torch.int32)
        peers.launch(values, [inbox.view(-1) for inbox in inboxes], exchanges, rank, sums, PITCH, divisor=2)
        assert exchanges.tolist() == [number, number if count > 512 else before]
        averages.append(values[0])
        assert torch.equal(values[1:], given[rank, 1:])
    assert torch.equal(*averages)
    torch.testing.assert_close(averages[0], given.sum(1).mean(0))


def test_nothing_is_exchanged_outside_of_a_capture():
    values = torch.ones(3)
    assert not peers.average(values, None)
    assert torch.equal(values, torch.ones(3))
