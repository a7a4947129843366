"""What ends by itself: drains, freezes, requests, and changes after which the value before returns."""

from __future__ import annotations

import logging
from dataclasses import replace

from springtide.scheduler.engine import idle
from springtide.scheduler.engine.requests import bookings, change_requests, drains, freezes, project_admin
from springtide.scheduler.engine.state.endings import is_due
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.tables import POOL, Ending, EndingKind

logger = logging.getLogger(__name__)


def end_due(transaction: Transaction) -> None:
    """End what ends by now, each with an entry of the audit trail.

    A value that does not fit any more stays away, is tried again later, and says why. Values that make room for
    each other return together.
    """
    drains.end_drains(transaction)
    bookings.follow(transaction)
    freezes.end_freezes(transaction)
    change_requests.end_due(transaction)
    due = [ending for ending in transaction.endings.values() if is_due(ending, transaction.now)]
    refused: list[tuple[Ending, str]] = []
    while due:
        refused = [(ending, why) for ending in due if (why := _returned(transaction, ending))]
        if len(refused) == len(due):
            break
        due = [ending for ending, _ in refused]
    for ending, why in refused:
        _note(transaction, ending, why)


def _returned(transaction: Transaction, ending: Ending) -> str:
    """Let the value before return; return why it cannot, empty if it has."""
    members = {group.project: group.members for group in transaction.hub_groups.values()}
    try:
        if ending.kind is EndingKind.PERSON:
            project_admin.return_person(transaction, ending.subject, ending.before, members)
        elif ending.kind is EndingKind.IDLE_RULE:
            idle.return_rule(transaction, ending.subject, ending.before)
        else:
            project_admin.return_field(transaction, ending.subject, ending.kind.value, ending.before, members)
    except Refusal as refusal:
        return refusal.message
    transaction.endings.remove(ending.key)
    return ""


def _note(transaction: Transaction, ending: Ending, refused: str) -> None:
    if not ending.refused:
        logger.warning("The %s of %s does not return: %s", ending.kind.value, ending.subject, refused)
        before, after = {ending.kind.value: ending.before}, {"refused": refused}
        what = "ending.refused"
        project = "" if ending.kind in {EndingKind.PERSON, EndingKind.IDLE_RULE} else ending.subject
        transaction.add_audit_entry(POOL, what, ending.subject, before, after, project=project)
    transaction.endings.put(replace(ending, refused=refused, tried=transaction.now))
