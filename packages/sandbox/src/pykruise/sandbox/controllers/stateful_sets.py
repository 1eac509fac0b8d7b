"""StatefulSets: pods with names and volumes of their own, in order.

StatefulSet + pods + ControllerRevisions ──▶ stateful_set_plans ──▶ POST claims and pods, DELETE, PATCH status
"""

from pykruise.kube.documents import get_path
from pykruise.kube.errors import AlreadyExistsError, ApiError, ConflictError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS
from pykruise.runtime.objects import DocumentView
from pykruise.runtime.views import BY_CONTROLLER
from pykruise.sandbox.controllers.base import Loop, Shared, at_once, claim, slow_start
from pykruise.sandbox.controllers.revisions import REVISION_LABEL, Revisions, template_of
from pykruise.sandbox.controllers.stateful_set_plans import (
    Step,
    claims_of,
    next_step,
    ordinal_of,
    pod_of,
    stateful_set_status,
)
from pykruise.sandbox.pod_view import PodView

__all__ = ["StatefulSets"]


class StatefulSets(Loop):
    """Keeps the pods of every StatefulSet."""

    name = "statefulsets"
    component = "statefulset-controller"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.cache = self.watch(STATEFUL_SETS)
        self.claims = shared.cache(PERSISTENT_VOLUME_CLAIMS)
        self.revisions = Revisions(shared, STATEFUL_SETS)
        self.watch_pods_of(self.cache)

    async def sync(self, key: Key) -> float | None:
        owner = self.cache.get(key)
        if owner is None:
            return None
        pods = self.shared.pods
        orphans = pods.by_index("orphans", owner.namespace)
        await claim(
            self.shared,
            STATEFUL_SETS,
            owner,
            PODS,
            pods.by_index(BY_CONTROLLER, owner.uid),
            [pod for pod in orphans if ordinal_of(owner, pod.name) is not None],
        )
        if owner.is_deleting and not self.revisions.of(owner):
            return None  # orphaned with its pods: another would not be theirs
        update = await self.revisions.sync(owner, owner.count("status", "collisionCount"))
        if update is None:
            status = {**owner.status, "collisionCount": owner.count("status", "collisionCount") + 1}
            await self.shared.patch_status(STATEFUL_SETS, owner, status)
            return 0.0
        current = owner.status.get("currentRevision") or update.name
        if all(one.name != current for one in self.revisions.of(owner)):
            current = update.name
        step = next_step(owner, self._pods(owner), current=current, update=update.name, now=self.clock())
        await self._carry_out(owner, step)
        now = self.clock()
        status = stateful_set_status(owner, self._pods(owner), current=current, update=update.name, now=now)
        try:
            await self.shared.patch_status(STATEFUL_SETS, owner, status)
        except NotFoundError:
            return None
        await self._truncate(owner, status["currentRevision"], update.name)
        return None if step.look_at is None else max(0.0, step.look_at - now)

    def _pods(self, owner: DocumentView) -> dict[int, PodView]:
        found = {}
        for pod in self.shared.pods.by_index(BY_CONTROLLER, owner.uid):
            ordinal = ordinal_of(owner, pod.name)
            if ordinal is not None:
                found[ordinal] = pod
        return found

    async def _carry_out(self, owner: DocumentView, step: Step) -> None:
        await at_once(self._delete(owner, pod) for pod in step.delete)
        await at_once(self._condemn(owner, pod) for pod in step.condemned)
        await slow_start(
            [
                lambda ordinal=ordinal, revision=revision: self._create(owner, ordinal, revision)  # type: ignore[misc]
                for ordinal, revision in step.create
            ]
        )

    async def _create(self, owner: DocumentView, ordinal: int, revision: str) -> None:
        kept = next(one for one in self.revisions.of(owner) if one.name == revision)
        name = f"{owner.name}-{ordinal}"
        try:
            for doc in claims_of(owner, ordinal):
                await self._create_claim(owner, doc, name)
            pod = pod_of(owner, template_of(kept), ordinal, revision)
            await self.writer.create(PODS, owner.namespace, pod)
        except AlreadyExistsError:
            raise  # somebody else's pod has the name: tried again, with backoff
        except ApiError as err:
            text = f"create Pod {name} in StatefulSet {owner.name} failed error: {err}"
            self.tell(STATEFUL_SETS, owner, "FailedCreate", text, warning=True)
            raise
        text = f"create Pod {name} in StatefulSet {owner.name} successful"
        self.tell(STATEFUL_SETS, owner, "SuccessfulCreate", text)

    async def _create_claim(self, owner: DocumentView, doc: dict[str, object], pod: str) -> None:
        metadata = doc["metadata"]
        assert isinstance(metadata, dict)
        if self.claims.get(Key(owner.namespace, metadata["name"])) is not None:
            return
        try:
            await self.writer.create(PERSISTENT_VOLUME_CLAIMS, owner.namespace, doc)
        except AlreadyExistsError:
            return
        text = f"create Claim {metadata['name']} Pod {pod} in StatefulSet {owner.name} success"
        self.tell(STATEFUL_SETS, owner, "SuccessfulCreate", text)

    async def _condemn(self, owner: DocumentView, pod: PodView) -> None:
        """Delete a pod beyond the set's size, its claims with it if the set says so."""
        if get_path(owner.spec, "persistentVolumeClaimRetentionPolicy", "whenScaled") == "Delete":
            ordinal = ordinal_of(owner, pod.name)
            assert ordinal is not None
            # The pod instead of the set: with both as owners it would stay as long as the set does.
            references = [
                {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid},
                {"$patch": "delete", "uid": owner.uid},
            ]
            for doc in claims_of(owner, ordinal):
                found = self.claims.get(Key(owner.namespace, doc["metadata"]["name"]))
                if found is not None:
                    patch = {"metadata": {"uid": found.uid, "ownerReferences": references}}
                    await self.writer.patch(
                        PERSISTENT_VOLUME_CLAIMS,
                        found.key,
                        patch,
                        patch_type=PatchType.STRATEGIC,
                        uid=found.uid,
                    )
        await self._delete(owner, pod)

    async def _delete(self, owner: DocumentView, pod: PodView) -> None:
        try:
            await self.writer.delete(PODS, pod.key, uid=pod.uid)
        except (NotFoundError, ConflictError):
            return
        text = f"delete Pod {pod.name} in StatefulSet {owner.name} successful"
        self.tell(STATEFUL_SETS, owner, "SuccessfulDelete", text)

    async def _truncate(self, owner: DocumentView, current: str, update: str) -> None:
        live = {current, update}
        live |= {pod.labels.get(REVISION_LABEL, "") for pod in self._pods(owner).values()}
        limit = owner.count("spec", "revisionHistoryLimit", default=10)
        await self.revisions.truncate(owner, live, limit)
