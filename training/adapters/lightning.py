"""For PyTorch Lightning: ``Trainer(callbacks=[callback()])`` and ``trainer.fit(model, ckpt_path=latest())``."""

from __future__ import annotations

import math
import signal
from importlib import import_module
from pathlib import Path
from typing import Any, Optional

from springtide.training.adapters.epochs import EpochPauses
from springtide.training.job import Job, current_job
from springtide.training.values import plain

FILE = "lightning.ckpt"


def latest(job: Optional[Job] = None) -> Optional[str]:
    """Return the newest checkpoint for ``ckpt_path``, None if there is none."""
    checkpoint = (current_job() if job is None else job).restore()
    return None if checkpoint is None else str(checkpoint.path / FILE)


def callback(job: Optional[Job] = None, *, every_epochs: int = 1, shards: bool = False) -> Any:
    """Return a callback that reports, saves after each ``every_epochs`` epochs, and pauses as `EpochPauses`
    decides.

    Steps are Lightning's global steps: those of the optimizer, over all epochs. After a pause between two batches
    Lightning reads the epoch's data from their beginning. ``shards`` is for strategies in which every process
    writes its own part of a checkpoint.
    """
    try:
        framework: Any = import_module("lightning.pytorch")
    except ImportError:
        framework = import_module("pytorch_lightning")
    mine = current_job() if job is None else job
    pauses = EpochPauses(mine)
    on_sigterm = signal.getsignal(signal.SIGTERM)

    class Springtide(framework.Callback):  # type: ignore[misc]
        def on_train_start(self, *_: Any) -> None:
            # Lightning's own handler is a collective operation, and ranks get the signal at different steps.
            if mine.in_pool:
                signal.signal(signal.SIGTERM, on_sigterm)

        def on_train_epoch_start(self, *_: Any) -> None:
            pauses.epoch_begins()

        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            if pauses.after_batch():
                save(trainer)
                mine.exit_for_pause()

        def on_train_epoch_end(self, trainer: Any, *_: Any) -> None:
            mine.report(step=trainer.global_step, of=steps(trainer), **plain(trainer.callback_metrics))
            pause = pauses.after_epoch()
            if pause or (trainer.current_epoch + 1) % every_epochs == 0:
                save(trainer)
            if pause:
                mine.exit_for_pause()

    def steps(trainer: Any) -> Optional[float]:
        most = float(trainer.estimated_stepping_batches)
        return most if math.isfinite(most) else None

    def save(trainer: Any) -> None:
        def write(directory: Path) -> None:
            trainer.save_checkpoint(str(directory / FILE), weights_only=False)

        mine.write(write, trainer.global_step, shards=shards)

    return Springtide()
