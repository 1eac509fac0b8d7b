"""Losses when the CRDs of OpenKruise's kinds are deleted: all objects of the kinds, and all pods that are deleted with
these objects.

CRDs of this program ──list──▶ find_losses() ──▶ Loss per kind

The deletion of a CRD deletes all of its objects, and garbage collection deletes the objects that they own. Read-only.
"""

from collections.abc import Sequence

import msgspec

from pykruise.kinds import build_crds
from pykruise.kube.client.client import Client
from pykruise.kube.errors import NotFoundError
from pykruise.kube.resources import Resource

IGNORED = frozenset({"nodeimages", "nodepodprobes"})
"""Kinds of which a controller creates one object for each node: nothing is lost with these objects."""


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """Objects of one kind that would be deleted."""

    resource: Resource
    objects: tuple[str, ...]
    """`namespace/name`, sorted."""


class _Meta(msgspec.Struct):
    name: str
    namespace: str = ""


class _Object(msgspec.Struct):
    metadata: _Meta


_decode = msgspec.json.Decoder(_Object).decode


async def find_losses(client: Client) -> Sequence[Loss]:
    """Return the kinds that have objects. Raises ApiError when they cannot be listed, since losses are then unknown."""
    losses = []
    for crd in build_crds():
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
            continue  # the kind, or this version of it, is not installed: there is nothing to lose
        metas = [_decode(raw).metadata for raw in listed.items]
        if metas:
            objects = sorted(f"{meta.namespace}/{meta.name}".lstrip("/") for meta in metas)
            losses.append(Loss(resource=resource, objects=tuple(objects)))
    return losses
