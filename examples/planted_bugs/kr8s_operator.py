"""A loop over kr8s' `api.watch`: each EphemeralVolumeClaim gets a PersistentVolumeClaim, which is deleted with it.

python kr8s_operator.py kubeconfig      until Ctrl-C
"""

import asyncio
import sys
from typing import Any

import kr8s.asyncio
from kr8s.asyncio.objects import PersistentVolumeClaim, new_class

EphemeralVolumeClaim = new_class("EphemeralVolumeClaim", version="kopf.dev/v1", namespaced=True, asyncio=True)


async def main(kubeconfig: str, *, has_bug: bool = False) -> None:
    """Run until it is cancelled, or until a request fails: Kubernetes restarts a container that ends."""
    api = await kr8s.asyncio.api(kubeconfig=kubeconfig)
    async for event, claim in api.watch(EphemeralVolumeClaim, namespace="default"):
        volume = await volume_of(claim, api, has_owner=not has_bug)
        if event == "DELETED" and has_bug:
            await volume.delete()
        elif event != "DELETED" and not await volume.exists():
            await volume.create()


async def volume_of(claim: Any, api: Any, *, has_owner: bool) -> PersistentVolumeClaim:
    metadata = {"name": claim.name, "namespace": claim.namespace}
    if has_owner:  # garbage collection deletes the volume, also while this program does not run
        owner = {"apiVersion": "kopf.dev/v1", "kind": "EphemeralVolumeClaim", "name": claim.name}
        metadata["ownerReferences"] = [{**owner, "uid": claim.metadata.uid, "controller": True}]
    resources = {"requests": {"storage": claim.spec["size"]}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": resources}
    return await PersistentVolumeClaim({"metadata": metadata, "spec": spec}, api=api)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
