"""A real hub whose authenticator decides about groups, and the rules that make projects out of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from hubs.hub_people import Hub, until
from hubs.hub_process import WITHOUT_PAGES
from programs.terminal import Done, called

from springtide.scheduler.client import Client, PoolError
from springtide.scheduler.wire import ProjectEdit, Submission

pytestmark = [pytest.mark.hub, pytest.mark.xdist_group("groups-of-a-provider")]
RULES = [
    {"group": "GRP-4711", "project": "vision"},
    {"group": "GRP-4712", "project": "vision", "role": "lead"},
    {"prefix": "gpu/", "departments": True},
]
CONFIG = """
import json
from pathlib import Path
from jupyterhub.auth import DummyAuthenticator

class Provider(DummyAuthenticator):
    async def authenticate(self, handler, data):
        name = await super().authenticate(handler, data)
        return name and {{"name": name, "groups": json.loads(Path({directory!r}).read_text()).get(name, [])}}

c.JupyterHub.authenticator_class = Provider
c.Authenticator.manage_groups = c.Authenticator.allow_all = True
c.JupyterHub.load_groups = {{}}
c.Springtide.group_rules = {rules!r}
"""


class Provided(NamedTuple):
    """A hub, and the file with the groups of each person at its provider."""

    hub: Hub
    directory: Path

    def give(self, **groups: list[str]) -> None:
        self.directory.write_text(json.dumps(json.loads(self.directory.read_text()) | groups))

    def logged_in(self, name: str) -> Client:
        return Client(f"{self.hub.url}/services/springtide", self.hub.token(name))

    def run(self, *words: str, cwd: Path) -> Done:
        token = self.hub.token("admin")
        env = {"SPRINGTIDE_URL": f"{self.hub.url}/services/springtide", "JUPYTERHUB_API_TOKEN": token}
        return called(*words, env=env, cwd=cwd)


@pytest.fixture(scope="module")
def provided(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provided]:
    root = tmp_path_factory.mktemp("provider")
    directory = root / "directory.json"
    directory.write_text("{}")
    config = CONFIG.format(directory=str(directory), rules=RULES) + WITHOUT_PAGES
    hub = Hub(root / "state", config)
    try:
        hub.start()
        yield Provided(hub, directory)
    finally:
        hub.stop()


def projects_of(client: Client) -> set[str]:
    return {project.name for project in client.me().projects}


def with_vision(provided: Provided) -> Client:
    admin = provided.logged_in("admin")
    if "vision" not in {project.name for project in admin.pool().projects}:
        admin.create_project("vision", ProjectEdit(quota=1))
    return admin


def test_who_logs_in_is_in_the_projects_and_leads_those_of_her_groups(provided: Provided) -> None:
    with_vision(provided)
    provided.give(anna=["GRP-4711", "staff"], lea=["GRP-4712"])
    assert projects_of(provided.logged_in("anna")) == {"vision"}
    with pytest.raises(PoolError):
        provided.logged_in("anna").admin()
    assert [project.name for project in provided.logged_in("lea").admin().projects] == ["vision"]
    provided.give(lea=[])
    with pytest.raises(PoolError):
        provided.logged_in("lea").admin()


def test_who_loses_the_group_is_out_at_the_next_log_in_and_her_waiting_jobs_are_on_hold(
    provided: Provided,
) -> None:
    admin = with_vision(provided)
    provided.give(joe=["GRP-4711"])
    joe = provided.logged_in("joe")
    admin.freeze("vision", "nothing starts during this test")
    waiting = joe.submit(Submission(argv=["true"], project="vision"))
    provided.give(joe=[])
    assert projects_of(joe) == {"vision"}
    assert projects_of(provided.logged_in("joe")) == set()
    until("the hold", lambda: admin.job(waiting.id).hold is not None)
    admin.unfreeze("vision")


def test_the_command_shows_rules_tries_others_and_writes_what_is_missing_for_apply(
    provided: Provided, tmp_path: Path
) -> None:
    with_vision(provided)
    provided.give(susan=["gpu/research/nlp", "GRP-4711"])
    provided.logged_in("susan")
    shown = provided.run("groups", cwd=tmp_path)
    assert shown.code == 0, shown.err
    assert "Who is in “GRP-4712” leads “vision”." in shown.out
    assert "gpu/research/nlp" in shown.out
    (tmp_path / "missing.yaml").write_text(provided.run("groups", "--missing", cwd=tmp_path).out)
    applied = provided.run("apply", "-f", "missing.yaml", "--yes", cwd=tmp_path)
    assert applied.code == 0, applied.err
    assert projects_of(provided.logged_in("susan")) == {"vision", "research-nlp"}
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"group_rules": RULES[1:]}))
    tried = provided.run("groups", "--rules", "rules.yaml", cwd=tmp_path)
    assert "“vision” loses" in tried.err
    assert "susan" in tried.err
    assert tried.out.splitlines()[-1] == f"c.Springtide.group_rules = {RULES[1:]!r}"
    assert projects_of(provided.logged_in("susan")) == {"vision", "research-nlp"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("group: staff\n", "expected a list of rules"),
        ("- {grup: staff}\n", "rules.yaml: rule 1: There is no field “grup”"),
        ("- {group: staff}\n", "A rule for one group needs a project."),
    ],
)
def test_a_wrong_file_with_rules_is_refused_in_words(
    provided: Provided, tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "rules.yaml").write_text(text)
    done = provided.run("groups", "--rules", "rules.yaml", cwd=tmp_path)
    assert (done.code, said in done.err) == (2, True), done.err
