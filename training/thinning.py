"""Which reports of a job are written when they come faster than the pool takes them; pure.

Reports that are kept back are merged, metric by metric: the next ones that are written have the last value of each
metric, its best values so far, and where it stopped being finite. What else was reported meanwhile is left out.
"""

from __future__ import annotations

import math
from typing import Dict, List, Mapping, NamedTuple, Optional, Tuple

BURST = 100
"""Maximum number of reports that are written in a burst; later ones are limited to `PER_SECOND`."""
PER_SECOND = 20.0
OWN = 20
"""Number of reports with a metric that are written first, however many of others have come before."""
MOST_OWN = 64
"""Maximum number of metrics that have these."""
MOST_NAMES = 1024
"""Maximum number of metrics whose last and best values are followed."""


class Made(NamedTuple):
    """A report as it was made; ``values`` are numbers, also ones that are not finite."""

    at: float
    step: Optional[float]
    of: Optional[float]
    values: Mapping[str, float]


class _Kept(NamedTuple):
    number: int
    report: Made


class Thinning:
    """Chooses the reports that are written; ``now`` is a monotonic time in seconds."""

    def __init__(self, now: float) -> None:
        self._allowance = float(BURST)
        self._at = now
        self._number = 0
        self._left_out = 0
        self._known: Dict[str, Tuple[float, float, float]] = {}
        self._written: Dict[str, int] = {}
        self._newest: Optional[_Kept] = None
        self._pending: Dict[Tuple[str, str], _Kept] = {}

    def take(self, report: Made, now: float) -> Tuple[List[Made], int]:
        """Return the reports to write now, in their order, and the number of those left out since the last ones.

        There are none while ``report`` is kept back.
        """
        self._allowance = min(float(BURST), self._allowance + (now - self._at) * PER_SECOND)
        self._at = now
        self._keep(report)
        is_own = any(self._has_own(name) for name in report.values)
        if not is_own and self._allowance < 1:
            return [], 0
        taken, left_out = self.rest()
        self._allowance -= min(len(taken), max(0.0, self._allowance)) if is_own else len(taken)
        return taken, left_out

    def rest(self) -> Tuple[List[Made], int]:
        """Return the reports that were kept back, in their order, and the number of those left out.

        A report without metrics is never counted as left out: a later one has a later step.
        """
        if self._newest is None:
            return [], 0
        kept = {each.number: each.report for each in (*self._pending.values(), self._newest)}
        taken = [kept[number] for number in sorted(kept)]
        left_out, self._left_out = self._left_out - sum(1 for report in taken if report.values), 0
        self._newest = None
        self._pending.clear()
        for report in taken:
            for name in report.values:
                if self._has_own(name):
                    self._written[name] = self._written.get(name, 0) + 1
        return taken, left_out

    def put_back(self, reports: List[Made], left_out: int) -> None:
        """Keep back reports that could not be written, before any other is made."""
        for report in reports:
            self._keep(report, again=True)
        self._left_out += left_out

    def _has_own(self, name: str) -> bool:
        written = self._written.get(name)
        return len(self._written) < MOST_OWN if written is None else written < OWN

    def _keep(self, report: Made, *, again: bool = False) -> None:
        self._number += 1
        if report.values:
            self._left_out += 1
        kept = self._newest = _Kept(self._number, report)
        for name, number in report.values.items():
            known = self._known.get(name)
            if known is None:
                if len(self._known) >= MOST_NAMES:
                    continue
                known = (math.inf, -math.inf, 0.0)
            least, most, last = known
            self._pending["last", name] = kept
            if not math.isfinite(number):
                if math.isfinite(last) or again:
                    self._pending["lost", name] = kept
            else:
                if number < least or (again and number == least):
                    self._pending["least", name] = kept
                if number > most or (again and number == most):
                    self._pending["most", name] = kept
                least, most = min(least, number), max(most, number)
            self._known[name] = (least, most, number)
