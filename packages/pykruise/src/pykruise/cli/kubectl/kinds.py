"""What a verb needs to know of a kind, as one table: where a pod template is, what pauses it, how it is rolled back.

a document ──▶ kind_of() ──▶ WorkloadKind, or None: no verb is for it

Pure, and free of imports from the kinds themselves, built-in kinds stand beside ours, and a command starts at once;
a test compares the paths with those that the kinds declare.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from pykruise.kube.documents import Document, get_path

__all__ = ["KRUISE", "ROLLOUTS", "Field", "WorkloadKind", "kind_of", "pod_specs_of", "templates_of"]

Path = tuple[str, ...]

KRUISE: Final = "apps.kruise.io"
ROLLOUTS: Final = "rollouts.kruise.io"

TEMPLATE: Final = ("spec", "template")
STRATEGY: Final = ("spec", "updateStrategy")
ROLLING: Final = (*STRATEGY, "rollingUpdate")


class Field(msgspec.Struct, frozen=True):
    """Where a field is, in the hub version and in v1alpha1 where that differs."""

    path: Path
    in_v1alpha1: Path = ()

    def at(self, document: Mapping[str, Any]) -> Path:
        """Where it is in a document of that version."""
        is_old = str(document.get("apiVersion", "")).endswith("/v1alpha1")
        return self.in_v1alpha1 if is_old and self.in_v1alpha1 else self.path


class WorkloadKind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind. Empty: the verb is not for it."""

    templates: tuple[Path, ...] = ()
    """Pod templates; those that an object does not have do not count."""
    pod_spec: Path = ()
    """Of what is a pod spec itself, without a template."""
    paused: Field | None = None
    resumed: bool | None = False
    """What stands there after resume; None: nothing."""
    restart: Literal["", "annotation", "env"] = ""
    history: Literal["", "replicasets", "revisions"] = ""
    restored: Path = TEMPLATE
    """What a rollback replaces; a revision stores it under the same path in its data, or all of spec's fields."""
    revision_label: str = ""
    """Label of revisions of an object without selector; its value is the object's name."""
    partition: Field | None = None
    max_unavailable: Field | None = None
    max_surge: Field | None = None
    strategy: Field | None = None
    """What `set update-strategy` writes."""
    strategies: tuple[str, ...] = ()
    exposes: bool = False
    victims: Literal["", "podsToDelete", "label"] = ""
    """How chosen pods are scaled away."""
    status: str = ""
    """Name of the function in statuses.py."""


_DEPLOYMENT: Final = WorkloadKind(
    templates=(TEMPLATE,),
    paused=Field(("spec", "paused")),
    resumed=None,
    restart="annotation",
    history="replicasets",
    max_unavailable=Field(("spec", "strategy", "rollingUpdate", "maxUnavailable")),
    max_surge=Field(("spec", "strategy", "rollingUpdate", "maxSurge")),
    strategy=Field(("spec", "strategy", "type")),
    strategies=("RollingUpdate", "Recreate"),
    exposes=True,
    status="deployment",
)

_IN_UNITED: Final = tuple(
    ("spec", "template", name, "spec", "template")
    for name in (
        "statefulSetTemplate",
        "advancedStatefulSetTemplate",
        "cloneSetTemplate",
        "deploymentTemplate",
    )
)

_OF_CRON: Final = (
    ("spec", "template", "jobTemplate", "spec", "template"),
    ("spec", "template", "broadcastJobTemplate", "spec", "template"),
)

