"""The alert rules of Prometheus and the dashboard of Grafana are about metrics that the service really has."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
RULES = yaml.safe_load((ROOT / "helm/springtide/files/alerts.yaml").read_text())
DASHBOARD = json.loads((ROOT / "helm/springtide/files/dashboard.json").read_text())
ALERTS = [rule for group in RULES["groups"] for rule in group["rules"]]


async def metrics_of(running):
    """Return the names of all metrics of a pool in which a job was paused."""
    job = await running.submit("susan")
    await running.until("susan", job["id"], lambda job: job["state"] == "running")
    await running.as_("susan").post(f"/jobs/{job['id']}/pause")
    await running.until("susan", job["id"], lambda job: job["state"] == "paused")
    text = (await running.as_("susan").get("/metrics")).text
    return {line.partition("{")[0].partition(" ")[0] for line in text.splitlines() if not line.startswith("#")}


async def test_every_alert_is_about_metrics_that_exist(running):
    named = {name for alert in ALERTS for name in re.findall(r"springtide_\w+", alert["expr"])}
    assert len(named) > 8
    assert named - await metrics_of(running) == set()


async def test_every_panel_of_the_dashboard_is_about_metrics_that_exist(running):
    expressions = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    named = {name for expression in expressions for name in re.findall(r"springtide_\w+", expression)}
    assert len(named) > 7
    only_measured = {"springtide_project_used_gpus"}
    assert named - await metrics_of(running) - only_measured == set()
    assert {panel["title"] for panel in DASHBOARD["panels"]} >= {
        "Wait until the first start",
        "Work lost by pauses",
    }


def test_every_alert_says_what_it_means_and_the_runbook_what_to_do():
    runbook = (ROOT / "docs/operations.md").read_text()
    for alert in ALERTS:
        assert alert["labels"]["severity"] in {"critical", "warning"}
        assert set(alert["annotations"]) == {"summary", "description"}
        assert f"**{alert['alert']}**" in runbook
    assert len({alert["alert"] for alert in ALERTS}) == len(ALERTS)


def test_brackets_and_durations_of_the_expressions_are_whole():
    for alert in ALERTS:
        expression = alert["expr"]
        assert expression.count("(") == expression.count(")")
        assert all(re.fullmatch(r"\d+[smhd]", span) for span in re.findall(r"\[([^\]]*)\]", expression))
        assert re.fullmatch(r"\d+[smhd]", alert.get("for", "0s"))
