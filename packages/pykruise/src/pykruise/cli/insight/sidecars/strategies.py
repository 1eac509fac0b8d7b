"""Adds the update strategy of a SidecarSet to the waits of its injected containers.

Wait ──its SidecarSet──▶ add_strategy() ──▶ Wait
"""

import msgspec

from pykruise.cli.insight.explanations import Wait
from pykruise.cli.insight.optional_reads import read_optional
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kube.client.client import Client
from pykruise.kube.documents import get_path
from pykruise.kube.ids import Key


async def add_strategy(client: Client, wait: Wait) -> Wait:
    """Return the wait of a sidecar. If its SidecarSet never updates existing pods, the remedy is to recreate them."""
    kind, _, name = wait.origin.partition(" ")
    if kind != SIDECAR_SETS.kind:
        return wait
    sidecar_set = await read_optional(client, SIDECAR_SETS, Key("", name))
    if get_path(sidecar_set or {}, "spec", "updateStrategy", "type") != "NotUpdate":
        return wait
    words = f"{wait.words}; {wait.origin} leaves existing pods alone (updateStrategy.type is NotUpdate)"
    remedy = f"{wait.remedy}; recreate the pods after a change of {wait.origin}"
    return msgspec.structs.replace(wait, words=words, remedy=remedy)
