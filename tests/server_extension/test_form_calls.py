"""The form without a kernel: a page asks its notebook server for the fields, for the review, and to submit."""

from __future__ import annotations

import pytest
from benches.server_extension_bench import NotebookServer

from springtide.scheduler.client import Client

FORM = "../../form"


def test_the_form_has_the_persons_projects_and_the_notebooks_of_the_directory(server: NotebookServer) -> None:
    (server.root / "studies").mkdir(exist_ok=True)
    (server.root / "studies/one.ipynb").write_text("{}")
    with server.client() as page:
        form = page.get(FORM, params={"directory": "studies"}).json()
    assert [choice["name"] for choice in form["person"]["projects"]] == ["vision"]
    assert form["notebooks"] == ["one.ipynb"]
    assert {"gpus", "priority", "time_limit"} <= {field["name"] for field in form["fields"]}


def test_what_is_typed_is_reviewed_by_the_pool_and_nothing_is_submitted(
    server: NotebookServer, service: str
) -> None:
    with server.client() as page, Client(service, "susan") as susan:
        before = len(list(susan.all_jobs(mine=True)))
        fits = page.post(FORM, json={"typed": {"gpus": "1"}}).json()
        wide = page.post(FORM, json={"typed": {"gpus": "400"}}).json()
        typo = page.post(FORM, json={"typed": {"time_limit": "soon"}}).json()
        slow = page.post(FORM, json={"typed": {"grace": "2h"}}).json()
        strange = page.post(FORM, json={"typed": {"image": "anything"}}).json()
        assert len(list(susan.all_jobs(mine=True))) == before
    assert fits["estimate"]["code"].startswith("estimate-")
    assert "the largest train node has 4" in wide["problems"]["gpus"]
    assert "expected a duration" in typo["problems"]["time_limit"]
    assert "grace" in slow["problems"]
    assert "without containers" in strange["problems"]["image"]


def test_a_command_is_sent_in_the_directory_of_its_notebook(server: NotebookServer, service: str) -> None:
    (server.root / "studies").mkdir(exist_ok=True)
    (server.root / "studies/train.py").write_text("print(1)")
    command = {
        "command": "python train.py",
        "directory": "studies",
        "typed": {"name": "typed", "time_limit": "10m"},
    }
    with server.client() as page, Client(service, "susan") as susan:
        sent = page.post("../../send", json=command)
        assert sent.status_code == 201, sent.text
        job = susan.job(sent.json()["id"])
    assert (job.name, job.options.time_limit, job.kind) == ("typed", 600.0, "command")


def test_the_environment_of_a_command_is_told_and_nothing_is_submitted(
    server: NotebookServer, service: str
) -> None:
    (server.root / "lacking.py").write_text("import nowhere_to_be_found\nraise SystemExit('it was run')\n")
    with server.client() as page, Client(service, "susan") as susan:
        before = len(list(susan.all_jobs(mine=True)))
        found = page.post("../../environment", json={"path": "lacking.py", "typed": {"env": "TOKEN=hunter2"}})
        missing = page.post("../../environment", json={"command": "python nowhere.py"})
        assert len(list(susan.all_jobs(mine=True))) == before
    assert found.json()["environment"]["missing"] == ["nowhere_to_be_found"]
    assert found.json()["environment"]["variables"] == ["TOKEN"]
    assert "hunter2" not in found.text
    assert (missing.status_code, missing.json()["code"]) == (422, "not_sent")


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        (FORM, {"typed": {"gpus": 4}}, 422, "not readable"),
        (FORM, {"typed": {}, "projects": {"vision": {"quota": 9}}}, 422, "not readable"),
        (FORM, {"typed": {"name": "x" * 70_000}}, 413, "at most"),
        ("../../send", {"command": "true", "directory": "../.."}, 404, "There is no directory"),
        ("../../send", {"command": "true", "typed": {"gpus": "many"}}, 422, "GPUs is “many”"),
        ("../../send", {"command": "python missing.py"}, 422, "does not exist"),
    ],
)
def test_what_a_form_may_not_ask_is_refused_in_words(
    server: NotebookServer, path: str, body: dict[str, object], status: int, words: str
) -> None:
    with server.client() as page:
        answer = page.post(path, json=body)
    assert answer.status_code == status, answer.text
    assert words in answer.json()["message"]


def test_the_form_needs_the_log_in_and_the_xsrf_token(server: NotebookServer, lonely: NotebookServer) -> None:
    with server.browser() as page:
        assert page.post(FORM, json={"typed": {}}).status_code == 403
        page.cookies.clear()
        assert page.get(FORM).status_code == 403
    with lonely.client() as page:
        assert page.get(FORM).json()["code"] == "no_pool"
