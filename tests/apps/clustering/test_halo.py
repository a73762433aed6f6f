"""Rows of the halo through inboxes, emulated: process 1 has sent its rows before process 0 starts."""

from __future__ import annotations

import pytest
import torch

from warpwise.apps.clustering import halo


def packets(values: torch.Tensor, number: int) -> torch.Tensor:
    words = values.flatten().view(torch.int32).long() & 0xFFFFFFFF
    return number << 32 | words


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("width", [3, 8])
def test_rows_of_the_halo_are_those_of_their_owners(number: int, width: int) -> None:
    """Three processes: 0 sends two rows to 1 and one to 2, and fetches three of 1 and none of 2."""
    rows, pitch = 5, 5 * width + 8
    values = torch.randn(9, width)
    before = values.clone()
    sent = torch.tensor([1, 4, 0])
    inboxes = [torch.zeros(2, pitch, dtype=torch.int64) for _ in range(3)]
    theirs = torch.randn(3, width)
    here = inboxes[0][number % 2]
    here[: 3 * width] = packets(theirs, number)
    here[rows * width + 1] = here[rows * width + 2] = number << 32
    to = halo.sent_of([0, 2, 1], [0, 1, 3])
    halo.launch(values, sent, [inbox.view(-1) for inbox in inboxes], to, 6, 3, 0, pitch, number)
    assert torch.equal(values[:6], before[:6]) and torch.equal(values[6:], theirs)
    for peer, (place, given) in {1: (1, sent[:2]), 2: (3, sent[2:])}.items():
        expected = torch.zeros(pitch, dtype=torch.int64)
        expected[place * width : (place + len(given)) * width] = packets(before[given], number)
        expected[rows * width] = number << 32
        assert torch.equal(inboxes[peer][number % 2], expected)
        assert not inboxes[peer][1 - number % 2].any()
