"""Environments that a page makes for the user of its notebook server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from benches.server_extension_bench import NotebookServer, start_server, stop
from patience import PATIENCE_S
from programs.wheels import write_wheel

URL = "../../environments"


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NotebookServer]:
    """A notebook server without a pool, whose pip has the package ``tidal`` and no other."""
    server = start_server(tmp_path_factory.mktemp("her"), write_wheel(tmp_path_factory.mktemp("wheels")))
    yield server
    stop(server)


def finished(page: httpx.Client, name: str) -> dict[str, Any]:
    """Return the progress of an environment that is not being made any more."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        progress: dict[str, Any] = page.get(f"{URL}/{name}").json()
        if progress["state"] != "making":
            return progress
        assert time.monotonic() < deadline, progress
        time.sleep(0.1)


def test_a_page_makes_an_environment_whose_kernel_the_server_offers(workshop: NotebookServer) -> None:
    with workshop.client() as page:
        begun = page.post(URL, json={"name": "bert", "packages": ["tidal"]})
        assert (begun.status_code, begun.json()["state"]) == (202, "making")
        ready = finished(page, "bert")
        assert (ready["state"], ready["kernel"]) == ("ready", "springtide-bert")
        offered = page.get(f"{workshop.url}api/kernelspecs").json()["kernelspecs"]
    path = Path(offered["springtide-bert"]["spec"]["argv"][0])
    assert path.is_relative_to(workshop.root)
    assert path.exists()


def test_a_failure_has_its_reason(workshop: NotebookServer) -> None:
    with workshop.client() as page:
        page.post(URL, json={"name": "ebb", "packages": ["no-such-package"]})
        failed = finished(page, "ebb")
    assert failed["state"] == "failed"
    assert "No matching distribution found for no-such-package" in failed["problem"]


@pytest.mark.parametrize(
    "body",
    [{"name": "../x"}, {"name": "a", "packages": ["--pre"]}, {"name": "a", "more": 1}, {"packages": []}, [], 1],
)
def test_what_is_no_environment_is_refused(workshop: NotebookServer, body: object) -> None:
    with workshop.client() as page:
        assert page.post(URL, json=body).status_code == 422


def test_nobody_else_makes_or_sees_one(workshop: NotebookServer) -> None:
    with httpx.Client(base_url=f"{workshop.url}springtide/") as stranger:
        assert stranger.post("environments", json={"name": "theirs"}).status_code == 403
        assert stranger.get("environments/bert").status_code == 403
    with workshop.browser() as page:
        assert page.post(URL, json={"name": "theirs"}).status_code == 403
        assert page.get(f"{URL}/theirs").status_code == 404
