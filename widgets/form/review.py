"""The pool's review of a job while the form is filled in: errors by field, and a forecast."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from springtide.scheduler.wire import Forecast, Problem, Reason, WhatIf, Wish
from springtide.scheduler.wire.form_fields import typed_options

TOO_MANY: Final = 429
SERVER_ERROR: Final = 500


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """A review. ``problems`` are by field; a problem of the whole has the field ``""``.

    ``estimate`` is the pool's, None if it gave none; ``later`` is the reason if asking again may help.
    """

    problems: dict[str, str] = {}
    estimate: Reason | None = None
    later: str = ""


def question(typed: Mapping[str, str]) -> tuple[WhatIf, Review]:
    """Return the pool's request for the valid options, and the errors of the others."""
    options, problems = typed_options(typed)
    return WhatIf(job=Wish.of(options), starts=[], smaller=not problems), Review(problems=problems)


def reviewed(unread: Review, forecast: Forecast) -> Review:
    """Return the review of options that the pool takes, as far as they can be read."""
    return unread if unread.problems else Review(estimate=forecast.estimate)


def refused(unread: Review, problem: Problem) -> Review:
    """Return the review of options that the pool does not take, or cannot be asked about now."""
    words = " ".join(filter(None, [problem.message, problem.hint]))
    if problem.status in {0, TOO_MANY} or problem.status >= SERVER_ERROR:
        return Review(problems=unread.problems, later=words)
    return Review(problems={problem.field or "": words, **unread.problems})
