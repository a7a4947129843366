"""`springtide export` and `springtide apply` against a real hub."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from terminal import Run

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
        ("projects: {susan: {members: [lissa]}}", "The hub knows nobody named “lissa”."),
        ("projects: {susan: {quota: 900}}", "add up to"),
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
