"""Script, terminal and bidi text in the widgets of notebooks: it is shown as text, and does nothing."""

from __future__ import annotations

from typing import Any

import pytest
from browsers.widget_page import show_widget
from hostile.hostile_text import HOSTILE, SHOWN, expect_only_text
from playwright.sync_api import BrowserContext, Page, expect

pytestmark = pytest.mark.xdist_group("lab")

GPU = {"node": HOSTILE, "index": 0, "uuid": HOSTILE, "label": HOSTILE, "borrowed": True}
WHY = {
    "code": "told",
    "text": HOSTILE,
    "headline": f"{HOSTILE} in one line",
    "sentences": [{"role": "state", "text": HOSTILE}],
    "params": {"x": HOSTILE},
}
ATTEMPT = {"number": 1, "state": "paused", "created": 0, "started": 0, "ended": 5, "gpus": [GPU], "ended_why": WHY}
JOB: dict[str, Any] = {
    "id": "k3v9x2m4p7q1", "name": HOSTILE, "user": HOSTILE, "project": HOSTILE, "state": "running",
    "failures": 0, "held": [GPU], "held_by_user": False, "submitted": 0,
    "gpu_type": HOSTILE, "argv": [HOSTILE], "source": HOSTILE,
    "options": {"gpus": 1, "workers": 1, "min_workers": 1, "retries": 0, "gpu_types": [HOSTILE], "image": HOSTILE},
    "attempt": 2, "attempts": [ATTEMPT, {**ATTEMPT, "number": 2, "state": "running", "created": 6, "ended": None}],
    "progress": {"step": 1, "of": 10, "at": 0, "values": {HOSTILE: 0.5}}, "reason": WHY, "starts": None,
    "error": HOSTILE,
}  # fmt: skip
POINTS = [{"seq": n, "attempt": 1, "at": n, "step": n, "values": {HOSTILE: 1 / (n + 1)}} for n in range(4)]
HOLDER = {
    "kind": "job", "user": HOSTILE, "project": HOSTILE, "job": HOSTILE, "name": HOSTILE, "state": "running",
    "borrowed": True,
}  # fmt: skip
CELL = {"index": 0, "uuid": HOSTILE, "holder": HOLDER, "reserved_for": HOSTILE}
NODE = {
    "name": HOSTILE, "environment": "train", "gpu_type": HOSTILE, "available": True, "simulated": True,
    "labels": {HOSTILE: HOSTILE}, "gpus": [CELL],
}  # fmt: skip
PROJECT = {
    "name": HOSTILE, "parent": None, "quota": 1, "limit": None, "weight": 1, "priority": 100, "build_quota": 1,
    "fair_share": 1, "held": 1, "borrowed": 1, "waiting": 0, "running_jobs": 1, "waiting_jobs": 0, "colour": 0,
    "members": [HOSTILE], "version": 1,
}  # fmt: skip
POOL = {
    "seq": 1, "train_gpus": 1, "train_held": 1, "build_gpus": 0, "build_held": 0, "simulated": True,
    "quota_sum": 1, "nodes": [NODE], "projects": [PROJECT],
}  # fmt: skip


@pytest.fixture
def tab(context: BrowserContext) -> Page:
    tab = context.new_page()
    tab.goto("about:blank")
    return tab


def test_in_the_card_of_a_job(tab: Page) -> None:
    traits = {"job": JOB, "points": POINTS, "log": HOSTILE, "notice": HOSTILE, "colour": 0, "simulated": False}
    show_widget(tab, "notebook/card_widget.js", "cardWidget", {**traits, "version": 1})
    expect(tab.get_by_test_id("job-name")).to_have_text(SHOWN)
    expect(tab.get_by_test_id("job-headline")).to_contain_text(f"{SHOWN} in one line")
    expect(tab.get_by_test_id("job-reason")).to_contain_text(SHOWN)
    expect_only_text(tab)


def test_in_the_view_of_the_pool(tab: Page) -> None:
    me = {"name": HOSTILE, "projects": [{"name": HOSTILE}]}
    show_widget(tab, "notebook/pool_widget.js", "poolWidget", {"pool": POOL, "me": me, "version": 1})
    expect(tab.get_by_test_id("pool-card")).to_contain_text(SHOWN)
    expect_only_text(tab)
