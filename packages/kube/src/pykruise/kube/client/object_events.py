"""Events about one object.

uid ──▶ list_events_about() ──▶ documents, oldest first
"""

from pykruise.kube.client.client import Client
from pykruise.kube.documents import Document, decode
from pykruise.kube.resources import EVENTS

__all__ = ["last_time_of", "list_events_about"]


async def list_events_about(client: Client, uid: str, *, namespace: str) -> list[Document]:
    """Return the core/v1 events about the object with this UID, oldest first.

    `namespace`: of the object; empty for a cluster-scoped object, whose events are in `default`. Raises KubeError.
    """
    listed = await client.list(EVENTS, namespace or "default", field_selector=f"involvedObject.uid={uid}")
    return sorted(map(decode, listed.items), key=last_time_of)


def last_time_of(event: Document) -> str:
    """Return the time at which the event was last recorded; empty: the event has no time."""
    series = event.get("series") or {}
    return str(event.get("lastTimestamp") or series.get("lastObservedTime") or event.get("eventTime") or "")
