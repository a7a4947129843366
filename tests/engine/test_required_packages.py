"""The packages that jobs may require, and refusals with a hint."""

from __future__ import annotations

import pytest

from springtide.scheduler.engine.requests.acceptance import checked_requirements
from springtide.scheduler.refusal import Refusal


def test_requirements_have_one_spelling_whatever_their_order() -> None:
    given = ["Torch >= 2.4,<3", "scikit_learn", "transformers[torch]==4.46.*", "scikit-learn"]
    expected = ("scikit-learn", "torch<3,>=2.4", "transformers[torch]==4.46.*")
    assert checked_requirements(given, images=False) == expected
    typed = ",".join(given).split(",")
    assert checked_requirements(typed, images=False) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("--index-url=http://evil", "is an option of pip"),
        ("-e .", "is an option of pip"),
        ("-r/etc/passwd", "is an option of pip"),
        ("./local", "is no package"),
        ("/etc/passwd", "is no package"),
        ("http://evil/x.whl", "is no package"),
        ("git+https://evil/x", "is no package"),
        ("x @ https://evil/x.whl", "names an address"),
        ("x @ file:///etc/passwd", "names an address"),
        ("x --global-option=y", "is no package"),
        ("x; import os", "is no package"),
        ("x\n--index-url=http://evil", "is no package"),
        ("", "is no package"),
        ("x" * 500, "is no package"),
    ],
)
def test_whatever_else_pip_would_take_is_refused(text: str, words: str) -> None:
    with pytest.raises(Refusal, match=words) as refused:
        checked_requirements([text], images=False)
    assert (refused.value.field, bool(refused.value.hint)) == ("requirements", True)


def test_nothing_is_installed_into_an_image() -> None:
    with pytest.raises(Refusal, match="run in images") as refused:
        checked_requirements(["torch"], images=True)
    assert "image=…" in refused.value.hint
    assert checked_requirements([], images=True) == ()
