"""A hub and its proxy are killed while jobs run: the jobs keep running, once, and both come back."""

from __future__ import annotations

from kills.hub_kills import kill_hub_and_proxy


def test_jobs_go_on_while_hub_and_proxy_are_killed(tmp_path):
    figures = kill_hub_and_proxy(tmp_path, jobs=2, rounds=1)
    assert figures.problems == []
    assert (figures.hubs, figures.proxies) == (1, 1)
