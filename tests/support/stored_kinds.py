"""A sandbox's storage with pykruise's CRDs, as after an installation.

Creating two dozen large CRDs costs as much as a small scenario, and the result is always the same. So a process does
it once, and every cluster begins with the stored result.
"""

import random

import msgspec

from pykruise.kinds import GROUPS, build_crds, list_conversions
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from pykruise.sandbox.apiserver import ApiServer, ConversionFunctions
from pykruise.sandbox.apiserver.custom.crds import CRD_SHELF
from pykruise.sandbox.apiserver.objects.storage import MemoryStorage, Stored
from pykruise.sandbox.local import LocalTransport

_kept: dict[tuple[Instant, str], tuple[list[tuple[str, Stored]], int]] = {}


async def storage_with_kinds(start: Instant, *, only: str = "") -> MemoryStorage:
    """A new storage that contains only the CRDs, created at `start`.

    `only`: the only version that they serve and store, like those of a released OpenKruise (`v1alpha1`).
    """
    if (start, only) not in _kept:
        _kept[start, only] = await _created(start, only)
    stored, revision = _kept[start, only]
    return MemoryStorage.restore(stored, revision=revision)


async def _created(start: Instant, only: str) -> tuple[list[tuple[str, Stored]], int]:
    converting = ConversionFunctions(list_conversions())
    server = ApiServer(clock=lambda: start, rng=random.Random(1), conversions=converting)
    transport = LocalTransport(server, username="admin")
    client = Client(transport, user_agent="pykruise", rng=random.Random(2))
    for crd in build_crds():
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, "", with_one_version(crd, only) if only else crd)
    await transport.close()
    return [(CRD_SHELF, stored) for stored in server.storage.scan(CRD_SHELF).items], server.storage.revision


def with_one_version(crd: Document, version: str) -> Document:
    """The CRD as it was before its kind had another version. Advanced StatefulSets had two in every release."""
    if crd["spec"]["names"]["kind"] == "StatefulSet":
        return crd
    versions = [{**item, "storage": True} for item in crd["spec"]["versions"] if item["name"] == version]
    return {**crd, "spec": {**crd["spec"], "versions": versions}}


def older_version(resource: Resource) -> Resource:
    """The resource in the version that a cluster with `only="v1alpha1"` serves."""
    is_ours = resource.group in GROUPS and resource.plural != "statefulsets"
    return msgspec.structs.replace(resource, version="v1alpha1") if is_ours else resource
