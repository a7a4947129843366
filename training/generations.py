"""The generation of a population that a training is in: up to which step it trains, and how it ends there."""

from __future__ import annotations

import math
from typing import Any, Dict, Mapping, Optional

from springtide.training.values import plain


class GenerationError(RuntimeError):
    """A training cannot be a member of a population; the message says why, and what to change."""


class Generation:
    """The generation that this process trains for: it ends with the first report from step ``until`` on.

    ``value`` is the last finite value of the metric at that step, in whichever report, None without one. A report
    without a step is of the step before. ``saved`` is set once a checkpoint was saved after the first of them.
    """

    def __init__(self, number: int, of: int, until: float, metric: str) -> None:
        self.number = number
        self.of = of
        self.until = until
        self.metric = metric
        self.reached = False
        self.saved = False
        self.value: Optional[float] = None
        self._step: Optional[float] = None
        self._is_whole = False
        self._last: Optional[float] = None
        self._last_value: Optional[float] = None
        self._of: Optional[float] = None

    @property
    def last(self) -> bool:
        """Whether no generation follows."""
        return self.number == self.of

    def observe(self, step: Optional[float], of: Optional[float], values: Mapping[str, Any]) -> bool:
        """Record a report of the training; return whether the training is to save and stop now.

        In the last generation one that has come to its own end is left to return.
        """
        at = self._last if step is None else plain({"": step}).get("", self._last)
        if at is None:
            return self.over
        is_new = at != self._last
        self._of = self._of if of is None else of
        self._is_whole = at == self._of
        value = plain({"": values[self.metric]}).get("") if self.metric in values else None
        if value is not None and math.isfinite(value):
            self._last_value = value
        elif is_new:
            self._last_value = None
        self._last = at
        if at >= self.until and not self.reached:
            self.reached, self._step = True, at
        if at == self._step:
            self.value = self._last_value
        return self.over

    @property
    def over(self) -> bool:
        """Whether the training is to stop: its generation has ended, before the training came to its own end."""
        return self.reached and not (self.last and self._is_whole)

    def about(self) -> Dict[str, Any]:
        """Return what a checkpoint notes of the generation, by which a later attempt knows that it has ended."""
        if not self.reached:
            return {}
        about = {"number": self.number, "step": self._step, "value": self.value, "over": self.over}
        return {"generation": about}

    def ended_before(self, about: Mapping[str, Any]) -> bool:
        """Return whether the generation ended with the checkpoint that has noted this, and take its value.

        A training that had come to its own end is called once more, for its result.
        """
        noted = about.get("generation")
        if not isinstance(noted, dict) or noted.get("number") != self.number:
            return False
        self.reached = self.saved = True
        self._step, self.value = noted.get("step"), noted.get("value")
        self._is_whole = not noted.get("over")
        return self.over

    def check_saved(self) -> None:
        """Raise `GenerationError` if no checkpoint was saved after the last report of the generation."""
        if not self.saved:
            msg = (
                f"The training saved no checkpoint at step {self._step or self.until:g}, where generation "
                f"{self.number} of {self.of} ends, so no member can continue from it. Save after the report and "
                "before exit_for_pause(): job.save(state, step=step)."
            )
            raise GenerationError(msg)

    def check_returned(self) -> None:
        """Raise `GenerationError` if the training returned although generations follow."""
        if self.last:
            return
        if self._last is not None and self._last > self.until:
            msg = (
                f"The training went past step {self.until:g}, where generation {self.number} of {self.of} ends. "
                "Ask job.should_pause() after each report; when it is true, save and call job.exit_for_pause()."
            )
        else:
            msg = (
                f"The training returned in generation {self.number} of {self.of}, which ends at step "
                f"{self.until:g}. Train for {self.until / self.number * self.of:g} steps or more, and report each "
                "with job.report(step=step, …)."
            )
        raise GenerationError(msg)


def generation_of(environment: Mapping[str, str], metric: str) -> Optional[Generation]:
    """Return the generation that the pool has this process train for, None outside a population."""
    if "SPRINGTIDE_UNTIL_STEP" not in environment:
        return None
    return Generation(
        int(environment["SPRINGTIDE_GENERATION"]),
        int(environment["SPRINGTIDE_GENERATIONS"]),
        float(environment["SPRINGTIDE_UNTIL_STEP"]),
        metric,
    )
