"""The rendering of reasons as sentences, used by all front ends.

A reason is a code with parameters (`springtide.scheduler.model.Reason`). `render` makes its sentences, each with a
role; all front ends pass them on unchanged and choose which roles to show. `headline` is the reason in one line.
"""

from __future__ import annotations

from collections.abc import Iterable

from springtide.scheduler.model import Reason
from springtide.scheduler.sentences.acts import ACTS
from springtide.scheduler.sentences.attempts import ATTEMPTS, STARTS
from springtide.scheduler.sentences.budgets import BUDGETS, SAYS_IT, budget_amount, budget_spent, over_budget
from springtide.scheduler.sentences.change_requests import CHANGE_REQUESTS
from springtide.scheduler.sentences.decisions import DECISIONS
from springtide.scheduler.sentences.estimates import ESTIMATES
from springtide.scheduler.sentences.faults import FAULTS
from springtide.scheduler.sentences.foreign_jobs import projects_named, without_names
from springtide.scheduler.sentences.headlines import (
    LONGEST_BRIEF,
    LONGEST_HEADLINE,
    brief_headline,
    headline,
    longer_headline,
)
from springtide.scheduler.sentences.needs import NEEDS
from springtide.scheduler.sentences.notifications import NOTIFICATIONS
from springtide.scheduler.sentences.reruns import fork_text, rerun_text
from springtide.scheduler.sentences.running import RUNNING
from springtide.scheduler.sentences.sentence import Role, Sentence, Table
from springtide.scheduler.sentences.sweeps import SWEEPS
from springtide.scheduler.sentences.test_runs import TEST_RUNS, test_run_text
from springtide.scheduler.sentences.waiting import (
    AT_ONCE_S,
    WAITING,
    Expected,
    agreed,
    alternative_words,
    starts_if_sentences,
)
from springtide.scheduler.wording import quoted

__all__ = [
    "AT_ONCE_S",
    "CODES",
    "LONGEST_BRIEF",
    "LONGEST_HEADLINE",
    "LONGEST_REASON",
    "Expected",
    "Role",
    "Sentence",
    "agreed",
    "alternative_words",
    "brief_headline",
    "budget_amount",
    "budget_spent",
    "fork_text",
    "headline",
    "joined",
    "longer_headline",
    "projects_named",
    "render",
    "rerun_text",
    "starts_if_sentences",
    "test_run_text",
    "text",
    "without_names",
]

LONGEST_REASON = 300
"""Length of a reason that a reader takes in, in characters; names of everyday length keep below it."""

_TABLE: Table = {
    **DECISIONS,
    **WAITING,
    **RUNNING,
    **SWEEPS,
    **TEST_RUNS,
    **ATTEMPTS,
    **ACTS,
    **STARTS,
    **FAULTS,
    **ESTIMATES,
    **NOTIFICATIONS,
    **NEEDS,
    **CHANGE_REQUESTS,
    **BUDGETS,
}

CODES = frozenset(_TABLE)
"""All codes that have sentences."""


def render(reason: Reason) -> tuple[Sentence, ...]:
    """Return the sentences of a reason, and of the budget that has a part in it.

    An unknown code, of another version, is returned as it is.
    """
    make = _TABLE.get(reason.code)
    if make is None:
        return (Sentence(Role.STATE, f"The reason has the code {quoted(reason.code)}."),)
    made = tuple(make(reason.params))
    return made if reason.code in BUDGETS.keys() | SAYS_IT else (*made, *over_budget(reason.params))


def joined(sentences: Iterable[Sentence]) -> str:
    """Return sentences as one text."""
    return " ".join(sentence.text for sentence in sentences)


def text(reason: Reason) -> str:
    """Return all sentences of a reason as one text."""
    return joined(render(reason))
