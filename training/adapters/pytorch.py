"""For training loops in plain PyTorch."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Dict, Optional

from springtide.training.job import Job, current_job

FILE = "state.pt"


class Resumable:
    """The objects that a loop keeps over a pause: any with ``state_dict`` and ``load_state_dict``.

        parts = Resumable(model=model, optimizer=optimizer)
        for epoch in range(parts.restore(), 200):
            loss = train(model)
            parts.done(epoch + 1, of=200, loss=loss)

    The state of the random number generators is kept as well, so that a resumed training equals one without a
    pause. ``every`` is the number of steps between checkpoints.
    """

    def __init__(self, job: Optional[Job] = None, *, every: int = 1, **parts: Any) -> None:
        self.job = current_job() if job is None else job
        self._every = every
        self._parts = parts
        self._torch: Any = import_module("torch")

    def restore(self) -> int:
        """Load the newest checkpoint, if there is one; return the number of completed steps."""
        checkpoint = self.job.restore()
        if checkpoint is None:
            return 0
        state = self._torch.load(str(checkpoint.path / FILE), map_location="cpu", weights_only=False)
        for name, part in self._parts.items():
            part.load_state_dict(state["parts"][name])
        self._torch.set_rng_state(state["random"])
        if state["random_cuda"] and self._torch.cuda.is_available():
            self._torch.cuda.set_rng_state_all(state["random_cuda"])
        return int(state["step"])

    def done(self, step: int, *, of: Optional[int] = None, **values: Any) -> None:
        """Report the completed steps, save when a checkpoint is due, and save and exit when asked to pause."""
        self.job.report(step=step, of=of, **values)
        pause = step != of and self.job.should_pause(step)
        owed = self.job.owes_checkpoint and self.job.world == 1
        if pause or owed or step % self._every == 0 or step == of:
            self.job.write(lambda directory: self._save(step, directory), step, last=step == of)
        if pause:
            self.job.exit_for_pause()

    def _save(self, step: int, directory: Path) -> None:
        if self.job.rank == 0:
            self._torch.save(self._state(step), str(directory / FILE))

    def _state(self, step: int) -> Dict[str, Any]:
        cuda = self._torch.cuda
        return {
            "step": step,
            "parts": {name: part.state_dict() for name, part in self._parts.items()},
            "random": self._torch.get_rng_state(),
            "random_cuda": cuda.get_rng_state_all() if cuda.is_available() else [],
        }
