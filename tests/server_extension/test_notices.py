"""Notices that the pages of a notebook server show: each is shown by one page."""

from __future__ import annotations

import json

import httpx
import pytest
from benches.server_extension_bench import NotebookServer

from springtide.widgets.server_extension.notices import Claimed, Claims
from springtide.widgets.server_extension.pool_gate import GateError

URL = "../../notices"


def body(*ids: str) -> dict[str, list[dict[str, str]]]:
    return {"notices": [{"id": each, "event": each.rpartition(".")[2]} for each in ids]}


def claimed(claims: Claims, *ids: str, at: float = 0) -> Claimed:
    return claims.claim(json.dumps(body(*ids)).encode(), at)


def claim(claims: Claims, *ids: str) -> list[str]:
    return claimed(claims, *ids).ids


def test_a_notice_is_for_the_page_that_claims_it_first() -> None:
    claims = Claims()
    assert claim(claims, "a.1.failed", "b.1.ended", "a.1.failed") == ["a.1.failed", "b.1.ended"]
    assert claim(claims, "b.1.ended", "b.2.ended") == ["b.2.ended"]


def test_more_than_three_within_ten_seconds_over_all_pages_are_counted_together() -> None:
    claims = Claims()
    singles = [claimed(claims, f"{number}.failed", at=number) for number in range(3)]
    assert [(each.ids, each.burst) for each in singles] == [([f"{number}.failed"], 0) for number in range(3)]
    assert claimed(claims, "3.failed", at=3) == Claimed(
        ["3.failed"], 1, {"failed": 4}, ["0.failed", "1.failed", "2.failed"]
    ), "those shown one by one are counted, and leave the pages"
    assert claimed(claims, "4.failed", "4.ended", at=12) == Claimed(
        ["4.failed", "4.ended"], 1, {"failed": 5, "ended": 1}
    ), "another page has the counts of the whole burst"
    assert claimed(claims, "4.failed", at=13) == Claimed([])
    assert claimed(claims, "5.ended", at=22).burst == 0, "the burst was over"
    assert claimed(claims, *(f"{number}.late" for number in range(3)), at=25).counts == {"ended": 1, "late": 3}
    assert claimed(claims, *(f"{number}.ended" for number in range(6, 10)), at=40) == Claimed(
        [f"{number}.ended" for number in range(6, 10)], 3, {"ended": 4}
    )


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
        b'{"notices": [{"id": "", "event": "failed"}]}',
        b'{"notices": [{"id": "a", "event": "<b>"}]}',
        b'{"notices": [], "x": 1}',
    ],
)
def test_what_is_no_list_of_notices_is_refused(sent: bytes) -> None:
    with pytest.raises(GateError, match="No notices"):
        Claims().claim(sent, 0)


def test_a_claim_is_bounded() -> None:
    with pytest.raises(GateError, match="No notices"):
        claim(Claims(), *(f"{number}.x" for number in range(1_001)))


@pytest.mark.process
def test_pages_of_a_server_share_claims_and_need_its_log_in(server: NotebookServer) -> None:
    with server.client() as page, httpx.Client(base_url=page.base_url) as stranger:
        assert page.post(URL, json=body("shared.failed")).json()["ids"] == ["shared.failed"]
        assert page.post(URL, json=body("shared.failed", "other.ended")).json()["ids"] == ["other.ended"]
        assert stranger.post(URL, json=body("third.ended")).status_code == 403
