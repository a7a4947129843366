"""The hub's database, whose session belongs to the event loop."""

from __future__ import annotations

import pytest
from hubs.hub_people import Hub, until

pytestmark = pytest.mark.xdist_group("hub-spawner")


def test_no_other_thread_of_a_starting_hub_asks_its_database(hub: Hub) -> None:
    """A login at the same time would end the hub with the error of a session that two threads use."""
    until("the message of the hub", lambda: "Springtide is ready" in hub.log.read_text())
    assert "asked beside the event loop" not in (hub.state_dir / "hub/hub.log").read_text()
