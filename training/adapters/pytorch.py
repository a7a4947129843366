"""For training loops in plain PyTorch."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, Optional

from springtide.training.adapters import randomness
from springtide.training.adapters.epochs import EpochPauses
from springtide.training.job import Job, current_job

FILE = "state.pt"


class Resumable:
    """The objects that a loop keeps over a pause: any with ``state_dict`` and ``load_state_dict``.

        parts = Resumable(model=model, optimizer=optimizer)
        for epoch in range(parts.restore(), 200):
            for data in parts.batches(loader):
                loss = train(model, data)
            parts.done(epoch + 1, of=200, loss=loss)

    The random numbers of Python, NumPy and PyTorch are kept as well, those of each process of a gang, so that a
    resumed training equals one without a pause. ``every`` is the number of steps between checkpoints.
    """

    def __init__(self, /, job: Optional[Job] = None, *, every: int = 1, **parts: Any) -> None:
        self.job = current_job() if job is None else job
        self._every = every
        self._parts = parts
        self._torch: Any = import_module("torch")
        self._pauses = EpochPauses(self.job)
        self._in_epochs = False
        self._step = 0
        self._position: Dict[str, Any] = {}

    def restore(self) -> int:
        """Load the newest checkpoint, if there is one; return the number of completed steps."""
        checkpoint = self.job.restore()
        if checkpoint is None:
            return 0
        state = self._torch.load(str(checkpoint.path / FILE), map_location="cpu", weights_only=False)
        for name, part in self._parts.items():
            part.load_state_dict(state["parts"][name])
        self._position = randomness.read(checkpoint.path, self.job.rank)
        if self._position:
            randomness.restore(self._position["now"])
        self._step = int(state["step"])
        return self._step

    def batches(self, loader: Iterable[Any], *, accumulate: int = 1) -> Iterator[Any]:
        """Yield the batches of a loader, and pause between two of them if the epoch is long.

        The loop's step is an epoch: `done` comes after the last batch. After a pause in the middle of an epoch
        the loader draws the same order again, and the batches that the model has had are read and left out. Pauses
        come only after every ``accumulate`` batches, when no gradients are pending.
        """
        self._in_epochs = True
        position, self._position = self._position, {}
        begin = position.get("begin")
        if begin is None:
            begin, position = randomness.capture(), {}
        randomness.restore(begin)
        iterator, count = iter(loader), position.get("batches", 0)
        for _ in range(count):
            next(iterator, None)
        if position:
            randomness.restore(position["now"])
        self._pauses.epoch_begins()
        for batch in iterator:
            yield batch
            count += 1
            if count % accumulate == 0 and self._pauses.after_batch():
                self._write(self._step, begin=begin, batches=count)
                self.job.exit_for_pause()

    def done(self, /, step: int, *, of: Optional[int] = None, **values: Any) -> None:
        """Report the completed steps, save when a checkpoint is due, and save and exit when asked to pause."""
        self._step = step
        self.job.report(step=step, of=of, **values)
        pause = (self._pauses.after_epoch() if self._in_epochs else self.job.should_pause(step)) and step != of
        owed = self.job.owes_checkpoint and self.job.world == 1
        if pause or owed or step % self._every == 0 or step == of:
            self._write(step, last=step == of)
        if pause:
            self.job.exit_for_pause()

    def _write(self, step: int, *, last: bool = False, **position: Any) -> None:
        def write(directory: Path) -> None:
            randomness.write(directory, self.job.rank, **position)
            if self.job.rank == 0:
                parts = {name: part.state_dict() for name, part in self._parts.items()}
                self._torch.save({"step": step, "parts": parts}, str(directory / FILE))

        self.job.write(write, step, shards=True, last=last)
