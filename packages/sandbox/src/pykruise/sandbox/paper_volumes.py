"""Volumes for the claims of a real control plane, which has a binder but no provisioner.

claims cache ──▶ queue ──▶ POST persistentvolumes with a claimRef ──▶ the real controller manager binds them

Each volume is a folder below a node's /run: simulated nodes do not read it, and a real node creates it.
"""

import random

import msgspec

from pykruise.kube.cache.cache import Cache, Change
from pykruise.kube.client.client import Client
from pykruise.kube.clock import read_system_clock
from pykruise.kube.control.controller import Controller
from pykruise.kube.control.queue import WorkQueue
from pykruise.kube.documents import decode
from pykruise.kube.errors import AlreadyExistsError
from pykruise.kube.ids import Key
from pykruise.kube.program.process import run_beside
from pykruise.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES

UNPROVISIONED = "unprovisioned"
"""Prefix of the names of storage classes that have no volumes."""


class Claim(msgspec.Struct, frozen=True):
    """Fields of a claim from which its volume is created."""

    namespace: str
    name: str
    uid: str
    resource_version: int
    storage: str
    modes: list[str]
    storage_class: str


def project(raw: bytes | msgspec.Raw) -> Claim:
    """Project the bytes of a stored claim."""
    doc = decode(raw)
    meta, spec = doc["metadata"], doc["spec"]
    return Claim(
        meta["namespace"],
        meta["name"],
        meta["uid"],
        int(meta["resourceVersion"]),
        spec["resources"]["requests"]["storage"],
        spec["accessModes"],
        spec.get("storageClassName") or "",
    )


class Volumes:
    """Creates a volume for each claim of one namespace ("" means all). It works from `run()` until `stop()`."""

    def __init__(self, client: Client, namespace: str = "", *, rng: random.Random) -> None:
        self._client = client
        self._claims = Cache(
            client,
            PERSISTENT_VOLUME_CLAIMS,
            project=project,
            namespace=namespace,
            clock=read_system_clock,
            rng=rng,
        )
        self._queue: WorkQueue[Key] = WorkQueue(rng=rng)
        self._claims.subscribe(self._on_claim)
        self._controller = Controller(
            "volumes", self._create_volume, queue=self._queue, workers=8, clock=read_system_clock
        )

    async def run(self) -> None:
        """Run until `stop()`."""
        await run_beside(self._controller.run(), self._claims.run())

    async def stop(self) -> None:
        """Finish the writes in progress."""
        self._queue.close()
        await self._controller.stop()

    def _on_claim(self, change: Change[Claim]) -> None:
        if change.old is None:
            self._queue.add(change.key)

    async def _create_volume(self, key: Key) -> None:
        claim = self._claims.get(key)
        if claim is None or claim.storage_class.startswith(UNPROVISIONED):
            return
        volume = {
            "metadata": {"name": f"pv-{claim.uid}"},
            "spec": {
                "capacity": {"storage": claim.storage},
                "accessModes": claim.modes,
                "storageClassName": claim.storage_class,
                "claimRef": {
                    "kind": "PersistentVolumeClaim",
                    "namespace": claim.namespace,
                    "name": claim.name,
                    "uid": claim.uid,
                },
                "hostPath": {"path": f"/run/volumes/{claim.uid}", "type": "DirectoryOrCreate"},
            },
        }
        try:
            await self._client.create(PERSISTENT_VOLUMES, "", volume)
        except AlreadyExistsError:
            return
