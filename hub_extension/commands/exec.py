"""``springtide exec``: a terminal or a command in a running job."""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import termios
import threading
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

import click

from springtide.hub_extension.commands.results import awaited
from springtide.hub_extension.commands.text import (
    INTERRUPTED,
    OutputError,
    json_option,
    one_line,
    print_json,
    printable,
)
from springtide.hub_extension.commands.window_titles import WithoutTitles
from springtide.scheduler import wire
from springtide.scheduler.client import Client, PoolError, Unreachable
from springtide.scheduler.client.descriptions import state_words
from springtide.scheduler.client.session import SessionConnection
from springtide.scheduler.model import JobState
from springtide.scheduler.wire import SessionEnd, SessionRequest, TerminalSize
from springtide.scheduler.wire.sessions import ATTEMPT_OVER, BEAT_S, MAX_FRAME, NOT_STARTED, Channel
from springtide.scheduler.wording import quoted, sentence

NO_CODE: Final = 255
"""Exit code if the program has none, as that of ``ssh``."""
CUT_OFF: Final = frozenset({NO_CODE, 128 + signal.SIGHUP, 128 + signal.SIGKILL})
"""Exit codes of a program that did not end by itself."""
RUNNING: Final = frozenset({JobState.RUNNING, JobState.PAUSING})
OUTCOME_S: Final = 10.0
"""Maximum time to wait for the outcome of a job whose attempt has ended, in seconds."""
READER_LEFT: Final = 141
"""Exit code of a program whose reader has left, as of one that SIGPIPE ends."""
LINE_ENDS: Final = (b"\r", b"\n", b"\x03", b"\x04", b"\x15")
"""Keys after which the line of a shell is empty: Enter, Ctrl-C, Ctrl-D and Ctrl-U."""
INPUT: Final = 0
FILES: Final = {Channel.OUTPUT: 1, Channel.ERRORS: 2}


@click.command("exec", context_settings={"ignore_unknown_options": True})
@click.argument("job_id", metavar="JOB")
@click.argument("command", metavar="[-- COMMAND [ARG]...]", nargs=-1, type=click.UNPROCESSED)
@click.option("--rank", type=click.IntRange(0), default=0, show_default=True, help="In which worker of a gang.")
@click.option(
    "--tty/--no-tty",
    "terminal",
    default=None,
    help="Whether the command gets a terminal.  [default: if this command has one]",
)
@click.option(
    "--stay",
    is_flag=True,
    help="For a window that would close with this command: wait for Enter after an error, or when the job has "
    "paused or ended, and give the window the job's name.",
)
@click.option("--number", type=click.IntRange(1), default=1, hidden=True, help="Which of the job's windows it is.")
def exec_in_job(
    *, job_id: str, command: tuple[str, ...], rank: int, terminal: bool | None, stay: bool, number: int
) -> None:
    """Open a terminal in a running job of yours, or run a command in it.

    It runs as the job's user, in its working directory, with its variables, GPUs and limits, and ends when the job
    pauses or ends. The exit code is that of the command, 127 if there is no such program, 126 if it cannot be
    run, or 255 if the connection was lost.
    """
    if stay:
        click.echo("Connecting to the job…", err=True)
    end, typing = None, Typing()
    try:
        if stay:
            _show_title(job_id, number)
        end = run(job_id, command, rank, terminal, keeps_title=stay, typing=typing)
    except (PoolError, Unreachable) as error:
        not_started = {problem: code for code, problem in NOT_STARTED.items()}
        code = not_started.get(error.code, NO_CODE) if isinstance(error, PoolError) else NO_CODE
        if code == NO_CODE and not stay:
            raise
        click.echo(one_line(f"Error: {error}"), err=True)
    else:
        code = NO_CODE if end.code is None else end.code
    is_cut_off = end is not None and (end.code is None or (not command and end.code in CUT_OFF))
    has_left = not command and _has_terminal(terminal) and not stay
    if end is not None and (is_cut_off or has_left):
        if is_cut_off and _has_terminal(terminal):
            click.echo(err=True)  # the cursor stands behind a prompt
        click.echo(one_line(_words_of_the_end(job_id, end, is_cut_off=is_cut_off)), err=True)
    if stay and (is_cut_off or end is None or code in CUT_OFF):
        _wait_for_enter(typing)
    sys.exit(code)


