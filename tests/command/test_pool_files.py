"""`springtide export` and `springtide apply` against a real hub."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
import yaml
from hubs.hub_people import Hub
from programs.terminal import Run

pytestmark = pytest.mark.xdist_group("hub-command")


@pytest.fixture
def file(run: Run, directory: Path) -> Path:
    done = run("export", "-o", "pool.yaml", user="admin")
    assert done.code == 0, done.err
    return directory / "pool.yaml"


def changed(file: Path, **projects: object) -> str:
    data = yaml.safe_load(file.read_text())
    for name, fields in projects.items():
        data["projects"].setdefault(name, {}).update(fields)
    other = file.with_name("other.yaml")
    other.write_text(yaml.safe_dump(data))
    return str(other)


def test_an_export_is_the_same_each_time_and_changes_nothing(run: Run, file: Path) -> None:
    assert run("export", user="admin").out == file.read_text()
    again = run("apply", "-f", str(file), "--prune", user="admin")
    assert (again.code, again.out) == (0, f"The pool is as {file} has it.\n"), again.err
    as_json = run("export", "--json", user="admin").json
    assert as_json == yaml.safe_load(file.read_text())
    file.with_suffix(".json").write_text(run("export", "--json", user="admin").out)
    assert run("apply", "-f", str(file.with_suffix(".json")), "--json", user="admin").json["changes"] == []


def test_the_rules_of_a_project_are_shown_asked_about_and_copied(run: Run, file: Path) -> None:
    rules = {"weight": 3.0, "ranges": {"max_gpus": 2}, "presets": {"small": {"options": {"gpus": 1}}}}
    assert run("apply", "-f", changed(file, susan=rules), "--yes", user="admin").code == 0
    wanted = [
        "“joe”: weight 1 → 3",
        "“joe”: range max_gpus none → 2",
        "“joe”: preset small none → GPUs 1",
    ]
    try:
        dry = run("copy-rules", "susan", "joe", "--dry-run", user="admin")
        assert (dry.code, dry.out.splitlines()) == (0, wanted), dry.err
        asked = run("copy-rules", "susan", "joe", user="admin")
        assert (asked.code, "Apply these 3 changes?" in asked.out) == (1, True), "nobody answers"
        done = run("copy-rules", "susan", "joe", "--yes", user="admin")
        assert (done.code, done.out.splitlines()) == (0, [*wanted, "3 changes applied."]), done.err
        again = run("copy-rules", "susan", "joe", user="admin")
        assert again.out == "joe has the rules of susan already.\n"
        new = run("copy-rules", "susan", "desk", "--yes", "--json", user="admin").json
        assert new["applied"]
        assert new["changes"][0]["text"] == "“desk” is a new project, at the top"
    finally:
        back = run("apply", "-f", str(file), "--prune", "--yes", user="admin")
    assert back.code == 0, back.err
    for words, message in (
        (("nowhere", "joe"), "There is no project “nowhere”."),
        (("joe", "joe"), "“joe” has its own rules already."),
    ):
        refused = run("copy-rules", *words, user="admin")
        assert (refused.code, message in refused.err) == (2, True), refused.err
    assert run("copy-rules", "joe", "susan").code == 1, "it takes an admin"


def test_a_file_is_shown_asked_about_and_applied(run: Run, file: Path) -> None:
    members = yaml.safe_load(file.read_text())["projects"]["susan"]["members"]
    other = changed(file, susan={"weight": 3.0, "members": [*members, "joe"]}, desk={"parent": "susan"})
    wanted = [
        "“susan”: weight 1 → 3",
        "“susan”: “joe” becomes a member",
        "“desk” is a new project, in “susan”",
    ]
    dry = run("apply", "-f", other, "--dry-run", user="admin")
    assert (dry.code, sorted(dry.out.splitlines())) == (0, sorted(wanted))
    asked = run("apply", "-f", other, user="admin")
    assert (asked.code, "Apply these 3 changes?" in asked.out) == (1, True), "nobody answers"
    try:
        done = run("apply", "-f", other, "--yes", user="admin")
        assert (done.code, done.out.splitlines()[-1]) == (0, "3 changes applied."), done.err
        assert "file other.yaml" in run("audit", "--what", "member.add", user="admin").out
    finally:
        back = run("apply", "-f", str(file), "--prune", "--yes", user="admin")
    assert (back.code, "“desk” is deleted" in back.out) == (0, True), back.err
    assert run("export", user="admin").out == file.read_text()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("projects: [", "line 1, column 12: expected YAML"),
        ("- susan", "expected the tables projects and people"),
        ("projects: {susan: {quota: .nan}}", "projects.susan.quota: nan is neither text nor a number"),
        ("projects: {1: {}}", "projects: the name 1 is no text; write it in quotes."),
        ("projects: {susan: {}, susan: {}}", "key “susan” is given twice"),
        ("projects: {susan: {qota: 1}}", "projects.susan.qota: There is no field “qota”. Did you mean quota?"),
        ("projects: {susan: {members: [lissa]}}", "The hub has no user named “lissa”."),
        ("projects: {susan: {quota: 900}}", "add up to"),
        ("projects: {susan: {quota: 017}}", "017 is a number to base 8 or 60; write it to base 10"),
        ("projects: {susan: {quota: 1:30}}", "1:30 is a number to base 8 or 60"),
        ("#" * (1 << 20) + "\n{}", "wrong.yaml: expected at most 1048576 bytes, got 1048579"),
    ],
)
def test_a_file_with_an_error_changes_nothing_and_names_the_place(
    run: Run, directory: Path, text: str, words: str
) -> None:
    (directory / "wrong.yaml").write_text(text)
    done = run("apply", "-f", "wrong.yaml", "--yes", user="admin")
    assert (done.code, words in done.err) == (2, True), done.err


def test_people_are_listed_with_what_they_lead_and_have_of_their_own(run: Run) -> None:
    done = run("people", "susan", user="admin")
    assert done.out.splitlines()[0].split() == ["PERSON", "PROJECTS", "LEADS", "BUILD", "QUOTA", "OWN", "HELD"]
    assert [line.split()[0] for line in done.out.splitlines()[1:]] == ["susan"]
    everybody = run("people", "--json", user="admin").json["people"]
    assert {"joe", "susan"} <= {person["name"] for person in everybody}
    unknown = run("people", "nowhere", user="admin")
    assert (unknown.code, "You administer no project “nowhere”." in unknown.err) == (2, True)


def test_people_without_the_right_and_files_that_are_not_there_are_refused(run: Run, file: Path) -> None:
    assert "administrators" in run("export").err
    assert "administrators" in run("apply", "-f", str(file), "--yes").err
    assert "no such file" in run("apply", "-f", "nowhere.yaml", user="admin").err
    assert "--yes" in run("apply", "-f", "-", user="admin").err


def test_a_person_joins_as_another_and_leaves_again_in_one_step(
    run: Run, hub: Hub, tokens: Callable[[str], str]
) -> None:
    admin = {"Authorization": f"token {tokens('admin')}"}
    httpx.post(f"{hub.url}/hub/api/users/nora", headers=admin, trust_env=False).raise_for_status()
    joined = run("join", "nora", "--project", "jemma", "--like", "susan", "--build", "0", "--yes", user="admin")
    assert joined.code == 0, joined.err
    assert joined.out.splitlines() == [
        "“jemma”: “nora” becomes a member",
        "“susan”: “nora” becomes a member",
        "“nora”: own build quota none → 0",
        "3 changes applied.",
    ]
    again = run("join", "nora", "--project", "jemma", user="admin")
    assert (again.code, again.out) == (0, "The pool is as “join nora” has it.\n")
    job = run("submit", "--project", "susan", "--json", "--", "sleep", "600", user="nora").json["id"]
    preview = run("leave", "nora", "--to", "susan", "--dry-run", user="admin")
    assert (preview.code, f"({job}) of “susan”" in preview.out) == (0, True), preview.err
    left = run("leave", "nora", "--to", "susan", "--yes", user="admin")
    assert (left.code, left.out.splitlines()[-1].startswith("nora has left.")) == (0, True), left.err
    try:
        assert run("show", job, "--json").json["user"] == "susan"
        assert "nora" not in {person["name"] for person in run("people", "--json", user="admin").json["people"]}
    finally:
        run("cancel", job)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["join", "joe"], "Give at least one of --project, --build and --like."),
        (["join", "joe", "--project", "nowhere"], "There is no project “nowhere”."),
        (["join", "joe", "--like", "nobody"], "“nobody” is in no project"),
        (["join", "joe", "--project", "susan", "--build", "900", "--yes"], "add up to"),
        (["leave", "joanna"], "There is no person named “joanna”."),
    ],
)
def test_people_who_cannot_join_or_leave_so_are_refused(run: Run, words: list[str], message: str) -> None:
    done = run(*words, user="admin")
    assert (done.code in {1, 2}, message in done.err) == (True, True), done.err
