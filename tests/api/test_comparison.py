"""Jobs side by side: what differs among them, for those who may see each of them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from springtide.scheduler.arguments import of_command, of_values
from springtide.scheduler.engine.reruns import MOST_PROJECT_FILES, differences, with_arguments
from springtide.scheduler.project_tree import TreeFile, file_digests, pack
from springtide.scheduler.store.records import JobRecord, JobSpec
from springtide.scheduler.wire import ProjectTree


async def comparison(running: Any, user: str, *ids: str) -> Any:
    return await running.as_(user).get("/comparison", params={"jobs": ",".join(ids)})


async def test_what_differs_is_told_with_a_value_for_each_job(running: Any) -> None:
    first = await running.submit(
        "susan", "python3", "train.py", "0.1", env={"SEED": "1", "TOKEN": "hunter2"}, time_limit=60
    )
    second = await running.submit(
        "susan",
        "python3",
        "train.py",
        "0.2",
        env={"SEED": "2", "TOKEN": "hunter2"},
        tags=["seed-2"],
    )
    third = await running.submit("susan", "python3", "train.py", "0.2", env={"TOKEN": "hunter2"})
    answer = await comparison(running, "susan", first["id"], second["id"], third["id"])
    found = answer.json()
    assert [job["id"] for job in found["jobs"]] == [first["id"], second["id"], third["id"]]
    told = {(each["kind"], each["name"]): each["values"] for each in found["differences"]}
    assert told == {
        ("option", "time_limit"): ["1m", "none", "none"],
        ("option", "tags"): ["none", "seed-2", "none"],
        ("variable", "SEED"): ["A", "B", "none"],
        ("argument", "argument 1"): ["0.1", "0.2", "0.2"],
    }
    assert "hunter2" not in answer.text


async def test_code_is_compared_line_by_line(running: Any) -> None:
    codes = ["train(0.1)", "train(0.2)", "train(0.1)"]
    ids = [
        (await running.submit("susan", kind="function", source=f"def train(lr): ...\n{code}"))["id"]
        for code in codes
    ]
    first, second, third = (await comparison(running, "susan", *ids)).json()["code"]
    assert [line for line in second if line[0] in "+-"] == ["-train(0.1)", "+train(0.2)"]
    assert (first, third) == ([], [])


async def test_a_command_is_arguments_and_no_code(running: Any) -> None:
    lines = ["python3 train.py --lr 0.1", "python3 train.py --lr 0.2"]
    commands = [await running.submit("susan", *line.split(), source=line) for line in lines]
    function = await running.submit("susan", kind="function", source="train()")
    found = (await comparison(running, "susan", *(job["id"] for job in [*commands, function]))).json()
    assert found["code"] == [[], [], []]
    assert [each["values"] for each in found["differences"] if each["name"] == "lr"] == [
        ["0.1", "0.2", "not given"]
    ]


async def test_functions_are_compared_by_their_names(running: Any) -> None:
    runner = ["python3", "-m", "springtide.training.run", "function", "payload.pkl"]
    one = await running.submit("susan", *runner, kind="function", source="@cache\ndef train(lr):\n    ...\n")
    two = await running.submit("susan", *runner, kind="function", source="def tune(lr):\n    ...\n")
    three = await running.submit("susan", "python3", "train.py")
    found = (await comparison(running, "susan", *(job["id"] for job in (one, two, three)))).json()
    told = {each["name"]: each["values"] for each in found["differences"] if each["kind"] == "command"}
    assert told == {"command": ["function train", "function tune", "python3 train.py"]}


async def test_arguments_are_compared_by_name_wherever_they_stand(running: Any) -> None:
    source = "python3 train.py --api-key hunter2"
    words = ("python3", "train.py", "--fast", "--lr", "0.1", "--api-key", "hunter2")
    one = await running.submit("susan", *words, source=source)
    two = await running.submit("susan", "python3", "train.py", "--lr=0.2", "--out", "my file", "--api-key=hunter3")
    answer = await comparison(running, "susan", one["id"], two["id"])
    found = {(each["kind"], each["name"]): each["values"] for each in answer.json()["differences"]}
    assert found == {
        ("argument", "fast"): ["true", "not given"],
        ("argument", "lr"): ["0.1", "0.2"],
        ("argument", "out"): ["not given", "my file"],
    }
    assert "hunter" not in answer.text


async def test_programs_that_differ_are_compared_as_commands(running: Any) -> None:
    one = await running.submit("susan", "python3", "train.py", "--lr", "1")
    two = await running.submit("susan", "python3", "-u", "other.py", "--lr", "1")
    (found,) = (await comparison(running, "susan", one["id"], two["id"])).json()["differences"]
    assert (found["kind"], found["values"]) == ("command", ["train.py", "-u other.py"])


def test_programs_of_a_project_are_shown_by_the_paths_that_were_typed() -> None:
    command = JobSpec(
        id="1",
        seq=1,
        user="s",
        project="s",
        submitted=0.0,
        name="f",
        kind="command",
        argv=("python", "{project_tree}/fit.py"),
        tree=ProjectTree(root="/home/s/study", digest="0" * 64),
    )
    other = msgspec.structs.replace(command, argv=("python", "-u", "fit.py"))
    assert rows(JobRecord(command), JobRecord(other)) == {"command": ["/home/s/study/fit.py", "-u fit.py"]}
    again = with_arguments(command, {"--lr": "0.1"})
    assert again.argv[1] == "{project_tree}/fit.py"
    assert again.source == "python /home/s/study/fit.py --lr 0.1"


async def test_a_long_source_is_not_compared_line_by_line(running: Any) -> None:
    ids = [
        (await running.submit("susan", kind="function", source=f"{word}\n" * 1001))["id"]
        for word in ("one", "two")
    ]
    assert (await comparison(running, "susan", *ids)).json()["code"] == [[], None]


async def test_a_job_of_somebody_elses_is_not_compared(running: Any) -> None:
    own = await running.submit("susan", name="own")
    hers = await running.submit("jemma", name="hers")
    answer = await comparison(running, "susan", own["id"], hers["id"])
    assert answer.status_code == 404
    assert answer.json()["message"] == f"There is no job “{hers['id']}” that you may see."
    assert "hers" not in answer.text.replace(hers["id"], "")
    assert (await comparison(running, "admin", own["id"], hers["id"])).status_code == 200


@pytest.mark.parametrize("number", [1, 21])
async def test_two_to_twenty_jobs_are_compared(running: Any, number: int) -> None:
    answer = await comparison(running, "susan", *(f"job{n}" for n in range(number)), "job0")
    assert (answer.status_code, answer.json()["field"]) == (422, "jobs")
    assert answer.json()["hint"] == "Name 2 to 20 different jobs."


def call(a: float, bundle: str | None, **more: Any) -> JobRecord:
    """Return a call of a function in a project; its files, with the arguments among them, have this digest."""
    kept = {"kind": "function", "argv": ("python3",), "tree": ProjectTree(root="/study", digest="0" * 64), **more}
    spec = JobSpec(id="1", seq=1, user="s", project="s", submitted=0.0, name="f", bundle=bundle, **kept)
    return JobRecord(msgspec.structs.replace(spec, arguments=of_values({"a": a})))


def rows(*jobs: JobRecord) -> dict[str, list[str]]:
    return {each.name: each.values for each in differences(jobs)}


def test_calls_with_other_arguments_are_no_other_files() -> None:
    assert rows(call(1, "x"), call(2, "y"), call(1, "x")) == {"a": ["1", "2", "1"]}
    for others in (
        [call(1, "x"), call(1, "z"), call(2, "y")],  # equal arguments
        [call(1, "x", source="f"), call(2, "y", source="g")],  # another function
        [call(1, "x", tree=None), call(2, "y", tree=None)],  # with modules
        [call(1, "x", kind="command"), call(2, "y", kind="command")],
    ):
        assert rows(*others)["files"] == ["own files"] * len(others)


def test_equal_files_are_told_in_words() -> None:
    def told(*bundles: str | None) -> list[str]:
        return rows(*(call(1, bundle, kind="command", tree=None) for bundle in bundles))["files"]

    assert told("x", "y", None) == ["own files", "own files", "none"]
    assert told("x", "y", "x") == ["same files", "own files", "same files"]
    assert told("x", "y", "x", "y", "z") == [*["same files (A)", "same files (B)"] * 2, "own files"]


def test_a_number_is_one_value_however_it_is_written() -> None:
    def run(word: str) -> JobRecord:
        argv = ("python3", "train.py", "--lr", word)
        spec = JobSpec(id="1", seq=1, user="s", project="s", submitted=0.0, name="f", kind="command", argv=argv)
        return JobRecord(msgspec.structs.replace(spec, arguments=of_command(argv)))

    def compared(*words: str) -> dict[str, list[str]]:
        return rows(*map(run, words))

    assert compared("1", "1.0", "1e0") == {}
    assert compared("0.1", "0.10", "1e-1") == {}
    assert compared("1", "1.0", "2.50") == {"lr": ["1", "1", "2.5"]}
    assert rows(call(1, "x"), call(1.0, "y")) == {}
    assert rows(call(True, "x"), call(1, "y")) == {"a": ["true", "1"]}


def test_the_files_of_projects_that_differ_are_named() -> None:
    def sent(digest: str | None) -> JobRecord:
        tree = None if digest is None else ProjectTree(root="/study", digest=digest)
        return call(1, None, kind="command", tree=tree)

    def packed(**files: str) -> dict[str, str]:
        return file_digests(pack({f"{name}.py": TreeFile(text.encode()) for name, text in files.items()}, {}))

    first, second = packed(train="0.9", lib="same"), packed(train="0.8", lib="same", new="")
    many = packed(**{f"f{number}": "" for number in range(30)})
    trees = {"1" * 64: first, "2" * 64: second, "3" * 64: many, "4" * 64: None, "5" * 64: dict(first)}

    def told(*digests: str | None) -> dict[tuple[str, str], list[str]]:
        jobs = [sent(None if digest is None else digest * 64) for digest in digests]
        return {(each.kind, each.name): each.values for each in differences(jobs, trees)}

    assert told("1", "2", "1") == {
        ("file", "new.py"): ["none", "A", "none"],
        ("file", "train.py"): ["A", "B", "A"],
    }
    assert told("1", None)["file", "train.py"] == ["A", "none"]
    assert told("1", "4") == {("files", "project tree"): ["own files", "own files"]}
    assert told("1", "5") == {("files", "project tree"): ["own files", "own files"]}  # links or folders differ
    named = told("1", "3")
    assert len(named) == MOST_PROJECT_FILES + 1
    assert named["files", "project tree"] == ["own files", "own files"]
