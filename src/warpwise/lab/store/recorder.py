"""``Recorder``: record the results of a climb as they arrive."""

from __future__ import annotations

from datetime import datetime, timezone

import torch

from warpwise.cuda.source.includes import source_digest
from warpwise.lab.ladder import Ladder, Point
from warpwise.lab.store.convert import of_gradient, of_live_point, of_live_verdict, run_from
from warpwise.lab.store.provenance import repository_state
from warpwise.lab.store.records import Measurement, Run
from warpwise.lab.store.store import Store
from warpwise.lab.timing.environment import environment, resolve
from warpwise.lab.verify.verdict import Status, Step, Verdict
from warpwise.operation import Op


class Recorder:
    """Call it with every ``Step`` of a climb of ``op``: each verdict and point is on disk before the next one starts.

    ``run`` is their run. It is stored with the first of them, so that a climb that fails before is not in the store.
    Raises ``StoreError`` if the store cannot be written.
    """

    def __init__(self, store: Store, op: Op, device: torch.device | str | None = None, made_by: str = "climb") -> None:
        now = datetime.now(timezone.utc)
        commit, dirty = repository_state(op.rungs[0].source) if op.rungs else ("", False)
        self.store = store
        self.run: Run = run_from(op.name, environment(resolve(device)), now, made_by, commit, dirty)
        self._languages = {rung.name: rung.language for rung in op.rungs}
        self._sources = {rung.name: source_digest(rung.source) for rung in op.rungs}
        self._recorded: dict[str, Status] = {}

    def __call__(self, step: Step) -> None:
        """Record the result of ``step``, if it is a verdict or a point."""
        if step.stage == "gradient" and isinstance(step.result, Verdict):
            self._record(of_gradient(step.result.to_json(), datetime.now(timezone.utc)))
        elif isinstance(step.result, Verdict):
            self._record(self._verdict(step.result))
        elif isinstance(step.result, Point):
            self._record(*of_live_point(step.result, datetime.now(timezone.utc), self._languages, self._sources))

    def finish(self, ladder: Ladder) -> None:
        """Record the verdicts that changed since they were recorded, and that the run is finished.

        A rung that passed every case may be wrong at a timed size; after a lost CUDA context the rest is untested.
        """
        changed = [row.verdict for row in ladder.rows if self._recorded.get(row.rung) != row.verdict.status]
        self._record(*(self._verdict(verdict) for verdict in changed))
        if self.run.id:
            self.run = self.store.finish(self.run)

    def _record(self, *measurements: Measurement) -> None:
        if measurements:
            self.run = self.store.record(self.run, *measurements)

    def _verdict(self, verdict: Verdict) -> Measurement:
        self._recorded[verdict.rung] = verdict.status
        now = datetime.now(timezone.utc)
        rung = verdict.rung.partition("@")[0]  # the same kernel in a fixed configuration
        return of_live_verdict(verdict, now, self._languages[rung], self._sources[rung])
