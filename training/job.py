"""The job that the current process belongs to."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, NoReturn, Optional, Sequence, Set, Union

from springtide.training import datasets, stacks, trials
from springtide.training.agreement import Alone
from springtide.training.checkpoint import (
    Checkpoint,
    CheckpointError,
    Checkpoints,
    NoRoomError,
    rule_of,
    write_state,
)
from springtide.training.clusters import register_with_jax
from springtide.training.files import LAST_PATIENCE, RETRY_AFTER, wait_until, warn, write_when_there_is_room
from springtide.training.gang import Gang
from springtide.training.reports import Reports

AGAIN = 75
"""Exit code after a saved checkpoint: the job is to be started again."""

PAUSE_SEEN, CALLED, RETURNED, DONE = "pause-seen", "called", "returned", "done"
"""Milestones of a job: it has learnt of a pause, calls its function, which has returned, it is complete."""
SIGNAL_WAIT = 5.0
"""Maximum time from the pause file to the signal that follows it, in seconds."""

GRACE_USED = 0.8
"""Fraction of the grace period in which a checkpoint is tried again."""

_LOOK_EVERY = 0.005

_job: Optional["Job"] = None
_making = threading.Lock()


class Job:
    """A job, or a script that runs outside a pool; everything works there too.

    ``in_pool`` is true in a pool. ``id``, ``name``, ``project`` and ``attempt`` are set by the pool; ``rank`` is
    the number of this process among ``world`` processes. A job that is a trial of a sweep has the id of that sweep
    in ``sweep``, else empty, and its number from 0 in ``trial``, else None. ``test_run`` is true in a test run,
    which shows whether the program runs before the job itself waits in line. ``checkpoint_directory`` and
    ``output_directory`` are kept between attempts. ``owes_checkpoint`` is set while the newest checkpoint did not
    fit on the disk.
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
        self.sweep = environment.get("SPRINGTIDE_SWEEP", "")
        self.trial = int(environment["SPRINGTIDE_TRIAL"]) if self.sweep else None
        self._environment = environment
        self.test_run = environment.get("SPRINGTIDE_TEST_RUN") == "1"
        self._continues = environment.get("SPRINGTIDE_CONTINUES") == "1"
        given = environment.get("SPRINGTIDE_CHECKPOINT_DIR")
        self.checkpoint_directory = directory or Path(given or Path("checkpoints", _script_name()))
        self.output_directory = Path(environment.get("SPRINGTIDE_OUTPUT_DIR", "."))
        pause_file = environment.get("SPRINGTIDE_PAUSE_FILE") if self.in_pool else None
        self._pause_file = Path(pause_file) if pause_file else None
        report = environment.get("SPRINGTIDE_REPORT")
        self._reports = Reports(report if self.rank == 0 else None, self.attempt)
        self._checkpoints = Checkpoints(
            self.checkpoint_directory,
            keep=rule_of(environment, keep),
            rank=self.rank,
            world=self.world,
            attempt=self.attempt,
            values=self._reports.values,
            about=trials.about,
        )
        self._milestones = self._reports if self.rank == 0 else Reports(report, self.attempt)
        self._agreement = self._agree()
        self._agreement_of_jax = self._agree("jax")
        self.owes_checkpoint = False
        self._asked = False
        self._asked_at = 0.0
        self._signalled = False
        self._reached: Set[str] = set()
        self._looked = 0.0
        self._calls = 0

    # ---------- checkpoints

    @contextmanager
    def checkpoint(self, step: Optional[float] = None, *, shards: bool = False) -> Iterator[Path]:
        """Yield a directory to write a checkpoint to; it is complete and on disk when the block is left.

            with job.checkpoint(step=epoch) as directory:
                torch.save(model.state_dict(), directory / "model.pt")

        After an exception in the block, or the end of the process, the previous checkpoint stays the newest. With
        several processes only the files of the first one count; with ``shards`` every process has to enter the
        block, and all write to the same directory. Raises `CheckpointError` if one of them does not.

        On a full disk the block is left without an exception: the previous checkpoint stays the newest, the
        failure is reported to the pool and the log, and `owes_checkpoint` is set until a later one succeeds.
        """
        try:
            with self._checkpoints.writing(step, shards=shards) as directory:
                yield directory
        except NoRoomError as error:
            if not self.owes_checkpoint:
                self.owes_checkpoint = True
                self._reports.unsaved(step)
                warn(f"{error} The one before it stays; the training continues.")
        else:
            self.owes_checkpoint = False
            self._reports.saved(step)
            trials.saved()

    def write(
        self,
        write: Callable[[Path], Any],
        step: Optional[float] = None,
        *,
        shards: bool = False,
        last: bool = False,
    ) -> None:
        """Write a checkpoint by a function that gets its directory; otherwise like `checkpoint`.

        On a full disk a process that is alone tries again: during a pause until most of the grace period is over,
        and with ``last``, for a training that ends, for `LAST_PATIENCE` seconds. Then ``last`` raises
        `CheckpointError`.
        """
        began = time.monotonic()
        while True:
            with self.checkpoint(step, shards=shards) as directory:
                write(directory)
            alone = self.world == 1
            if not (self.owes_checkpoint and alone and time.monotonic() < self._tries_until(began, last=last)):
                break
            time.sleep(RETRY_AFTER)
        if self.owes_checkpoint and last:
            raise CheckpointError(f"There is no room for the last checkpoint in {self.checkpoint_directory}.")

    def _tries_until(self, began: float, *, last: bool) -> float:
        if last:
            return began + LAST_PATIENCE
        return self._asked_at + GRACE_USED * self.grace if self._is_asked() else began

    def save(self, state: Any, step: Optional[float] = None) -> None:
        """Write a checkpoint of one value that can be pickled, or of bytes, as by `write`."""
        self.write(lambda directory: write_state(state, directory) if self.rank == 0 else None, step)

    def restore(self) -> Optional[Checkpoint]:
        """Return the newest intact checkpoint (``path``, ``step``, ``state``), None if there is none yet.

        The first process says in the log which newer ones are damaged. Raises `CheckpointError` if none is left of
        a run that continues another one, such as a fork: from the start it would be a different run.
        """
        found = self._checkpoints.latest()
        damaged = self._checkpoints.after(found)
        if found is None and self._continues:
            lost = f"{_damage(damaged)} There is no other one." if damaged else "There is no checkpoint any more."
            raise CheckpointError(f"{lost} This run continues another one, and does not begin from the start.")
        if damaged and self.rank == 0:
            warn(f"{_damage(damaged)} {_instead(found)}")
        return found

    # ---------- data

    def dataset(self, name: str) -> Path:
        """Return the directory of a dataset, to read it: ``ImageFolder(job.dataset("imagenet"))``.

        A job has those that it was submitted with (``datasets=["imagenet"]``), a workspace those of its owner's
        projects. Raises `DatasetError`, a `LookupError`, for any other, with what to do about it.
        """
        return datasets.find(name, self._environment, in_pool=self.in_pool)

    # ---------- pauses

    def should_pause(self, step: Optional[int] = None) -> bool:
        """Return whether to save and exit now. The cost is low enough for a call in every step.

        With several processes, all have to call this equally often (once per step, for example), and all get the
        same answer at the same step, whatever framework connects them. With ``step``, a number that grows, they
        may call it any number of times for a step, and some of them for every tenth step only.
        """
        self._calls += 1
        return self._seen(self._agreement.reached(self._calls if step is None else step, self._is_asked))

    def pause_asked(self) -> bool:
        """Return whether this process has been asked to pause. Training loops call `should_pause` instead."""
        return self._seen(self._is_asked())

    def done(self) -> None:
        """Report that the job's work is complete, from any process: when it exits with 0, the job has succeeded.

        A job that exits with 0 after it was asked to pause is run again, unless it has called this, its last
        report had ``step == of``, or it is a function or notebook that returned and had not learnt of the pause.
        """
        self._reach(DONE)

    def was_told_to_stop(self) -> bool:
        """Return whether the program has learnt of a pause, by this library or by a SIGTERM that it took itself.

        The pause file comes before the signal. While SIGTERM is this library's, the signal is waited for.
        """
        if PAUSE_SEEN in self._reached or not self._is_asked():
            return PAUSE_SEEN in self._reached
        until = time.monotonic() + SIGNAL_WAIT
        while self._answers_sigterm() and not self._signalled and time.monotonic() < until:
            time.sleep(_LOOK_EVERY)
        return not self._signalled and signal.getsignal(signal.SIGTERM) != signal.SIG_IGN

    def called(self) -> None:
        """Report that the function is called: without a report that it has returned, there is no result of it."""
        if self.rank == 0:
            self._reach(CALLED)

    def returned(self, *, told_to_stop: bool) -> None:
        """Report that the function or notebook has returned, which it may have done because of a pause.

        The report counts as the result does: on a full disk it waits for room for up to `LAST_PATIENCE` seconds.
        """
        if told_to_stop:
            self._reach(PAUSE_SEEN)
        if self.rank == 0:
            self._reach(RETURNED)
            self.wait_for_reports()

    def wait_for_reports(self) -> None:
        """Wait until the reports that found no room are written, for at most `LAST_PATIENCE` seconds."""
        wait_until(self._milestones.flush)

    def _answers_sigterm(self) -> bool:
        return signal.getsignal(signal.SIGTERM) == self._signal

    def _reach(self, milestone: str) -> None:
        """Report a milestone once, from any process."""
        if milestone not in self._reached:
            self._reached.add(milestone)
            self._milestones.milestone(milestone)

    def _seen(self, pause: bool) -> bool:
        if pause:
            self._reach(PAUSE_SEEN)
        return pause

    def _is_asked(self) -> bool:
        if not self._asked and self._pause_file is not None:
            now = time.monotonic()
            if now - self._looked >= _LOOK_EVERY:
                self._looked = now
                if self._pause_file.exists():
                    self._ask()
        return self._asked

    def exit_for_pause(self) -> NoReturn:
        """End this process with the exit code by which the job is started again, after a saved checkpoint.

        A SIGTERM that arrives meanwhile is ignored, so that it does not end the process half-way. A member of a
        population that has come to the end of a generation ends with 0 instead: its work is done. It raises
        `GenerationError` if it has saved no checkpoint there.
        """
        ended = trials.end_generation()
        if ended:
            self._reach(RETURNED)
            self.done()
        self._reports.flush()
        trials.flush()
        if threading.current_thread() is threading.main_thread() and self._answers_sigterm():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise SystemExit(0 if ended else AGAIN)

    def epochs(
        self, of: int, *, save: Callable[[Path], Any], load: Callable[[Path], Any], every: int = 1
    ) -> Iterator[int]:
        """Yield the remaining epochs, from 0 to ``of`` - 1, saving and pausing between them.

            for epoch in job.epochs(200, save=save, load=load):
                job.report(step=epoch + 1, of=200, loss=train())

        Load the newest checkpoint first, save after each ``every`` epochs and after the last one, and save and
        exit when a pause is requested. ``save`` and ``load`` get the checkpoint's directory. A checkpoint that
        does not fit on the disk is saved after the next epoch.
        """
        checkpoint = self.restore()
        done = 0
        if checkpoint is not None:
            load(checkpoint.path)
            done = int(checkpoint.step or 0)
        for epoch in range(done, of):
            yield epoch
            pause = epoch + 1 < of and self.should_pause(epoch + 1)
            owed = self.owes_checkpoint and self.world == 1
            if pause or owed or (epoch + 1) % every == 0 or epoch + 1 == of:
                self.write(save, epoch + 1, last=epoch + 1 == of)
            if pause:
                self.exit_for_pause()

    # ---------- reports

    def report(self, /, *, step: Optional[float] = None, of: Optional[float] = None, **values: Any) -> None:
        """Report the progress: ``step`` out of ``of``, and numbers such as ``loss=0.3``.

        Of several processes only the first one reports. A full disk never fails the job.
        """
        self._reports.report(step, of, values)
        if trials.observe(step, of, values):
            self._ask()

    def write_outcome(self, path: Path, data: bytes) -> None:
        """Write a file that the job leaves behind; on a full disk, wait up to `LAST_PATIENCE` seconds for room.

        Pool and log say so meanwhile. Raises `OSError` for any other error, and for a disk that stays full.
        """
        write_when_there_is_room(path, data, self._milestones.waits_for_room)

    def lost_result(self, why: str) -> None:
        """Report that the function's result could not be kept, and why."""
        self._reports.lost_result(why)

    # ---------- internal

    def _agree(self, name: str = "") -> Union[Alone, Gang]:
        if not self.in_pool or self.world == 1:
            return Alone()
        return Gang(self.checkpoint_directory, self.attempt, self.rank, self.world, name)

    def _reached_for_jax(self, step: int) -> bool:
        return self._seen(self._agreement_of_jax.reached(step, self._is_asked))

    def _signal(self, *_: Any) -> None:
        self._signalled = True
        self._ask()

    def _ask(self) -> None:
        if not self._asked:
            self._asked, self._asked_at = True, time.monotonic()


