"""Who shares the encoding of an event sees exactly what is meant for her."""

from __future__ import annotations

import json
from typing import Any

from springtide.hub_extension.api.permissions import may_see_of
from springtide.hub_extension.service.frames import Frames
from springtide.hub_extension.web.caller import Caller
from springtide.scheduler.wire import Event

SUSAN = Caller("susan", frozenset({"vision"}))
JOE = Caller("joe", frozenset({"vision"}))
JEMMA = Caller("jemma", frozenset({"speech"}))
BOT = Caller("joe", frozenset({"vision"}), service=True)
ADMIN = Caller("admin", admin=True)


def cell(user: str, project: str) -> dict[str, Any]:
    return {"index": 0, "holder": {"user": user, "project": project, "job": f"of-{user}", "name": f"{user}'s"}}


def pool(*cells: dict[str, Any]) -> Event:
    return Event(kind="pool", data={"nodes": [{"name": "n", "gpus": [*cells, {"index": 9, "holder": None}]}]})


def told(frames: Frames, event: Event, caller: Caller) -> Any:
    """Return what a caller is sent."""
    return json.loads(frames.frame(event, caller).split(b"data: ", 1)[1])


def seen_by(caller: Caller, event: Event) -> Any:
    """Return the data without the names that the caller may not see."""
    data = json.loads(json.dumps(event.data))
    for each in data["nodes"][0]["gpus"]:
        holder = each["holder"]
        if holder is not None and not may_see_of(caller, holder["user"], holder["project"]):
            holder |= {"job": "", "name": ""}
    return data


def test_everybody_is_sent_what_she_may_see_whoever_was_sent_it_before() -> None:
    event = pool(cell("susan", "vision"), cell("joe", "speech"), cell("joe", ""), cell("jemma", "speech"))
    for order in ([SUSAN, JOE, JEMMA, BOT, ADMIN], [ADMIN, BOT, JEMMA, JOE, SUSAN]):
        frames = Frames()
        for caller in order:
            assert told(frames, event, caller) == seen_by(caller, event)
    assert "of-joe" in str(told(Frames(), event, JOE))
    assert "of-joe" not in str(told(Frames(), event, SUSAN))
    assert "of-joe" not in str(told(Frames(), event, BOT))


def test_members_of_the_same_groups_share_an_encoding_while_they_hold_nothing_elsewhere() -> None:
    frames = Frames()
    within = pool(cell("susan", "vision"), cell("joe", "vision"), cell("jemma", "speech"))
    for caller in (SUSAN, JOE, SUSAN):
        told(frames, within, caller)
    assert frames.encoded == 1
    elsewhere = pool(cell("susan", "vision"), cell("joe", "speech"))
    for caller in (SUSAN, JOE, JOE):
        told(frames, elsewhere, caller)
    assert frames.encoded == 3
