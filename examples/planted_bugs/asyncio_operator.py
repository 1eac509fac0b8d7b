"""A loop over kubernetes_asyncio's Watch: each EphemeralVolumeClaim gets a number of its own, its slot on the storage.

python asyncio_operator.py kubeconfig      until Ctrl-C
"""

import asyncio
import itertools
import json
import sys
from typing import Any

from kubernetes_asyncio import client, config, watch

CLAIMS = ("kopf.dev", "v1", "default", "ephemeralvolumeclaims")


async def main(kubeconfig: str, *, has_bug: bool = False) -> None:
    """Run until it is cancelled, or until a request fails: Kubernetes restarts a container that ends."""
    async with await config.new_client_from_config(kubeconfig) as api, watch.Watch() as watching:
        claims, core = client.CustomObjectsApi(api), client.CoreV1Api(api)
        seen: dict[str, Any] = {}
        async for event in watching.stream(claims.list_namespaced_custom_object, *CLAIMS):
            claim = event["object"]
            name = claim["metadata"]["name"]
            seen[name] = claim
            if event["type"] == "DELETED":
                del seen[name]
            elif "slot" not in claim.get("status", {}):
                slot = free_slot(seen) if has_bug else await take_slot(core, claim)
                await claims.patch_namespaced_custom_object_status(
                    *CLAIMS, name, {"status": {"slot": slot}}, _content_type="application/merge-patch+json"
                )


def free_slot(seen: dict[str, Any]) -> int:
    """The lowest number that no claim has. The bug: events of this program's own writes may still be on their way."""
    taken = {claim.get("status", {}).get("slot") for claim in seen.values()}
    return next(slot for slot in itertools.count() if slot not in taken)


async def take_slot(core: client.CoreV1Api, claim: Any) -> int:
    """The correction: each slot has a ConfigMap, and the slot belongs to the claim that owns this ConfigMap."""
    owner = {"apiVersion": claim["apiVersion"], "kind": claim["kind"], "controller": True}
    owner |= {"name": claim["metadata"]["name"], "uid": claim["metadata"]["uid"]}
    for slot in itertools.count():
        name = f"slot-{slot}"
        try:
            body = {"metadata": {"name": name, "ownerReferences": [owner]}}
            await core.create_namespaced_config_map("default", body)
        except client.ApiException as error:
            if json.loads(error.body or "{}").get("reason") != "AlreadyExists":
                raise
            stored = await core.read_namespaced_config_map(name, "default")
            if stored.metadata.owner_references[0].uid != owner["uid"]:
                continue
        return slot
    raise AssertionError


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
