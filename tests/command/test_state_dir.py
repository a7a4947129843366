"""The state directory: secrets that stay, ports that stay, and plain sentences."""

from __future__ import annotations

import json
import os
import re
import socket
import threading
from pathlib import Path

import pytest
from servers.ports import free_port

from springtide.hub_extension.local_hub import state_dir
from springtide.hub_extension.local_hub.state_dir import StateDir, StateError, free_ports, port_is_free


def test_a_secret_stays_the_same_and_is_the_owners_alone(tmp_path: Path) -> None:
    first = StateDir(tmp_path / "state").secret("service-token")
    assert len(first) >= 32
    assert StateDir(tmp_path / "state").secret("service-token") == first
    assert (tmp_path / "state/service-token").stat().st_mode & 0o777 == 0o600


def test_a_secret_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    (tmp_path / "service-token").write_text("abc")
    (tmp_path / "service-token").chmod(0o644)
    assert state.secret("service-token") == "abc"
    assert (tmp_path / "service-token").stat().st_mode & 0o777 == 0o600


def test_a_password_is_of_one_state_directory_and_the_owners_alone(tmp_path: Path) -> None:
    first = StateDir(tmp_path / "one").password()
    assert re.fullmatch(r"(?:[a-z2-9]{4}-){3}[a-z2-9]{4}", first)
    assert StateDir(tmp_path / "one").password() == first
    assert StateDir(tmp_path / "two").password() != first
    assert (tmp_path / "one/password").stat().st_mode & 0o777 == 0o600


def test_an_empty_password_is_refused_because_it_would_let_everybody_in(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("\n")
    with pytest.raises(StateError, match=r"password is empty\. Remove it"):
        StateDir(tmp_path).password()


def test_two_that_make_the_secret_at_once_agree(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(state.secret("service-token"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hub", "service-token"]


def test_others_can_pass_through_the_state_directory_and_not_look_around(tmp_path: Path) -> None:
    StateDir(tmp_path / "state")
    assert (tmp_path / "state").stat().st_mode & 0o077 & ~0o011 == 0
    assert (tmp_path / "state/hub").stat().st_mode & 0o077 == 0


def test_a_state_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StateError, match=r"state directory .*/file/state cannot be made: Not a directory"):
        StateDir(tmp_path / "file" / "state")


def test_ports_stay_the_same(tmp_path: Path) -> None:
    first = StateDir(tmp_path).ports(["springtide", "hub"])
    assert StateDir(tmp_path).ports(["springtide", "hub"]) == first
    assert len(set(first.values())) == 2


def test_a_further_port_leaves_the_others_as_they_are(tmp_path: Path) -> None:
    first = StateDir(tmp_path).ports(["springtide"])
    later = StateDir(tmp_path).ports(["springtide", "hub"])
    assert later["springtide"] == first["springtide"]
    assert later["hub"] != first["springtide"]


@pytest.mark.parametrize("text", ["{", "[]", '{"springtide": "x"}', "3"])
def test_a_damaged_file_of_ports_is_named_with_the_way_out(tmp_path: Path, text: str) -> None:
    (tmp_path / "ports.json").write_text(text)
    with pytest.raises(StateError, match=r"ports\.json is damaged .* Remove it"):
        StateDir(tmp_path).ports(["springtide"])


def test_ports_that_are_meant_for_others_are_left_alone(tmp_path: Path) -> None:
    [port] = free_ports(1)
    assert port not in StateDir(tmp_path).ports(["a", "b", "c"], taken=[port]).values()
    assert set(json.loads((tmp_path / "ports.json").read_text())) == {"a", "b", "c"}


def test_no_outgoing_connection_takes_a_port_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outgoing = tmp_path / "ip_local_port_range"
    monkeypatch.setattr(state_dir, "OUTGOING_PORTS", outgoing)
    outgoing.write_text("10020\t65535\n")
    assert set(free_ports(3)) < set(range(10_000, 10_020))
    with pytest.raises(StateError, match="No 21 ports"):
        free_ports(21)
    outgoing.write_text("1024\t65535\n")
    assert len(set(free_ports(21))) == 21
    outgoing.unlink()
    assert len(set(free_ports(21))) == 21


def test_a_port_in_use_is_noticed() -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        assert not port_is_free(port)
    assert port_is_free(port)


def test_the_umask_does_not_open_a_secret(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        StateDir(tmp_path).secret("service-token")
    finally:
        os.umask(before)
    assert (tmp_path / "service-token").stat().st_mode & 0o777 == 0o600
