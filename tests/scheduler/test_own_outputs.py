"""Which files of a job's own working folder are outputs, and what opens them."""

from __future__ import annotations

import pytest

from springtide.scheduler.own_outputs import OwnOutputs, matches, openers, problem

COPY = OwnOutputs("vision/train")


@pytest.mark.parametrize(
    ("path", "pattern", "fits"),
    [
        ("model.pt", "*.pt", True),
        ("models/model.pt", "*.pt", False),
        ("models/model.pt", "**/*.pt", True),
        ("model.pt", "**/*.pt", True),
        ("runs/a/b/c.txt", "runs/**", True),
        ("runs/a/b/c.txt", "runs/*", False),
        ("runs/a/b/c.txt", "runs/**/c.txt", True),
        ("other/a.txt", "runs/**", False),
        ("a1.csv", "a?.csv", True),
        (".secret", "*", False),
        (".secret", ".*", True),
        ("runs/.hidden/x", "runs/**", False),
        ("runs/.x", "runs/**", False),
        ("**", "runs", False),
    ],
)
def test_patterns_are_those_of_a_shell(path: str, pattern: str, fits: bool) -> None:
    assert matches(path, pattern) is fits


def test_a_hostile_pattern_takes_no_time() -> None:
    assert not matches("a" * 255, "*a" * 99 + "b")
    assert not matches("/".join("a" * 500), "/".join(["**"] * 60 + ["b"]))


@pytest.mark.parametrize(
    "path",
    [
        "model.pt",
        "runs/Nov25/events.out.tfevents.1",
        "wandb/offline-run-1/run-1.wandb",
        "lightning_logs/version_0/metrics.csv",
        "mlruns/0/meta.yaml",
        "outputs/2026-11-25/train.log",
    ],
)
def test_files_of_known_tools_and_new_ones_at_the_top_are_outputs(path: str) -> None:
    assert COPY.name_of(f"vision/train/{path}") == f"work/{path}"
    assert COPY.path_of(f"work/{path}") == f"vision/train/{path}"
    assert OwnOutputs("").name_of(path) == f"work/{path}"


@pytest.mark.parametrize(
    "path", ["vision/other.pt", "vision/train/src/a.py", "vision/train/.env", "vision/trainer.pt"]
)
def test_other_files_are_none(path: str) -> None:
    assert COPY.name_of(path) is None


@pytest.mark.parametrize("name", ["model.pt", "work/src/a.py", "work/.env", "work/../other.pt", "work/"])
def test_names_of_other_files_open_nothing(name: str) -> None:
    assert COPY.path_of(name) is None
    assert OwnOutputs("", (".*/**",)).path_of("work/../x") is None


def test_patterns_of_the_option_add_outputs() -> None:
    own = OwnOutputs("", ("tables/*.csv",))
    assert own.name_of("tables/a.csv") == "work/tables/a.csv"
    assert own.name_of("tables/a.txt") is None
    assert own.name_of("model.pt") == "work/model.pt"


@pytest.mark.parametrize("pattern", ["", "/etc/*", "../x", "a/../../x", "a\n"])
def test_patterns_that_leave_the_working_directory_are_none(pattern: str) -> None:
    assert problem(pattern)
    assert not problem("runs/**")


def test_folders_of_tools_are_named_with_the_command_that_opens_them() -> None:
    names = [
        "work/runs/Nov25/events.out.tfevents.1",
        "work/runs/Nov26/events.out.tfevents.2",
        "work/wandb/offline-run-1/run-1.wandb",
        "work/mlruns/0/meta.yaml",
        "work/odd name; rm/events.out.tfevents.3",
        "model.pt",
    ]
    assert [each.command for each in openers(names)] == [
        "tensorboard --logdir work/runs",
        "wandb sync --sync-all work/wandb",
        "mlflow ui --backend-store-uri work/mlruns",
        "tensorboard --logdir 'work/odd name; rm'",
    ]
