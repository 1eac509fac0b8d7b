"""Jobs: pods that run to their end, so many times; finished jobs go when their time is over.

Job + pods ──▶ job_plans.tally(), next_step() ──▶ status (pods noted) ──▶ finalizers off ──▶ status (counted)
                                              └──▶ POST, DELETE pods

A job whose `managedBy` names another controller is left to it.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from pykruise.kube.cache import Change
from pykruise.kube.documents import Document
from pykruise.kube.errors import ApiError, ConflictError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import JOBS, PODS
from pykruise.runtime.objects import DocumentView, owner_reference_to, project_document
from pykruise.runtime.views import BY_CONTROLLER
from pykruise.sandbox.controllers.base import Loop, Shared, at_once, claim, slow_start
from pykruise.sandbox.controllers.job_plans import (
    Step,
    Tally,
    condition,
    counted,
    is_finished,
    is_indexed,
    job_status,
    next_step,
    tally,
    to_release,
)
from pykruise.sandbox.controllers.job_policies import (
    FAILURES,
    FINALIZER,
    IGNORED_FAILURES,
    INDEX,
    counts_per_index,
    failures_after,
)
from pykruise.sandbox.controllers.pods import pod_from
from pykruise.sandbox.pod_view import PodView, instant_of

__all__ = ["Jobs", "TrackedPods"]

_OWN: Final = (None, "kubernetes.io/job-controller")


class Jobs(Loop):
    """Runs every Job."""

    name = "jobs"
    component = "job-controller"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.cache = self.watch(JOBS)
        self.watch_pods_of(self.cache)

    async def sync(self, key: Key) -> float | None:
        job = self.cache.get(key)
        if job is None or job.is_deleting or job.spec.get("managedBy") not in _OWN:
            return None
        if is_finished(job):
            return await self._expire(job)
        pods = self.shared.pods
        mine = await claim(
            self.shared,
            JOBS,
            job,
            PODS,
            pods.by_index(BY_CONTROLLER, job.uid),
            pods.by_index("orphans", job.namespace),
        )
        seen = tally(job, mine)
        now = self.clock()
        step = next_step(job, mine, seen, now=now)
        error: ApiError | None = None
        await at_once(self._delete(job, pod) for pod in step.delete)
        try:
            await slow_start([lambda index=index: self._create(job, index, seen) for index in step.create])  # type: ignore[misc]
        except ApiError as err:
            error = err
        if step.create or step.delete:
            mine = list(pods.by_index(BY_CONTROLLER, job.uid))
            before, seen = seen, tally(job, mine)
            if step.failing is not None or step.succeeding is not None:
                # The indexes of pods that were cut short just now have not failed.
                seen = replace(seen, failed_indexes=before.failed_indexes)
        await self._note(job, job_status(job, seen, step, mine, now=now), seen, step)
        if error is not None:
            raise error
        return step.look_in

    async def _note(self, job: DocumentView, status: Document, seen: Tally, step: Step) -> None:
        """Write the status, then take the finalizers off the pods in it, then count them."""
        try:
            await self.shared.patch_status(JOBS, job, status)
            self._tell_suspension(job, status)
            noted = status.get("uncountedTerminatedPods") or {}
            uids = {uid for name in ("succeeded", "failed") for uid in noted.get(name) or ()}
            mine = self.shared.pods.by_index(BY_CONTROLLER, job.uid)
            await at_once(take_finalizer(self.shared, pod) for pod in to_release(mine, seen, step, status))
            current = self.cache.get(job.key)
            if current is not None and uids:
                left = self.shared.pods.by_index(BY_CONTROLLER, job.uid)
                await self.shared.patch_status(JOBS, current, counted(current, left))
        except NotFoundError:
            return
        if condition_in(status, "Complete"):
            self.tell(JOBS, job, "Completed", "Job completed")
        elif (failed := condition_in(status, "Failed")) is not None:
            self.tell(JOBS, job, failed["reason"], failed["message"], warning=True)

    def _tell_suspension(self, job: DocumentView, status: Document) -> None:
        was, is_now = (condition_in(one, "Suspended") is not None for one in (job.status, status))
        if is_now and not was:
            self.tell(JOBS, job, "Suspended", "Job suspended")
        elif was and not is_now:
            self.tell(JOBS, job, "Resumed", "Job resumed")

    async def _create(self, job: DocumentView, index: int | None, seen: Tally) -> None:
        pod = pod_from(job.spec["template"], owner=owner_reference_to(JOBS, job), prefix=f"{job.name}-")
        metadata = pod["metadata"]
        metadata["finalizers"] = [*metadata.get("finalizers", ()), FINALIZER]
        if index is not None:
            _give_index(job, pod, index)
            if counts_per_index(job):
                counted_ones, ignored = failures_after(job, seen.held.get(index))
                metadata["annotations"][FAILURES] = str(counted_ones)
                if ignored:
                    metadata["annotations"][IGNORED_FAILURES] = str(ignored)
        try:
            made = project_document(await self.writer.create(PODS, job.namespace, pod))
        except ApiError as err:
            self.tell(JOBS, job, "FailedCreate", f"Error creating: {err}", warning=True)
            raise
        self.tell(JOBS, job, "SuccessfulCreate", f"Created pod: {made.name}")

    async def _delete(self, job: DocumentView, pod: PodView) -> None:
        try:
            await self.writer.delete(PODS, pod.key, uid=pod.uid)
        except (NotFoundError, ConflictError):
            return
        self.tell(JOBS, job, "SuccessfulDelete", f"Deleted pod: {pod.name}")

    async def _expire(self, job: DocumentView) -> float | None:
        """Delete a finished job when its time is over. Rule: `ttlSecondsAfterFinished`."""
        ttl_s = job.spec.get("ttlSecondsAfterFinished")
        if ttl_s is None:
            return None
        done = condition(job, "Complete") or condition(job, "Failed")
        now = self.clock()
        left_s = instant_of((done or {}).get("lastTransitionTime"), default=now) + float(ttl_s) - now
        if left_s > 0:
            return left_s
        with suppress(NotFoundError):
            await self.writer.delete(JOBS, job.key, uid=job.uid, propagation="Foreground")
        return None


def condition_in(status: Document, kind: str) -> Document | None:
    """A condition that holds in a status."""
    return next(
        (one for one in status.get("conditions") or () if one["type"] == kind and one["status"] == "True"),
        None,
    )


def _give_index(job: DocumentView, pod: Document, index: int) -> None:
    """What a pod of an indexed job knows of its number. Rule: Kubernetes' indexed jobs."""
    assert is_indexed(job)
    metadata, spec = pod["metadata"], pod["spec"]
    metadata["generateName"] = f"{job.name}-{index}-"
    metadata.setdefault("annotations", {})[INDEX] = str(index)
    metadata.setdefault("labels", {})[INDEX] = str(index)
    spec.setdefault("hostname", f"{job.name}-{index}")
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
    variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        if all(one["name"] != variable["name"] for one in container.get("env") or ()):
            container.setdefault("env", []).append(variable)


