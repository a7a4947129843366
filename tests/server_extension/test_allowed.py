"""Which calls a notebook server passes on to the pool, and what reaches the pool of a hostile one."""

from __future__ import annotations

import pytest

from springtide.scheduler.wire import Problem
from springtide.widgets.server_extension.allowed import (
    EVENTS_QUERY,
    Target,
    last_event_id,
    output_target,
    query_text,
    table_target,
    target,
)

JOB = "k3v9x2m4p7q1"
HOSTILE = [
    "",
    "/",
    "..",
    "../hub/api/user",
    "jobs/..",
    "jobs/../admin",
    f"jobs/{JOB}/../../admin",
    f"jobs/{JOB}/..%2f..%2fadmin",
    f"jobs/{JOB}%2e%2e",
    f"jobs/{JOB}/pause/",
    f"jobs/{JOB}//pause",
    f"jobs//{JOB}",
    f"jobs/{JOB}\n",
    f"jobs/{JOB}\r\nX-Evil: 1",
    f"jobs/{JOB}?x=1",
    f"jobs/{JOB}#x",
    f"jobs/{JOB};x",
    f"jobs\\{JOB}",
    "jobs/" + "a" * 65,
    "jobs/\u0661",
    "//evil.example/jobs",
    "http://evil.example/me",
    "https:evil.example",
    "me@evil.example",
    "@evil.example/me",
    "me:80",
    "ME",
    "me/",
    "admin",
    "audit",
    "projects/vision",
    "people/susan",
    "workspaces",
    "build-quota/susan",
    f"jobs/{JOB}/output/result.pkl",
    "openapi.json",
    "events",
]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_nothing_but_the_listed_paths_is_passed_on(method: str) -> None:
    answers = {path: target(method, path, {}) for path in HOSTILE}
    passed_on = {path for path, each in answers.items() if not isinstance(each, Problem) or each.status != 404}
    assert passed_on == set()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "me"),
        ("GET", "pool"),
        ("GET", "jobs"),
        ("GET", f"jobs/{JOB}"),
        ("GET", f"jobs/{JOB}/log"),
        ("GET", f"jobs/{JOB}/points"),
        ("GET", f"jobs/{JOB}/trials"),
        ("GET", f"jobs/{JOB}/output"),
        ("POST", f"jobs/{JOB}/pause"),
        ("POST", f"jobs/{JOB}/resume"),
        ("POST", f"jobs/{JOB}/cancel"),
        ("POST", f"jobs/{JOB}/retry"),
        ("GET", f"jobs/{JOB}/rerun"),
    ],
)
def test_what_a_card_asks_for_is_passed_on_as_it_is(method: str, path: str) -> None:
    assert target(method, path, {}) == Target(method, path)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "me"),
        ("POST", "jobs"),
        ("DELETE", "jobs"),
        ("PUT", f"jobs/{JOB}"),
        ("GET", f"jobs/{JOB}/cancel"),
        ("PUT", "pool"),
    ],
)
def test_a_listed_path_is_passed_on_with_its_own_method_only(method: str, path: str) -> None:
    refused = target(method, path, {})
    assert isinstance(refused, Problem)
    assert refused.status == 405


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("models/model.pt", "models/model.pt"),
        ("50%.txt", "50%25.txt"),
        ("a?b=c#d;e", "a%3Fb%3Dc%23d%3Be"),
        ("%2e%2e/..x", "%252e%252e/..x"),
        ("a\\b\r\nX-Evil: 1", "a%5Cb%0D%0AX-Evil%3A%201"),
        ("größe", "gr%C3%B6%C3%9Fe"),
    ],
)
def test_a_file_of_a_job_is_asked_for_by_its_name_and_by_nothing_else(name: str, sent: str) -> None:
    assert output_target(JOB, name) == Target("GET", f"jobs/{JOB}/output/{sent}")


@pytest.mark.parametrize("name", ["", ".", "..", "../log", "a/../../log", "a//b", "/etc/passwd", "a/", "x" * 5000])
def test_a_name_that_leads_elsewhere_is_not_passed_on(name: str) -> None:
    refused = output_target(JOB, name)
    assert isinstance(refused, Problem)
    assert refused.status == 404
    assert isinstance(output_target("../me", "x"), Problem)


def test_a_list_as_csv_is_asked_for_with_its_filters_and_nothing_else() -> None:
    given = {"where": ["lr > 1"], "mine": ["1"], "token": ["secret"], "cursor": ["5"]}
    assert table_target(given) == Target("GET", "jobs.csv?where=lr+%3E+1&mine=1")


def test_parameters_are_passed_on_by_name_and_encoded() -> None:
    given = {
        "state": ["running&user=joe"],
        "token": ["secret"],
        "_xsrf": ["secret"],
        "user": ["joe"],
        "limit": ["5"],
    }
    wanted = target("GET", "jobs", given)
    assert isinstance(wanted, Target)
    assert wanted.path == "jobs?state=running%26user%3Djoe&limit=5"


def test_a_parameter_is_not_longer_than_any_the_pool_knows() -> None:
    assert len(query_text({"job": ["x" * 10_000]}, EVENTS_QUERY)) < 600


@pytest.mark.parametrize("value", ["12", "0"])
def test_a_stream_is_resumed_after_a_number(value: str) -> None:
    assert last_event_id(value) == value


@pytest.mark.parametrize("value", [None, "", "-1", "1\r\nX: y", "x", "9" * 40, "\u0661"])
def test_a_stream_is_not_resumed_after_anything_else(value: str | None) -> None:
    assert last_event_id(value) is None


def test_the_table_of_jobs_has_its_filters_order_marks_and_actions() -> None:
    query = {"mine": ["1"], "order": ["running"], "where": ["loss < 0.5"], "token": ["secret"]}
    assert target("GET", "jobs", query) == Target("GET", "jobs?mine=1&order=running&where=loss+%3C+0.5")
    assert target("POST", "jobs/actions", {}) == Target("POST", "jobs/actions", takes_body=True)
    assert target("PATCH", f"jobs/{JOB}", {}) == Target("PATCH", f"jobs/{JOB}", takes_body=True)
