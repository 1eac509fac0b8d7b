"""Adds causes of waits that are not in the owner: the patch of a WorkloadSpread, the update strategy of a SidecarSet.

Explanation ──first pod of each wait, its WorkloadSpread or SidecarSet──▶ add_pod_origins()

This module only reads, and only when pods wait. Objects that the user may not read are ignored.
"""

from typing import Final

import msgspec

from pykruise.cli.insight.explanations import Explanation, Wait
from pykruise.cli.insight.optional_reads import find_pod_key, read_optional
from pykruise.cli.insight.sidecars.strategies import add_strategy
from pykruise.cli.insight.spreads.patches import add_patch
from pykruise.kube.client.client import Client
from pykruise.kube.resources import PODS
from pykruise.pods.reasons import Code

MOST: Final = 10
"""Maximum number of waits that are examined."""

_OF_A_CONTAINER: Final = frozenset({Code.IMAGE_PULL, Code.CONTAINER_FAILS, Code.NOT_READY})
_OF_THE_POD: Final = frozenset({Code.UNSCHEDULABLE, Code.UNBOUND_CLAIMS, Code.MOUNT_FAILS, Code.NOT_MOUNTED})


async def add_pod_origins(client: Client, explanation: Explanation) -> Explanation:
    """Return the explanation with the patches and sidecars that may be the cause of its waits."""
    waits = [
        await _with_origin(client, wait, explanation.namespace) if number < MOST else wait
        for number, wait in enumerate(explanation.waits)
    ]
    return msgspec.structs.replace(explanation, waits=tuple(waits))


async def _with_origin(client: Client, wait: Wait, namespace: str) -> Wait:
    if wait.code not in _OF_A_CONTAINER | _OF_THE_POD or not wait.pods:
        return wait
    if wait.origin:
        return await add_strategy(client, wait)
    key = find_pod_key(wait.pods[0], namespace)
    pod = None if key is None else await read_optional(client, PODS, key)
    return wait if pod is None else await add_patch(client, wait, pod)
