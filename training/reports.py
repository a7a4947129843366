"""Reports of a job to the pool: one JSON line per report, appended to the file that the pool named."""

from __future__ import annotations

import atexit
import json
import math
import os
import sys
import time
from itertools import islice
from typing import Any, Callable, Dict, List, Optional, Set, Union

from springtide.training.files import FULL
from springtide.training.thinning import MOST_NAMES, PER_SECOND, Made, Thinning
from springtide.training.values import written

MAX_NAME = 128
"""Maximum length of the name of a metric, in characters."""
MAX_VALUES = 64
"""Maximum number of values in a line; a report of more has several lines."""
MOST_WARNINGS = 100
"""Maximum number of warnings of a process."""
MAX_TEXT = 1000
"""Maximum length of a text for the pool, in characters."""


class Reports:
    """Writes reports to ``path``, or discards them if it is None. ``values`` are the last numbers, as in JSON."""

    def __init__(
        self,
        path: Optional[str],
        attempt: int,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._attempt = attempt
        self._now = now
        self._clock = clock
        self._thinning = Thinning(clock())
        self._held: Dict[str, bytes] = {}
        self._notice = b""
        self._lacks_room = False
        self._warned: Set[str] = set()
        self.values: Dict[str, Union[float, str]] = {}
        if path is not None:
            atexit.register(self.flush)

    def report(self, step: Optional[float], of: Optional[float], values: Dict[str, Any]) -> None:
        """Write a report, or keep it back while reports come too fast.

        Values kept back are merged as `Thinning` says, and written by the next permitted report, by `saved`, or at
        exit. Raises `TypeError` for anything but a number.
        """
        if self._path is None:
            return
        step, of = self._finite("step", step), self._finite("of", of)
        if of is not None and of < 0:
            self._warn("of<", "of={:g} is no number of steps; the report has none.".format(of))
            of = None
        numbers = self._named({name: _number(name, value) for name, value in values.items()})
        for name, number in numbers.items():
            if not math.isfinite(number):
                at = "" if step is None else " at step {:g}".format(step)
                self._warn(name, "{}={:g}{} is no finite number.".format(name, number, at))
        self.values.update((name, written(number)) for name, number in numbers.items())
        if len(self.values) > MOST_NAMES:
            name = next(islice(self.values, MOST_NAMES, None))
            text = (
                "More than {:,} metrics. Tables and searches have the last and the best value of the first {:,} "
                "alone, without {} and later ones."
            )
            self._warn("\n", text.format(MOST_NAMES, MOST_NAMES, name))
        self._write(*self._thinning.take(Made(self._now(), step, of, numbers), self._clock()))

    def _finite(self, name: str, value: Optional[float]) -> Optional[float]:
        """Return a step as a number, None with a warning for one that is not finite."""
        number = None if value is None else _number(name, value)
        if number is None or math.isfinite(number):
            return number
        self._warn(name + "=", "{}={:g} is no finite number; the report has none.".format(name, number))
        return None

    def _named(self, numbers: Dict[str, float]) -> Dict[str, float]:
        """Return the values by names that can be shown; warn of those that are changed or left out."""
        if all(0 < len(name) <= MAX_NAME and name.isprintable() for name in numbers):
            return numbers
        named = {}
        for name, number in numbers.items():
            shown = _shown(name)
            if not shown:
                self._warn(ascii(name), "A metric is called {}; it is not kept.".format(ascii(name)))
                continue
            if shown != name:
                given = ascii(name if len(name) <= MAX_NAME else name[:40] + "…")
                self._warn(ascii(name), "The metric {} is kept as {}.".format(given, shown))
            named[shown] = number
        return named

    def _warn(self, about: str, words: str) -> None:
        """Say something about a thing once in the job's log."""
        if about not in self._warned and len(self._warned) < MOST_WARNINGS:
            self._warned.add(about)
            sys.stderr.write("springtide: {}\n".format(words))

    def _write(self, reports: List[Made], left_out: int) -> None:
        if not reports:
            return
        if left_out:
            text = (
                "More than {:g} reports a second. The pool keeps the last and the best value of each metric, and "
                "thins out the rest."
            )
            self._warn("", text.format(PER_SECOND))
        lines = [line for report in reports[:-1] for line in self._lines(report, 0)]
        if not self._sent(b"".join([*lines, *self._lines(reports[-1], left_out)])):
            self._thinning.put_back(reports, left_out)

    def _lines(self, report: Made, left_out: int) -> List[bytes]:
        values = {name: written(number) for name, number in report.values.items()}
        names = list(values)
        lines = []
        for first in range(0, max(1, len(names)), MAX_VALUES):
            part = {name: values[name] for name in names[first : first + MAX_VALUES]}
            more = {"left_out": left_out} if left_out and first == 0 else {}
            lines.append(self._line(report.step, report.of, part, saved=False, at=report.at, **more))
        return lines

    def saved(self, step: Optional[float]) -> None:
        """Report a complete checkpoint."""
        if self._path is not None:
            self._notice = b""
            self.flush()
            self._append("saved", self._line(step, None, {}, saved=True))

    def unsaved(self, step: Optional[float]) -> None:
        """Report a checkpoint that did not fit on the disk, at the latest with the next report that does."""
        if self._path is not None:
            self._notice = self._line(step, None, {}, saved=False, unsaved=True)
            self._sent(b"")

    def trial(self, state: Dict[str, Any]) -> None:
        """Report the state of the job's trial."""
        if self._path is not None:
            self._append("trial", self._line(None, None, {}, saved=False, trial=state))

    def milestone(self, name: str) -> None:
        """Report that a process learnt of a pause, returned, or is done."""
        if self._path is not None:
            self.flush()
            self._append(name, self._line(None, None, {}, saved=False, milestone=name))

    def lost_result(self, why: str) -> None:
        """Report that the result of the job could not be kept."""
        if self._path is not None:
            self._append("lost result", self._line(None, None, {}, saved=False, lost_result=why[:MAX_TEXT]))

    def waits_for_room(self, seconds: float) -> None:
        """Report that what the job leaves behind waits for room, for at most so long, or with 0 no longer."""
        if self._path is not None:
            self._append("room", self._line(None, None, {}, saved=False, waits_for_room=seconds))

    def flush(self) -> bool:
        """Write the values kept back, and what found no room; return False if the disk is full."""
        self._lacks_room = False
        self._write(*self._thinning.rest())
        if self._held:
            self._sent(b"")
        return not self._lacks_room

    def _line(
        self,
        step: Optional[float],
        of: Optional[float],
        values: Dict[str, Union[float, str]],
        *,
        saved: bool,
        **more: Any,
    ) -> bytes:
        line = {
            "at": self._now(),
            "attempt": self._attempt,
            "step": self._finite("step", step),
            "of": self._finite("of", of),
            "values": values,
            "saved": saved,
            **more,
        }
        return json.dumps(line).encode() + b"\n"

    def _append(self, kind: str, line: bytes) -> None:
        """Write a line that is no report of progress; the last one of a kind that finds no room comes later."""
        if not self._sent(line):
            self._held.pop(kind, None)
            self._held[kind] = line

    def _sent(self, lines: bytes) -> bool:
        """Append lines to the file, and before them what found no room earlier; return whether that was done."""
        assert self._path is not None
        try:
            file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                data = b"".join([_line_end(file), self._notice, *self._held.values(), lines])
                is_whole = os.write(file, data) == len(data)
            finally:
                os.close(file)
        except OSError as error:
            self._lacks_room = error.errno in FULL
            return False
        self._lacks_room = not is_whole
        if is_whole:
            self._notice = b""
            self._held.clear()
        return is_whole


def _line_end(file: int) -> bytes:
    """Return the end that the last line lacks: full disks cut lines, and programs write some of their own."""
    size = os.fstat(file).st_size
    return b"\n" if size and os.pread(file, 1, size - 1) != b"\n" else b""


def _number(name: str, value: Any) -> float:
    """Return a value as a number, infinity for one beyond all floats. Raises `TypeError` if it is none."""
    if not isinstance(value, (str, bytes, bytearray)):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
        except (TypeError, ValueError):
            pass
    raise TypeError(f"report() takes numbers; {name}={value!r:.80} is not one.")


def _shown(name: str) -> str:
    """Return a name with a space for each character that cannot be shown, at most `MAX_NAME` characters."""
    clean = "".join(each if each.isprintable() else " " for each in name)
    return " ".join(clean.split())[:MAX_NAME].rstrip()
