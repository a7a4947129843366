"""How soon the pool says what happened to its cluster: on its page, in its jobs and in its SpringtideJobs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from cluster_day.day import Day

NOT_READY = "node-not-ready"
LIVE = ("running", "starting")

Says = Callable[[], bool | None]
"""Whether it is said; None: there is nobody left to say it."""


def say_not_ready(day: Day, node: str) -> None:
    """Measure how soon page, jobs and SpringtideJobs say that a node is not ready; it has just become so."""
    jobs = {pod.job for pod in day.held_on(node) if pod.job}
    ways: dict[str, Says] = {
        "the page": lambda: node in _closed_nodes(day),
        "the jobs": lambda: _jobs_say(day, jobs),
        "the SpringtideJobs": lambda: _train_jobs_say(day, jobs),
    }
    _measure(day, f"{node} is not ready", ways)


def say_without_image(day: Day) -> None:
    """Measure how soon a job says that its image cannot be pulled; a pod waits for one since now."""
    ways: dict[str, Says] = {"a job without its image": lambda: any(map(_lacks_image, day.jobs()))}
    _measure(day, "no image can be pulled", ways)


def _measure(day: Day, what: str, ways: dict[str, Says]) -> None:
    since, open_ways = time.monotonic(), dict(ways)

    def none_is_open() -> bool:
        for who, says in list(open_ways.items()):
            said = says()
            if said:
                day.judge.hear(who, time.monotonic() - since)
            if said is not False:
                del open_ways[who]
        return not open_ways

    day.until(none_is_open, f"page, jobs and SpringtideJobs say that {what}")


def _closed_nodes(day: Day) -> set[str]:
    answer = day.ask("GET", "/pool") or {"nodes": []}
    return {node["name"] for node in answer["nodes"] if node["closure"] == "not ready"}


def _jobs_say(day: Day, jobs: set[str]) -> bool | None:
    """Return whether all jobs with a pod on the node say so that still run."""
    shown = day.shown_jobs()
    if shown is None:
        return False
    live = [job for job in shown if job["id"] in jobs and job["state"] in LIVE]
    return all(map(_says_not_ready, live)) if live else None


def _says_not_ready(job: dict[str, Any]) -> bool:
    reason = job.get("reason") or {}
    return bool(reason.get("params", {}).get("node_code") == NOT_READY)


def _lacks_image(job: dict[str, Any]) -> bool:
    return "cannot be pulled" in (job.get("reason") or {}).get("text", "")


def _train_jobs_say(day: Day, jobs: set[str]) -> bool | None:
    """Return whether all SpringtideJobs with a pod on the node say so that still run, by their conditions."""
    live = [
        {each["type"]: each["status"] for each in status.get("conditions", ())}.get("NodesReady")
        for found in day.train_jobs()
        if (status := found.get("status", {})).get("jobId") in jobs and status.get("state") in LIVE
    ]
    return all(ready == "False" for ready in live) if live else None
