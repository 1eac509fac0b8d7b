"""Webhooks that are missing or cannot be reached, and recent events about an object.

Client ──▶ has_pod_reviews(), read_events_about()
    ──▶ make_unreviewed_wait(), list_fresh_warnings(): the lines of an explanation about them
Explanation ──add_webhook_configurations()──▶ the Explanation with the configuration of a webhook that is not reached

This module only reads. A read that is denied is not an error: the explanation leaves this part out.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

import msgspec

from pykruise.admission.configurations import MUTATING, MUTATING_NAME, VALIDATING
from pykruise.cli.insight.explanations import Explanation, Wait
from pykruise.cli.insight.optional_reads import list_optional
from pykruise.kube.client.client import Client
from pykruise.kube.client.object_events import list_events_about
from pykruise.kube.client.recorder import CODE
from pykruise.kube.client.transport import Request
from pykruise.kube.clock import Instant, parse_time
from pykruise.kube.documents import Document, annotations_of, decode
from pykruise.kube.errors import ApiError, ForbiddenError, NotFoundError
from pykruise.kube.version import SANDBOX_BUILD
from pykruise.pods.reasons import REGISTER, Code
from pykruise.runtime.refusals import explain_unreached_webhook, find_unreached_webhook

POD_WEBHOOK = "mpod.kb.io"
"""Name of the webhook that reviews new pods."""

_FRESH_S: Final = 600.0
"""Maximum age of an event, in seconds, to be shown."""


async def has_pod_reviews(client: Client) -> bool | None:
    """Return whether API servers send new pods to webhooks; None if the user may not read the configuration, or if no
    configuration exists because `pykruise up` serves the cluster.

    `pykruise up` reviews pods without any configuration.
    """
    try:
        pods = decode(await client.get(MUTATING, "", MUTATING_NAME))
    except NotFoundError:
        return None if await _is_sandbox(client) else False
    except ApiError:
        return None
    return any(webhook.get("name") == POD_WEBHOOK for webhook in pods.get("webhooks") or ())


async def _is_sandbox(client: Client) -> bool:
    version = decode((await client.transport.request(Request("GET", "/version"))).body)
    return str(version.get("gitVersion") or "").endswith(f"-{SANDBOX_BUILD}")


def make_unreviewed_wait() -> Wait:
    """Return the wait that reports a missing webhook. Without the webhook, API servers send no admission reviews of new
    pods.
    """
    return Wait(
        code=Code.NO_WEBHOOK,
        words=f"API servers do not send reviews of new pods: there is no webhook {POD_WEBHOOK}",
        remedy=REGISTER,
    )


async def add_webhook_configurations(client: Client, explanation: Explanation) -> Explanation:
    """Return the explanation, in which the remedy for an unreachable webhook names the webhook's configuration."""
    unreached: dict[str, list[str]] = {
        name: [] for wait in explanation.waits if (name := find_unreached_webhook(wait.words)) and wait.remedy
    }
    if not unreached:
        return explanation
    for resource in (VALIDATING, MUTATING):
        for document in await list_optional(client, resource):
            configuration = document["metadata"]["name"]
            for webhook in document.get("webhooks") or ():
                if webhook.get("name") in unreached:
                    named = (
                        f"{resource.kind} {configuration} (kubectl edit {resource.plural} {configuration})"
                    )
                    unreached[webhook["name"]].append(named)
    waits = tuple(
        msgspec.structs.replace(
            wait, remedy=explain_unreached_webhook(name, configuration=" or ".join(known))
        )
        if (name := find_unreached_webhook(wait.words))
        and 0 < len(known := unreached.get(name, ())) <= _MOST_CONFIGURATIONS
        else wait
        for wait in explanation.waits
    )
    return msgspec.structs.replace(explanation, waits=waits)


_MOST_CONFIGURATIONS: Final = 3
"""Maximum number of configurations that a remedy names. Webhooks of several configurations can have the same name."""


async def read_events_about(client: Client, namespace: str, uid: str) -> list[Document]:
    """Return events about the object with this UID, oldest first; empty when the user may not read them."""
    try:
        return await list_events_about(client, uid, namespace=namespace)
    except (ForbiddenError, NotFoundError):
        return []


class FreshWarning(msgspec.Struct, frozen=True):
    """A recent event of type Warning."""

    reason: str
    message: str
    code: str
    """Code of the failed write; empty if the event has none."""


def list_fresh_warnings(
    events: Iterable[Document], reasons: Collection[str], *, now: Instant
) -> Iterator[FreshWarning]:
    """Yield the latest warning for each of these reasons, when it is recent."""
    latest = {str(event.get("reason")): event for event in events if event.get("type") == "Warning"}
    for reason in reasons:
        if reason in latest and is_fresh(latest[reason], now=now, within_s=_FRESH_S):
            event = latest[reason]
            code = annotations_of(event).get(CODE, "")
            yield FreshWarning(reason, str(event.get("message") or ""), code)


def is_fresh(event: Document, *, now: Instant, within_s: float) -> bool:
    """Whether the event was recorded in the last `within_s` seconds."""
    at = event.get("lastTimestamp") or event.get("eventTime") or event.get("firstTimestamp")
    return at is not None and parse_time(at) >= now - within_s
