"""`configure(c)` extends what a hub's configuration says and overwrites nothing."""

from __future__ import annotations

import asyncio
import json
from copy import deepcopy
from pathlib import Path
from typing import Any, ClassVar

import pytest
from jupyterhub import roles
from jupyterhub.scopes import define_custom_scopes, scope_definitions
from jupyterhub.services.service import Service
from jupyterhub.spawner import LocalProcessSpawner, SimpleLocalProcessSpawner
from traitlets.config import Config

from springtide.hub_extension import configure
from springtide.hub_extension.configuration import ACCESS, STARTS_WITHIN_S, grant_to_users
from springtide.hub_extension.web.auth import ADMIN_SCOPE
from springtide.spawner.choice import with_quota
from springtide.spawner.local import LocalBuildSpawner, SimpleBuildSpawner
from springtide.spawner.quota import BuildQuota

HUB_5 = ["load_roles", "services"]
HUB_6 = ["load_roles", "services", "extra_user_scopes"]


@pytest.fixture
def c(tmp_path: Path) -> Config:
    c = Config()
    c.Springtide.state_dir = str(tmp_path / "state")
    c.Springtide.accounts = "shared"
    return c


def service(c: Config) -> dict[str, Any]:
    [entry] = [entry for entry in c.JupyterHub.services if entry["name"] == "springtide"]
    assert isinstance(entry, dict)
    return entry


def settings(c: Config) -> dict[str, Any]:
    told = json.loads(service(c)["environment"]["SPRINGTIDE_CONFIG"])
    assert isinstance(told, dict)
    return told


def test_settings_reach_the_service(c: Config, tmp_path: Path) -> None:
    c.Springtide.build_gpus = 3
    configure(c, simulated_gpus=11)
    assert settings(c)["build_gpus"] == 3
    assert settings(c)["simulated_gpus"] == 11
    assert settings(c)["state_dir"] == str(tmp_path / "state")


def test_what_the_caller_says_goes_before_the_file(c: Config) -> None:
    c.Springtide.build_gpus = 3
    configure(c, build_gpus=1)
    assert settings(c)["build_gpus"] == 1


def test_the_admins_of_the_file_are_told_of_faults_unless_it_names_others(c: Config) -> None:
    def fault_recipients() -> list[str]:
        configure(c)
        return list(settings(c)["fault_recipients"])

    assert fault_recipients() == []
    c.Authenticator.admin_users = {"jemma"}
    c.DummyAuthenticator.admin_users.add("joe")
    assert fault_recipients() == ["jemma", "joe"]
    c.Springtide.fault_recipients = ["susan"]
    assert fault_recipients() == ["susan"]


def test_the_service_knows_what_the_file_decides_about_groups_and_leads(c: Config) -> None:
    configure(c)
    about = {"managed_groups", "configured_groups", "configured_roles"}
    assert not about & settings(c).keys()
    lead = {
        "name": "vision-admin",
        "scopes": ["custom:springtide:project-admin!group=vision"],
        "groups": ["vision-leads"],
    }
    c.JupyterHub.load_roles = [{"name": "cull", "scopes": ["list:users"]}, lead]
    c.JupyterHub.load_groups = {"vision": {"users": ["susan", "joe"]}, "old": ["jemma"], "empty": {}}
    c.GenericOAuthenticator.manage_groups = True
    configure(c)
    assert settings(c)["managed_groups"] is True
    assert settings(c)["configured_groups"] == {"old": ["jemma"], "vision": ["joe", "susan"]}
    assert settings(c)["configured_roles"] == [{**lead, "users": []}]


def test_a_service_that_starts_slowly_does_not_end_the_hub(c: Config) -> None:
    configure(c)
    assert Service(**service(c)).timeout == STARTS_WITHIN_S > Service().timeout


def test_the_service_keeps_its_address_and_token(c: Config, tmp_path: Path) -> None:
    configure(c)
    again = Config()
    again.Springtide.state_dir = str(tmp_path / "state")
    configure(again, accounts="shared")
    assert service(again) == service(c)
    assert service(c)["url"].startswith("http://127.0.0.1:")


