"""Whether the cluster shows new pods to webhooks, and what events say of an object.

Client ──▶ reviews_pods(), events_about() ──▶ unreviewed(), fresh_warnings(): what an explanation says of them

Reads only. What may not be read is no error here: an explanation goes without it.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from pykruise.admission.configurations import MUTATING, MUTATING_NAME
from pykruise.cli.insight.explaining import Wait
from pykruise.kube.client.client import Client
from pykruise.kube.client.transport import Request
from pykruise.kube.clock import Instant, parse_time
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import ApiError, ForbiddenError, NotFoundError
from pykruise.kube.resources import EVENTS
from pykruise.pods.reasons import Code
from pykruise.sandbox.version import SUFFIX

POD_WEBHOOK = "mpod.kb.io"
"""The webhook that new pods are shown to."""

_FRESH_S: Final = 600.0
"""An older event is no news."""


async def reviews_pods(client: Client) -> bool | None:
    """Whether API servers ask about new pods; None: that may not be read, or no configuration says it.

    `pykruise up` reviews by itself, without any configuration.
    """
    try:
        pods = decode(await client.get(MUTATING, "", MUTATING_NAME))
    except NotFoundError:
        return None if await _reviews_by_itself(client) else False
    except ApiError:
        return None
    return any(webhook.get("name") == POD_WEBHOOK for webhook in pods.get("webhooks") or ())


async def _reviews_by_itself(client: Client) -> bool:
    version = decode((await client.transport.request(Request("GET", "/version"))).body)
    return str(version.get("gitVersion") or "").endswith(f"-{SUFFIX}")


def unreviewed() -> Wait:
    """That new pods are not shown to webhooks."""
    return Wait(
        code=Code.NO_WEBHOOK,
        words=f"API servers do not ask about new pods: there is no webhook {POD_WEBHOOK}",
        remedy="pykruise install | kubectl apply --server-side -f -, then pykruise doctor",
    )


async def events_about(client: Client, namespace: str, uid: str) -> list[Document]:
    """Events about the object with this uid, oldest first; none when they may not be read."""
    try:
        listed = await client.list(EVENTS, namespace)
    except (ForbiddenError, NotFoundError):
        return []
    about = [
        event for event in map(decode, listed.items) if (event.get("involvedObject") or {}).get("uid") == uid
    ]
    return sorted(about, key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))


def fresh_warnings(
    events: Iterable[Document], reasons: Collection[str], *, now: Instant
) -> Iterator[tuple[str, str]]:
    """Reason and message of the latest event of each of these reasons that something did not work, while it is news."""
    latest = {str(event.get("reason")): event for event in events if event.get("type") == "Warning"}
    for reason in reasons:
        if reason in latest and is_fresh(latest[reason], now=now, within_s=_FRESH_S):
            yield reason, str(latest[reason].get("message") or "")


def is_fresh(event: Document, *, now: Instant, within_s: float) -> bool:
    """Whether the event was recorded in the last `within_s` seconds."""
    at = event.get("lastTimestamp") or event.get("eventTime") or event.get("firstTimestamp")
    return at is not None and parse_time(at) >= now - within_s
