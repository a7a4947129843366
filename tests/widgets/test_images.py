"""The image that a job runs in: that of its notebook, another of the list, or none on one machine."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from springtide.scheduler.client import Client
from springtide.scheduler.wire import PresetRequest
from springtide.widgets.connection import Connection, PoolError
from springtide.widgets.errors import OptionError
from springtide.widgets.magics import train as magic
from springtide.widgets.shared_pool import Pool, backend_of

pytestmark = pytest.mark.xdist_group("images")  # each worker would start a service of its own


@pytest.fixture
def lab(image_service, workdir) -> Pool:
    """A pool whose jobs run in lab/base:1 unless they say otherwise."""
    return Pool(Connection(Client(image_service, "susan")))


@pytest.fixture
def in_torch(monkeypatch):
    """This notebook runs in lab/torch:2."""
    monkeypatch.setenv("SPRINGTIDE_IMAGE", "lab/torch:2")


def test_a_job_runs_in_the_image_of_its_notebook(lab, in_torch):
    assert lab.submit("true").info.options.image == "lab/torch:2"


def test_a_job_can_name_another_image(lab, in_torch):
    assert lab.submit("true", image="lab/base:1").info.options.image == "lab/base:1"


def test_without_either_it_runs_in_the_first_of_the_list(lab, monkeypatch):
    monkeypatch.delenv("SPRINGTIDE_IMAGE", raising=False)
    assert lab.submit("true").info.options.image == "lab/base:1"


@pytest.fixture
def torch_preset(image_service):
    """A preset with an image, and one without."""
    with Client(image_service, "admin") as admin:
        admin.set_preset("torch", PresetRequest(options={"image": "lab/torch:9"}))
        admin.set_preset("short", PresetRequest(options={"time_limit": "1h"}))
        yield
        for name in ("torch", "short"):
            admin.delete_preset(name)


def test_the_image_of_a_preset_comes_before_that_of_the_notebook(lab, in_torch, torch_preset):
    assert lab.environment("true", preset="torch").image == "lab/torch:9"
    assert lab.submit("true", preset="torch").info.options.image == "lab/torch:9"
    assert lab.submit("true", preset="torch", image="lab/base:1").info.options.image == "lab/base:1"
    assert lab.environment("true", preset="short").image == "lab/torch:2"
    assert lab.submit("true", preset="short").info.options.image == "lab/torch:2"


def test_the_magic_takes_an_image(lab):
    shell = SimpleNamespace(user_ns={}, user_ns_hidden={})
    assert magic(shell, "--image lab/torch:3", "1", lab).info.options.image == "lab/torch:3"


def test_an_image_that_is_not_on_the_list_is_refused_with_the_list(lab):
    with pytest.raises(PoolError) as refused:
        lab.submit("true", image="evil/miner:1")
    assert (refused.value.problem.status, refused.value.problem.field) == (400, "image")
    assert "“evil/miner:1” is not on this pool's list: lab/base:1, lab/torch:*" in str(refused.value)


def test_what_is_no_text_is_no_image(lab):
    with pytest.raises(OptionError, match=r"image is .*; expected text"):
        lab.submit("true", image=3)


def test_on_one_machine_an_image_has_no_meaning(pool, workdir):
    with pytest.raises(PoolError, match="no meaning here: this pool runs jobs on one machine"):
        pool.submit("true", image="lab/base:1")
    assert pool.submit("true").info.options.image is None


def test_the_form_offers_the_images_and_sends_the_one_chosen(lab):
    backend = backend_of(lab, dict)
    (image,) = [field for field in backend.answer({"do": "form"})["value"]["fields"] if field["name"] == "image"]
    assert [choice["value"] for choice in image["choices"]] == ["", "lab/base:1"]
    assert image["own"]
    sent = backend.answer({"do": "submit", "kind": "command", "work": "true", "typed": {"image": "lab/torch:4"}})
    assert lab.job(sent["value"]["id"]).info.options.image == "lab/torch:4"
    refused = backend.answer(
        {"do": "submit", "kind": "command", "work": "true", "typed": {"image": "evil/miner:1"}}
    )
    assert (refused["value"], refused["field"]) == (None, "image")


def test_the_form_does_not_ask_on_one_machine(pool):
    form = backend_of(pool, dict).answer({"do": "form"})["value"]
    assert "image" not in [field["name"] for field in form["fields"]]


@pytest.fixture
def train(workdir) -> str:
    """A script that needs what the notebook has; of this a declared image has msgspec alone."""
    (workdir / "main.py").write_text("import json, httpx, msgspec\n")
    return "python main.py"


def test_what_a_declared_image_lacks_is_told_before_the_submission_and_with_the_job(lab, train, in_torch):
    words = "The code imports httpx, which is not installed in lab/torch:2."
    assert words in repr(lab.environment(train))
    job = lab.submit(train)
    assert words in job.notes
    assert job.info.environment.missing == ["httpx"]
    assert words in repr(job.environment)
    assert job.rerun(image="lab/base:1").info.environment.missing == []
    assert job.rerun(image="lab/torch:3").info.environment.missing == ["httpx"]


def test_of_an_image_that_is_not_declared_nothing_is_said_to_be_missing(lab, train):
    assert lab.environment(train, image="lab/base:1").told.missing == []
    assert lab.submit(train, image="lab/base:1").info.environment.missing == []
