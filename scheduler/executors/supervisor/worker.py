"""The steps of a worker's process between fork and exec."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import signal
import termios
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn

from .account import become, end_with, forbid_new_privileges
from .tree import make_tree

ANSWERED = (signal.SIGTERM, signal.SIGCHLD)
IGNORED = (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ)


class Streams(NamedTuple):
    """The standard streams of a process. ``terminal``: they are a terminal, which becomes that of its session."""

    input: int
    output: int
    errors: int
    terminal: bool = False


def run_worker(spec: dict[str, Any], env: dict[str, str], streams: Streams, trouble: int, parent: int) -> NoReturn:
    """Become the worker, in the forked child; write the reason to ``trouble`` if that fails."""
    stage = "session"
    try:
        os.setsid()
        for number, file in enumerate(streams[:3]):
            os.dup2(file, number)
        if streams.terminal:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            os.fchown(0, spec["account"]["uid"] if spec["account"] else -1, -1)
            os.fchmod(0, 0o600)
        signal.set_wakeup_fd(-1)
        for number in (*ANSWERED, *IGNORED):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.umask(0o022)
        with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as score:  # noqa: PTH123
            score.write("300")
        stage = "limits"
        if spec["cgroup"]:
            with open(f"{spec['cgroup']}/cgroup.procs", "w", encoding="ascii") as group:  # noqa: PTH123
                group.write("0")
        for name, limits in spec["limits"].items():
            resource.setrlimit(getattr(resource, name), tuple(limits))
        stage = "account"
        if spec["account"]:
            become(spec["account"])
            forbid_new_privileges()
        end_with(parent)
        if spec.get("makes_tree"):
            stage = "tree"
            make_tree(spec["tree"])
            os._exit(0)
        stage = "directory"
        os.chdir(spec["cwd"])
        stage = "program"
        os.execvpe(spec["argv"][0], spec["argv"], env)  # noqa: S606 - there is no shell on purpose
    except Exception as error:  # noqa: BLE001 - the child must end here, whatever happened
        why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        os.write(trouble, f"{stage}\n{why}".encode()[:4096])
    os._exit(127)


def refusal(spec: dict[str, Any], stage: str, why: str) -> tuple[str, str]:
    """Return the kind of end if a worker could not be started, and a sentence with the reason."""
    if stage == "program":
        return "refused", _no_program(spec["argv"][0], why, spec["account"])
    if stage == "directory":
        return "refused", f"The working directory {shown(spec['cwd'])} cannot be entered: {why}."
    if stage == "tree":
        return "blocked", f"The job's copy of {shown(spec['tree']['root'])} cannot be made: {why}."
    if stage == "account":
        return "blocked", f"The job cannot run as the account {shown(spec['account']['name'])}: {why}."
    return "blocked", f"The job's processes cannot be prepared ({stage}): {why}."


NO_INTERPRETER = "the interpreter that it names is not there"


def _no_program(program: str, why: str, account: dict[str, Any] | None) -> str:
    """Return why a program cannot be run; one with a whole path was there when the job was submitted."""
    if account and (closed := _closed_way(program, account["view"])):
        return (
            f"The program {shown(program)} is behind {closed}, a directory that the account "
            f"{shown(account['name'])} may not enter. Install it elsewhere, or let other accounts enter the "
            f"directory: chmod o+x {closed}."
        )
    if why != os.strerror(errno.ENOENT):
        return f"The program {shown(program)} cannot be run: {why}."
    if not program.startswith("/"):
        return f"The program {shown(program)} is not on the PATH of the job."
    if os.path.lexists(program):
        return f"The program {shown(program)} cannot be run: {NO_INTERPRETER}."
    return (
        f"The program {shown(program)} is not there any more. Install it again, or submit the job from an "
        "environment that has it."
    )


def _closed_way(program: str, view: list[tuple[str, list[str]]]) -> str | None:
    """Return the directory that is closed to an account on the way to a program; ``view`` is as in `open_ways`."""
    way = os.path.realpath(program)
    ways = (
        closed for closed, places in view if _is_below(way, closed) and not any(_is_below(way, p) for p in places)
    )
    return next(ways, None)


def _is_below(path: str, directory: str) -> bool:
    return os.path.commonpath([path, directory]) == directory


def shown(text: str) -> str:
    """Return a text as `springtide.scheduler.wording.given` does, which this program cannot import."""
    return f"“{repr(text[:1000])[1:-1]}”"
