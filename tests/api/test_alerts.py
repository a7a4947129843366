"""The alert rules of Prometheus are about metrics that the service really has."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
RULES = yaml.safe_load((ROOT / "helm/springtide/files/alerts.yaml").read_text())
ALERTS = [rule for group in RULES["groups"] for rule in group["rules"]]


async def test_every_alert_is_about_metrics_that_exist(running):
    await running.submit("susan")
    text = (await running.as_("susan").get("/metrics")).text
    there = {line.partition("{")[0].partition(" ")[0] for line in text.splitlines() if not line.startswith("#")}
    named = {name for alert in ALERTS for name in re.findall(r"springtide_\w+", alert["expr"])}
    assert len(named) > 8
    assert named - there == set()


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
