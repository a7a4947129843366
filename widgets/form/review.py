"""What the pool says of a job while it is filled in: what is wrong with which field, and what to expect of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from springtide.scheduler.wire import Forecast, Problem, Reason, WhatIf, Wish
from springtide.scheduler.wire.form_fields import typed_options

TOO_MANY: Final = 429
SERVER_ERROR: Final = 500


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """``problems`` are by field; under no field stands what is wrong with the whole.

    ``estimate`` is the pool's, None if it gave none; ``later`` says why not, where asking again may help.
    """

    problems: dict[str, str] = {}
    estimate: Reason | None = None
    later: str = ""


def question(typed: Mapping[str, str]) -> tuple[WhatIf, Review]:
    """Return what to ask the pool about the options that can be read, and what is wrong with the others."""
    options, problems = typed_options(typed)
    return WhatIf(job=Wish.of(options), starts=[], smaller=not problems), Review(problems=problems)


def reviewed(unread: Review, told: Forecast) -> Review:
    """Return the review of options that the pool takes, as far as they can be read."""
    return unread if unread.problems else Review(estimate=told.estimate)


def refused(unread: Review, problem: Problem) -> Review:
    """Return the review of options that the pool does not take, or cannot be asked about now."""
    words = " ".join(filter(None, [problem.message, problem.hint]))
    if problem.status in {0, TOO_MANY} or problem.status >= SERVER_ERROR:
        return Review(problems=unread.problems, later=words)
    return Review(problems={problem.field or "": words, **unread.problems})
