"""Finds the objects that are lost when the objects of an installation are deleted.

CRDs of this program ──list──▶ find_losses() ──▶ Loss per kind: the deletion of a CRD deletes all of its objects
manager's namespace  ──list──▶ find_foreign_objects() ──▶ Loss per kind: the objects that are deleted with the namespace

Garbage collection also deletes the objects that the deleted objects own, such as pods. Read-only.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from pykruise.kinds import build_crds
from pykruise.kube.client.client import Client
from pykruise.kube.errors import NotFoundError
from pykruise.kube.resources import (
    CONFIG_MAPS,
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)

IGNORED = frozenset({"nodeimages", "nodepodprobes"})
"""Kinds of which a controller creates one object for each node: nothing is lost with these objects."""

FOREIGN: Final = (
    *(DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS, JOBS, CRON_JOBS, PODS),
    *(SERVICES, CONFIG_MAPS, SECRETS, PERSISTENT_VOLUME_CLAIMS),
)
"""Kinds that are searched for objects of other programs in the manager's namespace."""
_OWN: Final = "kruise-"
"""Prefix of the names of all objects that an installation has in its namespace."""
_OF_CLUSTER: Final = frozenset({"kube-root-ca.crt", "openshift-service-ca.crt"})
"""ConfigMaps that the cluster creates in each namespace."""
_SECRETS_OF_TOOLS: Final = frozenset(
    {"helm.sh/release.v1", "kubernetes.io/service-account-token", "kubernetes.io/dockercfg"}
)
"""Types of the Secrets that the cluster or Helm creates for a namespace or a release."""


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """Objects of one kind that would be deleted."""

    resource: Resource
    objects: tuple[str, ...]
    """`namespace/name`, sorted."""


class _Meta(msgspec.Struct):
    name: str
    namespace: str = ""
    owners: list[msgspec.Raw] | None = msgspec.field(default=None, name="ownerReferences")


class _Object(msgspec.Struct):
    metadata: _Meta
    type: str = ""


_decode = msgspec.json.Decoder(_Object).decode


async def find_losses(client: Client) -> Sequence[Loss]:
    """Return the kinds that have objects. Raises ApiError when objects cannot be listed: losses are then unknown."""
    losses: list[Loss] = []
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
        losses += _build_losses(resource, map(_decode, listed.items))
    return losses


async def find_foreign_objects(client: Client, namespace: str) -> Sequence[Loss]:
    """Return the objects in the manager's namespace that pykruise did not install and that no other object owns.

    Raises ApiError when objects cannot be listed: losses are then unknown.
    """
    losses: list[Loss] = []
    for resource in FOREIGN:
        listed = await client.list(resource, namespace)
        losses += _build_losses(resource, filter(_is_foreign, map(_decode, listed.items)))
    return losses


def _is_foreign(item: _Object) -> bool:
    meta = item.metadata
    is_ours = meta.name.startswith(_OWN) or meta.name in _OF_CLUSTER or item.type in _SECRETS_OF_TOOLS
    return not (is_ours or meta.owners)


def _build_losses(resource: Resource, items: Iterable[_Object]) -> Sequence[Loss]:
    """Return one loss; nothing if there are no objects."""
    names = sorted(f"{item.metadata.namespace}/{item.metadata.name}".lstrip("/") for item in items)
    return [Loss(resource=resource, objects=tuple(names))] if names else []
