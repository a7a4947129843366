"""Notices of the pages of a notebook server: each is claimed by one page, which shows it in front."""

from __future__ import annotations

import json

import httpx
import pytest
from benches.server_extension_bench import NotebookServer

from springtide.widgets.server_extension.notices import Claims
from springtide.widgets.server_extension.pool_gate import GateError

URL = "../../notices"


def body(*ids: str) -> dict[str, tuple[str, ...]]:
    return {"notices": ids}


def claim(claims: Claims, *ids: str) -> list[str]:
    return claims.claim(json.dumps(body(*ids)).encode()).ids


def test_a_notice_is_for_the_page_that_claims_it_first() -> None:
    claims = Claims()
    assert claim(claims, "a.1.failed", "b.1.ended", "a.1.failed") == ["a.1.failed", "b.1.ended"]
    assert claim(claims, "b.1.ended", "b.2.ended") == ["b.2.ended"]


def test_the_latest_claims_are_remembered() -> None:
    claims = Claims(most=2)
    claim(claims, "a.x", "b.x", "c.x")
    assert claim(claims, "b.x", "c.x") == []
    assert claim(claims, "a.x") == ["a.x"]


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"notices": [7]}',
        b'{"notices": [""]}',
        b'{"notices": [{"id": "a"}]}',
        b'{"notices": [], "x": 1}',
    ],
)
def test_what_is_no_list_of_notices_is_refused(sent: bytes) -> None:
    with pytest.raises(GateError, match="No notices"):
        Claims().claim(sent)


def test_a_claim_is_bounded() -> None:
    with pytest.raises(GateError, match="No notices"):
        claim(Claims(), *(f"{number}.x" for number in range(1_001)))


@pytest.mark.process
def test_pages_of_a_server_share_claims_and_need_its_log_in(server: NotebookServer) -> None:
    with server.client() as page, httpx.Client(base_url=page.base_url) as stranger:
        assert page.post(URL, json=body("shared.failed")).json()["ids"] == ["shared.failed"]
        assert page.post(URL, json=body("shared.failed", "other.ended")).json()["ids"] == ["other.ended"]
        assert stranger.post(URL, json=body("third.ended")).status_code == 403
