"""Image pulls in advance of an update: the writes that are needed now.

update revision + jobs + facts of a kind ──▶ plan_image_pulls() ──▶ stages: new jobs, and a label of the revision

Pure; used by every kind. The decision is made once per revision and stored as a label of the revision. Image pulls must
not delay an update. So the stages are optional: if a write fails, this is reported, and the plan continues.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.resources import CONTROLLER_REVISIONS
from pykruise.kube.values.counts import format_count
from pykruise.plans.in_place import Differences
from pykruise.plans.pod_writes import stage_of
from pykruise.plans.purposes import Purpose
from pykruise.pods.images.pull_jobs import (
    IMAGE_PULL_JOBS,
    PullJobView,
    PullSettings,
    find_changed_images,
    find_changed_volume_images,
    pull_jobs,
)
from pykruise.pods.in_place import NotInPlace
from pykruise.pods.view import keys
from pykruise.pods.workload.revisions import RevisionView
from pykruise.runtime.actions import Create, delete_object, patch_object
from pykruise.runtime.plan import Chain, Note, Stage, Step

FEWEST_REPLICAS: Final = 4
"""Minimum number of replicas. With fewer replicas, a rollout is complete before a job has begun."""


class PreDownload(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about the rollout to `revision` that a kind provides."""

    revision: RevisionView
    is_rolling: bool
    """Whether pods must still be updated to the revision. Otherwise its jobs are deleted."""
    is_due: bool
    """Whether enough updated pods are ready to start the pulls."""
    not_needed: Callable[[], str]
    """Returns why this revision needs no jobs; empty if it needs them. It is called once per revision."""
    over_too_soon: str
    """Reason why images cannot be pulled in time, even if pods are recreated; empty if they can."""
    replaced: Callable[[], Sequence[Mapping[str, Any]]]
    """Returns the templates of existing pods. Images of these templates are not pulled."""
    selector: msgspec.Struct
    """`spec.selector` of the workload."""
    owner: Document
    """Owner reference of the jobs."""
    settings: PullSettings
    warns: bool = False
    """Whether the event about a job that cannot be created has type Warning. OpenKruise records an event of type
    Normal.
    """


def plan_image_pulls(wanted: PreDownload, *, owned: Sequence[PullJobView]) -> tuple[Stage, ...]:
    """Return the stages that are needed now. `owned`: ImagePullJobs that the workload controls."""
    if not wanted.is_rolling:
        return _build_optional_stages(_delete_chain(job) for job in owned if not job.is_deleting)
    labels = wanted.revision.labels
    decided = keys.PRE_DOWNLOAD_CREATED_LABEL in labels or keys.PRE_DOWNLOAD_IGNORED_LABEL in labels
    if decided or not wanted.is_due or not wanted.revision.uid:
        return ()
    images = _find_volume_images(wanted)
    if not_needed := wanted.not_needed():
        # Images of image volumes (such as models) take minutes to pull. They are pulled even for recreated pods, which
        # usually get the same node.
        if not images:
            return _build_optional_stages(
                [_build_label_chain(wanted.revision, keys.PRE_DOWNLOAD_IGNORED_LABEL, not_needed)]
            )
    else:
        images = {**find_changed_images(wanted.revision.template, wanted.replaced()), **images}
    present = {job.name for job in owned}
    created = [
        _create_chain(document, warns=wanted.warns)
        for document in _build_jobs(wanted, images)
        if document["metadata"]["name"] not in present
    ]
    because = "the ImagePullJobs for its images were created"
    label = _build_label_chain(wanted.revision, keys.PRE_DOWNLOAD_CREATED_LABEL, because)
    # The label is written only if all jobs were created. Otherwise a missing job would never be created.
    return *_build_optional_stages(created), *_build_optional_stages(
        [label], only_after=(Purpose.PRE_DOWNLOAD,) if created else ()
    )


def explain_too_soon(*, replicas: int, partition: int, max_unavailable: int) -> str:
    """Return why images cannot be pulled in time for an in-place update; empty if they can."""
    if replicas < FEWEST_REPLICAS:
        return f"{format_count(replicas, 'pod is', 'pods are')} updated faster than an image is pulled"
    return "all pods are updated at the same time" if partition == 0 and max_unavailable >= replicas else ""


def why_not_needed(
    over_too_soon: str, differences: Differences, current: RevisionView, *, is_in_place: bool
) -> str:
    """Return why images are not pulled for pods with the revision `current`; empty if they are pulled."""
    if not is_in_place:
        return "pods are not updated in place"
    if over_too_soon:
        return over_too_soon
    change = differences.compare_revision(current)
    return f"pods are recreated: {change.reason}" if isinstance(change, NotInPlace) else ""


def _find_volume_images(wanted: PreDownload) -> dict[str, str]:
    if wanted.over_too_soon:
        return {}
    return find_changed_volume_images(wanted.revision.template, wanted.replaced())


def _build_jobs(wanted: PreDownload, images: Mapping[str, str]) -> list[Document]:
    return pull_jobs(
        wanted.revision,
        images,
        selector=msgspec.to_builtins(wanted.selector),
        owner=wanted.owner,
        settings=wanted.settings,
    )


def _build_optional_stages(
    chains: Iterable[Chain], *, only_after: tuple[Purpose, ...] = ()
) -> tuple[Stage, ...]:
    return stage_of(Purpose.PRE_DOWNLOAD, chains, is_optional=True, only_after=only_after)


def _create_chain(document: Document, *, warns: bool) -> Chain:
    metadata = document["metadata"]
    name, image = metadata["name"], document["spec"]["image"]
    step = Step(
        action=Create(resource=IMAGE_PULL_JOBS, key=Key(metadata["namespace"], name), body=document),
        because=f"image {image} is new in this revision",
        done=Note(reason="CreatedImagePullJob", message=f"created ImagePullJob {name} for image: {image}"),
        failed=Note(
            reason="FailedCreateImagePullJob",
            message=f"failed to create ImagePullJob {name} for image {image}",
            warning=warns,
        ),
    )
    return Chain(subject=name, steps=(step,))


def _delete_chain(job: PullJobView) -> Chain:
    action = delete_object(IMAGE_PULL_JOBS, job)
    return Chain(subject=job.name, steps=(Step(action=action, because="the rollout is complete"),))


def _build_label_chain(revision: RevisionView, label: str, because: str) -> Chain:
    action = patch_object(CONTROLLER_REVISIONS, revision, {"metadata": {"labels": {label: "true"}}})
    return Chain(subject=revision.name, steps=(Step(action=action, because=because),))
