"""The column CHANGE of the audit trail in a terminal."""

from __future__ import annotations

from typing import Any

import pytest

from springtide.hub_extension.commands.audit import changes
from springtide.scheduler.wire import AuditEntry

BUDGET = {"amount": 100.0, "unit": "gpu-hours", "beyond": "tell"}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({}, BUDGET, "amount 100.0, unit gpu-hours, beyond tell"),
        (BUDGET, {}, "before: amount 100.0, unit gpu-hours, beyond tell"),
        ({}, {}, ""),
        (
            {"why": "fw2", "finish": False, "booking": 7},
            {"why": "mine", "finish": False},
            "why fw2 → mine, finish false, booking 7 → none",
        ),
        (
            {"quota": {"t4": 2, "a100": 1, "h100": 0}},
            {"quota": {"t4": 2}},
            "quota 2 t4, 1 a100, 0 h100 → 2 t4, 0 a100, 0 h100",
        ),
        ({"limit": {"t4": 2}}, {"limit": {"a100": 1}}, "limit 2 t4, none a100 → none t4, 1 a100"),
        (
            {"user": "susan", "name": "bert", "priority": 50},
            {"priority": 75},
            "user susan, name bert, priority 50 → 75",
        ),
        ({"quota": None}, {"quota": 4}, "quota none → 4"),
    ],
)
def test_what_was_set_changed_and_removed_read_differently(
    before: dict[str, Any], after: dict[str, Any], said: str
) -> None:
    entry = AuditEntry(
        id=1, at=0.0, who="admin", what="project.change", subject="vision", before=before, after=after, undo=False
    )
    assert changes(entry) == said
