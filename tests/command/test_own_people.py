"""A pool that goes on without the people and projects of the demonstration, as the docs say."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from hubs.hub_people import Hub, until
from hubs.hub_process import WITHOUT_PAGES
from programs.terminal import Done, called

pytestmark = [pytest.mark.hub, pytest.mark.xdist_group("own-people")]
ADMIN = Path(__file__).parents[2] / "docs/admin.md"
DEMONSTRATION = {"susan", "joe", "jemma"}


def block(kind: str, text: str) -> str:
    """The first block of a kind in a text of the docs."""
    found = re.search(rf"```{kind}\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1]


def said_at_the_start(hub: Hub) -> str:
    """What the hub has said at its last start, once all is said."""
    said = hub.log.read_text().rpartition("Starting the hub")[2]
    return said if "Ctrl-C" in said else ""


def test_the_people_and_projects_of_the_demonstration_go_by_the_commands_of_the_docs(tmp_path: Path) -> None:
    text = ADMIN.read_text().partition("To go on without the demonstration")[2]
    first = Hub(tmp_path / "state", WITHOUT_PAGES)
    try:
        first.start()
    finally:
        first.stop()
    own = Hub(tmp_path / "state", WITHOUT_PAGES + block("py", text))
    try:
        own.start()
        said = until("the last line", lambda: said_at_the_start(own))
        assert "People        grace\n" in said
        assert " and admin, jemma, joe and susan, whom this hub has from before" in said
        assert "Admin         ada: edits projects and quotas" in said
        assert "1. Log in as ada and give people projects with quotas" in said
        assert "its two trainings" not in said
        admin, grace = own.token("ada"), own.token("grace")
        (tmp_path / "pool.yaml").write_text(block("yaml", text))

        def run(*words: str, token: str = admin) -> Done:
            env = {"SPRINGTIDE_URL": f"{own.url}/services/springtide", "JUPYTERHUB_API_TOKEN": token}
            return called(*words, env=env, cwd=tmp_path)

        for line in block("console", text).splitlines():
            _, *words = shlex.split(line)
            done = run(*words, *(["--yes"] if words[0] == "apply" else []))
            assert done.code == 0, done.err
        assert {each["name"] for each in run("projects", "--json").json} == {"vision"}
        people = {person["name"] for person in run("people", "--json").json["people"]}
        assert people.isdisjoint(DEMONSTRATION)
        assert run("submit", "--json", "--", "true", token=grace).json["project"] == "vision"
    finally:
        own.stop()
