"""Which images a job may run in."""

from __future__ import annotations

import pytest

from springtide.scheduler.engine import EngineSettings
from springtide.scheduler.engine.requests import acceptance
from springtide.scheduler.model import Settings
from springtide.scheduler.refusal import Refusal

LIST = ("lab/base:1", "registry.lab:5000/team/*", "quay.io/lab/torch:2.*")


@pytest.mark.parametrize(
    "asked",
    ["lab/base:1", "registry.lab:5000/team/a:1", "registry.lab:5000/team/a/b@sha256:ab", "quay.io/lab/torch:2.4"],
)
def test_an_image_on_the_list_is_taken(asked):
    assert acceptance.choose_image(asked, LIST) == asked


@pytest.mark.parametrize(
    "asked",
    ["lab/base:2", "lab/base:1x", "xlab/base:1", "LAB/base:1", "quay.io/lab/torch:204", "registry.lab:5000/team"],
)
def test_an_image_beside_the_list_is_refused_with_both(asked):
    with pytest.raises(Refusal, match="not on this pool's list") as refused:
        acceptance.choose_image(asked, LIST)
    assert (refused.value.status, refused.value.field) == (400, "image")
    assert asked in refused.value.message
    assert LIST[1] in refused.value.message


@pytest.mark.parametrize(
    "asked", ["", " ", "a b", "a\n", "-v", "a\0", "../a", "é", "lab/*", "a;b", "$(a)", "a\u202eb"]
)
def test_what_cannot_be_an_image_is_refused_even_where_all_are_allowed(asked):
    with pytest.raises(Refusal, match="no name of an image"):
        acceptance.choose_image(asked, ("lab/base:1", "*"))


def test_a_long_list_is_not_told_whole():
    with pytest.raises(Refusal, match=r"lab/11 and 88 more\."):
        acceptance.choose_image("other", tuple(f"lab/{number}" for number in range(100)))


def test_one_machine_has_no_images():
    assert acceptance.choose_image(None, None) is None
    with pytest.raises(Refusal, match="one machine"):
        acceptance.choose_image("lab/base:1", None)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [((), "empty"), (("lab/*", "a"), "comes first"), (("a", "b c"), "“b c” is no name or pattern")],
)
def test_what_is_wrong_with_a_list_is_told(wrong, words):
    assert words in acceptance.pattern_list_error(wrong)
    assert acceptance.pattern_list_error(LIST) is None


async def test_a_job_keeps_its_image_over_a_restart_and_into_its_attempts(make_pool):
    pool = await make_pool(settings=EngineSettings(policy=Settings(grace=5.0), images=LIST))
    named = await pool.submit(image="quay.io/lab/torch:2.4", gpus=4)
    plain = await pool.submit(gpus=4)
    for job in (named, plain):
        await pool.state(job.id, "running")
    launched = {key.job: spec.options.image for key, spec in pool.executor.specs.items()}
    assert launched == {named.id: "quay.io/lab/torch:2.4", plain.id: "lab/base:1"}
    await pool.restart()
    assert (await pool.job(named.id)).options.image == "quay.io/lab/torch:2.4"
