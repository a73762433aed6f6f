"""Training on small made-up images: engines agree, runs repeat and resume to the same weights, errors lose nothing."""

from __future__ import annotations

import os
import signal
import xml.etree.ElementTree
from pathlib import Path

import pytest
import safetensors.torch
import torch
from click.testing import CliRunner
from tests.apps.test_data import write_set
from tests.lab.report.browser import Page, find_chromium

from warpwise import nn
from warpwise.apps.data import Images, ImageSet
from warpwise.apps.train import (
    Checkpoint,
    CheckpointError,
    NonFiniteLoss,
    Settings,
    Trainer,
    build,
    emulated,
    engines,
    pictures,
)
from warpwise.cli import cli
from warpwise.nn import convolution
from warpwise.ops import conv_block

CPU = torch.device("cpu")
SMALL = Settings("digits", "mlp", batch=16, epochs=2, lr=0.1)


@pytest.fixture(scope="module")
def data() -> ImageSet:
    """Images 8 x 8 of four classes, each a bright quarter, with noise."""
    generator = torch.Generator().manual_seed(0)

    def draw(count: int) -> Images:
        labels = torch.randint(0, 4, (count,), generator=generator)
        pixels = torch.randint(0, 90, (count, 8, 8), generator=generator)
        for number, label in enumerate(labels.tolist()):
            pixels[number, label // 2 * 4 :, label % 2 * 4 :][:4, :4] += 120
        return Images(pixels.to(torch.uint8), labels)

    return ImageSet("made up", draw(100), draw(40), ("a", "b", "c", "d"), "a test")


def weights(trainer: Trainer) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one) and one.keys() == other.keys()


def trained(data: ImageSet, settings: Settings, path: Path | None = None) -> Trainer:
    trainer = Trainer(settings, data, CPU, path)
    trainer.run()
    return trainer


def test_a_network_learns_and_engines_agree(data):
    settings = Settings("digits", "cnn", batch=20, epochs=3, lr=0.05)
    ours = trained(data, settings)
    assert ours.history[-1].accuracy > 0.9
    assert len(ours.history[0].losses) == ours.steps == 5
    theirs = trained(data, Settings(**{**settings.to_json(), "engine": "torch"}))
    for one, other in zip(ours.history, theirs.history, strict=True):
        assert one.losses == pytest.approx(other.losses, rel=1e-3, abs=1e-5)


def test_emulated_kernels_take_the_same_steps(data):
    few = data._replace(train=Images(data.train.pixels[:4], data.train.labels[:4]))
    settings = Settings("digits", "cnn", batch=2, epochs=1, lr=0.05)
    ours = trained(few, settings)
    emulated = trained(few, Settings(**{**settings.to_json(), "engine": "emulated"}))
    assert emulated.history[0].losses == pytest.approx(ours.history[0].losses, rel=1e-4)
    for name, tensor in weights(ours).items():
        torch.testing.assert_close(weights(emulated)[name], tensor, rtol=1e-3, atol=1e-5)


def test_emulated_steps_take_gathered_batches(data, monkeypatch):
    """The rest of them is in nn/test_step_gradients.py."""
    given = []

    def step(model, optimizer, images, labels):
        given.append((images, labels))
        return torch.tensor(1.0)

    monkeypatch.setattr(emulated, "step", step)
    few = data._replace(train=Images(data.train.pixels[:4], data.train.labels[:4]))
    trainer = trained(few, Settings("digits", "cnn", engine="emulated", batch=2, epochs=1))
    assert trainer.history[0].losses == (1.0, 1.0)
    indices = trainer.order(0)
    images = (few.train.pixels[indices].float() / 255 - trainer.mean) / trainer.std
    torch.testing.assert_close(torch.cat([each for each, _ in given]), images.unsqueeze(1))
    assert torch.equal(torch.cat([labels for _, labels in given]), few.train.labels[indices])


def test_emulated_kernels_take_fp32_on_a_cpu(data):
    with pytest.raises(ValueError, match="expected a CPU and fp32, got cpu and bf16"):
        Trainer(Settings(engine="emulated", dtype="bf16", batch=4), data, CPU)