def test_the_service_may_read_groups_users_and_servers_and_nothing_else(c: Config) -> None:
    configure(c)
    [role] = [role for role in c.JupyterHub.load_roles if role["name"] == "springtide"]
    assert role["services"] == ["springtide"]
    reading = {"list:groups", "read:groups", "list:users", "read:users", "read:servers"}
    assert set(role["scopes"]) == reading
    c.Springtide.stop_idle_workspaces = True
    configure(c)
    [role] = [role for role in c.JupyterHub.load_roles if role["name"] == "springtide"]
    assert set(role["scopes"]) == {*reading, "delete:servers"}, "only where idle workspaces may be stopped"


def test_what_the_file_says_is_kept(c: Config) -> None:
    c.JupyterHub.services = [{"name": "cull"}]
    c.JupyterHub.load_roles = [{"name": "cull", "scopes": ["list:users"]}]
    c.JupyterHub.custom_scopes = {"custom:mine:read": {"description": "mine"}}
    c.Spawner.environment = {"MINE": "1"}
    c.Spawner.server_token_scopes = ["users:activity!user", "read:users!user"]
    configure(c)
    assert {"name": "cull"} in c.JupyterHub.services
    assert {"name": "cull", "scopes": ["list:users"]} in c.JupyterHub.load_roles
    springtide = {f"custom:springtide:{name}" for name in ("admin", "project-admin", "read")}
    assert set(c.JupyterHub.custom_scopes) == {"custom:mine:read", *springtide}
    assert c.Spawner.environment["MINE"] == "1"
    assert c.Spawner.environment["SPRINGTIDE_URL"].endswith("/services/springtide")
    assert c.Spawner.server_token_scopes == ["users:activity!user", "read:users!user", ACCESS]


def test_what_the_file_only_added_to_the_hubs_defaults_is_kept(c: Config) -> None:
    c.JupyterHub.services.append({"name": "cull"})
    c.JupyterHub.load_roles.extend([{"name": "cull", "scopes": ["list:users"]}])
    c.Spawner.environment.update({"MINE": "1"})
    configure(c)
    assert {"name": "cull"} in c.JupyterHub.services
    assert {"name": "cull", "scopes": ["list:users"]} in c.JupyterHub.load_roles
    assert c.Spawner.environment["MINE"] == "1"


def test_calling_it_twice_is_like_calling_it_once(c: Config) -> None:
    configure(c, build_gpus=3)
    once = json.dumps(c, default=repr, sort_keys=True)
    configure(c)
    assert json.dumps(c, default=repr, sort_keys=True) == once


def test_a_notebooks_token_keeps_the_hubs_defaults(c: Config) -> None:
    configure(c)
    assert c.Spawner.server_token_scopes == ["users:activity!user", "access:servers!server", ACCESS]


def test_a_notebooks_token_keeps_what_the_server_role_gives(c: Config) -> None:
    c.JupyterHub.load_roles = [{"name": "server", "scopes": ["users:activity!user", "read:groups!user"]}]
    configure(c)
    assert c.Spawner.server_token_scopes == ["users:activity!user", "read:groups!user", ACCESS]


@pytest.mark.parametrize("answers_later", [False, True])
async def test_a_notebooks_token_keeps_what_a_callable_gives(c: Config, answers_later: bool) -> None:
    def now(_spawner: object) -> list[str]:
        return ["users:activity!user"]

    async def later(spawner: object) -> list[str]:
        await asyncio.sleep(0)
        return now(spawner)

    c.Spawner.server_token_scopes = later if answers_later else now
    configure(c)
    assert await c.Spawner.server_token_scopes(None) == ["users:activity!user", ACCESS]


@pytest.mark.parametrize("scope", ["inherit", ADMIN_SCOPE])
def test_notebooks_whose_tokens_would_administer_are_refused(c: Config, scope: str) -> None:
    c.Spawner.server_token_scopes = ["users:activity!user", scope]
    with pytest.raises(ValueError, match=rf"server_token_scopes has “{scope}”.* List the scopes"):
        configure(c)


