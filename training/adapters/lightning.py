"""For PyTorch Lightning: ``Trainer(callbacks=[callback()])`` and ``trainer.fit(model, ckpt_path=latest())``."""

from __future__ import annotations

import math
import signal
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any, Dict, Optional

from springtide.training.adapters import randomness
from springtide.training.adapters.epochs import EpochPauses
from springtide.training.job import Job, current_job
from springtide.training.values import plain

FILE = "lightning.ckpt"


def latest(job: Optional[Job] = None) -> Optional[str]:
    """Return the newest checkpoint for ``ckpt_path``, None if there is none."""
    checkpoint = (current_job() if job is None else job).restore()
    return None if checkpoint is None else str(checkpoint.path / FILE)


def callback(job: Optional[Job] = None, *, every_epochs: int = 1) -> Any:
    """Return a callback that reports, saves after each ``every_epochs`` epochs, and pauses as `EpochPauses`
    decides.

    Steps are Lightning's global steps: those of the optimizer, over all epochs. After a pause between two batches
    the epoch's data are read in the same order again, and those that the model has had are left out. If gradients
    are accumulated over several batches, it pauses after the last of them.
    """
    try:
        framework: Any = import_module("lightning.pytorch")
    except ImportError:
        framework = import_module("pytorch_lightning")
    mine = current_job() if job is None else job
    pauses = EpochPauses(mine)
    on_sigterm = signal.getsignal(signal.SIGTERM)

    class Springtide(framework.Callback):  # type: ignore[misc]
        order: Optional[_Order] = None

        def on_train_start(self, trainer: Any, *_: Any) -> None:
            # Lightning's own handler is a collective operation, and ranks get the signal at different steps.
            if mine.in_pool:
                signal.signal(signal.SIGTERM, on_sigterm)
            checkpoint = mine.restore() if trainer.ckpt_path else None
            resumed = checkpoint is not None and Path(trainer.ckpt_path) == checkpoint.path / FILE
            position = randomness.read(checkpoint.path, mine.rank) if checkpoint is not None and resumed else {}
            self.order = _Order(trainer.fit_loop, position)
            if position.get("begin"):  # Lightning does not know that the order is the same again
                warnings.filterwarnings("ignore", ".*your dataloader is not resumable")

        def on_train_epoch_start(self, *_: Any) -> None:
            pauses.epoch_begins()

        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            if pauses.after_batch() and not trainer.fit_loop._should_accumulate():  # noqa: SLF001 - no public name
                save(trainer, self.order.begin if self.order else None)
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

    def save(trainer: Any, begin: Optional[randomness.State] = None) -> None:
        def write(directory: Path) -> None:
            randomness.write(directory, mine.rank, begin=begin)
            trainer.save_checkpoint(str(directory / FILE), weights_only=False)

        mine.write(write, trainer.global_step, shards=True)

    return Springtide()


class _Order:
    """The order of the data in each epoch, which follows from the random numbers at its begin.

    Lightning has no hook between the creation of an epoch's iterator and its first batch.
    """

    def __init__(self, fit_loop: Any, position: Dict[str, Any]) -> None:
        self.begin: Optional[randomness.State] = None
        self._loop = fit_loop.epoch_loop
        self._position = position
        self._original = self._loop.on_run_start
        self._first = True
        self._loop.on_run_start = self._on_run_start

    def _on_run_start(self, fetcher: Any) -> None:
        if self._loop.done:  # restored after the last batch of an epoch
            self._original(fetcher)
            return
        position, self._position = self._position, {}
        if position:
            randomness.restore(position.get("begin") or position["now"])
        self.begin = randomness.capture()
        self._original(fetcher)
        if self._first:
            # The iterator of the first epoch was made before any hook.
            self._first = False
            batches = self._loop.batch_progress.current.ready if position.get("begin") else 0
            randomness.restore(self.begin)
            iter(fetcher)
            for _ in range(batches):
                next(fetcher)
            fetcher.fetched = self._loop.batch_progress.current.ready
        if position.get("begin"):
            randomness.restore(position["now"])
