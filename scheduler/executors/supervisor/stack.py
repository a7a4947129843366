"""Prints the stacks of the processes of a worker: where it is now, or hangs.

This file is a program, ``python -I -S stack.py``, which runs as the job's account inside the job: it has the job's
rights and no others. The variable ``SPRINGTIDE_WORKER_PID`` names the worker's first process. Python programs
that use `springtide.training` answer a signal with the stacks of all their threads, also in forked children; of
others ``py-spy`` reads them, if it is on the PATH or beside this interpreter and may; of the rest the state is
printed.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from contextlib import suppress

WORKER = "SPRINGTIDE_WORKER_PID"
"""Variable with the pid of the first process of the worker."""
FILE = re.compile(r"/memfd:springtide-stack-(\d+) \(deleted\)")
CELLS = "/memfd:springtide-cells (deleted)"
"""The file in which a program of `springtide.training` writes how failures call its notebook code, by file."""
MOST_PROCESSES = 64
MOST_FRAMES = 100
"""Number of frames of a thread that are shown, the innermost ones; Python itself writes no more."""
FOLDED = 3
"""Number of times from which repeated frames are folded."""
PERIODS = (1, 2, 3, 4)
"""Numbers of functions of a recursion whose frames are folded."""
PYTHON_FRAME = re.compile(r'File "(?P<file>.*)", line (?P<line>\d+) in (?P<name>.*)')
"""A frame as Python writes it."""
MOST_BYTES = 64 * 1024
"""Maximum size of the stacks of a process that are shown, in characters."""
READ_BYTES = 16 * MOST_BYTES
"""Maximum size of the stacks of a process that are read, in bytes."""
DEEPER = re.compile(r"^  \.\.\..*$", re.MULTILINE)
DEEP = "  … and the frames that called these: Python writes the 100 innermost ones of a thread. py-spy shows all."
ANSWERS_WITHIN = 2.0
"""Time for a process to write its stacks, in seconds."""
SETTLED = 0.1
"""Time after which stacks that do not grow are complete, in seconds."""
LOOK_EVERY = 0.01
PY_SPY_WITHIN = 20.0
"""Time for py-spy to read a process, in seconds."""
STATES = {
    "R": "running",
    "S": "waiting",
    "D": "waiting for a disk, a network file system or a driver",
    "T": "stopped",
}
OTHER = "Its stack is shown if the job imports springtide.training"
BLOCKED = (
    "All its threads block signal {number}, by which springtide.training writes its stack. It is shown if the "
    "program leaves that signal to springtide.training (signal.pthread_sigmask)"
)
REPLACED = (
    "It ignores signal {number}, or handles it by itself, by which springtide.training writes its stack. It is "
    "shown if the program leaves that signal to springtide.training (signal.signal)"
)
STOPPED = "It is stopped. Its stack is shown once it continues (kill -CONT {pid})"
SILENT = "It did not answer within {seconds:g} s. Its stack is shown once it takes signals again"
"""Why a process does not write its stacks, and what would have it do so."""
PY_SPY = "or if py-spy is installed: pip install py-spy."


def main() -> int:
    """Print the stacks of all processes of the worker."""
    found = processes(int(os.environ[WORKER]))
    for pid in found[:MOST_PROCESSES]:
        text = stack(pid)
        if text is not None:
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()
    if len(found) > MOST_PROCESSES:
        sys.stdout.write(f"{len(found) - MOST_PROCESSES} more processes are not shown.\n")
    return 0


def processes(root: int) -> list[int]:
    """Return a process and its descendants, parents first."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208
        with suppress(OSError, ValueError, IndexError):
            pid = int(name)
            parent = int(_read(pid, "stat").rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(pid)
    found = [root]
    for pid in found:
        found += sorted(children.get(pid, []))
    return found


def stack(pid: int) -> str | None:
    """Return the known facts of a process; None if it has ended."""
    try:
        state = _read(pid, "stat").rpartition(")")[2].split()[0]
        words = _read(pid, "cmdline").replace("\0", " ").split()
    except (OSError, IndexError):
        return None
    if state in "ZX":
        return None
    shown = "R" if is_busy(pid) else state
    head = f"Process {pid}: {' '.join(words)[:500]} ({STATES.get(shown, shown)})"
    text, hint = written(pid, state)
    for file, label in cells(pid).items():
        text = text.replace(f'File "{file}"', f'File "{label}"')
    return f"{head}\n{text or read_by_py_spy(pid, hint) or waits(pid)}"


def cells(pid: int) -> dict[str, str]:
    """Return how failures call the notebook code of a process, such as ``In [8]``, by the names in its stacks."""
    import json  # noqa: PLC0415 - the supervisor imports this module, and starts fast

    with suppress(OSError, ValueError, AttributeError):
        for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
            if os.readlink(f"/proc/{pid}/fd/{name}") == CELLS:  # noqa: PTH115
                with open(f"/proc/{pid}/fd/{name}", "rb") as file:  # noqa: PTH123 - light to start
                    found = json.loads(file.read(MOST_BYTES))
                return {written: label for written, label in found.items() if isinstance(label, str)}
    return {}


def is_busy(pid: int) -> bool:
    """Return whether one of the threads of a process runs, whatever its first one does."""
    with suppress(OSError, IndexError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            if _read(f"{pid}/task/{thread}", "stat").rpartition(")")[2].split()[0] == "R":
                return True
    return False


def written(pid: int, state: str) -> tuple[str, str]:
    """Return the stacks that a process of `springtide.training` writes, else none and a hint."""
    hint = OTHER
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
            link = f"/proc/{pid}/fd/{name}"
            match = FILE.fullmatch(os.readlink(link))  # noqa: PTH115
            number = int(match[1]) if match else 0
            if number < signal.SIGRTMIN or number > signal.SIGRTMAX:
                continue
            if not _has_signal(pid, "SigCgt", number):
                hint = REPLACED.format(number=number)
                continue
            if state == "T":
                hint = STOPPED.format(pid=pid)
                continue
            threads = [f"{pid}/task/{thread}" for thread in os.listdir(f"/proc/{pid}/task")]  # noqa: PTH208
            if all(_has_signal(thread, "SigBlk", number) for thread in threads):
                hint = BLOCKED.format(number=number)
                continue
            file = os.open(link, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                return answer(pid, number, file), SILENT.format(seconds=ANSWERS_WITHIN)
            finally:
                os.close(file)
    except (OSError, IndexError):
        pass
    return "", hint


def _has_signal(process: int | str, mask: str, number: int) -> bool:
    """Return whether a mask of signals of a process or a thread, such as ``SigBlk``, has this signal."""
    found = re.findall(rf"{mask}:\s*([0-9a-f]+)", _read(process, "status"))
    return bool(int(found[0], 16) >> (number - 1) & 1)


def answer(pid: int, number: int, file: int) -> str:
    """Send the signal; return what the process writes to the file, once it writes no more."""
    os.ftruncate(file, 0)
    os.kill(pid, number)
    deadline, size, since = time.monotonic() + ANSWERS_WITHIN, 0, 0.0
    while (now := time.monotonic()) < deadline:
        present = os.fstat(file).st_size
        if present != size:
            size, since = present, now
        elif size and now - since >= SETTLED:
            break
        time.sleep(LOOK_EVERY)
    text = os.pread(file, READ_BYTES, 0).decode(errors="replace").rstrip()
    os.ftruncate(file, 0)
    return shortened(folded(DEEPER.sub(DEEP, text)))


def folded(text: str, most: int | None = None) -> str:
    """Return stacks with the repeated frames of recursions as one line, and at most ``most`` lines of each thread.

    Those are the innermost ones; the number of frames left out comes after them.
    """
    lines: list[str] = []
    frames: list[str] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith(" "):
            frames.append(line)
            continue
        shown = fold(frames)
        lines += [each for each, _ in shown[:most]]
        if rest := sum(number for _, number in shown[len(shown) if most is None else most :]):
            lines.append(f"  … and the {rest} frames that called these.")
        frames = []
        lines.append(line)
    return "\n".join(lines[:-1])


def fold(frames: list[str]) -> list[tuple[str, int]]:
    """Return lines with the number of frames of each: a recursion is shown once."""
    lines: list[tuple[str, int]] = []
    place = 0
    while place < len(frames):
        period, number = next(
            ((each, number) for each in PERIODS if (number := _repeated(frames, place, each)) >= FOLDED),
            (1, 1),
        )
        once = frames[place : place + period]
        lines += [(line, 1) for line in once]
        if number > 1:
            more = period * (number - 1)
            of = frame_words(once[0]) if period == 1 else f"these {period} frames in turn"
            lines.append((f"  … {more} more of {of}", more))
        place += period * number
    return lines


def _repeated(frames: list[str], place: int, period: int) -> int:
    """Return how many times as many frames as ``period`` come one after the other from a place on."""
    number, once = 1, frames[place : place + period]
    while frames[place + number * period : place + (number + 1) * period] == once:
        number += 1
    return number


def frame_words(line: str) -> str:
    """Return a frame as ``f (train.py:3)``, whether Python or py-spy has written it."""
    found = PYTHON_FRAME.fullmatch(line.strip())
    return f"{found['name']} ({os.path.basename(found['file'])}:{found['line']})" if found else line.strip()  # noqa: PTH119


def shortened(text: str) -> str:
    """Return the first and the last lines of stacks that are too long, with the number of those left out."""
    if len(text) <= MOST_BYTES:
        return text
    head = text[: MOST_BYTES // 2].rpartition("\n")[0]
    tail = text[-MOST_BYTES // 2 :].partition("\n")[2]
    left_out = text.count("\n") - head.count("\n") - tail.count("\n") - 1
    return f"{head}\n  … {left_out} lines are left out here.\n{tail}"


def read_by_py_spy(pid: int, hint: str) -> str:
    """Return the stacks that py-spy reads, else why there are none; empty if the process is not Python.

    ``hint`` says without a full stop what else would show them.
    """
    import shutil  # noqa: PLC0415 - the supervisor imports this module, and starts fast
    import subprocess  # noqa: PLC0415 - as above

    if not is_python(pid):
        return ""
    beside = os.path.join(os.path.dirname(sys.executable), "py-spy")  # noqa: PTH118, PTH120
    program = shutil.which("py-spy") or shutil.which(beside)
    if program is None:
        return f"{waits(pid)}\n{hint}, {PY_SPY}"
    try:
        done = subprocess.run(
            [program, "dump", "--pid", str(pid)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PY_SPY_WITHIN,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{waits(pid)}\npy-spy does not work here: {error}\n{hint}."
    said = shortened(folded(done.stdout[:READ_BYTES].decode(errors="replace"), MOST_FRAMES))
    if done.returncode == 0:
        return said.partition("\nPython ")[2].partition("\n")[2].strip() or said.strip()
    last = (done.stderr.decode(errors="replace").strip().splitlines() or ["it ended without a word"])[-1]
    return f"{waits(pid)}\npy-spy may not read it here: {last[:300]}\n{hint}."


def is_python(pid: int) -> bool:
    """Return whether a process runs Python."""
    try:
        name = os.path.basename(os.readlink(f"/proc/{pid}/exe"))  # noqa: PTH115, PTH119
        return "python" in name or "libpython" in _read(pid, "maps")
    except OSError:
        return False


def waits(pid: int) -> str:
    """Return where a process is in the kernel, in words."""
    try:
        place = _read(pid, "wchan").strip()
    except OSError:
        place = ""
    return f"In the kernel at {place}." if place not in {"", "0"} else "No stack of it can be shown."


def _read(process: int | str, name: str) -> str:
    with open(f"/proc/{process}/{name}", "rb") as file:  # noqa: PTH123 - light to start
        return file.read(1 << 20).decode(errors="replace")


if __name__ == "__main__":
    sys.exit(main())