async def test_a_notebook_whose_callable_gives_such_a_token_does_not_start(c: Config) -> None:
    c.Spawner.server_token_scopes = lambda _spawner: ["inherit"]
    configure(c)
    with pytest.raises(ValueError, match="server_token_scopes has “inherit”"):
        await c.Spawner.server_token_scopes(None)


def test_administrators_of_the_hub_administer_the_pool_where_the_scope_is_defined(c: Config) -> None:
    configure(c)
    configure(c)
    [admin] = [role for role in roles.get_default_roles() if role["name"] == "admin"]
    assert ADMIN_SCOPE not in admin["scopes"]
    define_custom_scopes(c.JupyterHub.custom_scopes)
    try:
        [admin] = [role for role in roles.get_default_roles() if role["name"] == "admin"]
        assert admin["scopes"].count(ADMIN_SCOPE) == 1
    finally:
        del scope_definitions[ADMIN_SCOPE]


@pytest.mark.parametrize("host", ["https://Hub.example.org:8000", "hub.example.org"])
def test_names_of_users_subdomains_are_allowed_where_names_are_limited(c: Config, host: str) -> None:
    c.JupyterHub.subdomain_host = host
    configure(c)
    assert not settings(c).get("allowed_hosts")
    configure(c, allowed_hosts=["localhost"])
    configure(c)
    assert settings(c)["allowed_hosts"] == ["localhost", ".hub.example.org"]


def test_a_hub_under_a_path_has_its_service_there(c: Config) -> None:
    c.JupyterHub.bind_url = "http://127.0.0.1:8000/jupyter/"
    configure(c)
    assert c.BuildQuota.service_url.endswith("/jupyter/services/springtide")


@pytest.mark.parametrize(
    ("host", "bind_url", "pages"),
    [
        ("", "http://127.0.0.1:8000", "/services/springtide/"),
        ("", "http://127.0.0.1:8000/jupyter/", "/jupyter/services/springtide/"),
        (
            "https://hub.example.org:8443",
            "http://127.0.0.1:8000",
            "https://springtide--service.hub.example.org:8443/services/springtide/",
        ),
    ],
)
def test_notebooks_know_where_browsers_find_the_pools_pages(
    c: Config, host: str, bind_url: str, pages: str
) -> None:
    c.JupyterHub.bind_url = bind_url
    c.JupyterHub.subdomain_host = host
    configure(c)
    assert c.Spawner.environment["SPRINGTIDE_PAGES"] == pages


def test_notebooks_elsewhere_can_be_told_another_address(c: Config) -> None:
    c.Springtide.notebook_url = "http://hub.example.org/services/springtide"
    configure(c)
    assert c.Spawner.environment["SPRINGTIDE_URL"] == "http://hub.example.org/services/springtide"
    assert "notebook_url" not in settings(c)


