"""One trial of a sweep: its parameters, curve and result, as reported to the pool.

The runner begins the trial of its process before it calls the function; `Job.report` forwards the function's
reports.
"""

from __future__ import annotations

import atexit
import json
import math
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from springtide.training.files import write_atomically
from springtide.training.generations import generation_of
from springtide.training.reports import Reports
from springtide.training.values import plain

FILE = "trial.json"
"""Name of the file in the output directory that keeps the trial between its attempts."""
HISTORY = "trials.json"
"""Name of the file beside the payload with the earlier trials of the sweep."""
MOST_POINTS = 100
"""Maximum number of points of a curve."""
MOST_BYTES = 30 * 1024
"""Maximum size of a report of the trial, in bytes; beyond it first the memo, then the curve is left out."""
PACE = 2.0
"""Minimum time between two reports while only the curve grows, in seconds."""

Listener = Callable[[float, float], Any]


class Curve:
    """Values by step, thinned to `MOST_POINTS`: every second, fourth, … point, and the last one.

    A repeated step removes the points from there on: the training has resumed from a checkpoint.
    """

    def __init__(self, points: Optional[List[Tuple[float, float]]] = None) -> None:
        self._points: List[Tuple[float, float]] = []
        self._stride = 1
        self._count = 0
        self._last: Optional[Tuple[float, float]] = None
        for step, value in points or []:
            self.add(step, value)

    def add(self, step: float, value: float) -> None:
        """Add a point."""
        if self._last is not None and step <= self._last[0]:
            self.cut(step)
        self._last = (step, value)
        if self._count % self._stride == 0:
            self._points.append(self._last)
        self._count += 1
        if len(self._points) >= MOST_POINTS:
            self._points = self._points[::2]
            self._stride *= 2

    def cut(self, step: float) -> None:
        """Remove the points from ``step`` on."""
        self._points = [point for point in self._points if point[0] < step]
        self._count = len(self._points) * self._stride
        self._last = self._points[-1] if self._points else None

    @property
    def points(self) -> List[Tuple[float, float]]:
        """The points kept, in the order of their steps."""
        tail = [self._last] if self._last is not None and self._points[-1:] != [self._last] else []
        return [*self._points, *tail]


class Trial:
    """The trial that this process makes: ``number`` of the sweep ``sweep``, counted from 0.

    ``metric`` names the reported value that the sweep follows. ``parameters`` are None if the pool knows them
    already. ``memo`` is an adapter's own text, which the pool passes on to later trials. ``generation`` is the one
    that it trains for in a population, else None.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        metric: str,
        *,
        attempt: int = 1,
        rank: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.sweep = environment["SPRINGTIDE_SWEEP"]
        self.number = int(environment["SPRINGTIDE_TRIAL"])
        self.metric = metric
        self.generation = generation_of(environment, metric)
        self.parameters: Optional[Dict[str, Any]] = None
        self.memo = ""
        self.listener: Optional[Listener] = None
        self._file = Path(environment.get("SPRINGTIDE_OUTPUT_DIR", ".")) / FILE
        self._is_first = rank == 0
        self._reports = Reports(environment.get("SPRINGTIDE_REPORT") if rank == 0 else None, attempt)
        self._clock = clock
        self._reported_at = -math.inf
        self._is_new = False
        self.value: Optional[float] = None
        self.pruned = False
        self.earlier = self._read()
        self.curve = Curve(points_of(self.earlier))
        self.last = self.curve.points[-1][1] if self.curve.points else None

    def observe(self, step: Optional[float], values: Mapping[str, Any]) -> None:
        """Record a report of the training."""
        number = plain({"": values[self.metric]}).get("") if self.metric in values else None
        if number is None:
            return
        self.last = number
        at = None if step is None else plain({"": step}).get("")
        if at is not None and math.isfinite(number):
            self.curve.add(at, number)
            self._is_new = True
        if at is not None and self.listener is not None:
            self.listener(at, number)
        if self._clock() - self._reported_at >= PACE:
            self.flush()

    def choose(self, parameters: Mapping[str, Any], memo: str) -> None:
        """Report the chosen parameters."""
        self.parameters, self.memo, self._is_new = dict(parameters), memo, True
        self.flush()

    def end(self, value: Optional[float], *, pruned: bool = False) -> None:
        """Report the end of the trial; a value that is not finite is the metric's last one, and no outcome."""
        self.value = value if value is not None and math.isfinite(value) else None
        if value is not None and self.value is None:
            self._reports.report(None, None, {self.metric: value})
        self.pruned, self._is_new = pruned, True
        self.flush()

    def flush(self) -> None:
        """Report the pending changes."""
        if not self._is_new or not self._is_first:
            return
        self._is_new, self._reported_at = False, self._clock()
        state = {
            "parameters": self.parameters,
            "value": self.value,
            "curve": self.curve.points,
            "pruned": self.pruned,
            "memo": self.memo,
        }
        with suppress(OSError):
            write_atomically(self._file, json.dumps(state).encode())
        for less in ({}, {"memo": ""}, {"memo": "", "curve": []}):
            if len(json.dumps({**state, **less})) <= MOST_BYTES:
                self._reports.trial({**state, **less})
                return

    def value_of(self, result: Any) -> Optional[float]:
        """Return the value of a result: the number, its entry for the metric, or the last reported value."""
        if isinstance(result, Mapping):
            result = result.get(self.metric)
        if result is None:
            return self.last
        return plain({"": result}).get("", self.last)

    def _read(self) -> Optional[Dict[str, Any]]:
        """Return the state that an earlier attempt kept, None if there is none."""
        try:
            state = json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return state if isinstance(state, dict) else None


def points_of(state: Optional[Mapping[str, Any]]) -> List[Tuple[float, float]]:
    """Return the curve in the state of a trial, or in an entry of the history."""
    return [(float(step), float(value)) for step, value in (state or {}).get("curve") or []]


def read_history(code: Path) -> List[Dict[str, Any]]:
    """Return the earlier trials of the sweep, in no order; none if the pool gave no history."""
    try:
        entries = json.loads((code / HISTORY).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    return [entry for entry in entries if isinstance(entry, dict)]


_current: Optional[Trial] = None


def begin(environment: Mapping[str, str], metric: str, *, attempt: int = 1, rank: int = 0) -> Trial:
    """Begin the trial of this process, which `Job.report` then updates."""
    global _current  # noqa: PLW0603 - a process makes one trial
    _current = Trial(environment, metric, attempt=attempt, rank=rank)
    atexit.register(_current.flush)
    return _current


def observe(step: Optional[float], of: Optional[float], values: Mapping[str, Any]) -> bool:
    """Record a report in the trial of this process, if it makes one; return whether its generation ends."""
    if _current is None:
        return False
    _current.observe(step, values)
    return _current.generation is not None and _current.generation.observe(step, of, values)


def about() -> Dict[str, Any]:
    """Return what a checkpoint of this process notes of its trial."""
    generation = None if _current is None else _current.generation
    return {} if generation is None else generation.about()


def saved() -> None:
    """Record that a checkpoint was saved."""
    generation = None if _current is None else _current.generation
    if generation is not None and generation.reached:
        generation.saved = True


def end_generation() -> bool:
    """End the trial if it has come to the end of its generation; return whether it has.

    Raises `GenerationError` if no checkpoint was saved there.
    """
    if _current is None or _current.generation is None or not _current.generation.over:
        return False
    _current.generation.check_saved()
    _current.end(_current.generation.value)
    return True


def flush() -> None:
    """Report the pending changes of this process's trial."""
    if _current is not None:
        _current.flush()
