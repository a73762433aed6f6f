"""Work of a training step beside its other kernels, on other streams of the CUDA graph that is being captured."""

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
    """Streams beside the capturing one, and what its work reads, which must not be freed before ``join``.

    ``gradients`` permits the gradients of parameters there. ``conflict`` is set where one that was computed there is
    not a parameter's gradient when the work is joined: a kernel may have read it before it was complete, for example to
    add it to another one.
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
        """Call ``work``, which starts when all kernels launched so far have completed; postponed work starts then too.

        Postponed work has a stream of its own, and follows what was put aside before.
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
    """Let work of the step that is captured here run beside it. Launches are not replayed from recordings meanwhile."""
    with _capture, intercept.without_replays():
        _open.append(Branch(gradients))
        try:
            yield _open[0]
        finally:
            _open.clear()


def aside(work: Callable[[], None], reads: object) -> None:
    """Call ``work``, on a stream of its own while a step is captured.

    Nothing reads its results before ``join``. It reads ``reads``, which are kept until then.
    """
    if _open:
        _open[0].run(work, reads)
    else:
        work()


def takes_gradients() -> bool:
    """True while a step is captured whose gradients of parameters nothing reads before ``join``."""
    return bool(_open) and _open[0].gradients


def gradients_aside(work: Callable[..., None], outputs: Tensors, reads: object, postponed: bool = False) -> None:
    """Call ``work(*outputs)``, gradients of parameters or the loss, beside the chain if the step takes them there.

    Postponed work starts together with the next work put aside, at a point of the step where more of the GPU is idle.
    """
    if not takes_gradients():
        work(*outputs)
        return
    one = _open[0]
    # Autograd takes a gradient over as that of a parameter, without a copy, if it is the only reference to the tensor.
    aliases = [None if output is None else output.detach() for output in outputs]
    one.written.update(alias.data_ptr() for alias in aliases if alias is not None and alias.numel())
    (one.postpone if postponed else one.run)(lambda: work(*aliases), (aliases, reads))


def join(gradients: set[int]) -> None:
    """Let the current stream wait for the work put aside.

    ``gradients`` are the addresses of the gradients of parameters and of the loss, which only what follows reads.
    """
    if _open:
        _open[0].join(gradients)