class TestAccounts:
    def test_the_log_in_page_says_that_all_share_one_account_beside_what_it_said(self, c: Config) -> None:
        c.JupyterHub.template_vars = {"announcement_login": "Down on Sunday.", "mine": 1}
        configure(c)
        told = c.JupyterHub.template_vars
        assert told["announcement_login"].startswith(
            "Down on Sunday. All notebooks and jobs here run as the account"
        )
        assert "whoever logs in acts as" in told["announcement_login"]
        assert told["mine"] == 1
        assert "accounts_dir" not in c.LocalNotebook

    @pytest.mark.root
    @pytest.mark.parametrize("chosen", [None, "own"])
    def test_as_root_notebooks_and_jobs_have_accounts_of_their_own(
        self, c: Config, tmp_path: Path, chosen: str | None
    ) -> None:
        c.Springtide.accounts = chosen
        c.Springtide.account_uids = (1_900_000_000, 1_900_000_009)
        configure(c)
        assert settings(c)["accounts"] == "own"
        assert settings(c)["account_uids"] == [1_900_000_000, 1_900_000_009]
        assert c.LocalNotebook.accounts_dir == str(tmp_path / "state")
        assert c.LocalNotebook.account_uids == (1_900_000_000, 1_900_000_009)
        assert "template_vars" not in c.JupyterHub

    @pytest.mark.root
    def test_homes_that_accounts_of_their_own_would_not_have_end_the_hub_with_a_sentence(
        self, c: Config, tmp_path: Path
    ) -> None:
        c.Springtide.accounts = "own"
        c.Springtide.account_uids = (1_900_000_000, 1_900_000_009)
        c.JupyterHub.spawner_class = "simple"
        c.SimpleLocalProcessSpawner.home_dir_template = "/data/homes/{username}"
        with pytest.raises(SystemExit, match=r"springtide: home_dir_template is “/data/homes/\{username\}”, but"):
            configure(c)
        c.SimpleLocalProcessSpawner.home_dir_template = str(tmp_path / "state" / "homes" / "{username}")
        configure(c)
        c.SimpleLocalProcessSpawner.home_dir_template = "/data/homes/{username}"
        configure(c, accounts="shared")

    @pytest.mark.root
    def test_a_range_of_uids_that_cannot_be_ends_the_hub_with_a_sentence(self, c: Config) -> None:
        c.Springtide.accounts = "own"
        c.Springtide.account_uids = (500, 600)
        with pytest.raises(SystemExit, match=r"springtide: c\.Springtide\.account_uids = \(500, 600\)"):
            configure(c)

    def test_on_a_cluster_pods_have_accounts_of_their_own_and_nothing_is_asked(self, c: Config) -> None:
        del c.Springtide.accounts
        configure(c, executor="kubernetes")
        assert "accounts" not in settings(c)
        assert "template_vars" not in c.JupyterHub


class TestServiceThatRunsByItself:
    ELSEWHERE: ClassVar[dict[str, Any]] = {
        "name": "springtide",
        "url": "http://springtide.jhub.svc:8090",
        "api_token": "of-the-service",
    }

    def test_its_entry_is_kept_and_people_can_log_in_to_it(self, c: Config, tmp_path: Path) -> None:
        c.JupyterHub.services = [{"name": "cull"}, {**self.ELSEWHERE, "display": False}]
        configure(c)
        assert {"name": "cull"} in c.JupyterHub.services
        told = service(c)
        assert told.items() >= {**self.ELSEWHERE, "display": False, "oauth_no_confirm": True}.items()
        assert "command" not in told
        assert "admin:groups" in told["oauth_client_allowed_scopes"]
        assert not (tmp_path / "state").exists()

    def test_the_hub_and_the_notebooks_know_where_it_is(self, c: Config) -> None:
        c.JupyterHub.services = [dict(self.ELSEWHERE)]
        c.JupyterHub.base_url = "/jupyter/"
        configure(c)
        url = "http://springtide.jhub.svc:8090/jupyter/services/springtide"
        assert c.Spawner.environment["SPRINGTIDE_URL"] == c.BuildQuota.service_url == url
        assert c.BuildQuota.token == "of-the-service"

    def test_calling_it_twice_is_like_calling_it_once(self, c: Config) -> None:
        c.JupyterHub.services = [dict(self.ELSEWHERE)]
        configure(c)
        once = json.dumps(c, default=repr, sort_keys=True)
        configure(c)
        assert json.dumps(c, default=repr, sort_keys=True) == once

    @pytest.mark.parametrize("missing", ["url", "api_token"])
    def test_an_entry_that_lacks_something_is_refused_by_name(self, c: Config, missing: str) -> None:
        c.JupyterHub.services = [{key: value for key, value in self.ELSEWHERE.items() if key != missing}]
        with pytest.raises(ValueError, match=f"“springtide” in c.JupyterHub.services has no {missing}"):
            configure(c)


