"""The cluster as the checks read it: objects that may be missing, the API server's clock, the manager's own flags.

Read-only: its POST requests are dry runs or SubjectAccessReviews, which the API server does not store.
"""

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from pykruise.kinds.gates import GateError, Gates
from pykruise.kube.client.client import Client
from pykruise.kube.client.transport import Request
from pykruise.kube.clock import Clock, Instant
from pykruise.kube.documents import Document, decode, get_path
from pykruise.kube.errors import NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.program.flags import FlagError
from pykruise.kube.resources import DEPLOYMENTS, Resource
from pykruise.manager.flags import parse
from pykruise.manager.install import MANAGER
from pykruise.manager.settings import ManagerSettings

APPLY = "apply the output of pykruise install, with the options of your installation"
"""Remedy for most problems, if the options of the installation are not known."""


def find_manager_container(deployment: Document) -> Mapping[str, Any]:
    """Return the manager's container of the Deployment, which may have other containers too; empty if there is none."""
    containers: list[Document] = get_path(deployment, "spec", "template", "spec", "containers", default=[])
    named = [container for container in containers if container.get("name") == "manager"]
    return (named or containers or [{}])[0]


def list_arguments(container: Mapping[str, Any]) -> list[str]:
    """Return the command line of the manager: its flags."""
    return [str(word) for word in container.get("args") or () if word != "manager"]


def read_settings(
    deployment: Document, namespace: str, *, environ: Mapping[str, str] | None = None
) -> ManagerSettings:
    """Return the settings of the manager that this Deployment runs in the namespace; the defaults for an empty
    Deployment. `environ`: variables that the Deployment does not contain, but that its pods get.

    Raises FlagError or GateError for invalid flags or gates.
    """
    container = find_manager_container(deployment)
    variables = {**(environ or {}), **read_environ(container), "POD_NAMESPACE": namespace}
    settings = parse(list_arguments(container), environ=variables).settings
    return msgspec.structs.replace(settings, is_known=bool(container))


def read_environ(container: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment variables of a container that have a value in its manifest."""
    return {
        variable["name"]: variable["value"] for variable in container.get("env") or () if "value" in variable
    }


class Live:
    """The cluster that is examined. `namespace`: namespace of the manager. `clock`: clock of this machine."""

    def __init__(self, client: Client, *, namespace: str = "kruise-system", clock: Clock) -> None:
        self.client = client
        self.namespace = namespace
        self.clock = clock
        self.apply = APPLY
        """Remedy for most problems: the command that applies the manifests again (doctor/apply_command.py)."""
        self._seen: dict[tuple[Resource, str, str], Document | None] = {}

    async def get(self, resource: Resource, namespace: str, name: str) -> Document | None:
        """Return an object; None when it does not exist. Each object is requested only once."""
        key = (resource, namespace, name)
        if key not in self._seen:
            try:
                self._seen[key] = decode(await self.client.get(resource, namespace, name))
            except NotFoundError:
                self._seen[key] = None
        return self._seen[key]

    async def list(self, resource: Resource, namespace: str = "", **selectors: str) -> list[Document]:
        """List objects; empty when the resource is not served."""
        try:
            listed = await self.client.list(resource, namespace, **selectors)  # type: ignore[arg-type]  # selectors only
        except NotFoundError:
            return []
        return [decode(raw) for raw in listed.items]

    async def read_path(self, path: str) -> Mapping[str, Any]:
        """Return the response for any path, such as `/version` or discovery; empty when the path does not exist."""
        try:
            result: Mapping[str, Any] = decode(await self.client.get_path(path))
        except NotFoundError:
            return {}
        return result

    async def read_server_time(self) -> Instant | None:
        """Return the API server's time from the header Date of a response, in whole seconds. None: the response has no
        such header.
        """
        answer = await self.client.transport.request(Request("GET", "/version"))
        date = answer.headers.get("date")
        return parsedate_to_datetime(date).timestamp() if date else None

    async def read_deployment(self) -> Document | None:
        """The manager's Deployment."""
        return await self.get(DEPLOYMENTS, self.namespace, MANAGER)

    async def read_settings(self) -> ManagerSettings:
        """Return the settings of the manager in the cluster. Raises FlagError or GateError for invalid
        flags or gates.
        """
        return read_settings(await self.read_deployment() or {}, self.namespace)

    async def read_settings_or_defaults(self) -> ManagerSettings:
        """Return the settings of the manager; the defaults when its flags are invalid, which another check reports."""
        try:
            return await self.read_settings()
        except (FlagError, GateError):
            return read_settings({}, self.namespace)

    async def find_lease(self) -> Key | None:
        """Return the key of the leader's Lease; None if the manager needs no Lease."""
        settings = await self.read_settings_or_defaults()
        if not settings.election.enabled:
            return None
        # Without a Deployment, the namespace of the Lease is not known: the manager's namespace is the most probable.
        return Key(
            settings.election.namespace if settings.is_known else self.namespace, settings.election.name
        )

    async def read_gates(self) -> Gates:
        """Return the manager's gates; the defaults when its flags are unreadable."""
        return (await self.read_settings_or_defaults()).gates
