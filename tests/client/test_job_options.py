"""The table of a job's options: every surface has each of them, under the same name and with the same bounds."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from springtide.hub_extension.api.intake import body_of
from springtide.hub_extension.commands.submit import submit
from springtide.scheduler import wire
from springtide.scheduler.client.flags import flags, given
from springtide.scheduler.executors.base import AttemptSpec
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.records import JobSpec
from springtide.scheduler.wire import OPTIONS, BadOption, JobOptions, Submission, Surface
from springtide.scheduler.wire.options import Kind

WRONG = {
    Kind.WHOLE: [True, 1.5, "x", 10**30],
    Kind.DURATION: [True, "soon", float("nan"), 10.0**12],
    Kind.CORES: [True, "many", float("nan"), 0.0, 10**6],
    Kind.MEMORY: [True, "much", 1.5, 16, 10**30],
    Kind.SWITCH: [1, "yes"],
    Kind.TEXT: [1, b"x"],
    Kind.TEXTS: [1, [1]],
    Kind.PRIORITY: [1.5, -1, True],
    Kind.VARIABLES: ["A=1", {"A": 1}],
}
NO_OPTIONS = {
    *("argv", "kind", "cwd", "files", "source", "arguments", "key", "environment", "trials", "tree", "given")
}


def test_every_field_of_a_submission_that_does_not_say_what_runs_is_an_option() -> None:
    assert set(Submission.__struct_fields__) - NO_OPTIONS == OPTIONS.keys()


@pytest.mark.parametrize("kind", [JobSpec, AttemptSpec, wire.Job])
def test_what_carries_a_job_carries_all_its_options(kind: type[msgspec.Struct]) -> None:
    fields = {field.name: field.type for field in msgspec.structs.fields(kind)}
    assert fields["options"] is JobOptions
    assert OPTIONS.keys() - JobOptions.__struct_fields__ == {"name", "project"} <= fields.keys()


@pytest.mark.parametrize("option", OPTIONS.values(), ids=OPTIONS)
def test_an_option_takes_its_default_and_refuses_what_the_api_refuses(option: wire.Option) -> None:
    assert option.check(option.default) == option.default
    wrong: Any = WRONG[option.kind]
    for value in wrong:
        with pytest.raises(BadOption, match=f"^{option.name} is .*; expected "):
            option.check(value)
        body = msgspec.json.encode({"argv": ["true"], option.name: value if value == value else "nan"})
        if not isinstance(value, bytes):
            with pytest.raises(Refusal) as refused:
                body_of(body, Submission)
            assert refused.value.field == option.name


@pytest.mark.parametrize(
    "option", [o for o in OPTIONS.values() if o.most is not None and o.kind is not Kind.TEXTS]
)
def test_the_bounds_of_the_table_are_those_of_the_api(option: wire.Option) -> None:
    numeric = option.kind is not Kind.TEXT
    within: Any
    beyond: Any
    most: Any = option.most
    within, beyond = (most, most + 1) if numeric else ("x" * most, "x" * (most + 1))
    assert option.check(within) == within
    assert getattr(body_of(msgspec.json.encode({"argv": ["true"], option.name: within}), Submission), option.name)
    with pytest.raises(BadOption):
        option.check(beyond)
    with pytest.raises(Refusal):
        body_of(msgspec.json.encode({"argv": ["true"], option.name: beyond}), Submission)


@pytest.mark.parametrize("surface", [Surface.COMMAND, Surface.MAGIC])
def test_the_command_line_has_a_flag_for_every_option(surface: Surface) -> None:
    assert [flag.name for flag in flags(surface)] == list(OPTIONS)


def test_the_command_line_and_the_api_mean_the_same() -> None:
    words = [
        "--gpus", "2", "--time-limit", "1h30m", "--grace", "90", "--gpu-type", "a100", "--gpu-types", "v100,t4",
        "--cpus", "500m", "--memory", "16 GB",
        "--no-rotate", "--not-preemptible", "-e", "A=1", "--env", "B=x=y", "--priority", "60", "--name", "x", "ls",
    ]  # fmt: skip
    with submit.make_context("submit", words) as context:
        assert given(context.params) == {
            "gpus": 2, "cpus": 0.5, "memory": 16 * 10**9,
            "time_limit": 5400.0, "grace": 90.0, "gpu_types": ("a100", "v100", "t4"), "rotate": False,
            "preemptible": False, "env": {"A": "1", "B": "x=y"}, "priority": 60, "name": "x",
        }  # fmt: skip


def test_durations_given_as_text_are_seconds_from_then_on() -> None:
    body = body_of(b'{"argv": ["true"], "time_limit": "2h", "grace": "30s"}', Submission)
    assert (body.time_limit, body.grace) == (7200.0, 30.0)
    with pytest.raises(Refusal, match="a duration such as 90"):
        body_of(b'{"argv": ["true"], "time_limit": "soon"}', Submission)
