"""Side streams of a CUDA graph that is being captured: work of a training step that runs concurrently with the rest."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch

from warpwise.cuda.launch import intercept

Tensors = Sequence[torch.Tensor | None]
_capture = threading.Lock()
_open: list[Branch] = []  # at most one; autograd calls a backward in a thread of its own


class Branch:
    """The two side streams, and the tensors that their work reads, which must not be freed before ``join``.

    ``gradients`` permits parameters' gradients on the side streams. ``join`` sets ``conflict`` if a tensor that was
    computed there as a gradient is not a parameter's gradient: a kernel may have read it before it was complete, for
    example to add it to another gradient.
    """

    def __init__(self, gradients: bool) -> None:
        self.stream, self.later = torch.cuda.Stream(), torch.cuda.Stream()
        self.gradients = gradients
        self.conflict = False
        self.written: set[int] = set()  # addresses of gradients
        self._kept: list[object] = []
        self._postponed: list[Callable[[], None]] = []
        self._forked: list[torch.cuda.Stream] = []

    def run(self, work: Callable[[], None], reads: object) -> None:
        """Call ``work`` on a side stream: it starts when all kernels launched so far on this stream have completed.

        Postponed work starts at the same point, on the other side stream, after all earlier work of both.
        """
        if self._postponed:
            for stream in self._forked:
                self.later.wait_stream(stream)
            self._on(self.later, *self._postponed)
            self._postponed.clear()
        self._on(self.stream, work)
        self._kept.append(reads)

    def _on(self, stream: torch.cuda.Stream, *works: Callable[[], None]) -> None:
        stream.wait_stream(torch.cuda.current_stream())
        if stream not in self._forked:
            self._forked.append(stream)
        with torch.cuda.stream(stream):
            for work in works:
                work()

    def follow(self, work: Callable[[], None], reads: object) -> None:
        """Call ``work``, which starts when what was put aside before has completed."""
        if self.stream not in self._forked:
            self.run(work, reads)
            return
        with torch.cuda.stream(self.stream):
            work()
        self._kept.append(reads)

    def postpone(self, work: Callable[[], None], reads: object) -> None:
        self._postponed.append(work)
        self._kept.append(reads)

    def join(self, gradients: set[int]) -> None:
        if self._postponed:
            self.run(lambda: None, None)
        for stream in self._forked:
            torch.cuda.current_stream().wait_stream(stream)
        self._forked.clear()
        self._kept.clear()
        self.conflict = self.conflict or not self.written <= gradients
        self.written.clear()


@contextmanager
def branch(gradients: bool = True) -> Iterator[Branch]:
    """Open the side streams for a capture. Recorded launches are not replayed within the context."""
    with _capture, intercept.without_replays():
        _open.append(Branch(gradients))
        try:
            yield _open[0]
        finally:
            _open.clear()


def aside(work: Callable[[], None], reads: object, follows: bool = False) -> None:
    """Call ``work``, on a side stream if a step is being captured.

    Nothing may read its results before ``join``. ``reads`` are the tensors that it reads; they are kept until then. If
    it ``follows``, it waits only for what was put aside before, which waits for all that it reads.
    """
    if _open:
        (_open[0].follow if follows else _open[0].run)(work, reads)
    else:
        work()


def takes_gradients() -> bool:
    """True while a step is captured in which nothing reads the parameters' gradients before ``join``."""
    return bool(_open) and _open[0].gradients


def gradients_aside(work: Callable[..., None], outputs: Tensors, reads: object, postponed: bool = False) -> None:
    """Call ``work(*outputs)``, which computes parameters' gradients or the loss; on a side stream if possible.

    Postponed work starts together with the next work on a side stream, when more of the GPU is idle.
    """
    if not takes_gradients():
        work(*outputs)
        return
    one = _open[0]
    # Autograd assigns a tensor to ``grad`` without a copy only if it holds the only reference to the tensor.
    aliases = [None if output is None else output.detach() for output in outputs]
    one.written.update(alias.data_ptr() for alias in aliases if alias is not None and alias.numel())
    (one.postpone if postponed else one.run)(lambda: work(*aliases), (aliases, reads))


def join(gradients: set[int]) -> None:
    """Make the current stream wait for the side streams.

    ``gradients`` are the addresses of the parameters' gradients and of the loss, which only later kernels read.
    """
    if _open:
        _open[0].join(gradients)
