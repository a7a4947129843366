"""What a former hub has left is ended before the next one starts."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from hubs.hub_people import until
from machines.processes import is_ending, lingering

from springtide.hub_extension.local_hub import orphans


@pytest.mark.root
def test_a_service_that_was_killed_has_ended_before_the_next_one_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orphans, "LEAVE_WITHIN_S", 0.1)
    module = "http.server"
    with lingering({orphans.STATE_DIR: str(tmp_path)}, "-m", module, "0", "--bind", "127.0.0.1") as pid:
        ending = threading.Thread(target=orphans.end_orphans, args=(tmp_path, (module,)))
        ending.start()
        until("the end of the memory of the service", lambda: is_ending(pid))
        ending.join(timeout=0.3)
        assert ending.is_alive()
    ending.join()
