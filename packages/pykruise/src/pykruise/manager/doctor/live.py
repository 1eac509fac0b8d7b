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
from pykruise.kube.program.flags import FlagError
from pykruise.kube.resources import DEPLOYMENTS, Resource
from pykruise.manager.flags import parse
from pykruise.manager.install import MANAGER
from pykruise.manager.settings import ManagerSettings

APPLY = "pykruise install | kubectl apply --server-side -f -"
"""Remedy for most problems."""


class Live:
    """The cluster that is examined. `namespace`: namespace of the manager. `clock`: clock of this machine."""

    def __init__(self, client: Client, *, namespace: str = "kruise-system", clock: Clock) -> None:
        self.client = client
        self.namespace = namespace
        self.clock = clock
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
        deployment = await self.read_deployment()
        containers = get_path(deployment or {}, "spec", "template", "spec", "containers", default=[])
        for container in containers:
            argv = [str(word) for word in container.get("args") or ()]
            environ = {
                variable["name"]: variable["value"]
                for variable in container.get("env") or ()
                if "value" in variable
            } | {"POD_NAMESPACE": self.namespace}
            settings = parse([word for word in argv if word != "manager"], environ=environ).settings
            return msgspec.structs.replace(settings, is_known=True)
        return parse([], environ={"POD_NAMESPACE": self.namespace}).settings

    async def read_gates(self) -> Gates:
        """Return the manager's gates; the defaults when its flags are unreadable."""
        try:
            return (await self.read_settings()).gates
        except (FlagError, GateError):
            return Gates()
