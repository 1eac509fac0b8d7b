"""The real control plane of testbed/ for tests: one for a whole run, with pykruise's kinds in it."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pykruise.kinds import crds
from pykruise.kube.client import Client
from pykruise.kube.config import load_kubeconfig
from pykruise.kube.documents import decode, get_path
from pykruise.kube.errors import AlreadyExistsError
from pykruise.kube.http import HttpTransport
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from testbed.control_plane import CONTROLLER_MANAGER, ControlPlane

ESTABLISHED_S = 30.0


@contextmanager
def running_plane(
    *, kinds: bool = False, conversion: Mapping[str, Any] | None = None, **options: Any
) -> Iterator[ControlPlane]:
    """A control plane while the block runs; `kinds`: with pykruise's CRDs. `options`: of ControlPlane.start.

    `conversion`: the stanza of that name for kinds with two versions.

    For session fixtures: it is bound to no event loop.
    """
    plane = asyncio.run(ControlPlane.start(**options))
    try:
        if kinds:
            asyncio.run(install_kinds(plane, conversion))
        yield plane
    finally:
        asyncio.run(plane.stop())


async def install_kinds(plane: ControlPlane, conversion: Mapping[str, Any] | None = None) -> None:
    """Create pykruise's CRDs, and wait until every component knows them."""
    transport = HttpTransport(load_kubeconfig(plane.kubeconfig))
    try:
        client = Client(transport)
        for crd in crds(conversion):
            try:
                await client.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd)
            except AlreadyExistsError:
                continue
        async with asyncio.timeout(ESTABLISHED_S):
            for crd in crds():
                while not await _is_established(client, crd["metadata"]["name"]):
                    await asyncio.sleep(0.05)
    finally:
        await transport.close()
    if CONTROLLER_MANAGER in plane.components:
        # Its garbage collector looks for new kinds only every 30 s; until then owners of those kinds do not count.
        await plane.restart(CONTROLLER_MANAGER)


async def _is_established(client: Client, name: str) -> bool:
    crd = decode(await client.get(CUSTOM_RESOURCE_DEFINITIONS, "", name))
    conditions = get_path(crd, "status", "conditions", default=[])
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)