@dataclass(slots=True)
class Typing:
    """Input being typed for a program: whether a line has begun that no Enter has ended."""

    in_line: bool = False

    def add(self, data: bytes) -> None:
        """Note typed input."""
        if data:
            self.in_line = not data.endswith(LINE_ENDS)


def _wait_for_enter(typing: Typing) -> None:
    """Wait for an empty line. Input of the program, up to the Enter of its last line, closes nothing."""
    with suppress(termios.error):
        termios.tcflush(INPUT, termios.TCIFLUSH)
    words, in_line = "Press Enter to close this terminal", typing.in_line
    while click.prompt(words, default="", show_default=False, prompt_suffix=" ") or in_line:
        words, in_line = "Nothing was run. Press Enter to close this terminal", False


def _show_title(job_id: str, number: int) -> None:
    """Give the window of the terminal the name of the job, and its number from the second one on.

    Raises `PoolError` and `Unreachable`.
    """
    mark = f" ({number})" if number > 1 else ""
    with Client() as client:
        click.echo(f"\x1b]0;{one_line(client.job(job_id).name)}{mark}\x07", err=True, nl=False)


def _words_of_the_end(job_id: str, end: SessionEnd, *, is_cut_off: bool) -> str:
    """Return the one sentence about the end of a session: the job's outcome, or why else it was cut off.

    If the job's attempt may have ended, the pool has a moment to know its outcome.
    """
    is_known = not is_cut_off or end.reason not in {"", ATTEMPT_OVER}
    try:
        with Client() as client:
            deadline = time.monotonic() + OUTCOME_S
            job = awaited(client, job_id, deadline, lambda job: is_known or job.state not in RUNNING)
    except (PoolError, Unreachable) as error:
        if not is_cut_off:
            return "You have left the job."
        return end.reason if is_known else f"The connection to the job was lost: {error}"
    name = quoted(job.name)
    if job.state in RUNNING:
        left = "You have left" if not is_cut_off else "The terminal was closed in"
        return end.reason if is_cut_off and is_known else f"{left} the job {name}, which still runs."
    became = f"{'has ended' if JobState(job.state).final else 'does not run now'}: {state_words(job)}"
    return sentence(f"The job {name} {became}")


def run(
    job_id: str,
    command: tuple[str, ...],
    rank: int,
    terminal: bool | None,
    *,
    keeps_title: bool = False,
    typing: Typing | None = None,
) -> SessionEnd:
    """Run a program in a job with this command's input and output; return its end.

    With ``keeps_title`` the program cannot name the window of the terminal. ``typing`` notes its input. Raises
    `PoolError` and `Unreachable`.
    """
    has_terminal = _has_terminal(terminal)
    request = SessionRequest(
        argv=list(command),
        rank=rank,
        terminal=size_of_terminal() if has_terminal else None,
        kind=os.environ.get("TERM") or "xterm-256color",
    )
    with Client() as client:
        connection = client.open_session(job_id, request)
    try:
        with input_of(connection, typing or Typing(), is_terminal=has_terminal):
            if not pass_output(connection, WithoutTitles() if keeps_title else None):
                return SessionEnd(code=READER_LEFT)
    except KeyboardInterrupt:
        return SessionEnd(code=INTERRUPTED)
    finally:
        connection.close()
    return connection.end


def _has_terminal(terminal: bool | None) -> bool:
    """Return whether the program gets a terminal: as the option says, or as this command has one."""
    return (os.isatty(INPUT) and os.isatty(FILES[Channel.OUTPUT])) if terminal is None else terminal


