"""For Keras 3: ``model.fit(…, callbacks=[callback()])``."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence
from weakref import WeakKeyDictionary

from springtide.training.adapters import randomness
from springtide.training.adapters.epochs import EpochPauses
from springtide.training.job import Job, current_job
from springtide.training.values import plain

FILE = "latest.weights.h5"


def callback(job: Optional[Job] = None, *, every_epochs: int = 1) -> Any:
    """Return a callback that loads the newest checkpoint, reports and saves after epochs, and can pause.

    The model has to be built before ``fit``. Of several calls of ``fit`` in a program each has a callback: those
    that were complete before a pause are left out after it, and the job's steps count all of them. It pauses as
    `EpochPauses` decides; after a pause between two batches the epoch's data are read in the same order again, and
    those that the model has had are left out.
    """
    framework: Any = import_module("keras")
    mine = current_job() if job is None else job
    pauses = EpochPauses(mine)
    fits = _FITS.setdefault(mine, _Fits())

    class Springtide(framework.callbacks.Callback):  # type: ignore[misc]
        epoch = 0
        before: Optional[int] = None
        begin: Optional[randomness.State] = None
        position: Dict[str, Any] = {}  # noqa: RUF012 - replaced, never changed
        skipping: Optional[_Skipping] = None

        def on_train_begin(self, *_: Any, **__: Any) -> None:
            fits.number += 1
            self.epoch, self.before, self.position, self.skipping = 0, None, {}, None
            checkpoint = mine.restore()
            if checkpoint is not None:
                position = randomness.read(checkpoint.path, mine.rank)
                fit = (position or randomness.read(checkpoint.path, 0)).get("fit", 1)
                if fit > fits.number:  # complete in an earlier attempt
                    self.epoch = (self.params or {}).get("epochs", 0)
                elif fit == fits.number:
                    self._load(checkpoint.path)
                    self.position, self.before = position, position.get("before", 0)
                    self.epoch = int(checkpoint.step or 0) - self.before
                    fits.steps = self.before + self.epoch
            self.model._initial_epoch = self.epoch  # noqa: SLF001 - like Keras' own BackupAndRestore

        def _load(self, path: Path) -> None:
            optimizer = self.model.optimizer
            if optimizer is not None and not optimizer.built:
                optimizer.build(self.model.trainable_variables)
            self.model.load_weights(str(path / FILE))

        def on_epoch_begin(self, epoch: int, *_: Any, **__: Any) -> None:
            if self.before is None:
                self.before = max(0, fits.steps - epoch)
            self.epoch = epoch
            position = self._resume()
            self.begin = randomness.capture()
            if position.get("batches"):
                self.skipping = _Skipping(self.model, position["batches"], position["now"])
            pauses.epoch_begins()

        def on_train_batch_end(self, batch: int, *_: Any, **__: Any) -> None:
            if self.skipping is not None:
                if not self.skipping.is_over(batch + 1):
                    return
                self.skipping = None
            elif pauses.after_batch() and batch + 1 != (self.params or {}).get("steps"):
                metrics = _values(self.model.metrics_variables)
                self._save(begin=self.begin, batches=batch + 1, metrics=metrics)
                mine.exit_for_pause()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.epoch = epoch + 1
            before = self.before or 0
            fits.steps = before + self.epoch
            epochs = (self.params or {}).get("epochs")
            mine.report(step=fits.steps, of=epochs and before + epochs, **plain(logs or {}))
            pause = pauses.after_epoch()
            if pause or self.epoch % every_epochs == 0:
                self._save()
            if pause:
                mine.exit_for_pause()

        def on_train_end(self, *_: Any, **__: Any) -> None:
            self._resume()  # of a fit that was complete when it was paused

        def _resume(self) -> Dict[str, Any]:
            """Set the random numbers to those of the checkpoint that was loaded, and return its position."""
            position, self.position = self.position, {}
            if position:
                _assign(self.model, position)
                randomness.restore(position.get("begin") or position["now"])
            return position

        def _save(self, **position: Any) -> None:
            position.update(fit=fits.number, before=self.before or 0)
            seeds = _values(_seeds(self.model))

            def write(directory: Path) -> None:
                randomness.write(directory, mine.rank, seeds=seeds, **position)
                if mine.rank == 0:
                    self.model.save_weights(str(directory / FILE))

            mine.write(write, (self.before or 0) + self.epoch, shards=True)

    return Springtide()


class _Fits:
    """The calls of ``fit`` with a callback in this process: their ``number``, and their ``steps`` together."""

    def __init__(self) -> None:
        self.number = 0
        self.steps = 0


_FITS: "WeakKeyDictionary[Job, _Fits]" = WeakKeyDictionary()


class _Skipping:
    """Reads the first batches of an epoch without training on them; then trains, with the numbers of ``now``."""

    def __init__(self, model: Any, batches: int, now: randomness.State) -> None:
        self._model = model
        self._batches = batches
        self._now = now
        self._train = model.train_function
        model.train_function = self._read

    def is_over(self, batches: int) -> bool:
        """Return whether the first batches have been read; with the last one, let the model train again."""
        if batches < self._batches:
            return False
        self._model.train_function = self._train
        randomness.restore(self._now)
        return True

    def _read(self, *given: Any) -> Any:
        """Take the place of the train function, which gets data or their iterator, with JAX after the state."""
        if hasattr(given[-1], "__next__"):
            for _ in range(self._model.steps_per_execution):
                next(given[-1])
        return {} if len(given) == 1 else ({}, given[0])


def _seeds(model: Any) -> List[Any]:
    """Return the variables that are no weights: those of the seed generators of layers such as Dropout."""
    weights = {id(variable) for variable in model.weights}
    return [variable for variable in model.variables if id(variable) not in weights and "seed" in variable.path]


def _values(variables: Sequence[Any]) -> List[Any]:
    framework: Any = import_module("keras")
    return [framework.ops.convert_to_numpy(variable) for variable in variables]


def _assign(model: Any, position: Dict[str, Any]) -> None:
    """Set the seed generators, and in the middle of an epoch the metrics, to their values in a checkpoint."""
    for variables, name in ((_seeds(model), "seeds"), (model.metrics_variables, "metrics")):
        values = position.get(name, ())
        if len(values) == len(variables):
            for variable, value in zip(variables, values):  # noqa: B905 - of Python 3.10
                variable.assign(value)
