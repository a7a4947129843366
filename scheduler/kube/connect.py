"""How the cluster is found and how we prove who we are, as ``kubectl`` and pods do."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from pathlib import Path

from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import ConfigException, load_incluster_config, load_kube_config

from springtide.scheduler.kube.api import Api, Login
from springtide.scheduler.kube.errors import ApiError


class ConfiguredLogin(Login):
    """A login as a kubeconfig file tells it, or the pod that this runs in if ``kubeconfig`` is None."""

    def __init__(self, kubeconfig: Path | None) -> None:
        self._kubeconfig = kubeconfig
        self._configuration: Configuration | None = None
        self._lock = asyncio.Lock()

    async def load(self) -> None:
        """Read the configuration anew. Raises `ApiError` if there is none, or it is wrong."""
        async with self._lock:
            configuration = Configuration()
            try:
                if self._kubeconfig is None:
                    load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
                else:
                    await load_kube_config(
                        config_file=str(self._kubeconfig), client_configuration=configuration, persist_config=False
                    )
            except (ConfigException, OSError, ValueError, TypeError) as error:
                where = self._kubeconfig or "the environment of a pod"
                message = f"The cluster cannot be found from {where}: {error}"
                raise ApiError(0, "Configuration", message) from error
            self._configuration = configuration

    @property
    def url(self) -> str:
        return (self._loaded().host or "").rstrip("/")

    @property
    def proxy(self) -> str | None:
        return self._loaded().proxy

    @property
    def server_hostname(self) -> str | None:
        return self._loaded().tls_server_name

    def tls(self) -> ssl.SSLContext:
        configuration = self._loaded()
        context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
        if configuration.cert_file:
            context.load_cert_chain(configuration.cert_file, configuration.key_file)
        if not configuration.verify_ssl:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # clusters' own authorities often lack key identifiers
        return context

    async def headers(self) -> Mapping[str, str]:
        auth = await self._loaded().auth_settings()
        return {each["key"]: each["value"].strip() for each in auth.values() if each["in"] == "header"}

    def _loaded(self) -> Configuration:
        assert self._configuration is not None
        return self._configuration


def connect(kubeconfig: Path | None = None) -> Api:
    """A client of the cluster that the kubeconfig file names, or of the one that this pod runs in.

    Nothing is read or connected before the first request.
    """
    return Api(ConfiguredLogin(kubeconfig))
