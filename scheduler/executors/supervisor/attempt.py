"""The life of one attempt, from the lock to the exit record."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import select
import signal
import time
from contextlib import suppress
from typing import Any

from .disk import DiskCap
from .error_line import error_line
from .log import Log
from .pod import RAN_ALREADY, copy_output, exit_code, in_pod, write_termination_message
from .records import (
    FULL,
    KILL,
    KILL_NOW,
    PAUSE,
    REQUESTS,
    RUN_TIME,
    Names,
    exists,
    leave,
    take_lock,
    write_in_place,
    write_record,
)
from .search import Search
from .secret_files import read_secret
from .sessions import POD_DIRECTORY, Sessions, named_prompt
from .stack import WORKER
from .table import boot_id, descendants, process, seconds_since_boot, send
from .worker import ANSWERED, IGNORED, Streams, refusal, run_worker

KILL_AFTER = 5.0
"""Time between SIGTERM and SIGKILL if no grace period applies, in seconds."""
RELOOK = 1.0
"""Interval at which an ending pod looks for a stronger request, in seconds: containerd sends SIGTERM only once."""
RESCAN = 0.02
"""First interval at which processes that survived SIGKILL are killed again, in seconds."""
SHUTDOWN = 120.0
"""Time in which the workers end after a machine that shuts down has sent SIGTERM to all, in seconds.

