"""Presets from a terminal: defined, listed, used by a job, kept in a file, and deleted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from programs.terminal import Run

pytestmark = pytest.mark.xdist_group("hub-command")


@pytest.fixture(autouse=True)
def no_preset_left(run: Run) -> Iterator[None]:
    yield
    for each in run("presets", "--json", user="admin").json:
        of = () if each["project"] is None else ("--project", each["project"])
        run("presets", "delete", each["name"], *of, user="admin")


def test_a_preset_is_defined_listed_used_and_deleted(run: Run) -> None:
    none = "No presets. Administrators and leads define them: springtide presets set NAME --gpus 4\n"
    assert run("presets").out == none
    words = ("--gpus", "0", "--time-limit", "2h", "--tag", "first", "--about", "For a first try.")
    made = run("presets", "set", *words, "small", user="admin")
    assert made.out == "Preset small of the pool: GPUs 0, Time limit 2h, Tags first.\n", made.err
    listed = run("presets").out
    assert all(
        each in listed for each in ("small", "the pool", "Time limit 2h", "For a first try.", "susan", "admin")
    )
    sent = run("submit", "--json", "--preset", "small", "--time-limit", "1h", "--", "true").json
    options = sent["options"]
    filled = (options["preset"], options["gpus"], options["time_limit"], options["tags"])
    assert filled == ("small", 0, 3600.0, ["first"])
    shown = run("show", sent["id"]).out
    assert next(line.split() for line in shown.splitlines() if "preset" in line) == ["preset", "small"]
    assert run("presets", "delete", "small", user="admin").out == "Preset small of the pool is deleted.\n"
    gone = run("submit", "--preset", "small", "--", "true")
    assert (gone.code, "Jobs of project “susan” have no preset “small”." in gone.err) == (2, True), gone.err
    trail = run("audit", "--what", "preset", user="admin").out
    assert all(what in trail for what in ("preset.set", "preset.delete"))


def test_a_wrong_preset_is_refused_with_what_is_expected(run: Run) -> None:
    for words, message in (
        (("set", "small"), "Give at least one option, such as --gpus 4."),
        (("set", "small", "--gpus", "many"), "--gpus is “many”; expected a whole number"),
        (("set", "two words", "--gpus", "1"), "name is “two words”"),
        (("set", "small", "--gpus", "1", "--project", "nowhere"), "There is no project “nowhere”."),
        (("delete", "small"), "The pool has no preset “small”."),
    ):
        refused = run("presets", *words, user="admin")
        assert (refused.code != 0, message in refused.err) == (True, True), (words, refused.err)
    own = run("presets", "set", "small", "--gpus", "1", "--project", "susan")
    assert (own.code, "Only administrators" in own.err) == (1, True), "a member of a project is none of its leads"


def test_presets_are_part_of_the_pool_as_a_file(run: Run, directory: Path) -> None:
    assert run("presets", "set", "small", "--gpus", "0", "--project", "susan", user="admin").code == 0
    file = directory / "pool.yaml"
    assert run("export", "-o", str(file), user="admin").code == 0
    data = yaml.safe_load(file.read_text())
    assert data["projects"]["susan"]["presets"] == {"small": {"options": {"gpus": 0}}}
    data["projects"]["susan"]["presets"] = {"long": {"options": {"time_limit": "1d", "memory": "1Gi"}}}
    data["presets"] = {"tiny": {"about": "One core.", "options": {"cpus": 1}}}
    file.write_text(yaml.safe_dump(data))
    applied = run("apply", "-f", str(file), "--yes", user="admin")
    assert applied.out.splitlines() == [
        "The whole pool: preset tiny none → CPU cores 1 (One core.)",
        "“susan”: preset long none → Memory 1Gi, Time limit 1d",
        "“susan”: preset small GPUs 0 → none",
        "3 changes applied.",
    ], applied.err
    exported = yaml.safe_load(run("export", user="admin").out)
    assert exported["projects"]["susan"]["presets"]["long"]["options"] == {"time_limit": "1d", "memory": "1Gi"}
    assert run("apply", "-f", str(file), "--yes", user="admin").out == f"The pool is as {file} has it.\n"
    data["presets"] = {"tiny": {"options": {"cpus": "many"}}}
    file.write_text(yaml.safe_dump(data))
    refused = run("apply", "-f", str(file), "--yes", user="admin")
    assert (refused.code, "presets.tiny.options.cpus: cpus is “many”" in refused.err) == (2, True), refused.err
