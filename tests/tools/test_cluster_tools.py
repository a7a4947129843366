"""The programs of the test cluster are built once, by the first process that asks, and found again."""

from __future__ import annotations

import multiprocessing
import os
import re
from pathlib import Path

import pytest
from clusters.cluster_tools import PROGRAMS, ToolsMissingError, build, tools
from patience import PATIENCE_S
from programs.commands import CommandError

# Stands in for `go build`, which takes minutes: records what it is asked for, and makes it.
GO = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
name=${2##*/.}
name=${name%-*}
echo "$name" >> "$GO_CALLS"
echo "go: downloading of $name" >&2
if [ "$name" = "$GO_FAILS_AT" ]; then echo half > "$2"; echo "$name does not compile" >&2; exit 1; fi
printf '#!/bin/sh\\n' > "$2"
chmod +x "$2"
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An empty cache, and a quick stand-in for Go."""
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text(GO)
    go.chmod(0o755)
    (tmp_path / "calls").touch()
    return {
        "PATH": f"{go.parent}:{os.environ['PATH']}",
        "SPRINGTIDE_TOOLS": str(tmp_path / "cache"),
        "GO_CALLS": str(tmp_path / "calls"),
    }


def built(environment: dict[str, str]) -> list[str]:
    return Path(environment["GO_CALLS"]).read_text().split()


def test_what_is_missing_is_built_in_order_and_found_again(environment: dict[str, str]) -> None:
    with pytest.raises(ToolsMissingError, match=r"etcd, .*kwok.*: run `make tools`"):
        tools(environment)
    directory = build(environment)
    assert built(environment) == list(PROGRAMS)
    assert tools(environment) == directory


def test_with_nothing_missing_nothing_is_done(environment: dict[str, str]) -> None:
    build(environment)
    build({**environment, "PATH": ""})
    assert len(built(environment)) == len(PROGRAMS)


def test_each_program_is_one_line_with_its_time(
    environment: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    build(environment)
    headline, *lines = capfd.readouterr().out.splitlines()
    assert headline == "Building the programs of the test cluster; once, and about 20 minutes on 2 cores:"
    assert [re.sub(r"\d+ s$", "N s", line) for line in lines] == [f"  {name} ... N s" for name in PROGRAMS]
    build(environment)
    assert capfd.readouterr() == ("", "")


def test_what_the_compiler_says_is_shown_when_it_fails(
    environment: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CommandError, match=r"go build .*exit 1\n(.*\n)*etcd does not compile"):
        build({**environment, "GO_FAILS_AT": "etcd"})
    assert capfd.readouterr().out.splitlines()[-1] == "  etcd ... failed"


def test_an_interrupted_build_goes_on_where_it_was(environment: dict[str, str]) -> None:
    broken = {**environment, "GO_FAILS_AT": "kube-scheduler"}
    with pytest.raises(CommandError):
        build(broken)
    with pytest.raises(ToolsMissingError, match="cluster's kube-scheduler, kwok, "):
        tools(environment)
    directory = build(environment)
    assert sorted(path.name for path in directory.iterdir()) == sorted(PROGRAMS)
    assert built(environment).count("etcd") == 1


def test_of_two_builds_at_once_one_waits(environment: dict[str, str]) -> None:
    fork = multiprocessing.get_context("spawn")
    builders = [fork.Process(target=build, args=(environment,)) for _ in range(2)]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join(PATIENCE_S)
    assert [builder.exitcode for builder in builders] == [0, 0]
    assert built(environment) == list(PROGRAMS)


def test_without_go_the_way_to_get_it_is_told(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clusters.cluster_tools._USUAL_GO", Path("/nowhere"))
    with pytest.raises(ToolsMissingError, match=r"Go 1\.\d+ or newer.*install it.*or set KUBEBUILDER_ASSETS"):
        build({**environment, "PATH": ""})


def test_programs_of_ones_own_are_used_and_missed_by_name(environment: dict[str, str], tmp_path: Path) -> None:
    assets = tmp_path / "assets"
    assets.mkdir()
    theirs = {**environment, "KUBEBUILDER_ASSETS": str(assets)}
    for name in PROGRAMS:
        (assets / name).touch(mode=0o755)
    assert build(theirs) == tools(theirs) == assets
    (assets / "kwok").unlink()
    with pytest.raises(ToolsMissingError, match="has no kwok: put it there, or unset KUBEBUILDER_ASSETS"):
        build(theirs)
    assert built(environment) == []


def test_for_a_cluster_of_ones_own_only_helm_is_built(environment: dict[str, str]) -> None:
    build({**environment, "KUBECONFIG": "/some/config"})
    assert built(environment) == ["helm"]