KINDS: Final[Mapping[tuple[str, str], WorkloadKind]] = {
    ("apps", "Deployment"): _DEPLOYMENT,
    ("apps", "StatefulSet"): WorkloadKind(
        templates=(TEMPLATE,),
        restart="annotation",
        history="revisions",
        partition=Field((*ROLLING, "partition")),
        max_unavailable=Field((*ROLLING, "maxUnavailable")),
        strategy=Field((*STRATEGY, "type")),
        strategies=("RollingUpdate", "OnDelete"),
        status="stateful_set",
    ),
    ("apps", "DaemonSet"): WorkloadKind(
        templates=(TEMPLATE,),
        restart="annotation",
        history="revisions",
        max_unavailable=Field((*ROLLING, "maxUnavailable")),
        max_surge=Field((*ROLLING, "maxSurge")),
        strategy=Field((*STRATEGY, "type")),
        strategies=("RollingUpdate", "OnDelete"),
        status="daemon_set",
    ),
    ("apps", "ReplicaSet"): WorkloadKind(templates=(TEMPLATE,), exposes=True),
    ("", "ReplicationController"): WorkloadKind(templates=(TEMPLATE,), exposes=True),
    ("", "Pod"): WorkloadKind(pod_spec=("spec",), exposes=True),
    ("", "Service"): WorkloadKind(exposes=True),
    ("batch", "Job"): WorkloadKind(templates=(TEMPLATE,)),
    ("batch", "CronJob"): WorkloadKind(templates=(("spec", "jobTemplate", "spec", "template"),)),
    (KRUISE, "CloneSet"): WorkloadKind(
        templates=(TEMPLATE,),
        paused=Field((*ROLLING, "paused"), (*STRATEGY, "paused")),
        restart="env",
        history="revisions",
        partition=Field((*ROLLING, "partition"), (*STRATEGY, "partition")),
        max_unavailable=Field((*ROLLING, "maxUnavailable"), (*STRATEGY, "maxUnavailable")),
        max_surge=Field((*ROLLING, "maxSurge"), (*STRATEGY, "maxSurge")),
        strategy=Field((*ROLLING, "podUpdatePolicy"), (*STRATEGY, "type")),
        strategies=("ReCreate", "InPlaceIfPossible", "InPlaceOnly", "OnDelete"),
        exposes=True,
        victims="podsToDelete",
        status="clone_set",
    ),
    (KRUISE, "StatefulSet"): WorkloadKind(
        templates=(TEMPLATE,),
        paused=Field((*ROLLING, "paused")),
        restart="env",
        history="revisions",
        partition=Field((*ROLLING, "partition")),
        max_unavailable=Field((*ROLLING, "maxUnavailable")),
        strategy=Field((*ROLLING, "podUpdatePolicy")),
        strategies=("ReCreate", "InPlaceIfPossible", "InPlaceOnly", "OnDelete"),
        exposes=True,
        victims="label",
        status="advanced_stateful_set",
    ),
    (KRUISE, "DaemonSet"): WorkloadKind(
        templates=(TEMPLATE,),
        paused=Field((*ROLLING, "paused")),
        restart="env",
        history="revisions",
        partition=Field((*ROLLING, "partition")),
        max_unavailable=Field((*ROLLING, "maxUnavailable")),
        max_surge=Field((*ROLLING, "maxSurge")),
        strategy=Field((*ROLLING, "rollingUpdateType")),
        strategies=("Standard", "InPlaceIfPossible", "OnDelete"),
        status="advanced_daemon_set",
    ),
    (KRUISE, "SidecarSet"): WorkloadKind(
        pod_spec=("spec",),
        paused=Field((*STRATEGY, "paused")),
        history="revisions",
        restored=("spec",),
        revision_label="kruise.io/sidecarset-name",
        partition=Field((*STRATEGY, "partition")),
        max_unavailable=Field((*STRATEGY, "maxUnavailable")),
        strategy=Field((*STRATEGY, "type")),
        strategies=("RollingUpdate", "NotUpdate"),
        status="sidecar_set",
    ),
    (KRUISE, "UnitedDeployment"): WorkloadKind(
        templates=_IN_UNITED,
        restart="env",
        history="revisions",
        status="united_deployment",
    ),
    (KRUISE, "BroadcastJob"): WorkloadKind(
        templates=(TEMPLATE,), paused=Field(("spec", "paused")), status="broadcast_job"
    ),
    (KRUISE, "AdvancedCronJob"): WorkloadKind(
        templates=_OF_CRON, paused=Field(("spec", "paused")), status="advanced_cron_job"
    ),
    (KRUISE, "ImagePullJob"): WorkloadKind(status="image_pull_job"),
    (KRUISE, "ImageListPullJob"): WorkloadKind(status="image_list_pull_job"),
    (ROLLOUTS, "Rollout"): WorkloadKind(paused=Field(("spec", "strategy", "paused")), status="rollout"),
}
"""By group and kind."""

KINDS_IN_ORDER: Final = tuple(KINDS)


def kind_of(document: Mapping[str, Any]) -> WorkloadKind | None:
    """What is known of the kind of a document; None: nothing."""
    return KINDS.get((group_of(document), str(document.get("kind", ""))))


def group_of(document: Mapping[str, Any]) -> str:
    """The API group of a document; empty: the core group."""
    return str(document.get("apiVersion", "")).rpartition("/")[0]


def templates_of(document: Document) -> list[Document]:
    """The pod templates that a document has, to be read or changed in place."""
    known = kind_of(document)
    paths = known.templates if known is not None else ()
    found = (get_path(document, *path) for path in paths)
    return [one for one in found if isinstance(one, dict)]


def pod_specs_of(document: Document) -> list[Document]:
    """The same of specs with containers: of a pod and of a SidecarSet its own."""
    known = kind_of(document)
    if known is not None and known.pod_spec:
        own = get_path(document, *known.pod_spec)
        return [own] if isinstance(own, dict) else []
    return [one["spec"] for one in templates_of(document) if isinstance(one.get("spec"), dict)]