Afterwards it kills the rest; systemd waits 90 s. Later ends have other causes.
"""
TREE_WAIT = 900.0
"""Time for the first worker of a gang of pods to make the copy of the project, in seconds."""
RESERVED = 4096
"""Size of the exit record that is reserved on disk, in bytes."""

_PR_SET_CHILD_SUBREAPER = 36

Problem = tuple[str, str]
"""Why nothing could be started: the kind of the end, and a sentence."""


class Supervisor:
    """Starts the workers of one attempt, logs their output, ends them on request, and records how they ended."""

    def __init__(
        self, path: str, directory: int, spec: dict[str, Any], record: dict[str, Any], names: Names
    ) -> None:
        self.path = path
        self.directory = directory
        self.spec = spec
        self.kill_after = spec.get("kill_after", KILL_AFTER)
        self.record = record
        self.names = names
        self.pod = names.rank is not None
        self.logs: dict[int, Log] = {}
        self.log_of: dict[int, Log] = {}
        self.secrets: dict[str, str] = {}
        self.workers: dict[int, int] = {}
        self.failed: tuple[int | None, int | None] | None = None
        self.failed_rank: int | None = None
        self.asked: str | None = None
        self.told_to_stop: float | None = None
        self.ending = False
        self.forced = False
        self.leftovers = False
        self.deadline: float | None = None
        self.record_at: float | None = None
        self.disk = DiskCap(spec.get("disk"), lambda: [process.pid for process in descendants(os.getpid())])
        self.over_disk: str | None = None
        self.search = Search(spec if names.rank in (None, spec["workers"][0]["rank"]) else {})
        self.rescan = RESCAN
        self.poll = select.poll()
        self.sessions = Sessions(self.poll, self._fork_session, self._environment_of)
        self.wake, wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.poll.register(self.wake, select.POLLIN)
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        for number in ANSWERED:
            signal.signal(number, lambda *_: None)
        for number in IGNORED:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    def run(self) -> dict[str, Any]:
        """Run the attempt to its end; return the exit record."""
        self._read_requests()
        if self.asked:
            return self._ended("exited", detail="It was asked to stop before it started.")
        problem = self._make_tree() or (None if self.asked else self._prepare())
        if self.asked:
            return self._ended("exited", detail="It was asked to stop before it started.")
        problem = problem or self._start()
        if problem:
            self._force()
            while self._reap():
                time.sleep(RESCAN)
                self._force()
            kind, why = problem
            return self._ended(kind, detail=why)
        self.record["started"], self.record["since_boot"] = time.time(), seconds_since_boot()
        self.record["workers"] = [[each.pid, each.start] for each in map(process, self.workers) if each]
        with suppress(OSError):
            write_record(self.directory, self.names.record, self.record, durable=False)
        self._reserve()
        if "run_time_interval" in self.spec:
            self.record_at = time.monotonic()
        self.search.start(self.record["started"])
        while self._reap():
            self._end_if_over_disk()
            self._end_if_due()
            self._record_run_time_if_due()
            self._search_if_due()
            self.sessions.kill_if_due()
            self._wait()
        self._drain()
        self._read_signals()
        if self._may_resume():
            by_signal = self.failed is not None and self.failed[1] is not None
            self.search.search_at_end(killed=self.forced or by_signal)
        code, number = self.failed or (0, None)
        if self.over_disk is not None and self.failed is not None:
            return self._ended("over-disk", code=code, number=number, detail=self.over_disk)
        if self._is_shut_down():
            return self._ended("evicted", code=code, number=number, detail="The machine was shutting down.")
        return self._ended("exited", code=code, number=number, detail=self._error())

    def _error(self) -> str:
        """Return the error of the first worker that failed by itself, as its log ends; empty if none did."""
        code = self.failed[0] if self.failed else None
        if self.failed_rank is None or not code or code == os.EX_TEMPFAIL or self.asked:
            return ""
        return error_line(self.log_of[self.failed_rank].tail.decode(errors="replace"), code)

    def _make_tree(self) -> Problem | None:
        """Make the job's copy of its project unless it has one; return None, or why that failed.

        Of the pods of a gang, that of the first worker makes it; the others wait for it.
        """
        step, first = self.spec.get("tree"), self.spec["workers"][0]["rank"]
        if step is None or os.path.lexists(step["tree"]):
            return None
        if self.names.rank not in (None, first):
            due = time.monotonic() + TREE_WAIT
            while not (self.asked or os.path.lexists(step["tree"])):
                if time.monotonic() >= due:
                    return "blocked", f"The job's copy of its project was not made within {TREE_WAIT:g} s."
                self._wait(time.monotonic() + RELOOK)
            return None
        if (problem := self._make_own_cgroup()) is not None:
            return problem
        trouble = self._fork({**self.spec, "makes_tree": True}, first, {})
        while self._reap():
            self._end_if_due()
            self._wait()
        self._drain()
        failed = self.failed
        self._forget_step()
        problem = self._trouble([trouble])
        if problem is None and failed is not None and not self.asked:
            return "blocked", "The job's copy of its project cannot be made: the step ended unexpectedly."
        return problem

    def _forget_step(self) -> None:
        """Forget how a step before the workers ended, and what it wrote."""
        self.failed, self.failed_rank, self.ending, self.leftovers, self.deadline = None, None, False, False, None
        for log in self.log_of.values():
            log.tail = b""

    def _prepare(self) -> Problem | None:
        """Run the preparation, in the way of the workers; return None, or why it failed.

        Its output is the beginning of the first worker's log. A request ends it like the workers.
        """
        step = self.spec.get("prepare")
        if step is None or (problem := self._make_own_cgroup()) is not None:
            return None if step is None else problem
        rank = self.spec["workers"][0]["rank"]
        trouble = self._fork({**self.spec, "argv": step["argv"], "cwd": "/"}, rank, step["env"])
        due, late = time.monotonic() + step["seconds"], False
        problem = self._trouble([trouble])
        while self._reap():
            if not (late or self.ending) and time.monotonic() >= due:
                late = True
                self._end(self.kill_after)
            self._end_if_over_disk()
            self._end_if_due()
            self._wait(None if late else due)
        self._drain()
        said, failed = self.log_of[rank].tail.decode(errors="replace"), self.failed
        self._forget_step()
        if late:
            return "refused", f"{step['problem']}: it took longer than {step['seconds']:g} s."
        if problem is None and failed is not None:
            return "refused", f"{step['problem']}. {last_line(said)}"
        return problem

    def _start(self) -> Problem | None:
        """Start all workers; return None, or why one of them could not be started."""
        problem = self._make_own_cgroup() or self._read_secrets()
        if problem is not None:
            return problem
        troubles = []
        for worker in self.spec["workers"]:
            if self.names.rank not in (None, worker["rank"]):
                continue
            troubles.append(self._fork(self.spec, worker["rank"], self._environment(worker)))
        return self._trouble(troubles)

    def _read_secrets(self) -> Problem | None:
        """Read the variables of the job's secrets; return None, or why that failed."""
        for path in self.spec.get("secrets", ()):
            try:
                self.secrets.update(read_secret(path))
            except (OSError, ValueError) as error:
                why = error.strerror if isinstance(error, OSError) else str(error)
                return "blocked", f"A secret of the job cannot be read: {why}."
        return None

    def _environment(self, worker: dict[str, Any]) -> dict[str, str]:
        """Return the environment of a worker; the variables of secrets are in no file of the job."""
        if self.pod:
            return in_pod(self.spec, worker)
        return {**self.secrets, **self.spec["env"], **worker["env"]}

    def _environment_of(self, rank: int) -> dict[str, str] | None:
        """Return the environment of programs beside a running worker, None if there is no such worker."""
        for pid, running in self.workers.items():
            for worker in self.spec["workers"]:
                if running == worker["rank"] == rank:
                    return {**self._environment(worker), WORKER: str(pid)}
        return None

    def _fork_session(self, argv: list[str], environment: dict[str, str], streams: Streams) -> tuple[int, int]:
        """Start the program of a session; return its pid, and the pipe for the reason if it cannot be started."""
        parent = os.getpid()
        if streams.terminal:
            account = self.spec.get("account") or {}
            environment = {**environment, **named_prompt(environment, account.get("uid", os.getuid()))}
        trouble, their_trouble = os.pipe2(os.O_CLOEXEC)
        pid = os.fork()
        if pid == 0:
            run_worker({**self.spec, "argv": argv}, environment, streams, their_trouble, parent)
        os.close(their_trouble)
        return pid, trouble

    def _fork(self, spec: dict[str, Any], rank: int, environment: dict[str, str]) -> int:
        """Start a process of the spec; return the pipe for the reason if it cannot be started."""
        parent = os.getpid()
        output, their_output = os.pipe2(os.O_CLOEXEC)
        trouble, their_trouble = os.pipe2(os.O_CLOEXEC)
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        pid = os.fork()
        if pid == 0:
            run_worker(spec, environment, Streams(nothing, their_output, their_output), their_trouble, parent)
        os.close(nothing)
        os.close(their_output)
        os.close(their_trouble)
        os.set_blocking(output, False)
        self.workers[pid] = rank
        if rank not in self.log_of:
            self.log_of[rank] = Log(self.directory, rank, self.spec["log_cap"])
        self.logs[output] = self.log_of[rank]
        self.poll.register(output, select.POLLIN)
        return trouble

    def _trouble(self, troubles: list[int]) -> Problem | None:
        """Return why one of the processes could not be started; None if all were."""
        problem = None
        for trouble in troubles:
            said = os.read(trouble, 4096).decode(errors="replace")
            os.close(trouble)
            if said and problem is None:
                problem = refusal(self.spec, *said.split("\n", 1))
        return problem

    def _make_own_cgroup(self) -> Problem | None:
        """Make the attempt's control group if it has one; return why that failed."""
        if self.spec["cgroup"]:
            try:
                self._make_cgroup(self.spec["cgroup"])
            except OSError as error:
                return refusal(self.spec, "control group", error.strerror or str(error))
        return None

    def _make_cgroup(self, path: str) -> None:
        """Make the attempt's control group, with its limits."""
        with suppress(FileExistsError):
            os.mkdir(path)  # noqa: PTH102
        for name, value in self.spec["cgroup_files"].items():
            with open(f"{path}/{name}", "w", encoding="ascii") as file:  # noqa: PTH123
                file.write(value)

    def _reserve(self) -> None:
        """Reserve disk space for the exit record, so that it can be written when the disk is full."""
        with suppress(OSError):
            write_in_place(self.directory, f"{self.names.exit}.new", b" " * RESERVED, durable=True)

    def _run_time(self) -> float | None:
        """Return how long the workers have run, in seconds, whatever the system clock was set to; None before."""
        since = self.record.get("since_boot")
        return None if since is None else seconds_since_boot() - since

    def _record_run_time_if_due(self) -> None:
        """Record the run time now and then: a machine that loses power leaves no exit record."""
        now = time.monotonic()
        if self.record_at is not None and self.record_at <= now:
            self.record_at = now + self.spec["run_time_interval"]
            with suppress(OSError):
                write_in_place(self.directory, RUN_TIME, b"%20.3f" % (self._run_time() or 0.0))

    def _end_if_over_disk(self) -> None:
        if not self.ending and (over := self.disk.exceeded()) is not None:
            self.over_disk = over
            self._end(KILL_AFTER)

    def _may_resume(self) -> bool:
        """Return whether the job or a fork of it may go on from here: it had time to save, or failed by itself."""
        if self.asked is None:
            return self.failed is not None or self._is_shut_down()
        return self.asked in (PAUSE, KILL)

    def _is_shut_down(self) -> bool:
        """Return whether the machine asks all processes to end, those of the job too."""
        since = None if self.told_to_stop is None else time.monotonic() - self.told_to_stop
        return self.asked is None and since is not None and since < SHUTDOWN

    @property
    def _search_due(self) -> float | None:
        return None if self.ending else self.search.due

    def _search_if_due(self) -> None:
        if not self.ending and (answer := self.search.begin_if_due()) is not None:
            self.poll.register(answer, select.POLLIN)

    def _wait(self, due: float | None = None) -> None:
        ends_slowly = self.pod and self.asked in (PAUSE, KILL)
        look_again = time.monotonic() + RELOOK if ends_slowly else None
        times = [
            at
            for at in (
                *(self.deadline, self.record_at, self.disk.due, self._search_due),
                *(self.sessions.due, due, look_again),
            )
            if at is not None
        ]
        timeout = max(0.0, min(times) - time.monotonic()) * 1000 + 1 if times else None
        for file, _ in self.poll.poll(timeout):
            if file == self.wake:
                self._read_signals()
                self._read_requests()
                if self.workers and "started" in self.record:
                    self.sessions.connect(POD_DIRECTORY if self.pod else self.path)
            elif self.sessions.heard(file):
                continue
            elif file == self.search.answer:
                self.poll.unregister(file)
                self.search.finish()
            else:
                self._copy(file)
        if ends_slowly:
            self._read_requests()

    def _read_signals(self) -> None:
        """Read the signals.

        SIGTERM without a request is the kubelet's in a pod, and requests a pause. Elsewhere it is that of a
        machine that shuts down, which sends it to the processes of the job as well.
        """
        with suppress(BlockingIOError):
            terminated = signal.SIGTERM in os.read(self.wake, 4096)
            if terminated and not any(map(self._is_requested, REQUESTS)):
                if self.pod:
                    leave(self.directory, PAUSE)
                else:
                    self.told_to_stop = time.monotonic()

    def _copy(self, file: int) -> bool:
        """Copy output of a worker to its log; return False when there is no more for now."""
        try:
            data = os.read(file, 1 << 16)
        except BlockingIOError:
            return False
        if data:
            self.logs[file].write(data)
            if self.pod:
                copy_output(data)
        else:
            self.poll.unregister(file)
            os.close(file)
            del self.logs[file]
        return bool(data)

    def _drain(self) -> None:
        for file in list(self.logs):
            while self._copy(file):
                pass

    def _reap(self) -> bool:
        """Record the workers that ended; return False once no descendant is left.

        Orphans become children of this process, so none can be missed.
        """
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if self.sessions.ended(pid, status):
                continue
            rank = self.workers.pop(pid, None)
            if rank is not None and status != 0 and self.failed is None:
                code = os.waitstatus_to_exitcode(status)
                self.failed = (code, None) if code >= 0 else (None, -code)
                self.failed_rank = rank

    def _read_requests(self) -> None:
        for request in REQUESTS:
            if request == self.asked:
                return
            if self._is_requested(request):
                self.asked = request
                self._end(self._time_to_end(request))
                return

    def _time_to_end(self, request: str) -> float:
        """Return how long the workers may take to end after a request, in seconds."""
        if request != KILL_NOW:
            return float(self.spec["grace"])
        return 0.0 if self.ending else float(self.kill_after)

    def _is_requested(self, request: str) -> bool:
        """Return whether a request exists, also in a directory recreated after a removal."""
        return exists(self.directory, request) or os.path.lexists(f"{self.path}/{request}")

    def _end_if_due(self) -> None:
        now = time.monotonic()
        if self.failed is not None and not self.ending:
            self._end(self.spec["grace"] if self.failed[0] == os.EX_TEMPFAIL else self.kill_after)
        if not self.workers:
            self.sessions.kill_all()
        if not self.workers and not self.leftovers:
            self.leftovers = True
            for descendant in descendants(os.getpid()):
                send(descendant, signal.SIGTERM)
            if self.deadline is None:
                self.deadline = now + self.kill_after
        if self.deadline is not None and now >= self.deadline:
            self.forced = True
            self._force()
            self.deadline = now + self.rescan
            self.rescan = min(1.0, self.rescan * 1.5)

    def _end(self, seconds: float) -> None:
        """Ask every worker to end within this many seconds, once: a second SIGTERM could disturb a save."""
        deadline = time.monotonic() + seconds
        self.deadline = deadline if self.deadline is None else min(self.deadline, deadline)
        if self.ending:
            return
        self.ending = True
        for pid in self.workers:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    def _force(self) -> None:
        """Kill all descendants; called again until `_reap` finds none left."""
        if self.spec["cgroup"]:
            with (
                suppress(OSError),
                open(f"{self.spec['cgroup']}/cgroup.kill", "w", encoding="ascii") as file,  # noqa: PTH123
            ):
                file.write("1")
        for descendant in descendants(os.getpid()):
            send(descendant, signal.SIGKILL)

    def _ended(
        self, kind: str, *, code: int | None = None, number: int | None = None, detail: str = ""
    ) -> dict[str, Any]:
        if self.spec["cgroup"]:
            with suppress(OSError):
                os.rmdir(self.spec["cgroup"])  # noqa: PTH106
        return {
            "kind": kind,
            "at": time.time(),
            "ran": self._run_time(),
            "code": code,
            "signal": number,
            "paused": self._is_requested(PAUSE),
            "killed": self.forced and self.asked is not None,
            "detail": detail,
        }


