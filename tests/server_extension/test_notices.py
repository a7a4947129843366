"""Notices that the pages of a notebook server show: each is shown by one page."""

from __future__ import annotations

import json

import httpx
import pytest
from server_extension_bench import NotebookServer

from springtide.widgets.server_extension.notices import Claims
from springtide.widgets.server_extension.pool_gate import GateError

URL = "../../notices"


def claim(claims: Claims, *ids: str) -> list[str]:
    return claims.claim(json.dumps({"ids": ids}).encode()).ids


def test_a_notice_is_for_the_page_that_claims_it_first() -> None:
    claims = Claims()
    assert claim(claims, "a.1.failed", "b.1.ended", "a.1.failed") == ["a.1.failed", "b.1.ended"]
    assert claim(claims, "b.1.ended", "b.2.ended") == ["b.2.ended"]


def test_the_latest_claims_are_remembered() -> None:
    claims = Claims(most=2)
    claim(claims, "a", "b", "c")
    assert claim(claims, "b", "c") == []
    assert claim(claims, "a") == ["a"]


@pytest.mark.parametrize("body", [b"", b"[]", b"\xff", b'{"ids": [7]}', b'{"ids": [""]}', b'{"ids": [], "x": 1}'])
def test_what_is_no_list_of_notices_is_refused(body: bytes) -> None:
    with pytest.raises(GateError, match="No notices"):
        Claims().claim(body)


def test_a_claim_is_bounded() -> None:
    with pytest.raises(GateError, match="No notices"):
        claim(Claims(), *map(str, range(1_001)))


@pytest.mark.process
def test_pages_of_a_server_share_claims_and_need_its_log_in(server: NotebookServer) -> None:
    with server.client() as page, httpx.Client(base_url=page.base_url) as stranger:
        assert page.post(URL, json={"ids": ["shared"]}).json() == {"ids": ["shared"]}
        assert page.post(URL, json={"ids": ["shared", "other"]}).json() == {"ids": ["other"]}
        assert stranger.post(URL, json={"ids": ["third"]}).status_code == 403
