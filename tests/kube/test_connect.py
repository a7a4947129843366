"""Configuration and credentials of the client, against a server that records what it is sent."""

from __future__ import annotations

import asyncio
import ssl
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Self

import pytest
import yaml
from aiohttp import web
from clusters.certificates import write_server_certificate
from patience import PATIENCE_S

from springtide.scheduler.kube import NAMESPACES, Api, ApiError, Lease, connect


class Server:
    """An API with one empty list. It accepts the ``tokens`` that a test sets, and records the headers it gets."""

    def __init__(self) -> None:
        self.tokens = {"valid"}
        self.headers: list[dict[str, str]] = []

    async def start(self, tls: ssl.SSLContext | None = None) -> Self:
        app = web.Application()
        app.router.add_get("/api/v1/namespaces", self._list)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=tls).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def stop(self) -> None:
        await self._runner.cleanup()

    @property
    def sent_tokens(self) -> list[str]:
        return [headers.get("Authorization", "").partition(" ")[2] for headers in self.headers]

    async def _list(self, request: web.Request) -> web.Response:
        self.headers.append(dict(request.headers))
        await asyncio.sleep(0.01)
        if request.headers.get("Authorization", "").partition(" ")[2] not in self.tokens:
            status = {"kind": "Status", "code": 401, "reason": "Unauthorized", "message": "who is it?"}
            return web.json_response(status, status=401)
        return web.json_response({"metadata": {"resourceVersion": "7"}, "items": []})


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = await Server().start()
    yield server
    await server.stop()


def write_kubeconfig(path: Path, server: Server, user: dict[str, Any]) -> Path:
    path.write_text(
        yaml.safe_dump(
            {
                "current-context": "here",
                "contexts": [{"name": "here", "context": {"cluster": "cluster", "user": "me"}}],
                "clusters": [{"name": "cluster", "cluster": {"server": f"http://127.0.0.1:{server.port}"}}],
                "users": [{"name": "me", "user": user}],
            }
        )
    )
    return path


def write_exec_plugin(path: Path, token: Path, runs: Path) -> dict[str, Any]:
    """Write a credential plugin that prints the token of a file and counts how often it runs."""
    path.write_text(
        f"#!/bin/sh\necho run >> {runs}\n"
        'printf \'{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", '
        f'"status": {{"token": "%s"}}}}\' "$(cat {token})"\n'
    )
    path.chmod(stat.S_IRWXU)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(path)}}


async def namespaces(api: Api) -> str:
    """Ask for the namespaces, and return the resource version of the list."""
    try:
        return (await api.list(NAMESPACES))[1]
    finally:
        await api.close()


