"""The real control plane of testbed/ for tests: one for a whole run, where it can be had.

testbed ──▶ binaries_or_reason() once a run ──▶ running_plane(): started, the kinds installed ──▶ tests

Where it cannot be had (no Go, nothing built before) tests that need it are skipped with the reason, all under
one line; with PYKRUISE_REQUIRE_REAL=1 they fail instead.
"""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pykruise.kinds import crds
from pykruise.kube.client import Client
from pykruise.kube.config import load_kubeconfig
from pykruise.kube.documents import decode, get_path
from pykruise.kube.errors import AlreadyExistsError
from pykruise.kube.http import HttpTransport
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from testbed.build import BuildError, build
from testbed.control_plane import CONTROLLER_MANAGER, ControlPlane

MISSING = pytest.StashKey[str]()
"""Why there is no control plane; empty when there is one."""

ESTABLISHED_S = 30.0


def binaries_or_reason() -> str:
    """Build what is not built yet (minutes, the first time); why that cannot be done, else nothing."""
    try:
        build()
    except BuildError as error:
        return str(error)
    return ""


@contextmanager
def running_plane(config: pytest.Config, *, kinds: bool = False, **options: Any) -> Iterator[ControlPlane]:
    """A control plane while the block runs; `kinds`: with pykruise's CRDs. `options`: of ControlPlane.start.

    Skips (or fails, see above) where there is none. For session fixtures: it is bound to no event loop.
    """
    if reason := config.stash.get(MISSING, ""):
        if os.environ.get("PYKRUISE_REQUIRE_REAL") == "1":
            pytest.fail(f"{reason} (and PYKRUISE_REQUIRE_REAL=1)", pytrace=False)
        pytest.skip(reason)
    plane = asyncio.run(ControlPlane.start(**options))
    try:
        if kinds:
            asyncio.run(install_kinds(plane))
        yield plane
    finally:
        asyncio.run(plane.stop())


async def install_kinds(plane: ControlPlane) -> None:
    """Create pykruise's CRDs, and wait until every component knows them."""
    transport = HttpTransport(load_kubeconfig(plane.kubeconfig))
    try:
        client = Client(transport)
        for crd in crds():
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
