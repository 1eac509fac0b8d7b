"""The real control plane of testbed/ for tests: one for a whole run, with pykruise's CRDs and roles.

The manager is a ServiceAccount there (testbed/settings.py): it has exactly the permissions of
`pykruise install`. So a scenario that passes shows that the generated roles are sufficient.
"""

import asyncio
import functools
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pykruise.kinds import build_crds
from pykruise.kinds.gates import Gates
from pykruise.kube.client.client import Client
from pykruise.kube.config.connection import Connection
from pykruise.kube.config.kubeconfig import load_kubeconfig
from pykruise.kube.documents import Document, decode, get_path
from pykruise.kube.errors import AlreadyExistsError
from pykruise.kube.http.transport import HttpTransport
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, Resource
from pykruise.manager.roles import RBAC, build_roles
from testbed.control_plane import CONTROLLER_MANAGER, ControlPlane

ESTABLISHED_S = 30.0
HEAP_GROWTH = 300
"""GOGC of the API server. In scenarios it spends an eighth of its CPU on garbage collection with 100, and a third of
that with 300."""
MANAGER_NAMESPACE = "kruise-system"

GATES = Gates.of(
    ResourcesDeletionProtection=True,
    DeletionProtectionForCRDCascadingGate=True,
    InPlaceWorkloadVerticalScaling=True,
    ResourceDistributionGate=True,
    SidecarTerminator=True,
    ImagePullJobGate=True,
    PodGroups=True,
)
"""Gates that scenarios switch on and that need their own permissions."""

_ROLES = {
    kind: Resource(RBAC, "v1", f"{kind.lower()}s", kind, namespaced=not kind.startswith("Cluster"))
    for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
}


@contextmanager
def running_plane(
    *, kinds: bool = False, conversion: Mapping[str, Any] | None = None, **options: Any
) -> Iterator[ControlPlane]:
    """A control plane while the block runs; `kinds`: with pykruise's CRDs and its manager's roles.

    `options`: of ControlPlane.start.

    `conversion`: the stanza of that name for kinds with two versions.

    For session fixtures: it is bound to no event loop.
    """
    plane = asyncio.run(ControlPlane.start(**{"heap_growth": HEAP_GROWTH, **options}))
    try:
        if kinds:
            asyncio.run(install_kinds(plane, conversion))
        yield plane
    finally:
        asyncio.run(plane.stop())


@functools.cache
def connection(kubeconfig: Path) -> Connection:
    """Connection, read once for all tests: every control plane has its own file, which does not change."""
    return load_kubeconfig(kubeconfig)


async def install_kinds(plane: ControlPlane, conversion: Mapping[str, Any] | None = None) -> None:
    """Create pykruise's CRDs and its manager's roles, and wait until every component knows the kinds."""
    transport = HttpTransport(connection(plane.kubeconfig))
    try:
        client = Client(transport)
        for crd in build_crds(conversion):
            try:
                await client.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd)
            except AlreadyExistsError:
                continue
        await install_roles(client)
        async with asyncio.timeout(ESTABLISHED_S):
            for crd in build_crds():
                while not await _is_established(client, crd["metadata"]["name"]):
                    await asyncio.sleep(0.05)
    finally:
        await transport.close()
    if CONTROLLER_MANAGER in plane.components:
        # Its garbage collector looks for new kinds only every 30 s; until then owners of those kinds do not count.
        await plane.restart(CONTROLLER_MANAGER)


async def install_roles(client: Client, gates: Gates = GATES) -> None:
    """Install the roles of `pykruise install` for the manager's ServiceAccount."""
    namespace = {"metadata": {"name": MANAGER_NAMESPACE, "labels": {"control-plane": "openkruise"}}}
    with suppress(AlreadyExistsError):
        await client.create(NAMESPACES, "", namespace)
    await grant(client, build_roles(gates, namespace=MANAGER_NAMESPACE))


async def allow_election(client: Client, namespace: str) -> None:
    """Let the manager hold its Lease in another namespace, for `--leader-election-namespace`."""
    result = [
        doc for doc in build_roles(GATES, namespace=namespace) if "leader-election" in doc["metadata"]["name"]
    ]
    for doc in result:
        for subject in doc.get("subjects", ()):
            subject["namespace"] = MANAGER_NAMESPACE
    await grant(client, result)


async def grant(client: Client, documents: Iterable[Document]) -> None:
    """Create roles and bindings that do not exist."""
    for doc in documents:
        with suppress(AlreadyExistsError):
            await client.create(_ROLES[doc["kind"]], doc["metadata"].get("namespace", ""), doc)


async def _is_established(client: Client, name: str) -> bool:
    crd = decode(await client.get(CUSTOM_RESOURCE_DEFINITIONS, "", name))
    conditions = get_path(crd, "status", "conditions", default=[])
    return any(
        condition["type"] == "Established" and condition["status"] == "True" for condition in conditions
    )