async def take_finalizer(shared: Shared, pod: PodView) -> None:
    """Take the tracking finalizer off a pod."""
    patch = {"metadata": {"uid": pod.uid, "$deleteFromPrimitiveList/finalizers": [FINALIZER]}}
    try:
        await shared.writer.patch(PODS, pod.key, patch, patch_type=PatchType.STRATEGIC, uid=pod.uid)
    except NotFoundError:
        return


class TrackedPods(Loop):
    """Lets go the pods of jobs that are gone: nobody counts them any more."""

    name = "tracked-pods"
    component = "job-controller"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.jobs = shared.cache(JOBS)
        self.jobs.subscribe(self._on_job)
        shared.pods.subscribe(self._on_pod)

    def _on_job(self, change: Change[DocumentView]) -> None:
        view = change.new or change.old
        assert view is not None
        if change.new is None or view.is_deleting:
            self._wake(self.shared.pods.by_index(BY_CONTROLLER, view.uid))

    def _on_pod(self, change: Change[PodView]) -> None:
        if change.new is not None and FINALIZER in change.new.finalizers:
            self._wake((change.new,))

    def _wake(self, pods: Sequence[PodView]) -> None:
        for pod in pods:
            if FINALIZER in pod.finalizers:
                self.queue.add(pod.key)

    async def sync(self, key: Key) -> float | None:
        pod = self.shared.pods.get(key)
        if pod is None or FINALIZER not in pod.finalizers:
            return None
        jobs = self.jobs.by_index("uid", pod.owner_uid) if pod.owner_uid else ()
        if not jobs or jobs[0].is_deleting or (is_finished(jobs[0]) and pod.is_deleting):
            await take_finalizer(self.shared, pod)
        return None
