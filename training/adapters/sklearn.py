"""For scikit-learn, and other models that learn in steps."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, Iterator, Optional

from springtide.training.adapters import randomness
from springtide.training.job import Job, current_job

FILE = "model.pkl"


class Resumable:
    """A model that learns in steps, by ``partial_fit`` or ``warm_start``, and is kept over a pause.

        parts = Resumable(SGDClassifier())
        for epoch in parts.steps(20):
            parts.model.partial_fit(data, target, classes)

    ``model`` is the one of the newest checkpoint, at first the given one: any object that can be pickled. The
    random numbers of Python and NumPy are kept as well. ``every`` is the number of steps between checkpoints.
    """

    def __init__(self, model: Any, job: Optional[Job] = None, *, every: int = 1) -> None:
        self.job = current_job() if job is None else job
        self.model = model
        self._every = every

    def steps(self, of: int) -> Iterator[int]:
        """Yield the remaining steps, from 0 to ``of`` - 1; report, save and pause between them."""
        for step in self.job.epochs(of, save=self._save, load=self._load, every=self._every):
            yield step
            self.job.report(step=step + 1, of=of)

    def _load(self, directory: Path) -> None:
        self.model = pickle.loads((directory / FILE).read_bytes())  # noqa: S301 - written by the job itself
        if position := randomness.read(directory, self.job.rank):
            randomness.restore(position["now"])

    def _save(self, directory: Path) -> None:
        (directory / FILE).write_bytes(pickle.dumps(self.model, protocol=pickle.HIGHEST_PROTOCOL))
        randomness.write(directory, self.job.rank)
