"""Data-parallel training with two processes on a CPU (gloo), beside one process with the same global batch."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from tests.apps.test_data import write_set
from tests.commands import command
from tests.processes import in_processes

from warpwise import nn, optim
from warpwise.apps import data
from warpwise.apps.train import Checkpoint, Settings, Trainer, trainer

SETTINGS = Settings("mnist", "cnn", batch=16, epochs=2, lr=0.05, momentum=0.9)
CPU = torch.device("cpu")


def train(rank: int, folder: Path) -> None:
    one = Trainer(SETTINGS, data.load("mnist", folder / "files"), CPU, folder / "two.safetensors")
    one.run()
    torch.save((one.model.state_dict(), one.history), folder / f"{rank}.pt")


def stop(rank: int, folder: Path) -> None:
    """Only the second process receives Ctrl-C, between two checks of the losses."""
    trainer.CHECK_EVERY = 3
    one = Trainer(SETTINGS, data.load("mnist", folder / "files"), CPU, folder / "stopped.safetensors")
    plain, count = one.step, 0

    def interrupting(indices):
        nonlocal count
        count += 1
        if rank == 1 and count == 4:
            os.kill(os.getpid(), signal.SIGINT)
        return plain(indices)

    one.step = interrupting
    one.run()
    assert one.stopped and (one.epoch, one.at) == (0, 6), (one.epoch, one.at)


def test_two_processes_take_the_steps_of_one(tmp_path):
    torch.manual_seed(1)
    write_set(tmp_path / "files", train=150, test=41, size=8)
    in_processes(train, tmp_path)
    alone = Trainer(SETTINGS, data.load("mnist", tmp_path / "files"), CPU)
    alone.run()
    (weights, history), (others, other_history) = (
        torch.load(tmp_path / f"{rank}.pt", weights_only=False) for rank in range(2)
    )
    for name, tensor in alone.model.state_dict().items():
        assert torch.equal(weights[name], others[name]), f"{name}: the processes differ"
        torch.testing.assert_close(weights[name], tensor, rtol=1e-3, atol=1e-5)
    for one, two, other in zip(alone.history, history, other_history, strict=True):
        assert two.losses == other.losses and two.losses == pytest.approx(one.losses, rel=1e-4)
        assert two.accuracy == other.accuracy == pytest.approx(one.accuracy, abs=1.5 / 41)
    kept = Checkpoint.load(tmp_path / "two.safetensors").tensors
    assert all(torch.equal(kept[f"model.{name}"], tensor) for name, tensor in weights.items())


def test_an_interrupt_of_one_process_stops_both(tmp_path):
    write_set(tmp_path / "files", train=150, test=20, size=8)
    in_processes(stop, tmp_path)
    again = Trainer(SETTINGS, data.load("mnist", tmp_path / "files"), CPU)
    again.resume(tmp_path / "stopped.safetensors")
    assert (again.epoch, again.at, len(again.losses)) == (0, 6, 6)


def network() -> torch.nn.Sequential:
    return torch.nn.Sequential(torch.nn.Linear(300, 500), torch.nn.ReLU(), torch.nn.Linear(500, 400), nn.Linear(400, 3))


def buckets(rank: int, folder: Path) -> None:
    """Several buckets, a parameter without a gradient, parameters that differ at first, and a second step."""
    torch.manual_seed(rank)
    model, reference = network(), network()
    model.unused = torch.nn.Parameter(torch.ones(5))
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    assert len(nn.DataParallel(model, optimizer).buckets) == 3
    reference.load_state_dict(model[:].state_dict())
    for seed in range(2):
        batch = torch.randn(8, 300, generator=torch.Generator().manual_seed(seed))
        optimizer.zero_grad(set_to_none=True)
        model(batch[4 * rank :][:4]).square().mean().backward()
        optimizer.step()
        reference.zero_grad(set_to_none=True)
        reference(batch).square().mean().backward()
        with torch.no_grad():
            for param, other in zip(model[:].parameters(), reference.parameters(), strict=True):
                torch.testing.assert_close(param.grad, other.grad, rtol=1e-4, atol=1e-6)
                other.sub_(0.1 * other.grad)
    assert model.unused.grad is None


def test_gradients_are_averaged_in_buckets(tmp_path):
    in_processes(buckets, tmp_path)


def free_port() -> str:
    """Below those that the kernel gives to other tests' connections before this one's processes listen."""
    for port in range(20_000 + os.getpid() % 10_000, 32_768):
        with socket.socket() as listening, contextlib.suppress(OSError):
            listening.bind(("127.0.0.1", port))
            return str(port)
    raise OSError("no port is free")


def test_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_set(tmp_path / "files", train=40, test=20, size=8)
    port = free_port()
    common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "GLOO_SOCKET_IFNAME": "lo"}
    arguments = ["train", "mnist", "--data", "files", "--device", "cpu", "--epochs", "1"]

    def run(batch: str) -> list:
        def one(rank: str):
            return command(*arguments, "--batch", batch, **common, RANK=rank, LOCAL_RANK=rank)

        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(one, "01"))

    first, second = run("8")
    assert first.returncode == second.returncode == 0, first.stderr + second.stderr
    assert "2 processes, each with 4 images of a batch" in first.stdout and "epoch   1" in first.stdout
    assert second.stdout == "" and (tmp_path / "mnist-cnn.safetensors").exists()
    for failed in run("5"):
        assert failed.returncode and "expected a batch that 2 processes divide evenly, got 5" in failed.stderr
