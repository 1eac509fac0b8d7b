"""The claim that users create, and the rules that hold for all operators of this folder."""

from pykruise.kube.documents import Document
from pykruise.kube.resources import PERSISTENT_VOLUME_CLAIMS, Resource
from pykruise.testing.simulation import SimulatedStore

CLAIMS = Resource("kopf.dev", "v1", "ephemeralvolumeclaims", "EphemeralVolumeClaim")


def claim(name: str) -> Document:
    """A claim as users create it."""
    kind = {"apiVersion": CLAIMS.api_version, "kind": CLAIMS.kind}
    return {**kind, "metadata": {"name": name}, "spec": {"size": "1G"}}


def a_claim_has_one_volume(store: SimulatedStore) -> str | None:
    """Holds after each write."""
    counts = {item["metadata"]["name"]: volumes_of(item, store) for item in store.list_objects(CLAIMS)}
    return next((f"{name} has {count} volumes" for name, count in counts.items() if count > 1), None)


def each_claim_has_a_volume(store: SimulatedStore) -> str | None:
    """Holds at rest."""
    counts = {item["metadata"]["name"]: volumes_of(item, store) for item in store.list_objects(CLAIMS)}
    return next((f"{name} has no volume" for name, count in counts.items() if not count), None)


def volumes_of(item: Document, store: SimulatedStore) -> int:
    name = item["metadata"]["name"]
    volumes = store.list_objects(PERSISTENT_VOLUME_CLAIMS, item["metadata"]["namespace"])
    return sum(volume["metadata"]["name"].partition("-")[0] == name for volume in volumes)


def no_volume_is_left(store: SimulatedStore) -> str | None:
    """Holds at rest."""
    names = {item["metadata"]["name"] for item in store.list_objects(CLAIMS)}
    left = [item["metadata"]["name"] for item in store.list_objects(PERSISTENT_VOLUME_CLAIMS)]
    return next((f"{name} is left" for name in left if name not in names), None)


def no_slot_is_given_twice(store: SimulatedStore) -> str | None:
    """Holds after each write."""
    slots = [
        item["status"]["slot"] for item in store.list_objects(CLAIMS) if "slot" in item.get("status", {})
    ]
    return f"slots {sorted(slots)}" if len(set(slots)) < len(slots) else None


def each_claim_has_a_slot(store: SimulatedStore) -> str | None:
    """Holds at rest."""
    names = [item["metadata"]["name"] for item in store.list_objects(CLAIMS) if not item.get("status")]
    return f"{names[0]} has no slot" if names else None
