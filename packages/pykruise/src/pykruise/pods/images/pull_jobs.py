"""Images pulled ahead of an update: the ImagePullJob objects that a workload creates for its new revision.

revision + images + settings ──▶ pull_jobs() ──▶ ImagePullJob documents
stored jobs ──▶ PullJobView (what a cache keeps)

Pure; serves every kind that updates in place, and the kinds about images. Only nodes with pods of older revisions are
asked to pull.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.kube.schemas.typed_documents import read
from pykruise.kube.schemas.types import LabelSelector, ObjectReference
from pykruise.kube.values.image_references import ImageName, parse_image
from pykruise.kube.values.int_or_percent import IntOrPercent, Rounding, is_percent, resolve
from pykruise.kube.values.selectors import Selector, selector_from
from pykruise.pods.images.api import ImageNodeSelector, ImagePullJobSpec, ImagePullJobStatus, PullSpec
from pykruise.pods.view import keys
from pykruise.pods.view.pod_view import ControllerView
from pykruise.pods.workload.revisions import RevisionView

IMAGE_PULL_JOBS: Final = Resource("apps.kruise.io", "v1beta1", "imagepulljobs", "ImagePullJob")

DEFAULT_TIMEOUT_S: Final = 300
BACKOFF_LIMIT: Final = 1
TTL_S: Final = 600

_WHOLE: Final = re.compile(r"[+]?[0-9]{1,9}", re.ASCII)


class PullJobView(msgspec.Struct, frozen=True, kw_only=True):
    """One ImagePullJob. Who owns one looks at its metadata only."""

    namespace: str
    name: str
    uid: str
    resource_version: int
    generation: int = 0
    labels: Mapping[str, str] = {}
    finalizers: tuple[str, ...] = ()
    controller: ControllerView | None = None
    controller_uid: str = ""
    is_deleting: bool = False
    spec: ImagePullJobSpec | None = None
    """None: it cannot be read; `problem` says why."""
    problem: str = ""
    image: ImageName | None = None
    """None: it cannot be read."""
    selector: Selector | None = None
    """Selector of nodes by labels; None: the job has none."""
    pod_selector: Selector | None = None
    """Selector of pods whose nodes are targets; None: the job has none."""
    status: ImagePullJobStatus = ImagePullJobStatus()
    stored_status: Document = {}

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return Key(self.namespace, self.name)

    @property
    def ends(self) -> bool:
        """Whether its completion policy lets it end."""
        return self.spec is None or self.spec.completion_policy.type != "Never"

    @property
    def is_finished(self) -> bool:
        """Whether it has ended."""
        return bool(self.status.completion_time)

    @property
    def is_active(self) -> bool:
        """Whether it has still something to do."""
        return not self.is_deleting and not self.is_finished

    @property
    def secrets(self) -> Sequence[str]:
        """Names of the secrets that it pulls with, each once."""
        return tuple(dict.fromkeys((self.spec.pull_secrets if self.spec else None) or ()))

    def selects(self, node: str, labels: Mapping[str, str]) -> bool:
        """Whether it is for this node, of a job without podSelector."""
        chosen = self.spec.selector if self.spec else None
        if chosen is not None and chosen.names is not None:
            return node in chosen.names
        return self.selector is None or self.selector.matches(labels)


class PullSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How images are pulled."""

    parallelism: IntOrPercent = 1
    """Nodes that pull at once; 0 pauses the job."""
    timeout_s: int = DEFAULT_TIMEOUT_S
    """Timeout of one attempt."""


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


class _Owner(msgspec.Struct, gc=False, rename="camel"):
    uid: str = ""
    controller: bool | None = None
    api_version: str = ""
    kind: str = ""
    name: str = ""


class _Meta(msgspec.Struct, gc=False, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] | None = None
    finalizers: tuple[str, ...] | None = None
    owner_references: list[_Owner] | None = None
    deletion_timestamp: str | None = None


class _Job(msgspec.Struct, gc=False):
    metadata: _Meta
    spec: Document | None = None
    status: Document | None = None


_decode = msgspec.json.Decoder(_Job).decode