def last_line(text: str) -> str:
    """Return the last error or else the last non-empty line of an output, at most 300 characters of it."""
    printable = [" ".join(filter(str.isprintable, line.split())) for line in text.splitlines()]
    lines = [line for line in printable if line]
    errors = [line for line in lines if line.startswith("ERROR:")]
    return f"{(errors or lines or ['It ended without a word.'])[-1][:300]}".removeprefix("ERROR: ")


def write_again(path: str, directory: int, name: str, record: dict[str, Any]) -> None:
    """Write a record at the path of the attempt's directory, if that was removed or replaced meanwhile."""
    os.makedirs(path, 0o700, exist_ok=True)  # noqa: PTH103 - light to start
    present = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        if not os.path.sameopenfile(present, directory):
            write_record(present, name, record)
    finally:
        os.close(present)


def main(path: str, rank: int | None = None) -> int:
    """Run the attempt in the directory ``path``, in a pod its worker ``rank``, unless it runs or has run already.

    Return the exit code of the process.
    """
    os.closerange(3, 256)
    os.umask(0o077)
    names = Names(rank)
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    lock = take_lock(directory, names.lock)
    if lock is None or exists(directory, names.exit) or exists(directory, names.record):
        return RAN_ALREADY
    if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(errno.ENOSYS, "this kernel has no child subreaper")
    with os.fdopen(os.open("spec.json", os.O_RDONLY | os.O_NOFOLLOW, dir_fd=directory), "rb") as file:
        spec = json.load(file)
    me = process(os.getpid())
    assert me is not None
    record: dict[str, Any] = {"pid": me.pid, "start": me.start, "boot": boot_id()}
    write_record(directory, names.record, record)
    ended = Supervisor(path, directory, spec, record, names).run()
    if names.rank is not None:
        write_termination_message(spec["message"], ended)
    while True:
        try:
            with suppress(FileNotFoundError):
                write_record(directory, names.exit, ended)
            if names.rank is None:
                write_again(path, directory, names.exit, ended)
        except OSError as error:
            if error.errno not in FULL or names.rank is not None:
                raise
            time.sleep(1)
        else:
            return exit_code(ended) if names.rank is not None else 0