class TestUsersOnJupyterHub6:
    def test_users_get_access_beside_the_role_that_the_hub_has(self) -> None:
        c = Config()
        c.JupyterHub.extra_user_scopes = {"list:groups"}
        grant_to_users(c, [ACCESS], known=HUB_6)
        assert c.JupyterHub.extra_user_scopes == {"list:groups", ACCESS}
        assert "load_roles" not in c.JupyterHub

    def test_a_redefined_role_is_extended_because_the_other_setting_would_be_ignored(self) -> None:
        c = Config()
        c.JupyterHub.load_roles = [{"name": "user", "scopes": ["self", "list:groups"]}]
        grant_to_users(c, [ACCESS], known=HUB_6)
        assert c.JupyterHub.load_roles == [{"name": "user", "scopes": ["self", "list:groups", ACCESS]}]
        assert "extra_user_scopes" not in c.JupyterHub


class TestUsersOnJupyterHub5:
    def test_the_role_is_redefined_and_keeps_self(self) -> None:
        c = Config()
        grant_to_users(c, [ACCESS], known=HUB_5)
        assert c.JupyterHub.load_roles == [{"name": "user", "scopes": ["self", ACCESS]}]

    def test_a_role_without_scopes_of_its_own_keeps_self(self) -> None:
        c = Config()
        c.JupyterHub.load_roles = [{"name": "user", "description": "people"}]
        grant_to_users(c, [ACCESS], known=HUB_5)
        assert c.JupyterHub.load_roles == [{"name": "user", "description": "people", "scopes": ["self", ACCESS]}]

    def test_there_is_never_a_second_role_of_the_name(self) -> None:
        c = Config()
        c.JupyterHub.load_roles = [{"name": "user", "scopes": ["self"]}]
        grant_to_users(c, [ACCESS], known=HUB_5)
        grant_to_users(c, [ACCESS], known=HUB_5)
        assert c.JupyterHub.load_roles == [{"name": "user", "scopes": ["self", ACCESS]}]


class OwnSpawner(LocalProcessSpawner):
    """A spawner of pods of an admin's own."""


class OwnSimpleSpawner(SimpleLocalProcessSpawner):
    """A spawner of an admin's own that would run notebooks as the hub's account."""


class OwnQuotaSpawner(BuildQuota, LocalProcessSpawner):
    """A spawner of an admin's own that has the mixin."""


@pytest.mark.parametrize(
    ("chosen", "result"),
    [
        (None, LocalBuildSpawner),
        ("localprocess", LocalBuildSpawner),
        (LocalProcessSpawner, LocalBuildSpawner),
        ("simple", SimpleBuildSpawner),
        ("jupyterhub.spawner.SimpleLocalProcessSpawner", SimpleBuildSpawner),
        (SimpleLocalProcessSpawner, SimpleBuildSpawner),
        ("springtide-simple", SimpleBuildSpawner),
        (OwnQuotaSpawner, OwnQuotaSpawner),
    ],
)
def test_a_spawner_keeps_its_kind_and_gets_the_quota(chosen: str | type | None, result: type) -> None:
    assert with_quota(chosen) is result


def test_any_other_spawner_gets_the_quota_mixed_in() -> None:
    made = with_quota(OwnSpawner)
    assert issubclass(made, OwnSpawner)
    assert issubclass(made, BuildQuota)
    assert made.__mro__.index(BuildQuota) < made.__mro__.index(OwnSpawner)


def test_a_special_simple_spawner_has_accounts_too() -> None:
    made = with_quota(OwnSimpleSpawner)
    assert issubclass(made, OwnSimpleSpawner)
    assert made.__mro__.index(SimpleBuildSpawner) < made.__mro__.index(OwnSimpleSpawner)


def test_what_is_no_spawner_is_named() -> None:
    with pytest.raises(TypeError, match=r"c\.JupyterHub\.spawner_class is .*dict"):
        with_quota(dict)


