"""A sandbox's storage with pykruise's CRDs in it, as after an installation.

Creating two dozen large CRDs costs as much as a small scenario does, and gives the same each time; so it is done
once in a process, and what was stored then is what every cluster begins with.
"""

import random

from pykruise.kinds import conversions, crds
from pykruise.kube.client import Client
from pykruise.kube.clock import Instant
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from pykruise.sandbox.apiserver import ApiServer, ConversionFunctions
from pykruise.sandbox.apiserver.crds import CRD_SHELF
from pykruise.sandbox.apiserver.storage import MemoryStorage, Stored
from pykruise.sandbox.local import LocalTransport

_kept: dict[Instant, tuple[list[tuple[str, Stored]], int]] = {}


async def storage_with_kinds(start: Instant) -> MemoryStorage:
    """A new storage with the CRDs, created at `start`, and with nothing else in it."""
    if start not in _kept:
        _kept[start] = await _created(start)
    stored, revision = _kept[start]
    return MemoryStorage.restored(stored, revision=revision)


async def _created(start: Instant) -> tuple[list[tuple[str, Stored]], int]:
    converting = ConversionFunctions(conversions())
    server = ApiServer(clock=lambda: start, rng=random.Random(1), conversions=converting)
    transport = LocalTransport(server, username="admin")
    client = Client(transport, user_agent="pykruise", rng=random.Random(2))
    for crd in crds():
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd)
    await transport.close()
    return [(CRD_SHELF, stored) for stored in server.storage.scan(CRD_SHELF).items], server.storage.revision
