"""Image pulls before an update: the writes that are due now.

update revision + jobs + a kind's facts ──▶ plan_image_pulls() ──▶ stages: jobs, and the label that completes them

Pure; serves every kind. The decision is made once per revision and stored as a label of the revision. Nothing here
may delay an update, so the stages are optional: a failure is reported and the plan continues.
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
"""Minimum number of replicas: with fewer, a rollout is complete before a job has begun."""


class PreDownload(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of a kind about the rollout to `revision`."""

    revision: RevisionView
    is_rolling: bool
    """Whether pods still have to be updated to the revision; otherwise its jobs are useless."""
    is_due: bool
    """Whether the number of ready updated pods has reached the threshold."""
    not_needed: Callable[[], str]
    """Returns why this revision needs no jobs; empty: it needs them. Decided once per revision."""
    over_too_soon: str
    """Reason why no image can be pulled in time, for every way of updating pods; empty: images can be pulled."""
    replaced: Callable[[], Sequence[Mapping[str, Any]]]
    """The templates that pods still have: their images are not pulled."""
    selector: msgspec.Struct
    """`spec.selector` of the workload."""
    owner: Document
    """Owner reference of the jobs."""
    settings: PullSettings
    warns: bool = False
    """Whether the event of a job that cannot be created is a warning; OpenKruise records a normal event."""


def plan_image_pulls(wanted: PreDownload, *, owned: Sequence[PullJobView]) -> tuple[Stage, ...]:
    """Return the stages that are due. `owned`: ImagePullJobs that the workload controls."""
    if not wanted.is_rolling:
        return _optional_stage(_delete_chain(job) for job in owned if not job.is_deleting)
    labels = wanted.revision.labels
    decided = keys.PRE_DOWNLOAD_CREATED_LABEL in labels or keys.PRE_DOWNLOAD_IGNORED_LABEL in labels
    if decided or not wanted.is_due or not wanted.revision.uid:
        return ()
    images = _volume_images(wanted)
    if not_needed := wanted.not_needed():
        # Models in image volumes take minutes to pull, and pods are always recreated for them, mostly on their nodes.
        if not images:
            return _optional_stage(
                [_label_chain(wanted.revision, keys.PRE_DOWNLOAD_IGNORED_LABEL, not_needed)]
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
    label = _label_chain(wanted.revision, keys.PRE_DOWNLOAD_CREATED_LABEL, because)
    # If the revision got the label although a job failed, the image would never be pulled in advance.
    return *_optional_stage(created), *_optional_stage(
        [label], only_after=(Purpose.PRE_DOWNLOAD,) if created else ()
    )


def explain_too_soon(*, replicas: int, partition: int, max_unavailable: int) -> str:
    """Return why images could not be pulled in time for an in-place update; empty: they could."""
    if replicas < FEWEST_REPLICAS:
        return f"{format_count(replicas, 'pod is', 'pods are')} updated faster than an image is pulled"
    return "all pods are updated at the same time" if partition == 0 and max_unavailable >= replicas else ""


def why_not_needed(
    over_too_soon: str, differences: Differences, current: RevisionView, *, is_in_place: bool
) -> str:
    """Return why images are not pulled for pods that are updated from this revision; empty: they are pulled."""
    if not is_in_place:
        return "pods are not updated in place"
    if over_too_soon:
        return over_too_soon
    change = differences.compare_revision(current)
    return f"pods are recreated: {change.reason}" if isinstance(change, NotInPlace) else ""


def _volume_images(wanted: PreDownload) -> dict[str, str]:
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


def _optional_stage(chains: Iterable[Chain], *, only_after: tuple[Purpose, ...] = ()) -> tuple[Stage, ...]:
    return stage_of(Purpose.PRE_DOWNLOAD, chains, is_optional=True, only_after=only_after)


def _create_chain(document: Document, *, warns: bool) -> Chain:
    metadata = document["metadata"]
    name, image = metadata["name"], document["spec"]["image"]
    step = Step(
        action=Create(resource=IMAGE_PULL_JOBS, key=Key(metadata["namespace"], name), body=document),
        because=f"image {image} is new in this revision",
        done=Note(reason="CreatedImagePullJob", message=f"created ImagePullJob {name} for image {image}"),
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


def _label_chain(revision: RevisionView, label: str, because: str) -> Chain:
    action = patch_object(CONTROLLER_REVISIONS, revision, {"metadata": {"labels": {label: "true"}}})
    return Chain(subject=revision.name, steps=(Step(action=action, because=because),))