def current_job(directory: Union[str, "os.PathLike[str]", None] = None, *, keep: int = 3) -> Job:
    """Return the job of this process; every call returns the same object.

    ``directory`` is the place of checkpoints outside a pool (``./checkpoints/<script>`` by default), ``keep`` the
    number of checkpoints kept, unless the job has options for that; both take effect at the first call only. From
    then on SIGTERM does not end a process of a pool but requests a pause, unless the script handles SIGTERM
    itself. In a gang ``jax.distributed.initialize()`` needs no arguments after a call, if JAX was imported before,
    and JAX's own
    question ``multihost_utils.reached_preemption_sync_point(step)`` is answered as `should_pause` is.
    """
    global _job  # noqa: PLW0603 - a process has one job
    with _making:
        if _job is None:
            in_pool = "SPRINGTIDE_JOB_ID" in os.environ
            place = None if directory is None or in_pool else Path(directory)
            _job = Job(os.environ, place, keep=keep)
            if in_pool:
                _answer_sigterm(_job)
                stacks.answer_requests()
        if _job.in_pool:
            register_with_jax(os.environ, _job._reached_for_jax)  # noqa: SLF001 - private part of the same module
        return _job


def job_of_process() -> Job:
    """Return the job of this process as the program has made it, else one without a handler of SIGTERM."""
    return _job or Job(os.environ)


def _answer_sigterm(job: Job) -> None:
    """Make SIGTERM request a pause in this process; child processes still end by it."""
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        return
    handler = job._signal  # noqa: SLF001 - private part of the same module
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


def _damage(damaged: Sequence[str]) -> str:
    """Return which checkpoints are damaged, in words."""
    one = len(damaged) == 1
    which = f"Checkpoint {damaged[0]} is" if one else f"The checkpoints {', '.join(damaged)} are"
    files = "its files differ" if one else "their files differ"
    return f"{which} damaged: {files} from the saved ones."


def _instead(found: Optional[Checkpoint]) -> str:
    """Return which checkpoint is taken in place of damaged ones, in words."""
    if found is None:
        return "There is no other one to restore."
    step = "" if found.step is None else f" of step {found.step:g}"
    return f"{found.path.name}{step} is restored instead."


def _script_name() -> str:
    name = Path(sys.argv[0]).stem if sys.argv and sys.argv[0] not in ("", "-c", "-m") else ""
    return name or "interactive"
