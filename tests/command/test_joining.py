"""What `springtide join` asks the pool for."""

from __future__ import annotations

import click
import pytest

from springtide.hub_extension.commands.joining import membership_file
from springtide.scheduler.wire import PoolFile, PoolFileView, ProjectPart


def view(**parts: ProjectPart) -> PoolFileView:
    return PoolFileView(file=PoolFile(projects=parts), version="1", locked=[])


def test_it_adds_a_member() -> None:
    pool = view(vision=ProjectPart(quota=1, members=["joe"]))
    assert membership_file(pool, "anna", ("vision",), None, None) == {
        "projects": {"vision": {"members": ["anna", "joe"]}}
    }


def test_where_the_authenticator_decides_about_members_it_refuses_and_says_what_to_do() -> None:
    pool = view(vision=ProjectPart(quota=1))
    with pytest.raises(click.ClickException) as refused:
        membership_file(pool, "anna", ("vision",), None, None)
    assert "“anna” cannot be put into “vision”: the hub's authenticator decides" in refused.value.message
    assert "leave --project out" in refused.value.message
    assert membership_file(pool, "anna", (), 1, None) == {"projects": {}, "people": {"anna": {"build_quota": 1}}}
