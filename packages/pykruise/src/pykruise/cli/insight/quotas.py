"""ResourceQuotas that have rejected a write, and have room for the same write now.

Explanation + the ResourceQuotas that its waits name ──▶ add_open_quotas() ──▶ Explanation

A manager repeats a rejected write after a delay. Until then, the object still shows the amounts of the last attempt.
This module only reads.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from pykruise.cli.insight.explanations import Explanation, Wait
from pykruise.cli.insight.optional_reads import read_optional
from pykruise.kube.client.client import Client
from pykruise.kube.documents import Document, get_path
from pykruise.kube.ids import Key
from pykruise.kube.resources import RESOURCE_QUOTAS
from pykruise.kube.values.quantities import parse_quantity
from pykruise.pods.reasons import Code
from pykruise.runtime.refusals import find_exceeded_quota


async def add_open_quotas(client: Client, explanation: Explanation) -> Explanation:
    """Return the explanation. If a ResourceQuota has room for a rejected write now, the remedy is to wait for the next
    attempt.
    """
    waits = [await _with_room(client, wait, explanation.namespace) for wait in explanation.waits]
    return msgspec.structs.replace(explanation, waits=tuple(waits))


async def _with_room(client: Client, wait: Wait, namespace: str) -> Wait:
    exceeded = find_exceeded_quota(wait.words) if wait.code == Code.QUOTA and namespace else None
    if exceeded is None:
        return wait
    name, requested = exceeded
    quota = await read_optional(client, RESOURCE_QUOTAS, Key(namespace, name))
    if quota is None or not _has_room(quota, requested):
        return wait
    words = f"{wait.words}; ResourceQuota {name} has room for this now"
    return msgspec.structs.replace(wait, words=words, remedy="no action is needed: the write is tried again")


def _has_room(quota: Document, requested: Mapping[str, str]) -> bool:
    """Whether the limits of the present spec allow the requested amounts in addition to the used amounts."""
    limits: Mapping[str, Any] = get_path(quota, "spec", "hard", default={})
    used: Mapping[str, Any] = get_path(quota, "status", "used", default={})
    try:
        return all(
            parse_quantity(used.get(resource, 0)) + parse_quantity(amount) <= parse_quantity(limits[resource])
            for resource, amount in requested.items()
            if resource in limits
        )
    except ValueError:
        return False
