"""Pulling images ahead of an update: which writes it takes now.

update revision + jobs + a kind's answers ──▶ pre_download_stages() ──▶ stages: jobs, and the label that ends it

Pure; serves every kind. The decision is made once per revision and kept as a label on it. Nothing here may
hold an update up, so its stages are optional: what fails in them is reported and the plan goes on.
"""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CONTROLLER_REVISIONS
from pykruise.plans.purposes import Purpose
from pykruise.pods import keys
from pykruise.pods.image_pull_jobs import IMAGE_PULL_JOBS, PullJobView
from pykruise.pods.revisions import RevisionView
from pykruise.runtime.actions import Create, Delete, Patch
from pykruise.runtime.plan import Chain, Note, Stage, Step

__all__ = ["PreDownload", "pre_download_stages"]


class PreDownload(msgspec.Struct, frozen=True, kw_only=True):
    """What a kind says about the rollout to `revision`."""

    revision: RevisionView
    is_rolling: bool
    """Whether pods are still to get to the revision; else its jobs are of no more use."""
    is_due: bool = True
    """Whether as many updated pods are ready as the threshold wants."""
    not_needed: str = ""
    """Why this revision needs no jobs; decided once and for all."""
    jobs: Callable[[], list[Document]]
    """Makes the ImagePullJobs."""
    warns: bool = False
    """Whether the event of a job that cannot be created is a warning; the original tells it as normal."""


def pre_download_stages(wanted: PreDownload, *, owned: Sequence[PullJobView]) -> list[Stage]:
    """`owned` are the ImagePullJobs whose controller is the workload."""
    if not wanted.is_rolling:
        return _stage(_delete_chain(job) for job in owned if not job.is_deleting)
    labels = wanted.revision.labels
    decided = keys.PRE_DOWNLOAD_CREATED_LABEL in labels or keys.PRE_DOWNLOAD_IGNORED_LABEL in labels
    if decided or not wanted.is_due or not wanted.revision.uid:
        return []
    if wanted.not_needed:
        return _stage([_label_chain(wanted.revision, keys.PRE_DOWNLOAD_IGNORED_LABEL, wanted.not_needed)])
    present = {job.name for job in owned}
    created = [
        _create_chain(document, warns=wanted.warns)
        for document in wanted.jobs()
        if document["metadata"]["name"] not in present
    ]
    because = "the jobs that pull its images ahead are created"
    label = _label_chain(wanted.revision, keys.PRE_DOWNLOAD_CREATED_LABEL, because)
    # Were the revision labelled in spite of a failure, its image would never be pulled ahead.
    return [*_stage(created), *_stage([label], only_after=(Purpose.PRE_DOWNLOAD,) if created else ())]


def _stage(chains: Iterable[Chain], *, only_after: tuple[Purpose, ...] = ()) -> list[Stage]:
    found = tuple(chains)
    if not found:
        return []
    return [Stage(purpose=Purpose.PRE_DOWNLOAD, chains=found, is_optional=True, only_after=only_after)]


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
    action = Delete(resource=IMAGE_PULL_JOBS, key=Key(job.namespace, job.name), uid=job.uid)
    return Chain(subject=job.name, steps=(Step(action=action, because="the rollout is complete"),))


def _label_chain(revision: RevisionView, label: str, because: str) -> Chain:
    action = Patch(
        resource=CONTROLLER_REVISIONS,
        key=Key(revision.namespace, revision.name),
        patch_type=PatchType.MERGE,
        body={"metadata": {"labels": {label: "true"}}},
        uid=revision.uid,
    )
    return Chain(subject=revision.name, steps=(Step(action=action, because=because),))
