"""Images pulled before an update: the ImagePullJob objects that a workload creates for its new revision.

revision + images + settings ──▶ pull_jobs() ──▶ ImagePullJob documents
stored jobs ──▶ PullJobView (the form that a cache keeps)

Pure. Serves every kind that updates in place, and the kinds about images. Only nodes with pods of older revisions
pull the images.
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
from pykruise.kube.values.selectors import Selector, parse_selector
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
    """An ImagePullJob. A workload that owns the job reads only its metadata."""

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
    """The typed spec; None if it cannot be read (`problem` gives the reason)."""
    problem: str = ""
    image: ImageName | None = None
    """The image to pull; None if its reference cannot be parsed."""
    selector: Selector | None = None
    """Selects nodes by labels; None if the job has no such selector."""
    pod_selector: Selector | None = None
    """Selects the pods on whose nodes the job pulls; None if the job has no such selector."""
    status: ImagePullJobStatus = ImagePullJobStatus()
    stored_status: Document = {}

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return Key(self.namespace, self.name)

    @property
    def ends(self) -> bool:
        """Whether the completion policy lets the job end."""
        return self.spec is None or self.spec.completion_policy.type != "Never"

    @property
    def is_finished(self) -> bool:
        """Whether the job has ended."""
        return bool(self.status.completion_time)

    @property
    def is_active(self) -> bool:
        """Whether the job still has work to do."""
        return not self.is_deleting and not self.is_finished

    @property
    def secrets(self) -> Sequence[str]:
        """Names of the job's pull secrets without duplicates."""
        return tuple(dict.fromkeys((self.spec.pull_secrets if self.spec else None) or ()))

    def selects(self, node: str, labels: Mapping[str, str]) -> bool:
        """Whether a job without podSelector selects this node."""
        chosen = self.spec.selector if self.spec else None
        if chosen is not None and chosen.names is not None:
            return node in chosen.names
        return self.selector is None or self.selector.matches(labels)


class PullSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of pull jobs."""

    parallelism: IntOrPercent = 1
    """Number of nodes that pull at the same time; 0 pauses the job."""
    timeout_s: int = DEFAULT_TIMEOUT_S
    """Timeout of one attempt."""


def read_annotated_settings(annotations: Mapping[str, str]) -> PullSettings:
    """Read the pull settings from a workload's annotations. A value that is not a whole number is ignored."""
    parallelism = _parse_whole(annotations.get(keys.PRE_DOWNLOAD_PARALLELISM_ANNOTATION, ""))
    timeout_s = _parse_whole(annotations.get(keys.PRE_DOWNLOAD_TIMEOUT_ANNOTATION, ""))
    return PullSettings(
        parallelism=1 if parallelism is None else parallelism,
        timeout_s=DEFAULT_TIMEOUT_S if timeout_s is None else timeout_s,
    )


def read_annotated_threshold(annotations: Mapping[str, str], *, of: int) -> int:
    """Number of updated and ready pods that a workload requires before its images are pulled in advance: a number, or a
    percentage of the number `of`, rounded up. Any other value is treated as 0.
    """
    text = annotations.get(keys.PRE_DOWNLOAD_MIN_UPDATED_READY_ANNOTATION, "")
    if is_percent(text):
        return max(resolve(text, of=of, rounding=Rounding.UP), 0)
    return _parse_whole(text) or 0