def test_bf16_trains(data):
    assert trained(data, Settings(**{**SMALL.to_json(), "dtype": "bf16"})).history[-1].accuracy > 0.9


def test_tf32_reaches_the_convolutions(monkeypatch):
    given = []
    monkeypatch.setattr(convolution, "conv_block", lambda *args: given.append(args[5]) or conv_block(*args))
    precisions = [(one, one.fp32_precision) for one in (torch.backends.cuda.matmul, torch.backends.cudnn.conv)]
    try:
        for dtype in ("fp32", "tf32"):
            model = build("cnn", nn, 1, (8, 8), 4, 0)
            engines.set_precision(Settings(dtype=dtype), model)
            model(torch.rand(2, 1, 8, 8))
            assert all(one.fp32_precision == ("tf32" if dtype == "tf32" else "ieee") for one, _ in precisions)
    finally:
        for one, before in precisions:
            one.fp32_precision = before
    assert given == [False, False, True, True]


def test_runs_repeat_bit_for_bit(data):
    assert same(weights(trained(data, SMALL)), weights(trained(data, SMALL)))
    other = trained(data, Settings(**{**SMALL.to_json(), "seed": 1}))
    assert not same(weights(trained(data, SMALL)), weights(other))


def test_an_interrupted_run_resumes_to_the_same_weights(data, tmp_path):
    whole = trained(data, SMALL)
    path = tmp_path / "kept.safetensors"
    first = Trainer(SMALL, data, CPU, path)
    plain, count = first.step, 0

    def interrupting(*args):
        nonlocal count
        count += 1
        if count == 9:  # the third step of the second epoch
            os.kill(os.getpid(), signal.SIGINT)
        return plain(*args)

    first.step = interrupting
    first.run()
    assert first.stopped and (first.epoch, first.at) == (1, 3)
    second = Trainer(SMALL, data, CPU, path)
    second.resume(path)
    second.run()
    assert same(weights(whole), weights(second))
    assert second.history[-1].losses == whole.history[-1].losses
    assert second.history[0] == first.history[0]
    longer = Trainer(Settings(**{**SMALL.to_json(), "epochs": 3}), data, CPU, path)
    longer.resume(path)
    longer.run()
    assert [epoch.number for epoch in longer.history] == [1, 2, 3]


def test_an_interrupted_emulated_step_is_taken_again(data, tmp_path):
    """The emulator ends a launch at once, in the middle of a step, which then leaves no trace."""
    settings = Settings(**{**SMALL.to_json(), "engine": "emulated", "epochs": 1})
    trainer = Trainer(settings, data, CPU, tmp_path / "kept.safetensors")
    before: dict[str, torch.Tensor] = {}

    def step(*args):
        if trainer.at == 2:
            os.kill(os.getpid(), signal.SIGINT)
            next(trainer.model.parameters()).detach().add_(1)
            raise KeyboardInterrupt("a launch")
        next(trainer.model.parameters()).detach().mul_(2)
        before.update(weights(trainer))
        return torch.tensor(1.0)

    trainer.step = step
    trainer.run()
    assert trainer.stopped and trainer.at == 2 and same(weights(trainer), before)
    again = Trainer(settings, data, CPU)
    again.resume(tmp_path / "kept.safetensors")
    assert (again.epoch, again.at) == (0, 2) and same(weights(again), before)


def test_a_loss_that_is_not_finite_keeps_the_last_checkpoint(data, tmp_path):
    path = tmp_path / "kept.safetensors"
    trainer = Trainer(SMALL, data, CPU, path)
    plain, count = trainer.step, 0

    def breaking(*args):
        nonlocal count
        count += 1
        return plain(*args) * (float("nan") if count == 8 else 1)

    trainer.step = breaking
    with pytest.raises(NonFiniteLoss, match=r"loss is nan at step 2 of epoch 2; the last good checkpoint is .*kept"):
        trainer.run()
    assert Checkpoint.load(path).state["epoch"] == 1
    with pytest.raises(NonFiniteLoss, match="no checkpoint was written yet"):
        trained(data, Settings(**{**SMALL.to_json(), "lr": 1e30, "model": "mlp"}))