async def test_a_token_file_may_end_with_a_newline(server: Server, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("valid\n")
    kubeconfig = write_kubeconfig(tmp_path / "config", server, {"tokenFile": "token"})
    assert await namespaces(connect(kubeconfig)) == "7"
    assert server.headers[0]["User-Agent"] == "springtide"


async def test_a_refused_token_is_read_again_and_the_request_is_sent_once_more(
    server: Server, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("valid")
    api = connect(write_kubeconfig(tmp_path / "config", server, {"tokenFile": str(token)}))
    await api.list(NAMESPACES)
    server.tokens = {"rotated"}
    token.write_text("rotated")
    assert await namespaces(api) == "7"
    assert server.sent_tokens == ["valid", "valid", "rotated"]


async def test_many_requests_that_are_refused_at_once_load_the_credentials_once(
    server: Server, tmp_path: Path
) -> None:
    token, runs = tmp_path / "token", tmp_path / "runs"
    token.write_text("valid")
    plugin = write_exec_plugin(tmp_path / "plugin", token, runs)
    api = connect(write_kubeconfig(tmp_path / "config", server, plugin))
    await api.list(NAMESPACES)
    server.tokens = {"rotated"}
    token.write_text("rotated")
    await asyncio.gather(*(api.list(NAMESPACES) for _ in range(8)))
    await api.close()
    assert runs.read_text().split() == ["run", "run"]
    assert server.sent_tokens.count("rotated") == 8


async def test_a_token_that_stays_refused_is_told_as_the_server_tells_it(server: Server, tmp_path: Path) -> None:
    kubeconfig = write_kubeconfig(tmp_path / "config", server, {"token": "stolen"})
    with pytest.raises(ApiError, match="who is it") as refused:
        await namespaces(connect(kubeconfig))
    assert (refused.value.status, refused.value.reason) == (401, "Unauthorized")
    assert len(server.headers) == 2


async def test_passwords_of_the_machine_for_the_same_host_are_left_alone(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password other\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    kubeconfig = write_kubeconfig(tmp_path / "config", server, {"token": "valid"})
    assert await namespaces(connect(kubeconfig)) == "7"


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "not: [yaml",
        "a sentence",
        "- a list",
        "current-context: here\ncontexts: 3\nclusters: []\n",
        "current-context: here\ncontexts: [{name: here, context: {cluster: none}}]\nclusters: []\n",
    ],
)
async def test_a_kubeconfig_that_cannot_be_used_is_named_in_the_error(tmp_path: Path, text: str | None) -> None:
    kubeconfig = tmp_path / "config"
    if text is not None:
        kubeconfig.write_text(text)
    with pytest.raises(ApiError, match=f"cannot be found from {kubeconfig}") as unusable:
        await namespaces(connect(kubeconfig))
    assert (unusable.value.status, unusable.value.reason, unusable.value.transient) == (0, "Configuration", False)


async def test_a_service_without_a_usable_configuration_does_not_wait_for_a_lease(tmp_path: Path) -> None:
    lease = Lease(connect(tmp_path / "missing"), "lab", "springtide", "me")
    with pytest.raises(ApiError, match="cannot be found"):
        async with asyncio.timeout(PATIENCE_S):
            await lease.acquire()


async def test_a_certificate_authority_that_is_no_certificate_is_a_wrong_configuration(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("no certificate")
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(
        "current-context: here\ncontexts: [{name: here, context: {cluster: c, user: u}}]\n"
        "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1', certificate-authority: ca}}]\n"
        "users: [{name: u, user: {token: valid}}]\n"
    )
    with pytest.raises(ApiError, match="cannot be found") as unusable:
        await namespaces(connect(kubeconfig))
    assert unusable.value.reason == "Configuration"


async def test_nobody_at_the_address_is_an_api_that_cannot_be_reached(server: Server, tmp_path: Path) -> None:
    kubeconfig = write_kubeconfig(tmp_path / "config", server, {"token": "valid"})
    await server.stop()
    with pytest.raises(ApiError, match="cannot be reached") as away:
        await namespaces(connect(kubeconfig))
    assert (away.value.status, away.value.transient) == (0, True)


async def test_a_server_that_does_not_answer_in_time_is_told_so(server: Server, tmp_path: Path) -> None:
    kubeconfig = write_kubeconfig(tmp_path / "config", server, {"token": "valid"})
    api = connect(kubeconfig, timeout=0.001)
    with pytest.raises(ApiError, match="did not answer in time"):
        await namespaces(api)


async def test_outside_of_a_pod_the_missing_environment_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ApiError, match="environment of a pod"):
        await namespaces(connect())


async def test_a_pod_uses_its_service_account_and_reads_a_rotated_token_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key, token = (tmp_path / name for name in ("ca.crt", "key", "token"))
    write_server_certificate(certificate, key)
    token.write_text("valid\n")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    server = await Server().start(tls)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.port))
    monkeypatch.setattr("kubernetes.aio.config.incluster_config.SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr("kubernetes.aio.config.incluster_config.SERVICE_CERT_FILENAME", str(certificate))
    api = connect()
    await api.list(NAMESPACES)
    server.tokens = {"rotated"}
    token.write_text("rotated\n")
    await api.list(NAMESPACES)
    token.unlink()
    server.tokens = {"valid"}
    with pytest.raises(ApiError, match="credentials for the cluster cannot be loaded") as lost:
        await namespaces(api)
    assert lost.value.status == 401
    await server.stop()
    assert server.sent_tokens == ["valid", "valid", "rotated", "rotated"]
