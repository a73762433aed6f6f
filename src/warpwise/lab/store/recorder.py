"""``Recorder``: keeps what a climb reports, as it reports it."""

from __future__ import annotations

from datetime import datetime, timezone

import torch

from warpwise.cuda.source.includes import source_digest
from warpwise.lab.ladder import Ladder, Point
from warpwise.lab.store.convert import of_live_point, of_live_verdict, run_from
from warpwise.lab.store.provenance import repository_state
from warpwise.lab.store.records import Measurement, Run
from warpwise.lab.store.store import Store
from warpwise.lab.timing.environment import environment, resolve
from warpwise.lab.verdict import Status, Step, Verdict
from warpwise.operation import Op


class Recorder:
    """Hand it every ``Step`` of a climb of ``op``: a verdict or a point is on disk before the next one is begun.

    ``run`` is the run that they belong to. Raises ``StoreError`` where the store cannot keep one.
    """

    def __init__(self, store: Store, op: Op, device: torch.device | str | None = None, made_by: str = "climb") -> None:
        now = datetime.now(timezone.utc)
        commit, dirty = repository_state(op.rungs[0].source) if op.rungs else ("", False)
        self.store = store
        self.run: Run = store.record(run_from(op.name, environment(resolve(device)), now, made_by, commit, dirty))
        self._languages = {rung.name: rung.language for rung in op.rungs}
        self._sources = {rung.name: source_digest(rung.source) for rung in op.rungs}
        self._told: dict[str, Status] = {}

    def __call__(self, step: Step) -> None:
        """Keep what ``step`` ended with, if it ended with a verdict or a point."""
        if isinstance(step.result, Verdict):
            self.store.record(self.run, self._verdict(step.result))
        elif isinstance(step.result, Point):
            self.store.record(
                self.run, *of_live_point(step.result, datetime.now(timezone.utc), self._languages, self._sources)
            )

    def finish(self, ladder: Ladder) -> None:
        """Keep the verdicts that changed since they were told, and that the run came to its end.

        A rung that passed every case may still be wrong at a timed size; one after a lost context was never tried.
        """
        changed = [row.verdict for row in ladder.rows if self._told.get(row.rung) != row.verdict.status]
        if changed:
            self.store.record(self.run, *(self._verdict(verdict) for verdict in changed))
        self.run = self.store.finish(self.run)

    def _verdict(self, verdict: Verdict) -> Measurement:
        self._told[verdict.rung] = verdict.status
        now = datetime.now(timezone.utc)
        rung = verdict.rung.partition("@")[0]  # held to a configuration it is the same kernel
        return of_live_verdict(verdict, now, self._languages[rung], self._sources[rung])
