"""Losses of a cluster without OpenKruise's kinds: every object of theirs, and every pod that is deleted with it.

CRDs of this program ──list──▶ what_would_be_lost() ──▶ Loss per kind

Removing a CRD removes its objects, and garbage collection removes what they own. Read-only.
"""

from collections.abc import Sequence

import msgspec

from pykruise.kinds import crds
from pykruise.kube.client.client import Client
from pykruise.kube.errors import NotFoundError
from pykruise.kube.resources import Resource

IGNORED = frozenset({"nodeimages", "nodepodprobes"})
"""Made by controllers for each node or pod: nothing is lost with them."""


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """Objects of one kind that would go."""

    resource: Resource
    objects: tuple[str, ...]
    """`namespace/name`, sorted."""


class _Meta(msgspec.Struct):
    name: str
    namespace: str = ""


class _Object(msgspec.Struct):
    metadata: _Meta


_decode = msgspec.json.Decoder(_Object).decode


async def what_would_be_lost(client: Client) -> Sequence[Loss]:
    """Kinds that have objects. Raises ApiError where they cannot be listed: then nothing can be promised."""
    losses = []
    for crd in crds():
        spec = crd["spec"]
        if spec["names"]["plural"] in IGNORED:
            continue
        stored = next(version["name"] for version in spec["versions"] if version["storage"])
        names = spec["names"]
        resource = Resource(
            spec["group"], stored, names["plural"], names["kind"], namespaced=spec["scope"] == "Namespaced"
        )
        try:
            listed = await client.list(resource)
        except NotFoundError:
            continue  # the kind is not installed, or in no such version: there is nothing to lose
        metas = [_decode(raw).metadata for raw in listed.items]
        if metas:
            objects = sorted(f"{meta.namespace}/{meta.name}".lstrip("/") for meta in metas)
            losses.append(Loss(resource=resource, objects=tuple(objects)))
    return losses