def test_a_checkpoint_of_another_run_is_refused(data, tmp_path):
    path = tmp_path / "kept.safetensors"
    trained(data, SMALL, path)
    for change, message in (({"lr": 0.5}, "lr 0.1, this run has 0.5"), ({"model": "cnn"}, "model 'mlp'")):
        with pytest.raises(CheckpointError, match=message):
            Trainer(Settings(**{**SMALL.to_json(), **change}), data, CPU).resume(path)
    fewer = data._replace(classes=("a", "b", "c", "d", "e"))
    with pytest.raises(
        CheckpointError, match=r"another model: expected model.linear2.weight \(5, 256\), got \(4, 256\)"
    ):
        Trainer(SMALL, fewer, CPU).resume(path)
    content = path.read_bytes()
    for damaged in (b"", content[:4], content[:-1], content[:200], b"\xff" * 16 + content):
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match="damaged|truncated"):
            Trainer(SMALL, data, CPU).resume(path)
    safetensors.torch.save_file({"x": torch.ones(2)}, path)
    with pytest.raises(CheckpointError, match="got other safetensors"):
        Checkpoint.load(path)
    with pytest.raises(CheckpointError, match="expected a safetensors file, got a folder"):
        Checkpoint.load(tmp_path)


def test_a_checkpoint_of_other_images_is_refused(data, tmp_path):
    path = tmp_path / "kept.safetensors"
    trained(data, SMALL, path)
    labels = data.train.labels.clone()
    labels[0] = (labels[0] + 1) % 4
    other = data._replace(train=Images(data.train.pixels, labels), source="elsewhere")
    with pytest.raises(CheckpointError, match="on other training images than those of elsewhere"):
        Trainer(SMALL, other, CPU).resume(path)
    found = Checkpoint.load(path)
    del found.state["images"]  # as in a checkpoint of an earlier version
    found.save(path)
    Trainer(SMALL, other, CPU).resume(path)


@pytest.mark.parametrize(
    "change,message",
    [
        ({"settings": None}, "damaged .*TypeError"),
        ({"at": "x"}, "damaged .*ValueError"),
        ({"history": [{"number": 1, "losses": []}]}, "damaged .*TypeError"),
        ({"at": 6}, "expected the losses of 6 steps and the history of 2 epochs, got 0 and 2"),
        ({"epoch": -1}, "the history of -1 epochs, got 0 and 2"),
    ],
)
def test_a_damaged_state_is_an_error_that_names_the_file(data, tmp_path, change, message):
    path = tmp_path / "kept.safetensors"
    trained(data, SMALL, path)
    found = Checkpoint.load(path)
    Checkpoint(found.tensors, {**found.state, **change}).save(path)
    with pytest.raises(CheckpointError, match=f"kept.safetensors: .*{message}"):
        Trainer(SMALL, data, CPU).resume(path)
    safetensors.torch.save_file(found.tensors, path, {"format": "warpwise train 1", "state": "{"})
    with pytest.raises(CheckpointError, match="kept.safetensors: the state in its metadata is damaged"):
        Checkpoint.load(path)


def test_checkpoints_keep_every_dtype(tmp_path):
    tensors = {
        "a": torch.arange(6).view(2, 3), "b": torch.tensor(1.5), "c": torch.ones(3, dtype=torch.bfloat16),
        "d": torch.empty(0, 4), "e": torch.arange(6.0).view(2, 3).T,
    }  # fmt: skip
    path = tmp_path / "x.safetensors"
    Checkpoint(tensors, {"epoch": 3}).save(path)
    found = Checkpoint.load(path)
    assert found.state == {"epoch": 3} and same(tensors, found.tensors)
    assert all(found.tensors[name].dtype == tensor.dtype for name, tensor in tensors.items())