class TestHubOnKubernetes:
    """What zero-to-jupyterhub's configuration has said before `configure` is called."""

    @pytest.fixture
    def z2jh(self, c: Config) -> Config:
        c.JupyterHub.spawner_class = "kubespawner.KubeSpawner"
        c.JupyterHub.services = [dict(TestServiceThatRunsByItself.ELSEWHERE)]
        c.KubeSpawner.environment = {"TEAM": "vision"}
        c.KubeSpawner.image = "lab/notebook:1"
        return c

    @pytest.fixture
    def pods(self) -> type:
        """The spawner of notebooks as pods; it takes a second to import, which no other test here needs."""
        from springtide.spawner.kube import KubeBuildSpawner  # noqa: PLC0415

        return KubeBuildSpawner

    def test_notebooks_are_pods_with_a_build_quota(self, z2jh: Config, pods: type) -> None:
        configure(z2jh)
        assert z2jh.JupyterHub.spawner_class is pods

    def test_notebooks_learn_where_the_pool_is_from_the_section_that_counts(self, z2jh: Config) -> None:
        configure(z2jh)
        url = "http://springtide.jhub.svc:8090/services/springtide"
        told = {"SPRINGTIDE_URL": url, "SPRINGTIDE_PAGES": "/services/springtide/"}
        assert z2jh.KubeSpawner.environment == {"TEAM": "vision", **told}

    def test_notebooks_tokens_may_use_the_pool_from_the_section_that_counts(self, z2jh: Config) -> None:
        z2jh.KubeSpawner.server_token_scopes = ["users:activity!user"]
        configure(z2jh)
        assert z2jh.KubeSpawner.server_token_scopes == ["users:activity!user", ACCESS]

    @pytest.mark.parametrize("name", ["kubespawner.KubeSpawner", "springtide-kube"])
    def test_the_spawner_has_a_name(self, name: str, pods: type) -> None:
        assert with_quota(name) is pods

    def test_a_special_kubespawner_stays_what_it_is(self, pods: type) -> None:
        from kubespawner import KubeSpawner  # noqa: PLC0415

        class OwnKubeSpawner(KubeSpawner):
            """A spawner of pods of an admin's own."""

        made = with_quota(OwnKubeSpawner)
        assert issubclass(made, pods)
        assert made.__mro__.index(pods) < made.__mro__.index(OwnKubeSpawner)
        assert made.__mro__.index(OwnKubeSpawner) < made.__mro__.index(KubeSpawner)


class Arrival:
    """A request of somebody who logs in."""

    def __init__(self, *, admin: bool) -> None:
        self.current_user = type("User", (), {"admin": admin})()


def test_administrators_arrive_at_their_home_page_and_others_where_the_hub_has_them(c: Config) -> None:
    configure(c)
    configure(c)
    first = c.JupyterHub.default_url
    assert first(Arrival(admin=True)) == "/services/springtide/home"
    assert not first(Arrival(admin=False))


def test_a_first_page_of_the_file_stays(c: Config) -> None:
    c.JupyterHub.default_url = "/hub/home"
    configure(c)
    assert c.JupyterHub.default_url == "/hub/home"


RULES = [
    {"group": "GRP-4711", "project": "vision"},
    {"group": "GRP-4712", "project": "vision", "role": "lead"},
]


def test_rules_for_groups_need_an_authenticator_that_decides_about_groups(c: Config) -> None:
    c.Springtide.group_rules = RULES
    with pytest.raises(ValueError, match="manage_groups = True"):
        configure(c)
    c.Springtide.group_rules = [{"group": "GRP-4711"}]
    with pytest.raises(ValueError, match=r"group_rules\[0\]: A rule for one group needs a project"):
        configure(c)


def test_leads_by_rules_are_roles_of_the_hub_once(c: Config) -> None:
    c.Springtide.group_rules = RULES
    c.GenericOAuthenticator.manage_groups = True
    configure(c)
    before = deepcopy(c)
    configure(c)
    assert c == before
    [role] = [role for role in c.JupyterHub.load_roles if role["name"].startswith("springtide-leads-")]
    assert role["groups"] == ["GRP-4712"]
    assert settings(c)["group_rules"] == RULES
    assert "configured_roles" not in settings(c)
