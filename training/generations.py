"""The generation of a population that a training is in: up to which step it trains, and how it ends there."""

from __future__ import annotations

import math
from typing import Any, Dict, Mapping, Optional

from springtide.training.values import plain


class GenerationError(RuntimeError):
    """A training cannot be a member of a population; the message says why, and what to change."""


class Generation:
    """The generation that this process trains for: it ends with the first report from step ``until`` on.

    ``value`` is the metric in that report, None without a finite one. ``saved`` is set once a checkpoint was saved
    after it.
    """

    def __init__(self, number: int, of: int, until: float, metric: str) -> None:
        self.number = number
        self.of = of
        self.until = until
        self.metric = metric
        self.reached = False
        self.complete = False
        self.saved = False
        self.value: Optional[float] = None
        self._step: Optional[float] = None

    @property
    def last(self) -> bool:
        """Whether no generation follows."""
        return self.number == self.of

    def observe(self, step: Optional[float], of: Optional[float], values: Mapping[str, Any]) -> bool:
        """Record a report of the training; return whether the training is to save and stop now.

        One that says of itself that it is complete is left to return in the last generation.
        """
        at = None if step is None else plain({"": step}).get("")
        if at is None or at < self.until or self.reached:
            return self.reached and not self.complete
        self.reached, self._step = True, at
        value = plain({"": values[self.metric]}).get("") if self.metric in values else None
        self.value = value if value is not None and math.isfinite(value) else None
        self.complete = self.last and of is not None and step == of
        return not self.complete

    def about(self) -> Dict[str, Any]:
        """Return what a checkpoint notes of the generation, by which a later attempt knows that it has ended."""
        if not self.reached:
            return {}
        return {"generation": {"number": self.number, "step": self._step, "value": self.value}}

    def ended_before(self, about: Mapping[str, Any]) -> bool:
        """Return whether the generation ended with the checkpoint that has noted this, and take its value."""
        noted = about.get("generation")
        if not isinstance(noted, dict) or noted.get("number") != self.number:
            return False
        self.reached = self.saved = True
        self._step, self.value = noted.get("step"), noted.get("value")
        return True

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
        if self.reached:
            msg = (
                f"The training went past step {self.until:g}, where generation {self.number} of {self.of} ends. "
                "Ask job.should_pause() after each report; when it is true, save and call job.exit_for_pause()."
            )
        else:
            msg = (
                f"The training returned before step {self.until:g}, where generation {self.number} of {self.of} "
                "ends. Report each step with job.report(step=step, …), and train for "
                f"{self.until / self.number * self.of:g} steps or more."
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