def test_settings_that_do_not_fit(data):
    for change, message in (
        ({"batch": 101}, "at most the 100 images of made up, got 101"), ({"dtype": "tf32"}, "expected a GPU"),
        ({"dtype": "tf32", "engine": "torch"}, "expected a GPU"), ({"engine": "graph"}, "engine graph: expected a GPU"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            Trainer(Settings(**{**SMALL.to_json(), **change}), data, CPU)
    with pytest.raises(ValueError, match="at least 4 x 4 pixels"):
        build("cnn", nn, 1, (3, 8), 10, 0)


@pytest.mark.parametrize("model", ["cnn", "mlp"])
def test_pictures(data, tmp_path, model):
    trainer = Trainer(Settings(**{**SMALL.to_json(), "model": model, "epochs": 1, "lr": 0.001}), data, CPU)
    with pytest.raises(ValueError, match="expected a finished epoch"):
        pictures.write(trainer, tmp_path)
    trainer.run()
    names = {path.name for path in pictures.write(trainer, tmp_path)}
    assert {"loss.svg", "accuracy.svg", "filters.png", "misclassified.svg", "index.html"} == names
    page = (tmp_path / "index.html").read_text()
    assert "<p>1 epoch, batch 16" in page and page.count("<circle ") == 1  # of the accuracy; the loss has a line
    assert "Misclassified" in page and page.count("<figure>") == round(40 * (1 - trainer.history[0].accuracy))
    sheet = xml.etree.ElementTree.parse(tmp_path / "misclassified.svg").getroot()
    assert "".join(sheet.itertext()).count("label ") == page.count("<figure>") and len(sheet) % 3 == 0
    image = pytest.importorskip("PIL.Image")
    with image.open(tmp_path / "filters.png") as opened:
        assert opened.mode == "L" and min(opened.size) > 8


@pytest.mark.skipif(find_chromium() is None, reason="no Chromium: `apt-get install chromium` as root")
def test_the_page_of_pictures_fits_and_its_texts_are_legible(data, tmp_path):
    trainer = Trainer(Settings(**{**SMALL.to_json(), "epochs": 2, "lr": 0.001}), data, CPU)
    trainer.run()
    pictures.write(trainer, tmp_path)
    heights = (
        "[...document.querySelectorAll('svg text,figcaption')].map(text => parseFloat(getComputedStyle(text).fontSize)"
        " * (text.getScreenCTM ? text.getScreenCTM().a : 1))"
    )
    with Page(tmp_path / "profile", str(find_chromium())) as page:
        for width, least in ((500, 12), (1200, 12), (360, 9)):
            page.open(tmp_path / "index.html", width=width)
            assert page.ask("document.documentElement.scrollWidth <= innerWidth"), width
            assert min(page.ask(heights)) >= least, width


def test_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_set(tmp_path / "files", train=40, test=20, size=8)

    def run(*arguments):
        return CliRunner().invoke(cli, ["train", "mnist", "--data", "files", *arguments])

    done = run("--batch", "8", "--epochs", "1", "--device", "cpu", "--plots", "shown")
    assert done.exit_code == 0, done.output
    assert "on a CPU our operations run PyTorch's kernels" in done.output
    assert "epoch   1  loss" in done.output and "wrote mnist-cnn.safetensors" in done.output
    assert (tmp_path / "shown" / "index.html").exists()
    more = run("--batch", "8", "--epochs", "2", "--device", "cpu", "--resume")
    assert "continuing after 1 epoch " in more.output and "epoch   2" in more.output and "epoch   1" not in more.output
    finished = run("--batch", "8", "--epochs", "1", "--device", "cpu", "--resume")
    assert "nothing to train: mnist-cnn.safetensors has 2 epochs" in finished.output, finished.output
    for arguments, message in (
        (["--batch", "41"], "at most the 40 images of mnist, got 41"),
        (["--batch", "8", "--resume", "--checkpoint", "none"], "there is no checkpoint none"),
        (["--resume", "--batch", "5"], "a checkpoint with batch 8, this run has 5"),
        (["--batch", "8", "--data", "shown"], "shown has none of the four IDX files"),
        (["--batch", "8", "--data", "nowhere"], "mnist: there is no folder nowhere; --data expects train-images"),
        (["--batch", "8", "--plots", "mnist-cnn.safetensors"], "--plots: cannot write to mnist-cnn.safetensors: File"),
        (["--batch", "8", "--checkpoint", "shown"], "--checkpoint: expected a file, got the folder shown"),
    ):
        failed = run("--device", "cpu", *arguments)
        assert failed.exit_code and message in failed.output, failed.output
