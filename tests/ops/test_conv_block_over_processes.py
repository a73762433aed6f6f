"""The block of a batch that two processes divide: outputs, statistics and gradients are those of the whole batch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from warpwise import operation
from warpwise.operation import assume_sm_count
from warpwise.ops.conv_block import over_processes
from warpwise.ops.conv_block.spec import is_saved, moments_of, reference

FORWARD, BACKWARD = operation.get("conv_block"), operation.get("conv_block_backward")
EPS = 1e-5
MOMENTS = "k05_input_moments"
PROCESSES = 2


def exchanged(of_rank: Callable[[int, over_processes.Average], object]) -> list:
    """``of_rank(rank, average)`` of each process. There is one exchange, whose tensors do not depend on averages."""
    sent = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        sent.append(tensor.clone())
        return tensor

    for rank in range(PROCESSES):
        of_rank(rank, keep)
    if not sent:
        return [of_rank(rank, keep) for rank in range(PROCESSES)]
    assert len(sent) == PROCESSES
    average = torch.stack(sent).mean(0)
    return [of_rank(rank, lambda tensor: tensor.copy_(average)) for rank in range(PROCESSES)]


def batch(channels: int, filters: int, size: int) -> tuple[torch.Tensor, ...]:
    """A batch whose halves have other means, so that statistics of one half would be wrong."""
    torch.manual_seed(channels)
    input = torch.randn(4, channels, size, size) + 3
    input[2:] *= 1.5
    return input, torch.randn(filters, channels, 3, 3) / 3, *torch.randn(2, filters)


def expected(args: tuple[torch.Tensor, ...], grad: torch.Tensor) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Outputs and gradients of the whole batch in float64."""
    leaves = [each.double().requires_grad_() for each in args]
    output, mean, var, _ = reference(*leaves, EPS, None)
    return [output, mean, var], list(torch.autograd.grad(output, leaves, grad.double()))


@pytest.mark.parametrize("rungs", [
    (1, MOMENTS, MOMENTS), (1, "k04_direct_tiles", "k03_direct_tiles"),
    (5, "k04_direct_tiles", "k03_direct_tiles"), (5, "k06_tensor_cores", "k06_tensor_cores"),
    (5, "k07_warpgroups", "k02_fused"), (5, "k07_warpgroups", "k07_stored_gradient"),
], ids=lambda rungs: f"{rungs[0]}-{rungs[1]}-{rungs[2]}")  # fmt: skip
@pytest.mark.one_in(2)
def test_two_processes_compute_the_block_of_one_batch(rungs):
    channels, forward_rung, backward_rung = rungs
    args = batch(channels, 6, 8)
    grad = torch.randn(4, 6, 4, 4)
    outputs, gradients = expected(args, grad)
    halves = [(each, *args[1:]) for each in args[0].chunk(PROCESSES)]
    by_moments = forward_rung == MOMENTS

    def normalised(rank: int, average: over_processes.Average):
        outputs = FORWARD.allocate(*halves[rank], EPS, None)
        if by_moments:
            moments = over_processes.average_moments(moments_of(halves[rank][0]), average)
            FORWARD.launch(FORWARD.rung(MOMENTS), outputs, *halves[rank], EPS, moments)
            return outputs, moments
        over_processes.normalise_by_averages(outputs, average, forward_rung, *halves[rank], EPS)
        return outputs, None

    def derived(rank: int, average: over_processes.Average):
        (output, mean, var, convolved), moments = kept[rank]
        grads = (grad.chunk(PROCESSES)[rank], None, None, None)
        given = (*grads, *halves[rank], EPS, mean, var, convolved, not by_moments, output)
        results = BACKWARD.allocate(*given, moments)
        if by_moments:
            BACKWARD.launch(BACKWARD.rung(MOMENTS), results, *given, moments)
        else:
            over_processes.GRADIENTS[backward_rung](results, *given, average=average)
        return results

    with assume_sm_count(3):
        kept = exchanged(normalised)
        found = exchanged(derived)
    assert is_saved(args[0]) == (kept[0][0][3] is not None)
    close = {"rtol": 2e-4, "atol": 2e-5}
    torch.testing.assert_close(torch.cat([outputs[0] for outputs, _ in kept]).double(), outputs[0], **close)
    for (_, mean, var, _), _ in kept:
        torch.testing.assert_close(mean.double(), outputs[1], **close)
        torch.testing.assert_close(var.double(), outputs[2], **close)
    if not by_moments:
        torch.testing.assert_close(torch.cat([each[0] for each in found]).double(), gradients[0], **close)
    for position in (1, 2, 3):  # the average is the gradient of the average loss, whose halves have the weight 1/2
        averaged = torch.stack([each[position] for each in found]).mean(0)
        torch.testing.assert_close(PROCESSES * averaged.double(), gradients[position], rtol=2e-4, atol=2e-4)


def test_functions_have_the_names_of_rungs():
    named = {rung.name for rung in FORWARD.rungs}
    assert set(over_processes.CONVOLUTIONS) <= named
    assert set(over_processes.GRADIENTS) <= {rung.name for rung in BACKWARD.rungs}
