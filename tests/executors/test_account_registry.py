"""Who has which account of the pool. What needs root is tried as root; otherwise that it is refused."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from patience import PATIENCE_S

from springtide.scheduler.executors.accounts import DEFAULT_UIDS, AccountError, Accounts, registry
from springtide.scheduler.executors.accounts.account import closed_ways, hand_over

FIRST = DEFAULT_UIDS[0]

PREPARES = """
import sys
import tempfile
from pathlib import Path
from springtide.scheduler.executors.accounts import AccountError, Accounts
try:
    Accounts(Path(sys.argv[1])).prepare()
except AccountError as error:
    print(error)
"""


@pytest.fixture
def accounts(tmp_path: Path) -> Accounts:
    accounts = Accounts(tmp_path / "state")
    accounts.prepare()
    return accounts


def test_without_root_there_are_no_accounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(AccountError, match="only where the hub runs as root"):
        Accounts(tmp_path).prepare()


@pytest.mark.root
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)))
def test_different_users_never_share_an_account_or_a_home(accounts: Accounts, names: list[str]) -> None:
    strangers = {name for name in names if not any(entry.pw_name == name for entry in pwd.getpwall())}
    found = {name: accounts.of(name) for name in strangers}
    assert len({account.uid for account in found.values()}) == len(found)
    assert len({account.home for account in found.values()}) == len(found)
    assert all(account.uid >= FIRST and account.groups == (account.uid,) for account in found.values())


@pytest.mark.root
def test_a_user_keeps_her_account_over_a_restart(accounts: Accounts, tmp_path: Path) -> None:
    first = {name: accounts.of(name).uid for name in ("susan", "joe")}
    again = Accounts(tmp_path / "state")
    assert {name: again.of(name).uid for name in ("joe", "susan")} == first
    assert again.of("jemma").uid == max(first.values()) + 1


@pytest.mark.root
class TestUsersOfTheHub:
    """Users of JupyterHub keep their accounts when they are renamed, and no one inherits them."""

    FIRST, SECOND = "2026-01-01T10:00:00Z", "2026-02-01T10:00:00Z"

    def test_another_user_of_the_name_has_another_account_and_home(self, accounts: Accounts) -> None:
        before, after = accounts.of("zoe", self.FIRST), accounts.of("zoe", self.SECOND)
        assert (before.uid != after.uid, before.home != after.home) == (True, True)
        assert accounts.of("zoe", self.SECOND) == accounts.of("zoe") == after

    def test_a_renamed_user_keeps_hers_and_another_may_have_the_name(self, accounts: Accounts) -> None:
        before = accounts.of("zoe", self.FIRST)
        accounts.follow_users({self.FIRST: "zoe-maria", self.SECOND: "zoe"})
        renamed, other = accounts.of("zoe-maria"), accounts.of("zoe")
        assert (renamed.uid, renamed.home) == (before.uid, before.home)
        assert (other.uid != before.uid, other.home != before.home) == (True, True)

    def test_two_users_who_change_names_keep_their_own(self, accounts: Accounts) -> None:
        zoe, ada = accounts.of("zoe", self.FIRST), accounts.of("ada", self.SECOND)
        accounts.follow_users({self.FIRST: "ada", self.SECOND: "zoe"})
        assert accounts.of("ada").uid == zoe.uid
        assert accounts.of("zoe").uid == ada.uid

    def test_an_account_of_an_earlier_version_is_that_of_who_has_the_name(self, accounts: Accounts) -> None:
        before = accounts.of("zoe")
        accounts.follow_users({self.FIRST: "zoe"})
        assert accounts.of("zoe", self.FIRST) == before
        assert accounts.of("zoe", self.SECOND).uid != before.uid


@pytest.mark.root
def test_a_uid_is_not_given_to_another_user_when_others_ask_at_the_same_time(tmp_path: Path) -> None:
    Accounts(tmp_path / "state").prepare()
    code = (
        "import sys; from pathlib import Path; from springtide.scheduler.executors.accounts import Accounts\n"
        "for n in range(20): print(Accounts(Path(sys.argv[1])).of(f'{sys.argv[2]}-{n}').uid)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "state")]
    running = [subprocess.Popen([*command, name], stdout=subprocess.PIPE, text=True) for name in "abc"]
    uids = [uid for process in running for uid in process.communicate(timeout=PATIENCE_S)[0].split()]
    assert len(set(uids)) == len(uids) == 60


@pytest.mark.root
def test_ids_that_this_machine_uses_are_passed_over(accounts: Accounts, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []

    def exists(number: int) -> bool:
        taken.append(number)
        return len(taken) < 3

    monkeypatch.setattr(registry, "_exists", exists)
    assert accounts.of("susan").uid == taken[-1] == taken[0] + 2


@pytest.mark.root
@pytest.mark.parametrize(
    ("uids", "says"),
    [
        ((0, 999), "expected first and last uid, from 1000"),
        ((3_000_000, 2_000_000), "expected first and last uid"),
        ((2_000_000_000, 2**32), "expected first and last uid"),
        ((60_000, 70_000), "overlaps the account “nobody”"),
    ],
)
def test_a_range_that_cannot_be_the_pools_is_refused(tmp_path: Path, uids: tuple[int, int], says: str) -> None:
    with pytest.raises(AccountError, match=says):
        Accounts(tmp_path, uids).prepare()


@pytest.mark.root
def test_a_range_of_subordinate_ids_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "subuid").write_text("susan:100000:65536\nbroken\njoe:165536:65536\n")
    monkeypatch.setattr(registry, "SUBORDINATE", (tmp_path / "subuid", tmp_path / "none"))
    with pytest.raises(AccountError, match="overlaps the subordinate ids of “joe”"):
        Accounts(tmp_path, (200_000, 210_000)).prepare()
    Accounts(tmp_path, (300_000, 310_000)).prepare()


@pytest.mark.root
def test_a_container_that_lacks_the_uids_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "uid_map").write_text("         0     100000      65536\n")
    monkeypatch.setattr(registry, "UID_MAP", tmp_path / "uid_map")
    with pytest.raises(AccountError, match="does not have all of these uids"):
        Accounts(tmp_path).prepare()


@pytest.mark.root
@pytest.mark.parametrize("content", ["{", "[]", '{"a": "1"}', '{"a": 0}', '{"a": 2000000, "b": 2000000}'])
def test_a_damaged_table_gives_nobody_an_account(accounts: Accounts, tmp_path: Path, content: str) -> None:
    (tmp_path / "state" / "accounts.json").write_text(content)
    with pytest.raises(AccountError, match=r"accounts\.json.*cannot be used"):
        accounts.of("susan")
    assert (tmp_path / "state" / "accounts.json").read_text() == content


@pytest.mark.root
def test_without_its_table_a_pool_with_homes_gives_nobody_an_account(accounts: Accounts, tmp_path: Path) -> None:
    """The next person would get the uid, and with it the files, of the first."""
    accounts.of("susan")
    (tmp_path / "state" / "accounts.json").unlink()
    with pytest.raises(AccountError, match=r"accounts\.json.*it is missing, and .*homes has homes of users"):
        accounts.of("joe")
    with pytest.raises(AccountError, match="Restore it from a backup"):
        Accounts(tmp_path / "state").prepare()


@pytest.mark.root
def test_a_table_older_than_the_homes_gives_no_uid_of_theirs(accounts: Accounts, tmp_path: Path) -> None:
    susan = accounts.of("susan")
    before = (tmp_path / "state" / "accounts.json").read_text()
    joe = accounts.of("joe")
    (tmp_path / "state" / "accounts.json").write_text(before)
    assert accounts.of("jemma").uid not in {susan.uid, joe.uid}


@pytest.mark.root
def test_what_runs_under_a_name_may_be_of_those_who_had_it_before(accounts: Accounts) -> None:
    first = accounts.of("susan", "2026-01-01")
    accounts.follow_users({"2026-01-01": "suzy", "2026-02-02": "susan"})
    second = accounts.of("susan", "2026-02-02")

    assert first.uid != second.uid
    assert accounts.uids_of("susan") == {first.uid, second.uid}
    assert accounts.uids_of("suzy") == {first.uid}
    accounts.follow_users({"2026-03-03": "susan"})
    assert accounts.uids_of("susan") == {first.uid, second.uid}
    assert accounts.uids_of("nobody-yet") == frozenset()


@pytest.mark.root
def test_a_pool_is_the_same_by_whatever_path(accounts: Accounts, tmp_path: Path) -> None:
    accounts.of("susan")
    (tmp_path / "link").symlink_to("state")
    (tmp_path / "other").mkdir()
    for path in (tmp_path / "link", tmp_path / "other" / ".." / "state"):
        assert Accounts(path).shared_uids() == []
        assert Accounts(path).renumber() == {}


@pytest.mark.root
def test_a_range_that_is_used_up_is_said(tmp_path: Path, machine: Path) -> None:
    accounts = Accounts(tmp_path, (2_100_000_000, 2_100_000_000), machine)
    accounts.prepare()
    accounts.of("susan")
    with pytest.raises(AccountError, match=r"are given .*\. Set a larger range"):
        accounts.of("joe")
    assert json.loads((tmp_path / "accounts.json").read_text()) == {"susan": 2_100_000_000}


@pytest.mark.root
def test_a_closed_directory_on_the_way_is_named_where_there_can_be_no_mount_namespace(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    without = ["setpriv", "--bounding-set", "-sys_admin"]
    done = subprocess.run(
        [*without, sys.executable, "-c", PREPARES, str(closed / "state")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "may not be entered by other accounts" in done.stdout
    assert "chmod o+x" in done.stdout


def test_only_the_outermost_closed_directory_and_place_are_named() -> None:
    with tempfile.TemporaryDirectory(prefix="springtide-test-") as made:
        top = Path(made).resolve()
        top.chmod(0o711)
        inner = top / "closed" / "also-closed" / "inner"
        (inner / "below").mkdir(parents=True)
        (top / "open").mkdir(mode=0o755)
        for path in (inner.parent, top / "closed"):
            path.chmod(0o700)
        ways = closed_ways([inner / "below", inner, top / "open", top / "none"], FIRST, (FIRST,))
        assert ways == ((str(top / "closed"), (str(inner),)),)
        assert closed_ways([inner], os.geteuid(), ()) == ()


@pytest.mark.root
def test_what_is_handed_over_follows_no_link_and_changes_nobody_elses_files(tmp_path: Path) -> None:
    ours, elsewhere = tmp_path / "ours", tmp_path / "elsewhere"
    (ours / "below").mkdir(parents=True)
    (ours / "below" / "file").write_text("x")
    elsewhere.write_text("x")
    (ours / "link").symlink_to(elsewhere)
    hand_over(ours, (FIRST, FIRST))
    hand_over(ours, (FIRST + 1, FIRST + 1))
    found = {path.name: path.lstat().st_uid for path in (ours, *ours.rglob("*"))}
    assert found == {"ours": FIRST, "below": FIRST, "file": FIRST, "link": 0}
    assert elsewhere.stat().st_uid == 0


@pytest.mark.root
def test_what_a_person_had_before_is_handed_over_without_what_belongs_to_others(tmp_path: Path) -> None:
    hers, others = tmp_path / "hers", tmp_path / "others"
    hers.mkdir()
    others.write_text("x")
    (hers / "file").write_text("x")
    for path in (hers, hers / "file"):
        os.chown(path, FIRST, FIRST)
    (hers / "planted").write_text("x")
    os.chown(hers / "planted", FIRST + 2, FIRST + 2)
    os.link(others, hers / "linked")
    os.link(hers / "file", tmp_path / "another name of hers")
    hand_over(hers, (FIRST + 1, FIRST + 1), whosever=True)
    found = {path.name: path.lstat().st_uid for path in (hers, *hers.rglob("*"))}
    assert found == {"hers": FIRST + 1, "file": FIRST + 1, "planted": FIRST + 2, "linked": 0}


# ---------- several pools on one machine


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """The file that the pools of a machine share."""
    return tmp_path / "machine" / "uids.json"


def pool(state: Path, machine: Path, uids: tuple[int, int] = DEFAULT_UIDS) -> Accounts:
    accounts = Accounts(state, uids, machine)
    accounts.prepare()
    return accounts


@pytest.mark.root
def test_pools_of_one_machine_never_give_the_same_uid(tmp_path: Path, machine: Path) -> None:
    pools = [pool(tmp_path / name, machine) for name in "abc"]
    uids = [each.of(f"user{number}").uid for number in range(300) for each in pools]
    assert len(set(uids)) == len(uids)
    again = [Accounts(tmp_path / name, registry=machine) for name in "abc"]
    assert [each.of(f"user{number}").uid for number in range(300) for each in again] == uids


@pytest.mark.root
def test_pools_that_ask_at_the_same_time_get_different_uids(tmp_path: Path, machine: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from springtide.scheduler.executors.accounts import Accounts\n"
        "pool = Accounts(Path(sys.argv[1]), registry=Path(sys.argv[2])); pool.prepare()\n"
        "for n in range(20): print(pool.of(f'user{n}').uid)"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / name), str(machine)], stdout=subprocess.PIPE, text=True
        )
        for name in "abcd"
    ]
    uids = [uid for process in running for uid in process.communicate(timeout=PATIENCE_S)[0].split()]
    assert len(set(uids)) == len(uids) == 80


@pytest.mark.root
def test_the_uids_of_a_pool_of_an_earlier_version_are_its_own(tmp_path: Path, machine: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "accounts.json").write_text(json.dumps({"susan": FIRST, "joe": FIRST + 1}))
    old, new = pool(tmp_path / "old", machine), pool(tmp_path / "new", machine)
    uids = {new.of(f"user{number}").uid for number in range(600)}
    assert (old.of("susan").uid, old.of("joe").uid) == (FIRST, FIRST + 1)
    assert uids.isdisjoint({FIRST, FIRST + 1, old.of("jemma").uid})


@pytest.mark.root
def test_a_pool_whose_directory_is_gone_gives_its_uids_back_only_when_no_others_are_left(
    tmp_path: Path, machine: Path
) -> None:
    few = (FIRST, FIRST + 511)
    gone, first = pool(tmp_path / "gone", machine, few), pool(tmp_path / "first", machine, few)
    before = gone.of("susan").uid
    mine = {first.of(f"user{number}").uid for number in range(2)}
    shutil.rmtree(tmp_path / "gone")
    mine |= {first.of(f"user{number}").uid for number in range(2, 256)}
    assert before not in mine
    mine |= {first.of(f"user{number}").uid for number in range(256, 512)}
    assert len(mine) == 512


@pytest.mark.root
def test_a_registry_that_cannot_be_written_says_what_to_set(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(AccountError, match=r"cannot be used.*c\.Springtide\.uid_registry"):
        pool(tmp_path / "state", tmp_path / "file" / "uids.json")


@pytest.mark.root
def test_pools_that_share_uids_already_are_found_and_one_of_them_is_renumbered(
    tmp_path: Path, machine: Path
) -> None:
    uid = DEFAULT_UIDS[1] - os.getpid() % 10_000 - 1  # no process of another test's pool has it
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        known = {f"susan-{name}": uid, **({"joe": uid + 1} if name == "two" else {})}
        (tmp_path / name / "accounts.json").write_text(json.dumps(known))
    one, two = pool(tmp_path / "one", machine), pool(tmp_path / "two", machine)
    home = Path(two.of("susan-two").home)
    (home / "notes").write_text("x")
    (home / "link").symlink_to("/etc/passwd")
    for path in home.iterdir():
        os.chown(path, uid, uid, follow_symlinks=False)
    [shared] = one.shared_uids()
    assert (shared.uid, shared.user, shared.pool, shared.other_user) == (
        uid,
        "susan-one",
        tmp_path / "two",
        "susan-two",
    )

    with subprocess.Popen(["sleep", "600"], user=uid, group=uid, extra_groups=[]) as process:
        with pytest.raises(AccountError, match=rf"Processes run with the uid {uid} \({process.pid}\)"):
            two.renumber()
        process.kill()

    changed = two.renumber()
    assert list(changed) == ["susan-two"]
    before, after = changed["susan-two"]
    assert before == uid != after
    assert two.of("susan-two").uid == after
    assert {path.lstat().st_uid for path in (home, *home.iterdir())} == {after}
    assert Path("/etc/passwd").stat().st_uid == 0
    assert two.of("joe").uid == uid + 1
    assert one.of("susan-one").uid == uid
    assert one.shared_uids() == two.shared_uids() == []
    assert two.renumber() == {}
