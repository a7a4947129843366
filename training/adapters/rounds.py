"""Boosting in rounds: a model on disk between them, for XGBoost and LightGBM."""

from __future__ import annotations

import pickle
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

from springtide.training.job import Job
from springtide.training.values import plain

POSITION = "rounds.pkl"
SAVE_EVERY = 60.0
"""Minimum time between two checkpoints of a training that is not asked to pause, in seconds."""


class Rounds:
    """Saves a model after a round if a checkpoint is due, and pauses.

    ``kept`` are the user's callbacks, whose attributes are kept over a pause: the patience of early stopping, for
    example. ``clock`` returns seconds.
    """

    def __init__(
        self, job: Job, file: str, kept: List[Any], of: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._job = job
        self._file = file
        self._kept = kept
        self._of = of
        self._clock = clock
        self._saved = clock()
        self.history: Dict[str, Any] = {}

    def restore(self) -> Tuple[Optional[Path], int]:
        """Return the file of the newest model, None if there is none, and the number of its rounds."""
        checkpoint = self._job.restore()
        if checkpoint is None:
            return None, 0
        with (checkpoint.path / POSITION).open("rb") as file:
            position = pickle.load(file)  # noqa: S301 - written by the job itself
        for each, attributes in zip(self._kept, position["callbacks"]):  # noqa: B905 - of Python 3.10
            _update(each, attributes)
        self.history = position["history"]
        return checkpoint.path / self._file, int(checkpoint.step or 0)

    def done(
        self, rounds: int, save: Callable[[Path], Any], history: Dict[str, Any], values: Dict[str, Any]
    ) -> None:
        """Report this number of completed rounds, save if it is time, and save and exit when asked to pause."""
        self._job.report(step=rounds, of=self._of, **plain(values))
        pause = rounds < self._of and self._job.should_pause(rounds)
        if pause or rounds == self._of or self._clock() - self._saved >= SAVE_EVERY:
            self._saved = self._clock()

            def write(directory: Path) -> None:
                save(directory / self._file)
                position = {"callbacks": [_attributes(each) for each in self._kept], "history": history}
                (directory / POSITION).write_bytes(pickle.dumps(position))

            self._job.write(write, rounds)
        if pause:
            self._job.exit_for_pause()


def _attributes(thing: Any) -> Dict[str, Any]:
    """Return the attributes of a callback that can be pickled."""
    found = {}
    for name, value in getattr(thing, "__dict__", {}).items():
        try:
            pickle.dumps(value)
        except Exception:  # noqa: BLE001, S112 - whatever a class of the user's raises
            continue
        found[name] = value
    return found


def _update(thing: Any, attributes: Dict[str, Any]) -> None:
    """Set attributes; a dict of the user's, in which a callback collects values, gets its content."""
    for name, value in attributes.items():
        old = getattr(thing, name, None)
        if isinstance(old, dict) and isinstance(value, dict):
            old.clear()
            old.update(value)
        else:
            setattr(thing, name, value)
