"""For PyTorch Lightning: ``Trainer(callbacks=[callback()])`` and ``trainer.fit(model, ckpt_path=latest())``."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Optional

from springtide.training.adapters.values import plain
from springtide.training.job import Job, current_job

FILE = "lightning.ckpt"


def latest(job: Optional[Job] = None) -> Optional[str]:
    """Return the newest checkpoint for ``ckpt_path``, None if there is none."""
    found = (current_job() if job is None else job).restore()
    return None if found is None else str(found.path / FILE)


def callback(job: Optional[Job] = None, *, every_epochs: int = 1, shards: bool = False) -> Any:
    """Return a callback that reports, saves after each ``every_epochs`` epochs, and pauses between two batches.

    ``shards`` is for strategies in which every process writes its own part of a checkpoint.
    """
    try:
        framework: Any = import_module("lightning.pytorch")
    except ImportError:
        framework = import_module("pytorch_lightning")
    mine = current_job() if job is None else job

    class Springtide(framework.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            if mine.should_pause():
                save(trainer)
                mine.exit_for_pause()

        def on_train_epoch_end(self, trainer: Any, *_: Any) -> None:
            done = trainer.current_epoch + 1
            mine.report(step=done, of=trainer.max_epochs, **plain(trainer.callback_metrics))
            if done % every_epochs == 0:
                save(trainer)

    def save(trainer: Any) -> None:
        mine.write(lambda d: trainer.save_checkpoint(str(d / FILE)), trainer.global_step, shards=shards)

    return Springtide()
