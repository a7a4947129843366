"""For JAX, with the checkpoints of Orbax."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Optional, Tuple

from springtide.training.adapters import randomness
from springtide.training.job import Job, current_job

FOLDER = "state"


class Resumable:
    """The state of a training with JAX: a tree of arrays, numbers and random keys, kept over a pause.

        parts = Resumable(every=100)
        state, done = parts.restore(state)
        for step in range(done, 4000):
            state = update(state)
            parts.done(step + 1, state, of=4000)

    Each process of a gang saves its own shards. ``every`` is the number of steps between checkpoints.
    """

    def __init__(self, job: Optional[Job] = None, *, every: int = 1) -> None:
        self.job = current_job() if job is None else job
        self._every = every
        self._orbax: Any = import_module("orbax.checkpoint")

    def restore(self, state: Any) -> Tuple[Any, int]:
        """Return the state of the newest checkpoint and the number of completed steps.

        Without a checkpoint that is the given state and 0; otherwise it gives types, shapes and sharding.
        """
        checkpoint = self.job.restore()
        if checkpoint is None:
            return state, 0
        if position := randomness.read(checkpoint.path, self.job.rank):
            randomness.restore(position["now"])
        with self._orbax.StandardCheckpointer() as checkpointer:
            found = checkpointer.restore((checkpoint.path / FOLDER).resolve(), state)
        return found, int(checkpoint.step or 0)

    def done(self, /, step: int, state: Any, *, of: Optional[int] = None, **values: Any) -> None:
        """Report the completed steps, save when a checkpoint is due, and save and exit when asked to pause."""
        self.job.report(step=step, of=of, **values)
        pause = step != of and self.job.should_pause(step)
        owed = self.job.owes_checkpoint and self.job.world == 1
        if pause or owed or step % self._every == 0 or step == of:

            def write(directory: Path) -> None:
                randomness.write(directory, self.job.rank)
                with self._orbax.StandardCheckpointer() as checkpointer:
                    checkpointer.save((directory / FOLDER).resolve(), state)

            self.job.write(write, step, shards=True, last=step == of)
        if pause:
            self.job.exit_for_pause()