def project_pull_job(raw: bytes | msgspec.Raw) -> PullJobView:
    """The view of a job's JSON text. Raises msgspec.DecodeError for what is no object."""
    job = _decode(raw)
    meta = job.metadata
    spec, problem = read(job.spec or {}, ImagePullJobSpec, path="spec")
    status, _ = read(job.status or {}, ImagePullJobStatus, path="status")
    image, selector, pod_selector = None, None, None
    if spec is not None and not (problem := pull_problem(spec, {"spec.image": spec.image})):
        image = parse_image(spec.image)
        selector, pod_selector = _node_selector(spec.selector), _pod_selector(spec)
    owner = next((reference for reference in meta.owner_references or () if reference.controller), None)
    return PullJobView(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=int(meta.resource_version or 0),
        generation=meta.generation,
        labels=meta.labels or {},
        finalizers=meta.finalizers or (),
        controller=_controller(owner),
        controller_uid=owner.uid if owner is not None else "",
        is_deleting=meta.deletion_timestamp is not None,
        spec=None if problem else spec,
        problem=problem,
        image=image,
        selector=selector,
        pod_selector=pod_selector,
        status=status or ImagePullJobStatus(),
        stored_status=job.status or {},
    )


def pull_problem(spec: PullSpec, images: Mapping[str, str]) -> str:
    """`<path>: <what is wrong>` of what the types let pass and an ImagePullJob is not read with; empty: nothing is.

    `images`: by path. A list of images is read by this rule too: it could not read the jobs that it makes, and would
    make them again.
    """
    try:
        _node_selector(spec.selector)
    except ValueError as error:
        return f"spec.selector: {error}"
    try:
        _pod_selector(spec)
    except ValueError as error:
        return f"spec.podSelector: {error}"
    for path, image in images.items():
        try:
            parse_image(image)
        except ValueError as error:
            return f"{path}: {error}"
    return ""


def _controller(owner: _Owner | None) -> ControllerView | None:
    if owner is None:
        return None
    return ControllerView(owner.api_version.rpartition("/")[0], owner.kind, owner.name, owner.uid)


def _node_selector(chosen: ImageNodeSelector | None) -> Selector | None:
    """An empty one selects all nodes."""
    if chosen is None:
        return None
    return selector_from({"matchLabels": chosen.match_labels, "matchExpressions": _expressions(chosen)})


def _pod_selector(spec: PullSpec) -> Selector | None:
    if spec.pod_selector is None:
        return None
    chosen = spec.pod_selector
    return selector_from({"matchLabels": chosen.match_labels, "matchExpressions": _expressions(chosen)})


def _expressions(chosen: ImageNodeSelector | LabelSelector) -> Any:
    return msgspec.to_builtins(chosen.match_expressions)


def is_pull_job(ref: ObjectReference) -> bool:
    """Whether a reference is to an ImagePullJob, in any version of the group."""
    return ref.kind == IMAGE_PULL_JOBS.kind and ref.api_version.partition("/")[0] == IMAGE_PULL_JOBS.group


def changed_images(new: Mapping[str, Any], olds: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Container → image, for those of the `new` template that some old one has not, or has with another image."""
    images: dict[str, str] = {}
    for container in _containers(new):
        name, image = container.get("name"), container.get("image")
        if not isinstance(name, str) or not isinstance(image, str) or not image:
            continue
        before = [
            next(
                (container.get("image") for container in _containers(old) if container.get("name") == name),
                None,
            )
            for old in olds
        ]
        if any(item != image for item in before):
            images[name] = image
    return images


def changed_volume_images(new: Mapping[str, Any], olds: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Volume → image, for image volumes of the `new` template whose image some old one mounts nowhere.

    The names end with IMAGE_VOLUME, which no container's name does. An empty reference is none.
    """
    before = [set(_volume_images(old).values()) for old in olds]
    return {
        f"{name}{IMAGE_VOLUME}": image
        for name, image in _volume_images(new).items()
        if any(image not in images for images in before)
    }


IMAGE_VOLUME: Final = ".volume"


def _volume_images(template: Mapping[str, Any]) -> dict[str, str]:
    images: dict[str, str] = {}
    for volume in (template.get("spec") or {}).get("volumes") or ():
        source = volume.get("image") if isinstance(volume, Mapping) else None
        reference = source.get("reference") if isinstance(source, Mapping) else None
        if isinstance(reference, str) and reference and isinstance(volume.get("name"), str):
            images[volume["name"]] = reference
    return images


def _containers(template: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    containers: Sequence[Mapping[str, Any]] = (template.get("spec") or {}).get("containers") or ()
    return containers


def pull_job_name(revision: RevisionView, container: str) -> str:
    """`<revision>-<container>`; of an image volume `<revision>-<volume>.volume`"""
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
        secret["name"]
        for secret in (template.get("spec") or {}).get("imagePullSecrets") or ()
        if secret.get("name")
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
    pods: Document = {"matchExpressions": [*(selector.get("matchExpressions") or ()), not_new]}
    if selector.get("matchLabels"):
        pods["matchLabels"] = dict(selector["matchLabels"])
    return pods
