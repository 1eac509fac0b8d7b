"""Images pulled ahead of an update: the ImagePullJob objects that a workload creates for its new revision.

revision + images + settings ──▶ pull_jobs() ──▶ ImagePullJob documents
stored jobs ──▶ PullJobView (what a cache keeps)

Pure; serves every kind that updates in place. Only nodes with pods of older revisions are asked to pull. Who
pulls is another matter: the ImagePullJob controller and the agents on the nodes.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.documents import Document
from pykruise.kube.int_or_percent import IntOrPercent, Rounding, is_percent, resolve
from pykruise.kube.resources import Resource
from pykruise.pods import keys
from pykruise.pods.revisions import RevisionView

__all__ = [
    "IMAGE_PULL_JOBS",
    "PullJobView",
    "PullSettings",
    "annotated_settings",
    "annotated_threshold",
    "changed_images",
    "project_pull_job",
    "pull_job_name",
    "pull_jobs",
]

IMAGE_PULL_JOBS: Final = Resource("apps.kruise.io", "v1beta1", "imagepulljobs", "ImagePullJob")

DEFAULT_TIMEOUT_S: Final = 300
BACKOFF_LIMIT: Final = 1
TTL_S: Final = 600

_WHOLE: Final = re.compile(r"[+]?[0-9]{1,9}", re.ASCII)


class PullJobView(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One ImagePullJob, as far as its owner needs it."""

    namespace: str
    name: str
    uid: str
    resource_version: int
    controller_uid: str = ""
    is_deleting: bool = False


class PullSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How images are pulled."""

    parallelism: IntOrPercent = 1
    """Nodes that pull at once; 0 pauses the job."""
    timeout_s: int = DEFAULT_TIMEOUT_S
    """Of one attempt."""


def annotated_settings(annotations: Mapping[str, str]) -> PullSettings:
    """The settings of a workload that has them as annotations; what is no whole number counts as absent."""
    parallelism = _whole(annotations.get(keys.PRE_DOWNLOAD_PARALLELISM_ANNOTATION, ""))
    timeout_s = _whole(annotations.get(keys.PRE_DOWNLOAD_TIMEOUT_ANNOTATION, ""))
    return PullSettings(
        parallelism=1 if parallelism is None else parallelism,
        timeout_s=DEFAULT_TIMEOUT_S if timeout_s is None else timeout_s,
    )


def annotated_threshold(annotations: Mapping[str, str], *, of: int) -> int:
    """Updated and ready pods that a workload wants before its images are pulled ahead: a number, or a share
    of `of` pods, rounded up. What is neither counts as 0."""
    text = annotations.get(keys.PRE_DOWNLOAD_MIN_UPDATED_READY_ANNOTATION, "")
    if is_percent(text):
        return max(resolve(text, of=of, rounding=Rounding.UP), 0)
    return _whole(text) or 0


def _whole(text: str) -> int | None:
    return int(text) if _WHOLE.fullmatch(text) else None


class _Owner(msgspec.Struct, gc=False):
    uid: str = ""
    controller: bool | None = None


class _Meta(msgspec.Struct, gc=False, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    owner_references: list[_Owner] | None = None
    deletion_timestamp: str | None = None


class _Job(msgspec.Struct, gc=False):
    metadata: _Meta


_decode = msgspec.json.Decoder(_Job).decode


def project_pull_job(raw: bytes | msgspec.Raw) -> PullJobView:
    """The view of a job's JSON text. Raises msgspec.DecodeError for what is no object."""
    meta = _decode(raw).metadata
    return PullJobView(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=int(meta.resource_version or 0),
        controller_uid=next((owner.uid for owner in meta.owner_references or () if owner.controller), ""),
        is_deleting=meta.deletion_timestamp is not None,
    )


def changed_images(new: Mapping[str, Any], olds: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Container → image, for those of the `new` template that some old one has not, or has with another image."""
    found: dict[str, str] = {}
    for container in _containers(new):
        name, image = container.get("name"), container.get("image")
        if not isinstance(name, str) or not isinstance(image, str) or not image:
            continue
        before = [
            next((one.get("image") for one in _containers(old) if one.get("name") == name), None)
            for old in olds
        ]
        if any(one != image for one in before):
            found[name] = image
    return found


def _containers(template: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = (template.get("spec") or {}).get("containers") or ()
    return found


def pull_job_name(revision: RevisionView, container: str) -> str:
    """`<revision>-<container>`"""
    return f"{revision.name}-{container}"


def pull_jobs(
    revision: RevisionView,
    images: Mapping[str, str],
    *,
    selector: Mapping[str, Any],
    owner: Mapping[str, Any],
    settings: PullSettings,
) -> list[Document]:
    """One job for each image. `selector` is the workload's; `owner` its reference as controller."""
    template = revision.template
    metadata: Mapping[str, Any] = template.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), keys.REVISION_HASH_LABEL: revision.hash}
    secrets = [
        one["name"] for one in (template.get("spec") or {}).get("imagePullSecrets") or () if one.get("name")
    ]
    shared: Document = {
        "podSelector": _on_old_pods(selector, revision),
        "parallelism": settings.parallelism,
        "pullPolicy": {"backoffLimit": BACKOFF_LIMIT, "timeoutSeconds": settings.timeout_s},
        "completionPolicy": {"type": "Always", "ttlSecondsAfterFinished": TTL_S},
        "sandboxConfig": {
            "labels": labels,
            **({"annotations": metadata["annotations"]} if metadata.get("annotations") else {}),
        },
        **({"pullSecrets": secrets} if secrets else {}),
    }
    return [
        {
            "apiVersion": IMAGE_PULL_JOBS.api_version,
            "kind": IMAGE_PULL_JOBS.kind,
            "metadata": {
                "name": pull_job_name(revision, container),
                "namespace": revision.namespace,
                "labels": labels,
                "ownerReferences": [dict(owner)],
            },
            "spec": {"image": image, **shared},
        }
        for container, image in images.items()
    ]


def _on_old_pods(selector: Mapping[str, Any], revision: RevisionView) -> Document:
    """The workload's pods that are not of the revision yet, by either spelling of it."""
    not_new = {
        "key": keys.REVISION_LABEL,
        "operator": "NotIn",
        "values": [str(revision.name), str(revision.hash)],
    }
    found: Document = {"matchExpressions": [*(selector.get("matchExpressions") or ()), not_new]}
    if selector.get("matchLabels"):
        found["matchLabels"] = dict(selector["matchLabels"])
    return found
