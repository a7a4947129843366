"""The connection to a cluster's API: its address and the credentials, found as by ``kubectl`` and pods."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import yaml
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config

from springtide.scheduler.kube.errors import CONFIGURATION, ApiError, error_of

USER_AGENT = "springtide"
UNAUTHORIZED = 401
AUTH_SETTINGS = ["BearerToken"]
"""Name under which the package keeps the token of a configuration."""
OPEN_TIMEOUT = 30.0
"""Time for a WebSocket to open, in seconds."""
TLS_SHUTDOWN = 0.05
"""Time for connections to end TLS before the event loop may stop, in seconds."""

_UNREADABLE = (ConfigException, OSError, ValueError, TypeError, LookupError, AttributeError, yaml.YAMLError)
"""Exceptions of the package for a missing or malformed configuration."""


class _StrippedConfiguration(Configuration):
    """A configuration whose token may come from a file that ends with a newline, which no header may contain."""

    async def get_api_key_with_prefix(self, identifier: str, alias: str | None = None) -> str | None:
        key = await super().get_api_key_with_prefix(identifier, alias)
        return None if key is None else key.strip()


class Connection:
    """The package's ``ApiClient``, for requests whose answers are read as bytes.

    The file ``kubeconfig`` configures it, or the service account of this process's pod if that is None. Nothing is
    read or connected before the first request. The pool of connections has no limit: watches hold theirs for long,
    and `Api` limits the other requests.
    """

    def __init__(self, kubeconfig: Path | None) -> None:
        self._kubeconfig = kubeconfig
        self._client: ApiClient | None = None
        self._loading = asyncio.Lock()

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: object = None,
        timeout: float,  # noqa: ASYNC109 - of the whole request, its body included, which the caller reads
    ) -> aiohttp.ClientResponse:
        """Send a request and return the answer, whose body the caller reads within ``timeout`` seconds.

        After a 401 the credentials are loaded again and the request is sent once more. Raises `ApiError` with
        status 0 if there is no answer, or no usable configuration at the first request, and with status 401 if the
        credentials cannot be loaded again; other errors are answers.
        """
        client = await self._open()
        used = client.configuration
        request = _Request(method, path, tuple(query.items()), headers, body, timeout)
        answer = await _send(client, request)
        if answer.status == UNAUTHORIZED:
            answer.release()
            await self._renew(client, used)
            answer = await _send(client, request)
        return answer

    async def open_websocket(
        self, path: str, *, query: Sequence[tuple[str, str]], protocol: str
    ) -> aiohttp.ClientWebSocketResponse:
        """Open a WebSocket with this subprotocol; raises `ApiError` as `send` does, and for other answers."""
        client = await self._open()
        used = client.configuration
        request = _Request("GET", path, query, {"Sec-WebSocket-Protocol": protocol})
        try:
            return await _upgrade(client, request)
        except ApiError as error:
            if error.status != UNAUTHORIZED:
                raise
        await self._renew(client, used)
        return await _upgrade(client, request)

    async def close(self) -> None:
        """Close all connections; the next request opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()  # type: ignore[no-untyped-call]
            await asyncio.sleep(TLS_SHUTDOWN)

    async def _open(self) -> ApiClient:
        if self._client is not None:
            return self._client
        async with self._loading:
            if self._client is None:
                try:
                    self._client = ApiClient(await self._load())
                except _UNREADABLE as error:
                    source = self._kubeconfig or "the environment of a pod"
                    message = f"The cluster cannot be found from {source}: {error}"
                    raise ApiError(0, CONFIGURATION, message) from error
                self._client.user_agent = USER_AGENT
            return self._client

    async def _renew(self, client: ApiClient, refused: Configuration) -> None:
        """Load the credentials again, unless another refused request has done it meanwhile."""
        async with self._loading:
            if client.configuration is refused:
                try:
                    client.configuration = await self._load()
                except _UNREADABLE as error:
                    raise _no_credentials(error) from error

    async def _load(self) -> Configuration:
        configuration = _StrippedConfiguration(
            connection_pool_maxsize=0,
            # True makes aiohttp read ~/.netrc before each request; proxies are taken from the kubeconfig file.
            client_session_kwargs={"trust_env": False},
        )
        # The certificate authorities of clusters often lack key identifiers.
        configuration.disable_strict_ssl_verification = True
        if self._kubeconfig is None:
            load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        else:
            await load_kube_config(  # type: ignore[no-untyped-call]
                config_file=str(self._kubeconfig), client_configuration=configuration, persist_config=False
            )
        return configuration


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    path: str
    query: Sequence[tuple[str, str]]
    headers: Mapping[str, str]
    body: object = None
    timeout: float = OPEN_TIMEOUT


async def _serialized(client: ApiClient, request: _Request) -> tuple[str, dict[str, str]]:
    """Return the address and the headers of a request, with the credentials."""
    try:
        _, url, headers, _, _ = await client.param_serialize(
            request.method,
            request.path,
            query_params=[(name, value) for name, value in request.query if value],
            header_params=dict(request.headers),
            auth_settings=AUTH_SETTINGS,
        )
    except (ConfigException, OSError) as error:  # a service account's token is read again once a minute
        raise _no_credentials(error) from error
    return url, headers


async def _upgrade(client: ApiClient, request: _Request) -> aiohttp.ClientWebSocketResponse:
    url, headers = await _serialized(client, request)
    rest = client.rest_client
    if rest.pool_manager is None:
        rest.pool_manager = rest._create_pool_manager()  # noqa: SLF001 - as the package's own stream module does
    try:
        async with asyncio.timeout(request.timeout):
            return await rest.pool_manager.ws_connect(
                url, headers=headers, proxy=rest.proxy, proxy_headers=rest.proxy_headers
            )
    except aiohttp.WSServerHandshakeError as error:
        raise error_of(error.status, b"", error.headers or {}) from error
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise no_answer(error) from error


async def _send(client: ApiClient, request: _Request) -> aiohttp.ClientResponse:
    url, headers = await _serialized(client, request)
    try:
        answer = await client.call_api(
            request.method, url, headers, request.body, _request_timeout=request.timeout
        )
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise no_answer(error) from error
    response: aiohttp.ClientResponse = answer.response
    return response


def _no_credentials(error: Exception) -> ApiError:
    return ApiError(UNAUTHORIZED, "Unauthorized", f"The credentials for the cluster cannot be loaded: {error}")


def no_answer(error: Exception) -> ApiError:
    """Return the error of a request without an answer, sent or not."""
    if isinstance(error, TimeoutError):
        return ApiError(0, "Timeout", "The cluster's API did not answer in time.")
    return ApiError(0, "Unreachable", f"The cluster's API cannot be reached: {error or type(error).__name__}.")
