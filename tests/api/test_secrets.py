"""Secrets through the API: who may name which, and that no answer has a value."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from springtide.hub_extension.service.declarations import declared_secrets
from springtide.scheduler.declared import NamedSecret
from springtide.scheduler.settings import SettingError

VALUE = "s3cret-value-4711"
USES = "import os; print(len(os.environ['WANDB_API_KEY']), os.environ.get('HF_TOKEN'))"


@pytest.mark.http
async def test_a_job_gets_the_variables_of_the_secrets_that_it_names_and_no_answer_has_them(
    start: Any, tmp_path: Path
) -> None:
    wandb, hf = tmp_path / "wandb.env", tmp_path / "hf.env"
    wandb.write_text(f"WANDB_API_KEY={VALUE}\n")
    hf.write_text("HF_TOKEN=other\n")
    secrets = (NamedSecret("wandb", file=str(wandb), projects=("vision",)), NamedSecret("hf", file=str(hf)))
    pool = await start(secrets=secrets)
    assert (await pool.as_("susan").get("/me")).json()["secrets"] == ["hf", "wandb"]
    assert (await pool.as_("jemma").get("/me")).json()["secrets"] == ["hf"]

    job = await pool.submit("susan", sys.executable, "-c", USES, secrets=["wandb"])
    assert job["options"]["secrets"] == ["wandb"]
    await pool.until("susan", job["id"], lambda found: found["state"] == "succeeded")
    log = (await pool.as_("susan").get(f"/jobs/{job['id']}/log")).json()
    assert log["text"].strip() == f"{len(VALUE)} None"
    for path in ("/jobs", f"/jobs/{job['id']}", f"/jobs/{job['id']}/explain", "/pool", "/me", "/projects"):
        assert VALUE not in (await pool.as_("admin").get(path)).text, path


@pytest.mark.http
async def test_a_secret_of_another_project_or_of_none_is_refused_with_those_that_she_may_use(start: Any) -> None:
    pool = await start(
        secrets=(NamedSecret("wandb", file="/a", projects=("vision",)), NamedSecret("hf", file="/b"))
    )
    for name, says in (
        ("wandb", "Project “speech” may not use the secret “wandb”."),
        ("wndb", "There is no secret “wndb”."),
    ):
        answer = await pool.as_("jemma").post("/jobs", json={"argv": ["true"], "secrets": [name]})
        assert (answer.status_code, answer.json()["field"]) == (422, "secrets")
        assert answer.json()["message"] == says
        assert answer.json()["hint"].startswith("Secrets of project “speech”: hf.")


def test_what_an_admin_declares_is_taken_as_it_is_meant() -> None:
    one = {"wandb": {"file": "/etc/wandb.env", "projects": ["vision"]}}
    assert declared_secrets(one, cluster=False, own_accounts=True) == {
        "wandb": NamedSecret("wandb", file="/etc/wandb.env", projects=("vision",))
    }
    many = {"wandb": {"secret": "wandb-token"}}
    found = declared_secrets(many, cluster=True, own_accounts=False)
    assert found == {"wandb": NamedSecret("wandb", secret="wandb-token")}


@pytest.mark.parametrize(
    ("value", "cluster", "says"),
    [
        ({"secret": "a"}, False, "secret is for jobs on a cluster; on one machine name the file"),
        ({"file": "a.env"}, False, "file is “a.env”; expected a file of this machine, from /"),
        ({"file": "/a/../b"}, False, "expected a file of this machine"),
        ({"file": "/a", "projects": ["x"]}, False, "here all jobs run as one account, which reads the variables"),
        ({"file": "/a"}, True, "file is for jobs on one machine; on a cluster name the Secret: secret"),
        ({"secret": "A B"}, True, "secret is “A B”; expected the name of a Secret in the namespace of jobs"),
        ({"secret": "a", "projects": [""]}, True, "projects has an empty name"),
        ({"value": "x"}, True, "There is no field “value”. Known are: file, secret, projects."),
    ],
)
def test_what_cannot_be_a_secret_is_refused_in_one_sentence(value: Any, cluster: bool, says: str) -> None:
    with pytest.raises(SettingError) as refused:
        declared_secrets({"wandb": value}, cluster=cluster, own_accounts=False)
    assert str(refused.value).startswith("Springtide.secrets: “wandb”: ")
    assert says in str(refused.value)


@pytest.mark.http
async def test_a_secret_whose_file_is_missing_or_wrong_is_named_when_a_job_is_submitted(
    start: Any, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong.env"
    wrong.write_text("no variable\n")
    secrets = (NamedSecret("gone", file=str(tmp_path / "gone.env")), NamedSecret("wrong", file=str(wrong)))
    pool = await start(secrets=secrets)
    for name, why in (("gone", "No such file or directory"), ("wrong", "its line 1 is not NAME=value")):
        answer = await pool.as_("susan").post("/jobs", json={"argv": ["true"], "secrets": [name]})
        assert (answer.status_code, answer.json()["field"]) == (422, "secrets")
        assert answer.json()["message"] == f"The file of the secret “{name}” cannot be read: {why}."
