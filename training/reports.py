"""Reports of a job to the pool: one JSON line per report, appended to the file that the pool named."""

from __future__ import annotations

import atexit
import json
import math
import os
import sys
import time
from typing import Any, Callable, Dict, Optional, Set, Union

from springtide.training.values import written

BURST = 100
"""Maximum number of lines written in a burst; later reports are limited to `PER_SECOND`."""
PER_SECOND = 20.0
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
        self._allowance = float(BURST)
        self._last = clock()
        self._held: Optional[bytes] = None
        self._notice = b""
        self._warned: Set[str] = set()
        self.values: Dict[str, Union[float, str]] = {}
        if path is not None:
            atexit.register(self.flush)

    def report(self, step: Optional[float], of: Optional[float], values: Dict[str, Any]) -> None:
        """Write a report, or keep it back while the rate limit is exceeded.

        The newest report kept back is written by the next permitted report, by `saved`, or at exit.
        """
        if self._path is None:
            return
        numbers = {name: _number(name, value) for name, value in values.items()}
        self._warn(step, numbers)
        reported = {name: written(number) for name, number in numbers.items()}
        self.values.update(reported)
        line = self._line(step, of, reported, saved=False)
        self._allow()
        if self._allowance >= 1:
            self._allowance -= 1
            self._held = None
            self._append(line)
        else:
            self._held = line

    def _warn(self, step: Optional[float], numbers: Dict[str, float]) -> None:
        """Say once for each name that a value is not finite."""
        for name, number in numbers.items():
            if not math.isfinite(number) and name not in self._warned:
                self._warned.add(name)
                at = "" if step is None else " at step {:g}".format(_number("step", step))
                sys.stderr.write("springtide: {}={:g}{} is no finite number.\n".format(name, number, at))

    def saved(self, step: Optional[float]) -> None:
        """Report a complete checkpoint."""
        if self._path is not None:
            self._notice = b""
            self.flush()
            self._append(self._line(step, None, {}, saved=True))

    def unsaved(self, step: Optional[float]) -> None:
        """Report a checkpoint that did not fit on the disk, at the latest with the next report that does."""
        if self._path is not None:
            self._notice = self._line(step, None, {}, saved=False, unsaved=True)
            self._append(b"")

    def trial(self, state: Dict[str, Any]) -> None:
        """Report the state of the job's trial."""
        if self._path is not None:
            self._append(self._line(None, None, {}, saved=False, trial=state))

    def milestone(self, name: str) -> None:
        """Report that a process learnt of a pause, returned, or is done."""
        if self._path is not None:
            self.flush()
            self._append(self._line(None, None, {}, saved=False, milestone=name))

    def lost_result(self, why: str) -> None:
        """Report that the result of the job could not be kept."""
        if self._path is not None:
            self._append(self._line(None, None, {}, saved=False, lost_result=why[:MAX_TEXT]))

    def flush(self) -> None:
        """Write the report that was kept back."""
        held, self._held = self._held, None
        if held is not None:
            self._append(held)

    def _allow(self) -> None:
        now = self._clock()
        self._allowance = min(float(BURST), self._allowance + (now - self._last) * PER_SECOND)
        self._last = now

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
            "step": step if step is None else _number("step", step),
            "of": of if of is None else _number("of", of),
            "values": values,
            "saved": saved,
            **more,
        }
        return json.dumps(line).encode() + b"\n"

    def _append(self, line: bytes) -> None:
        assert self._path is not None
        try:
            file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(file, self._notice + line)
            finally:
                os.close(file)
        except OSError:
            self._held = line or self._held
        else:
            self._notice = b""


def _number(name: str, value: Any) -> float:
    """Return a value as a number, infinity for one beyond all floats."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except (TypeError, ValueError):
        raise TypeError(f"report() takes numbers; {name}={value!r:.80} is not one.") from None
