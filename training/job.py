"""The job that this process is."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, NoReturn, Optional, Union

from springtide.training.agreement import Alone, OnOneMachine, OnSeveralMachines
from springtide.training.checkpoint import Checkpoint, Checkpoints
from springtide.training.reports import Reports

AGAIN = 75
"""The exit code that says: checkpointed, run me again."""

_LOOK_EVERY = 0.005
_LOOPBACK = ("", "localhost", "127.0.0.1", "::1")

_job: Optional["Job"] = None
_making = threading.Lock()


class Job:
    """A job, or a script that could be one: everything works outside a pool too.

    ``in_pool`` tells which. ``id``, ``name``, ``project`` and ``attempt`` are as the pool says; ``rank`` of
    ``world`` processes is this one. ``checkpoint_directory`` and ``output_directory`` are kept between attempts.
    """

    def __init__(self, environment: Mapping[str, str], directory: Optional[Path] = None, *, keep: int = 3) -> None:
        self.in_pool = "SPRINGTIDE_JOB_ID" in environment
        self.id = environment.get("SPRINGTIDE_JOB_ID", "")
        self.name = environment.get("SPRINGTIDE_JOB_NAME", _script_name())
        self.project = environment.get("SPRINGTIDE_PROJECT", "")
        self.attempt = int(environment.get("SPRINGTIDE_ATTEMPT", "1"))
        self.grace = float(environment.get("SPRINGTIDE_GRACE_SECONDS", "30"))
        self.rank = int(environment.get("RANK", "0"))
        self.world = int(environment.get("WORLD_SIZE", "1"))
        given = environment.get("SPRINGTIDE_CHECKPOINT_DIR")
        self.checkpoint_directory = directory or Path(given or Path("checkpoints", _script_name()))
        self.output_directory = Path(environment.get("SPRINGTIDE_OUTPUT_DIR", "."))
        pause_file = environment.get("SPRINGTIDE_PAUSE_FILE") if self.in_pool else None
        self._pause_file = Path(pause_file) if pause_file else None
        self._checkpoints = Checkpoints(
            self.checkpoint_directory, keep=keep, rank=self.rank, world=self.world, attempt=self.attempt
        )
        self._reports = Reports(environment.get("SPRINGTIDE_REPORT") if self.rank == 0 else None, self.attempt)
        self._agreement = self._agree(environment.get("MASTER_ADDR", ""))
        self._asked = False
        self._looked = 0.0
        self._calls = 0

    # ---------- checkpoints

    @contextmanager
    def checkpoint(self, step: Optional[float] = None, *, shards: bool = False) -> Iterator[Path]:
        """A directory to write a checkpoint to; it is complete and on disk when the block is left.

            with job.checkpoint(step=epoch) as directory:
                torch.save(model.state_dict(), directory / "model.pt")

        An exception in the block, or the end of the process, leaves the checkpoint before it in force. Of several
        processes the first one's counts; with ``shards`` every process has to enter, and all write to the same
        directory. Raises `CheckpointError` if one of them does not come.
        """
        with self._checkpoints.writing(step, shards=shards) as directory:
            yield directory
        self._reports.saved(step)

    def save(self, state: Any, step: Optional[float] = None) -> None:
        """Write a checkpoint of one value that can be pickled, or of bytes."""
        self._checkpoints.save(state, step)
        self._reports.saved(step)

    def restore(self) -> Optional[Checkpoint]:
        """The newest intact checkpoint (``path``, ``step``, ``state``), None in a job that has none yet."""
        return self._checkpoints.latest()

    # ---------- pauses

    def should_pause(self, step: Optional[int] = None) -> bool:
        """Whether to save and exit now. Cheap enough for every step.

        Where several processes run, all have to ask equally often (once per step, say) and all get the same answer
        at the same step; with ``step`` they may ask as often as they like, as long as it is for the same steps.
        """
        self._calls += 1
        return self._agreement.reached(self._calls if step is None else step, self.pause_asked)

    def pause_asked(self) -> bool:
        """Whether this process has been asked, whatever the others know. Training loops want `should_pause`."""
        if not self._asked and self._pause_file is not None:
            now = time.monotonic()
            if now - self._looked >= _LOOK_EVERY:
                self._looked = now
                self._asked = self._pause_file.exists()
        return self._asked

    def exit_for_pause(self) -> NoReturn:
        """End this process in the way that says: checkpointed, run me again.

        A SIGTERM that comes while it leaves asks for nothing more, so it does not end it half-way.
        """
        self._reports.flush()
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == self._ask:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise SystemExit(AGAIN)

    def epochs(
        self, of: int, *, save: Callable[[Path], Any], load: Callable[[Path], Any], every: int = 1
    ) -> Iterator[int]:
        """The epochs that are left, from 0 to ``of`` - 1, with everything that is to do between them.

            for epoch in job.epochs(200, save=save, load=load):
                job.report(step=epoch + 1, of=200, loss=train())

        Loads the newest checkpoint first, saves after each ``every`` epochs and after the last, and when a pause
        is asked for saves and exits. ``save`` and ``load`` get the checkpoint's directory.
        """
        found = self.restore()
        done = 0
        if found is not None:
            load(found.path)
            done = int(found.step or 0)
        for epoch in range(done, of):
            yield epoch
            pause = self.should_pause(epoch + 1) and epoch + 1 < of
            if pause or (epoch + 1) % every == 0 or epoch + 1 == of:
                with self.checkpoint(epoch + 1) as directory:
                    save(directory)
            if pause:
                self.exit_for_pause()

    # ---------- reports

    def report(self, *, step: Optional[float] = None, of: Optional[float] = None, **values: Any) -> None:
        """Tell how far the job is: ``step`` of how many, and numbers such as ``loss=0.3``.

        Only the first of several processes tells. Never fails the job for want of disk space.
        """
        self._reports.report(step, of, values)

    # ---------- underneath

    def _agree(self, master: str) -> Union[Alone, OnOneMachine, OnSeveralMachines]:
        if not self.in_pool or self.world == 1:
            return Alone()
        if master not in _LOOPBACK:
            return OnSeveralMachines()
        path = self.checkpoint_directory / f".pause-of-attempt-{self.attempt}"
        return OnOneMachine(path, self.rank, self.world)

    def _ask(self, *_: Any) -> None:
        self._asked = True


def current_job(directory: Union[str, "os.PathLike[str]", None] = None, *, keep: int = 3) -> Job:
    """The job that this process is; the same object whenever it is asked for.

    ``directory`` is where checkpoints go outside a pool (``./checkpoints/<script>`` if left out), ``keep`` how
    many of them stay; both count at the first call. From then on SIGTERM does not end a process of a pool, it asks
    for a pause, unless the script handles SIGTERM itself.
    """
    global _job  # noqa: PLW0603 - a process is one job
    with _making:
        if _job is None:
            in_pool = "SPRINGTIDE_JOB_ID" in os.environ
            place = None if directory is None or in_pool else Path(directory)
            _job = Job(os.environ, place, keep=keep)
            if in_pool:
                _answer_sigterm(_job)
        return _job


def _answer_sigterm(job: Job) -> None:
    """Let SIGTERM ask for a pause in this process; its own children end by it as ever."""
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        return
    handler = job._ask  # noqa: SLF001 - the job's other half
    signal.signal(signal.SIGTERM, handler)

    def hold() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))

    def release() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM,))

    def as_ever() -> None:
        if signal.getsignal(signal.SIGTERM) == handler:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        release()

    os.register_at_fork(before=hold, after_in_parent=release, after_in_child=as_ever)


def _script_name() -> str:
    name = Path(sys.argv[0]).stem if sys.argv and sys.argv[0] not in ("", "-c", "-m") else ""
    return name or "interactive"
