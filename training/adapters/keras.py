"""For Keras 3: ``model.fit(…, callbacks=[callback()])``."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Optional

from springtide.training.adapters.epochs import EpochPauses
from springtide.training.job import Job, current_job
from springtide.training.values import plain

FILE = "latest.weights.h5"


def callback(job: Optional[Job] = None, *, every_epochs: int = 1) -> Any:
    """Return a callback that loads the newest checkpoint, reports and saves after epochs, and can pause.

    The model has to be built before ``fit``. It pauses as `EpochPauses` decides; after a pause between two batches
    the epoch starts again with the weights at the pause.
    """
    framework: Any = import_module("keras")
    mine = current_job() if job is None else job
    pauses = EpochPauses(mine)

    class Springtide(framework.callbacks.Callback):  # type: ignore[misc]
        epoch = 0

        def on_train_begin(self, *_: Any, **__: Any) -> None:
            checkpoint = mine.restore()
            if checkpoint is not None:
                optimizer = self.model.optimizer
                if optimizer is not None and not optimizer.built:
                    optimizer.build(self.model.trainable_variables)
                self.model.load_weights(str(checkpoint.path / FILE))
                self.epoch = int(checkpoint.step or 0)
                self.model._initial_epoch = self.epoch  # noqa: SLF001 - like Keras' own BackupAndRestore

        def on_epoch_begin(self, *_: Any, **__: Any) -> None:
            pauses.epoch_begins()

        def on_train_batch_end(self, *_: Any, **__: Any) -> None:
            if pauses.after_batch():
                self._save()
                mine.exit_for_pause()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.epoch = epoch + 1
            mine.report(step=self.epoch, of=(self.params or {}).get("epochs"), **plain(logs or {}))
            pause = pauses.after_epoch()
            if pause or self.epoch % every_epochs == 0:
                self._save()
            if pause:
                mine.exit_for_pause()

        def _save(self) -> None:
            mine.write(lambda directory: self.model.save_weights(str(directory / FILE)), self.epoch)

    return Springtide()