def _parse_whole(text: str) -> int | None:
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
    """Decode a job's JSON text into its view. Raises msgspec.DecodeError when the text is not an object."""
    job = _decode(raw)
    meta = job.metadata
    spec, problem = read(job.spec or {}, ImagePullJobSpec, path="spec")
    status, _ = read(job.status or {}, ImagePullJobStatus, path="status")
    image, selector, pod_selector = None, None, None
    if spec is not None and not (problem := pull_problem(spec, {"spec.image": spec.image})):
        image = parse_image(spec.image)
        selector, pod_selector = _to_node_selector(spec.selector), _to_pod_selector(spec)
    owner = next((reference for reference in meta.owner_references or () if reference.controller), None)
    return PullJobView(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=int(meta.resource_version or 0),
        generation=meta.generation,
        labels=meta.labels or {},
        finalizers=meta.finalizers or (),
        controller=_build_controller(owner),
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
    """`<path>: <what is wrong>` of the first fault that the types accept but that makes an ImagePullJob unreadable;
    empty if the spec has no such fault.

    `images`: image references by path. ImageListPullJobs use this rule too: otherwise an
    ImageListPullJob could create jobs that the manager cannot read, and that it would create again and again.
    """
    try:
        _to_node_selector(spec.selector)
    except ValueError as error:
        return f"spec.selector: {error}"
    try:
        _to_pod_selector(spec)
    except ValueError as error:
        return f"spec.podSelector: {error}"
    for path, image in images.items():
        try:
            parse_image(image)
        except ValueError as error:
            return f"{path}: {error}"
    return ""


def _build_controller(owner: _Owner | None) -> ControllerView | None:
    if owner is None:
        return None
    return ControllerView(owner.api_version.rpartition("/")[0], owner.kind, owner.name, owner.uid)


def _to_node_selector(chosen: ImageNodeSelector | None) -> Selector | None:
    """Convert the selector; an empty one selects all nodes."""
    if chosen is None:
        return None
    return parse_selector({"matchLabels": chosen.match_labels, "matchExpressions": _to_expressions(chosen)})


def _to_pod_selector(spec: PullSpec) -> Selector | None:
    if spec.pod_selector is None:
        return None
    chosen = spec.pod_selector
    return parse_selector({"matchLabels": chosen.match_labels, "matchExpressions": _to_expressions(chosen)})


def _to_expressions(chosen: ImageNodeSelector | LabelSelector) -> Any:
    return msgspec.to_builtins(chosen.match_expressions)


def is_pull_job(ref: ObjectReference) -> bool:
    """Whether a reference points to an ImagePullJob in any version of the group."""
    return ref.kind == IMAGE_PULL_JOBS.kind and ref.api_version.partition("/")[0] == IMAGE_PULL_JOBS.group


def find_changed_images(new: Mapping[str, Any], olds: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Container → image, for `new` containers that at least one old template lacks or has with another image."""
    images: dict[str, str] = {}
    for container in _list_containers(new):
        name, image = container.get("name"), container.get("image")
        if not isinstance(name, str) or not isinstance(image, str) or not image:
            continue
        before = [
            next(
                (
                    container.get("image")
                    for container in _list_containers(old)
                    if container.get("name") == name
                ),
                None,
            )
            for old in olds
        ]
        if any(item != image for item in before):
            images[name] = image
    return images


def find_changed_volume_images(new: Mapping[str, Any], olds: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Volume → image, for image volumes of the `new` template whose image at least one old template does not mount.

    The names end with IMAGE_VOLUME, so they never equal a container's name. Empty references are ignored.
    """
    before = [set(_read_volume_images(old).values()) for old in olds]
    return {
        f"{name}{IMAGE_VOLUME}": image
        for name, image in _read_volume_images(new).items()
        if any(image not in images for images in before)
    }


IMAGE_VOLUME: Final = ".volume"


def _read_volume_images(template: Mapping[str, Any]) -> dict[str, str]:
    images: dict[str, str] = {}
    for volume in (template.get("spec") or {}).get("volumes") or ():
        source = volume.get("image") if isinstance(volume, Mapping) else None
        reference = source.get("reference") if isinstance(source, Mapping) else None
        if isinstance(reference, str) and reference and isinstance(volume.get("name"), str):
            images[volume["name"]] = reference
    return images


def _list_containers(template: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    containers: Sequence[Mapping[str, Any]] = (template.get("spec") or {}).get("containers") or ()
    return containers


def pull_job_name(revision: RevisionView, container: str) -> str:
    """`<revision>-<container>`; `<revision>-<volume>.volume` for an image volume."""
    return f"{revision.name}-{container}"


def pull_jobs(
    revision: RevisionView,
    images: Mapping[str, str],
    *,
    selector: Mapping[str, Any],
    owner: Mapping[str, Any],
    settings: PullSettings,
) -> list[Document]:
    """Build one job per image. `selector` is the workload's selector, `owner` the workload's controller reference."""
    template = revision.template
    metadata: Mapping[str, Any] = template.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), keys.REVISION_HASH_LABEL: revision.hash}
    secrets = [
        secret["name"]
        for secret in (template.get("spec") or {}).get("imagePullSecrets") or ()
        if secret.get("name")
    ]
    shared: Document = {
        "podSelector": _select_old_pods(selector, revision),
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


def _select_old_pods(selector: Mapping[str, Any], revision: RevisionView) -> Document:
    """Selector of the workload's pods whose revision label contains neither the name nor the hash of the revision."""
    not_new = {
        "key": keys.REVISION_LABEL,
        "operator": "NotIn",
        "values": [str(revision.name), str(revision.hash)],
    }
    pods: Document = {"matchExpressions": [*(selector.get("matchExpressions") or ()), not_new]}
    if selector.get("matchLabels"):
        pods["matchLabels"] = dict(selector["matchLabels"])
    return pods
