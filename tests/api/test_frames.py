"""Readers that share the encoding of an event see exactly their part."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from springtide.hub_extension.api.permissions import may_see_of, may_see_unmatched
from springtide.hub_extension.api.views import NodeEncoder
from springtide.hub_extension.service.relay import Frames
from springtide.hub_extension.web.caller import Caller
from springtide.scheduler.wire import Event, GpuCell, Holder, NodeView

SUSAN = Caller("susan", frozenset({"vision"}))
JOE = Caller("joe", frozenset({"vision"}))
JEMMA = Caller("jemma", frozenset({"speech"}))
BOT = Caller("joe", frozenset({"vision"}), service=True)
HUB = Caller("joe", service=True, spawner=True)
ADMIN = Caller("admin", admin=True)


def holder(user: str, project: str) -> Holder:
    return Holder(kind="job", user=user, project=project, job=f"of-{user}", name=f"{user}'s")


def node(name: str, *holders: Holder | None) -> NodeView:
    gpus = [GpuCell(index=index, uuid=f"{name}/{index}", holder=each) for index, each in enumerate(holders)]
    return NodeView(
        name=name, environment="train", gpu_type="", available=True, simulated=True, labels={}, gpus=gpus
    )


def pool(*nodes: NodeView) -> Event:
    return Event(kind="pool", data={"nodes": list(nodes), "unmatched": ["susan/lab"]})


def told(frames: Frames, event: Event, caller: Caller) -> Any:
    """Return what a caller is sent."""
    return json.loads(frames.frame(event, caller).split(b"data: ", 1)[1])


def seen_by(caller: Caller, event: Event) -> Any:
    """Return the data without the names that the caller may not see."""
    data: dict[str, Any] = json.loads(msgspec.json.encode(event.data))
    if not may_see_unmatched(caller):
        data["unmatched"] = []
    for gpu in data["nodes"][0]["gpus"]:
        holder = gpu["holder"]
        if holder is not None and not may_see_of(caller, holder["user"], holder["project"]):
            holder |= {"job": "", "name": ""}
    return data


def test_everybody_is_sent_what_she_may_see_whoever_was_sent_it_before() -> None:
    event = pool(
        node(
            "n",
            holder("susan", "vision"),
            holder("joe", "speech"),
            holder("joe", ""),
            holder("jemma", "speech"),
            None,
        )
    )
    callers = [SUSAN, JOE, JEMMA, BOT, HUB, ADMIN]
    for order in (callers, callers[::-1]):
        frames = Frames()
        for caller in order:
            assert told(frames, event, caller) == seen_by(caller, event)
    assert "of-joe" in str(told(Frames(), event, JOE))
    assert "of-joe" not in str(told(Frames(), event, SUSAN))
    assert "of-joe" not in str(told(Frames(), event, BOT))


def test_members_of_the_same_groups_share_an_encoding_while_they_hold_nothing_elsewhere() -> None:
    frames = Frames()
    within = pool(node("n", holder("susan", "vision"), holder("joe", "vision"), holder("jemma", "speech")))
    for caller in (SUSAN, JOE, SUSAN):
        told(frames, within, caller)
    assert frames.encoded == 1
    elsewhere = pool(node("n", holder("susan", "vision"), holder("joe", "speech")))
    for caller in (SUSAN, JOE, JOE):
        told(frames, elsewhere, caller)
    assert frames.encoded == 3


def test_only_the_nodes_that_have_changed_are_encoded_again() -> None:
    encoder = NodeEncoder()
    one, other = node("one", holder("susan", "vision")), node("other", holder("joe", "speech"))
    before = encoder.nodes(SUSAN, [one, other])
    assert [json.loads(bytes(each))["name"] for each in before] == ["one", "other"]
    changed = node("other", holder("jemma", "speech"), None)
    after = encoder.nodes(SUSAN, [one, changed])
    assert after[0] is before[0]
    assert json.loads(bytes(after[1])) == seen_by(SUSAN, pool(changed))["nodes"][0]
    assert encoder.encoded == 3
