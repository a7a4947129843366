"""For Keras 3: ``model.fit(…, callbacks=[callback()])``."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Optional

from springtide.training.adapters.values import plain
from springtide.training.job import Job, current_job

FILE = "latest.weights.h5"


def callback(job: Optional[Job] = None, *, every_epochs: int = 1) -> Any:
    """Return a callback that loads the newest checkpoint, reports and saves after epochs, and can pause.

    It pauses between two batches. The model has to be built before ``fit``. After a pause in the middle of an
    epoch, that epoch starts again with the weights at the pause.
    """
    framework: Any = import_module("keras")
    mine = current_job() if job is None else job

    class Springtide(framework.callbacks.Callback):  # type: ignore[misc]
        epoch = 0

        def on_train_begin(self, _logs: Any = None) -> None:
            found = mine.restore()
            if found is not None:
                optimizer = self.model.optimizer
                if optimizer is not None and not optimizer.built:
                    optimizer.build(self.model.trainable_variables)
                self.model.load_weights(str(found.path / FILE))
                self.epoch = int(found.step or 0)
                self.model._initial_epoch = self.epoch  # noqa: SLF001 - like Keras' own BackupAndRestore

        def on_train_batch_end(self, _batch: int, _logs: Any = None) -> None:
            if mine.should_pause():
                self._save()
                mine.exit_for_pause()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.epoch = epoch + 1
            mine.report(step=self.epoch, of=(self.params or {}).get("epochs"), **plain(logs or {}))
            if self.epoch % every_epochs == 0:
                self._save()

        def _save(self) -> None:
            mine.write(lambda directory: self.model.save_weights(str(directory / FILE)), self.epoch)

    return Springtide()