@click.command()
@click.argument("job_id", metavar="JOB")
@click.option("--rank", type=click.IntRange(0), help="Only this worker.  [default: all]")
@json_option
def stack(*, job_id: str, rank: int | None, as_json: bool) -> None:
    """Show where a running job is now, or hangs: the stacks of all threads of its processes.

    Python programs that import springtide.training, functions and notebooks answer by themselves, also while they
    wait in a library; other Python programs if py-spy is installed where the job runs. The job is not disturbed.
    """
    with Client() as client:
        found = client.stack(job_id)
    workers = [each for each in found.workers if rank in {None, each.rank}]
    number = len(found.workers) + found.more
    if rank is not None and rank >= number:
        msg = f"The job has no worker {rank}; it has {number}. They count from 0."
        raise click.UsageError(msg)
    if as_json:
        print_json(wire.JobStack(at=found.at, workers=workers, more=found.more))
        return
    for each in workers:
        if len(found.workers) > 1:
            click.echo(f"Worker {each.rank}")
        click.echo(printable("\n\n".join(filter(None, [each.text, each.problem]))))
    if found.more:
        click.echo(f"{found.more} more workers are not shown.", err=True)


def size_of_terminal() -> TerminalSize:
    """Return the size of this command's terminal, within the bounds of the pool."""
    try:
        columns, rows = os.get_terminal_size(FILES[Channel.OUTPUT])
    except OSError:
        columns, rows = shutil.get_terminal_size()
    return TerminalSize(columns=min(max(columns, 1), 4096), rows=min(max(rows, 1), 4096))


def pass_output(connection: SessionConnection, titles: WithoutTitles | None = None) -> bool:
    """Write the output of the session until its end, no faster than this command's output takes it.

    With ``titles`` it names no window. Returns False if the reader of that output leaves. Raises `OutputError` if
    it cannot be written.
    """
    while (piece := connection.receive()) is not None:
        channel, data = piece
        if not _write(FILES[channel], data if titles is None else titles.passed(data)):
            return False
        connection.confirm(len(data))
    return titles is None or _write(FILES[Channel.OUTPUT], titles.rest())


def _write(file: int, data: bytes) -> bool:
    """Write all of the data. Returns False if the reader leaves. Raises `OutputError`."""
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(file, left) :]
        except BlockingIOError:
            select.select([], [file], [])
        except BrokenPipeError:
            return False
        except OSError as error:
            raise OutputError(error) from error
    return True


@contextmanager
def input_of(connection: SessionConnection, typing: Typing, *, is_terminal: bool) -> Iterator[None]:
    """Send the standard input, and changes of the terminal's size, in this context."""
    wake, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    before = termios.tcgetattr(INPUT) if is_terminal and os.isatty(INPUT) else None

    def resized(*_: object) -> None:
        with suppress(BlockingIOError):
            os.write(waker, b".")

    resizing = signal.signal(signal.SIGWINCH, resized) if is_terminal else None
    sending = threading.Thread(target=_send_input, args=(connection, wake, typing), name="input", daemon=True)
    try:
        if before is not None:
            tty.setraw(INPUT, termios.TCSADRAIN)  # keys pressed meanwhile are input
        sending.start()
        yield
    finally:
        if before is not None:
            termios.tcsetattr(INPUT, termios.TCSADRAIN, before)
        if resizing is not None:
            signal.signal(signal.SIGWINCH, resizing)
        connection.close()
        os.close(waker)
        sending.join(timeout=1)


def _send_input(connection: SessionConnection, wake: int, typing: Typing) -> None:
    """Send input until it ends, sizes of the terminal, and beats, until ``wake`` is closed at its other end."""
    files = [INPUT, wake]
    while True:
        try:
            ready, _, _ = select.select(files, [], [], BEAT_S)
        except (OSError, ValueError):  # the standard input is closed
            files = [wake]
            continue
        if not ready:
            connection.beat()
        if wake in ready:
            if not os.read(wake, 4096):
                os.close(wake)
                return
            connection.resize(size_of_terminal())
        if INPUT in ready:
            try:
                data = os.read(INPUT, MAX_FRAME)
            except OSError:
                data = b""
            typing.add(data)
            connection.send(data)
            if not data:
                files.remove(INPUT)
