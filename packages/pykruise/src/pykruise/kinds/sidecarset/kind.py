"""The SidecarSet kind, as the rest of the program uses it.

KIND ──▶ definitions, roles, caches, controllers, admission, doctor, explain, plan, simulate (plans/kind.py)
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pykruise.agent.rules.recreations import REQUESTS
from pykruise.kinds.sidecarset.admission import build_validating_review, mutate_sidecarset
from pykruise.kinds.sidecarset.conversion import CONVERSION
from pykruise.kinds.sidecarset.plan import plan_sidecarset
from pykruise.kinds.sidecarset.pod_steps import COMPONENT, STEPS
from pykruise.kinds.sidecarset.refusals import learn
from pykruise.kinds.sidecarset.revisions import SET_LABEL
from pykruise.kinds.sidecarset.shown import SHOWN
from pykruise.kinds.sidecarset.snapshot import SIDECAR_SET_VIEWS, SidecarSetSettings, read_snapshot
from pykruise.kinds.sidecarset.types import SIDECAR_SETS, SidecarSet
from pykruise.kinds.sidecarset.v1alpha1 import SidecarSetV1Alpha1
from pykruise.kinds.sidecarset.validation import OPTIONS, find_stored_errors
from pykruise.kube.cache.store import Change
from pykruise.kube.ids import Key
from pykruise.kube.rbac import READ, make_right
from pykruise.kube.resources import NAMESPACES
from pykruise.kube.schemas.crds import Column
from pykruise.plans.insight import Insight
from pykruise.plans.kind import AGE, Kind, list_workload_rights, make_two_versions
from pykruise.plans.review import Reviews
from pykruise.plans.stored_values import StoredSpec, add_judgement
from pykruise.plans.views import NAMESPACE_VIEWS, POD_VIEWS, REVISION_VIEWS, NamespaceView
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.view.sidecars import list_injected_sets
from pykruise.pods.workload.amounts import Amount
from pykruise.pods.workload.kstatus import standing_of
from pykruise.pods.workload.revisions import RevisionView
from pykruise.runtime.control import Control
from pykruise.runtime.read import Around
from pykruise.runtime.wakes import Wake, wake_itself

_COLUMNS = (
    Column("MATCHED", "integer", ".status.matchedPods"),
    Column("UPDATED", "integer", ".status.updatedPods"),
    Column("READY", "integer", ".status.readyPods"),
    AGE,
)


def _make_wakes(_: SidecarSetSettings) -> Sequence[Wake]:
    return (
        wake_itself(SIDECAR_SET_VIEWS),
        Wake(on=POD_VIEWS, keys=_find_keys_listed_by_pod),
        Wake(on=POD_VIEWS, keys=_find_keys_selecting_pod),
        Wake(on=NAMESPACE_VIEWS, keys=_find_keys_selecting_namespaces),
        Wake(on=REVISION_VIEWS, keys=_find_key_named_by_revision),
    )


def _find_keys_listed_by_pod(change: Change[PodView], _: Around[SidecarSetSettings]) -> Iterator[Key]:
    """Keys of the SidecarSets that the pod's annotation lists before or after the change."""
    for pod in (change.old, change.new):
        if pod is not None:
            for name in list_injected_sets(pod.annotations):
                yield Key("", name)


def _find_keys_selecting_pod(change: Change[PodView], around: Around[SidecarSetSettings]) -> Iterator[Key]:
    """Keys of the SidecarSets that select the pod: each SidecarSet reports selected pods that lack its sidecars."""
    old, new = change.old, change.new
    if old is not None and new is not None and (old.is_active, old.labels) == (new.is_active, new.labels):
        return
    pods = [pod for pod in (old, new) if pod is not None]
    for sidecar_set in around.list_all(SIDECAR_SET_VIEWS):
        if any(sidecar_set.selects(pod.labels) for pod in pods):
            yield sidecar_set.key


def _find_keys_selecting_namespaces(
    change: Change[NamespaceView], around: Around[SidecarSetSettings]
) -> Iterator[Key]:
    """Keys of the SidecarSets that select namespaces by labels."""
    old, new = change.old, change.new
    if old is not None and new is not None and old is not new and old.labels == new.labels:
        return
    for sidecar_set in around.list_all(SIDECAR_SET_VIEWS):
        if sidecar_set.namespace_selector is not None:
            yield sidecar_set.key


def _find_key_named_by_revision(change: Change[RevisionView], _: Around[SidecarSetSettings]) -> Iterable[Key]:
    name = change.latest.labels.get(SET_LABEL)
    return (Key("", name),) if name else ()


_STORED: Final = StoredSpec(
    errors=find_stored_errors,
    options=OPTIONS,
    kept={
        "spec.initContainers[].podInjectPolicy": "the container is placed after the pod's own init containers",
        "spec.initContainers[].shareVolumePolicy": "the container shares no volumes",
        "spec.initContainers[].shareVolumeDevicePolicy": "the container shares no devices",
        "spec.initContainers[].transferEnv": "with an invalid fieldPath, no variable is copied",
        "spec.containers[].shareVolumeDevicePolicy": "the container shares no devices",
    },
)

KIND = Kind(
    resource=SIDECAR_SETS,
    versions=make_two_versions(SidecarSet, SidecarSetV1Alpha1, columns=_COLUMNS),
    conversion=CONVERSION,
    amounts=(
        Amount(path=("spec", "updateStrategy", "maxUnavailable"), stops="no serving pod is upgraded"),
        Amount(path=("spec", "updateStrategy", "partition")),
    ),
    settings=SidecarSetSettings,
    reviews=Reviews(
        mutating=lambda *_: mutate_sidecarset,
        validating=lambda settings, lookups: build_validating_review(
            lookups.readers.get("sidecarset"), allows_any_annotation=settings.any_pod_annotation
        ),
    ),
    stored=_STORED,
    control=add_judgement(
        Control(
            name="sidecarset",
            component=COMPONENT,
            objects=SIDECAR_SET_VIEWS,
            reads=lambda _: (POD_VIEWS, REVISION_VIEWS, NAMESPACE_VIEWS, SIDECAR_SET_VIEWS),
            wakes=_make_wakes,
            snapshot=read_snapshot,
            object_of=lambda snapshot: snapshot.sidecarset,
            plan=plan_sidecarset,
            learn=learn,
            standing=standing_of,
            has_waits_beside_status=True,
            is_generation_in_conditions=True,
        ),
        _STORED,
    ),
    rights=(
        *list_workload_rights(SIDECAR_SETS),
        make_right(NAMESPACES, *READ, why="SidecarSet: to read the labels of namespaces"),
        make_right(REQUESTS, "create", why="SidecarSet: to restart containers that read changed annotations"),
    ),
    insight=Insight(
        containers=("spec", "containers"),
    ),
    shown=SHOWN,
    pods=STEPS,
)
