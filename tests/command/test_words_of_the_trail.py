"""The column CHANGE of the audit trail in a terminal."""

from __future__ import annotations

from typing import Any

import pytest

from springtide.scheduler.wire.audit_table import changes
from springtide.scheduler.wording import utc

BUDGET = {"amount": 100.0, "unit": "gpu-hours", "beyond": "tell"}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({}, BUDGET, "amount 100, unit gpu-hours, beyond tell"),
        (BUDGET, {}, "before: amount 100, unit gpu-hours, beyond tell"),
        ({}, {}, ""),
        (
            {"why": "fw2", "finish": False, "booking": 7},
            {"why": "mine", "finish": False},
            "why fw2 → mine, booking 7 → none",
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
        (
            {"repeats": "Sat from 8:00 to 9:00, UTC", "every": {"days": "sat"}},
            {},
            "before: repeats Sat from 8:00 to 9:00, UTC",
        ),
        ({"start": 0.0, "end": 30.0}, {}, "before: start 1970-01-01 00:00:00 UTC, end 1970-01-01 00:00:30 UTC"),
        ({}, {"why": "", "finish": False}, ""),
        ({"why": "", "finish": False, "until": 0.0}, {}, "before: until 1970-01-01 00:00 UTC"),
        ({"why": "fw2", "finish": False}, {"why": "", "finish": True}, "why fw2 → none, finish no → yes"),
        ({"build_quota": 0}, {"build_quota": 1}, "build quota 0 → 1"),
        ({"wanted": "1 t4 for “nora”"}, {"reason": "ok"}, "wanted 1 t4 for “nora”, reason ok"),
        ({"wanted": "2 t4"}, {"granted": "1 t4", "reason": "ok"}, "wanted 2 t4, granted 1 t4, reason ok"),
        ({"wanted": "1 t4 for “nora”"}, {}, "wanted 1 t4 for “nora”"),
        ({"members": []}, {"members": ["joe"]}, "members none → joe"),
    ],
)
def test_what_was_set_changed_and_removed_read_differently(
    before: dict[str, Any], after: dict[str, Any], said: str
) -> None:
    assert changes(before, after, utc) == said
