"""The alert rules of Prometheus and the dashboard of Grafana are about metrics that the service really has."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from hubs import unpacked_programs

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


@pytest.mark.parametrize(
    ("values", "fires"),
    [
        pytest.param("_x500", False, id="never scraped"),
        pytest.param("0+1x30 _x500", True, id="scraped before"),
        pytest.param("0+1x530", False, id="scraped"),
        pytest.param("0+1x30 _x2000", False, id="gone for more than a day"),
    ],
)
def test_the_pool_is_down_if_it_was_scraped_within_a_day_and_is_not_now(
    tmp_path: Path, values: str, *, fires: bool
) -> None:
    """Asked of Prometheus's own program, at the end of the series."""
    program = unpacked_programs.find("prometheus")
    if program is None:
        pytest.fail("There is no prometheus on this machine: run `make tools`")
    minutes = sum(int(each) for each in re.findall(r"x(\d+)", values))
    summary, description = (
        next(each for each in ALERTS if each["alert"] == "SpringtideDown")["annotations"][name]
        for name in ("summary", "description")
    )
    labels = {"severity": "critical", "namespace": "pool", "job": "springtide"}
    expected = {"exp_labels": labels, "exp_annotations": {"summary": summary, "description": description}}
    checked = {
        "interval": "1m",
        "input_series": [
            {"series": 'springtide_ticks_total{namespace="pool",job="springtide",instance="a"}', "values": values}
        ],
        "alert_rule_test": [
            {
                "eval_time": f"{minutes}m",
                "alertname": "SpringtideDown",
                "exp_alerts": [expected] if fires else [],
            }
        ],
    }
    file = tmp_path / "test.yaml"
    rules = str(ROOT / "helm/springtide/files/alerts.yaml")
    file.write_text(yaml.safe_dump({"rule_files": [rules], "tests": [checked]}))
    done = subprocess.run(
        [program.with_name("promtool"), "test", "rules", file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
