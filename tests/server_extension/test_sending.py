"""Scripts and notebooks that a page sends as jobs, and what it cannot send."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from benches.server_extension_bench import NotebookServer
from nbformat.v4 import new_code_cell, new_notebook

from springtide.scheduler.client import Client
from springtide.widgets.server_extension.pool_gate import GateError
from springtide.widgets.server_extension.sending import locate

PREVIEW = "../../preview"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The directory of a notebook server, with a script inside, one outside and links to both."""
    root = tmp_path / "home"
    root.mkdir()
    (root / "train.py").write_text("print(1)")
    (root / "data.csv").write_text("1")
    (tmp_path / "outside.py").write_text("print(2)")
    (root / "link.py").symlink_to(tmp_path / "outside.py")
    return root


def test_a_link_below_it_is_found_wherever_it_leads(root: Path) -> None:
    assert locate("link.py", root) == root / "link.py"


@pytest.mark.parametrize("path", ["train.py", "/train.py", "sub/../train.py"])
def test_a_file_below_the_servers_directory_is_found(root: Path, path: str) -> None:
    (root / "sub").mkdir()
    assert locate(path, root) == root / "train.py"


@pytest.mark.parametrize(
    "path", ["", ".", "..", "../outside.py", "missing.py", "sub/../../outside.py", "a\0.py", "x" * 5000]
)
def test_no_other_file_is(root: Path, path: str) -> None:
    with pytest.raises(GateError) as caught:
        locate(path, root)
    assert caught.value.problem.status == 404


def test_what_is_neither_a_script_nor_a_notebook_is_not_sent(root: Path) -> None:
    with pytest.raises(GateError) as caught:
        locate("data.csv", root)
    assert "data.csv" in caught.value.problem.message


def test_a_script_is_sent_as_it_was_last_saved(server: NotebookServer, service: str) -> None:
    (server.root / "train.py").write_text("print('as it was')")
    with server.client() as page, Client(service, "susan") as susan:
        sent = page.post("../../send", json={"path": "train.py", "options": {"gpus": 2, "name": "sent"}})
        assert sent.status_code == 201, sent.text
        job = susan.job(sent.json()["id"])
        assert (job.user, job.name, job.options.gpus) == ("susan", "sent", 2)
        (server.root / "train.py").write_text("print('changed')")
        printed = ""
        while not printed.endswith("\n"):
            printed = susan.log(job.id, wait=5).text
        assert printed == "as it was\n"


@pytest.mark.parametrize(
    ("request_body", "status", "words"),
    [
        ({"path": "../secret.py"}, 404, "There is no file"),
        ({"path": "train.py", "options": {"gpus": -1}}, 422, "gpus is -1"),
        ({"path": "train.py", "options": {"gpus": 400}}, 422, "400"),
        ({"path": "train.py", "argv": ["rm"]}, 422, "not readable"),
        ({"path": "train.py", "arguments": {"rate": "1"}}, 422, "Only a function takes arguments"),
        ({"path": "plain.ipynb", "arguments": {"*": "--lr 1"}}, 422, "takes no arguments as behind a command"),
        ({"path": "train.py", "options": {"name": "x" * 70_000}}, 413, "at most"),
    ],
)
def test_what_cannot_be_sent_is_refused_in_words(
    server: NotebookServer, request_body: dict[str, object], status: int, words: str
) -> None:
    (server.root / "train.py").write_text("print('as it was')")
    nbformat.write(new_notebook(), server.root / "plain.ipynb")
    with server.client() as page:
        answer = page.post("../../send", json=request_body)
    assert answer.status_code == status, answer.text
    assert words in answer.json()["message"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('--lr "0.1', "No closing quotation. Quote it as a shell does."),
        ("--lr 0.1 | tee log", "A command runs without a shell, so “|” means nothing in it."),
        ("--data my data.csv", "“my data.csv” is one file, and its name has a space."),
    ],
)
def test_wrong_arguments_of_a_script_are_named_before_it_is_sent_and_when_it_is(
    server: NotebookServer, line: str, words: str
) -> None:
    (server.root / "takes.py").write_text("import sys")
    (server.root / "my data.csv").write_text("1")
    request = {"path": "takes.py", "arguments": {"*": line}}
    with server.client() as page:
        seen = page.post(PREVIEW, json=request).json()
        sent = page.post("../../send", json=request)
        right = page.post(PREVIEW, json={**request, "arguments": {"*": "--lr 0.1"}}).json()
    assert seen["rest"]
    assert words in seen["problems"]["*"]
    assert (sent.status_code, sent.json()["field"], sent.json()["message"]) == (
        422,
        "arguments.*",
        seen["problems"]["*"],
    )
    assert right["problems"] == {}


def test_a_notebook_is_sent_with_its_parameters_once_they_were_looked_at(
    server: NotebookServer, service: str
) -> None:
    cells = [
        new_code_cell("rate = 0.5", metadata={"tags": ["parameters"]}),
        new_code_cell("print('rate', rate)"),
    ]
    nbformat.write(new_notebook(cells=cells), server.root / "study.ipynb")
    with server.client() as page, Client(service, "susan") as susan:
        seen = page.post(PREVIEW, json={"path": "study.ipynb", "arguments": {"rate": "fast"}}).json()
        assert [(each["name"], each["default"]) for each in seen["parameters"]] == [("rate", "0.5")]
        assert "a number" in seen["problems"]["rate"]
        unsaved = page.post(PREVIEW, json={"path": "study.ipynb", "parameters": ["momentum = 1"]}).json()
        assert [each["name"] for each in unsaved["parameters"]] == ["momentum"]
        wrong = page.post("../../send", json={"path": "study.ipynb", "arguments": {"rate": "fast"}})
        assert (wrong.status_code, wrong.json()["field"]) == (422, "arguments.rate")
        unknown = page.post("../../send", json={"path": "study.ipynb", "arguments": {"momentum": "1"}})
        assert "“momentum” is no parameter of study.ipynb" in unknown.json()["message"]
        sent = page.post("../../send", json={"path": "study.ipynb", "arguments": {"rate": "0.1"}})
        assert sent.status_code == 201, sent.text
        assert susan.job(sent.json()["id"]).arguments["rate"].value == 0.1


def test_a_cell_is_looked_at_without_running_it(server: NotebookServer) -> None:
    with server.client() as page:
        seen = page.post(PREVIEW, json={"cell": "x = 1\n%cd there", "number": 4}).json()
        elsewhere = page.post(PREVIEW, json={"path": "../secret.ipynb"})
    assert seen["refusal"].startswith("Cell In [4] cannot be sent: line 2, “%cd there”")
    assert (seen["parameters"], elsewhere.status_code) == ([], 404)


def test_sending_needs_the_log_in_and_the_xsrf_token(server: NotebookServer, lonely: NotebookServer) -> None:
    with server.browser() as page:
        assert page.post("../../send", json={"path": "train.py"}).status_code == 403
        assert page.post(PREVIEW, json={"cell": "1"}).status_code == 403
    with lonely.client() as page:
        assert page.post("../../send", json={"path": "train.py"}).json()["code"] == "no_pool"
