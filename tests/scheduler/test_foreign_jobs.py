"""Reasons for readers who may not see the jobs that they name."""

from __future__ import annotations

from typing import Any

import pytest

from springtide.scheduler import sentences
from springtide.scheduler.model import Alternative, Reason, StartsIf

WAY: dict[str, Any] = {"for_job": "b2", "for_name": "merger", "for_project": "nlp", "for_user": "jemma"}
HOLDERS: dict[str, Any] = {"jobs": ("x", "y"), "names": ("one", "two"), "projects": ("nlp", "vision"), "gpus": 4}


def read(why: Reason, *projects: str) -> tuple[str, str]:
    shown = sentences.without_names(why, set(projects).__contains__)
    return sentences.text(shown), sentences.headline(shown)


@pytest.mark.parametrize(
    ("why", "text", "headline"),
    [
        (
            Reason("preempted", {"job": "a", "name": "mine", "project": "vision", **WAY}),
            "It made way for a job of “jemma” in “nlp”, which has a higher priority.",
            "Paused for a job of “nlp” (higher priority).",
        ),
        (
            Reason("reclaimed", {"job": "a", "name": "mine", "project": "vision", "within": 1, "gpus": 2, **WAY}),
            "The project “nlp” asked for its 2 GPUs back, for a job of “jemma”.",
            "Paused for a job of “nlp” (its GPUs).",
        ),
        (
            Reason("awaits-pause", {"pausing": 1, **HOLDERS}),
            "It has a reservation for 4 GPUs. It starts as soon as 2 jobs of “nlp” and “vision” have stopped.",
            "4 GPUs are being freed for it by 2 jobs.",
        ),
    ],
)
def test_a_job_that_the_reader_does_not_see_has_no_name(why: Reason, text: str, headline: str) -> None:
    assert read(why, "vision") == (text, headline)
    hidden = sentences.without_names(why, {"vision"}.__contains__)
    assert not {"merger", "b2", "one", "two", "x", "y"} & set(map(str, hidden.params.values()))
    assert sentences.projects_named(hidden.params) == frozenset()


def test_a_reader_of_all_its_projects_reads_a_reason_as_it_is() -> None:
    why = Reason("awaits-pause", {"pausing": 1, **HOLDERS})
    assert sentences.without_names(why, {"nlp", "vision"}.__contains__) is why
    assert sentences.projects_named(why.params) == {"nlp", "vision"}
    assert "the jobs “one” and “two” of “nlp” and “vision”" in read(why, "nlp", "vision")[0]


def test_what_would_let_a_job_start_counts_the_jobs_without_names() -> None:
    known = {"a": ("mine", "vision"), "b": ("", "nlp"), "c": ("", "nlp")}
    found = StartsIf((Alternative(remove_jobs=("a", "b", "c")),), False)
    [said] = sentences.starts_if_sentences(found, known.__getitem__, {})
    assert said.text == "It could start if the job “mine” of “vision” and 2 jobs of “nlp” ended."
