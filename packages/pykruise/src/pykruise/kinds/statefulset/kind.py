"""Registration of the kind Advanced StatefulSet for the rest of the program.

KIND ──▶ definitions, roles, caches, controllers, admission, doctor, explain, plan, simulate (plans/kind.py)
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from pykruise.kinds.statefulset.admission import build_mutating_review, build_validating_review
from pykruise.kinds.statefulset.conversion import CONVERSION
from pykruise.kinds.statefulset.insight import INSIGHT
from pykruise.kinds.statefulset.plan import compute_status_after, plan_statefulset
from pykruise.kinds.statefulset.shown import SHOWN
from pykruise.kinds.statefulset.snapshot import (
    STATEFUL_SET_VIEWS,
    STORAGE_CLASS_VIEWS,
    StatefulSetSettings,
    StatefulSetView,
    StorageClassView,
    read_snapshot,
)
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS, StatefulSet
from pykruise.kinds.statefulset.v1alpha1 import StatefulSetV1Alpha1
from pykruise.kinds.statefulset.validation import OPTIONS, find_stored_errors, list_last_pod_names
from pykruise.kube.cache.store import Change
from pykruise.kube.ids import Key
from pykruise.kube.rbac import READ, make_right
from pykruise.kube.resources import PERSISTENT_VOLUME_CLAIMS, STORAGE_CLASSES
from pykruise.kube.schemas.crds import Column, ScalePaths
from pykruise.plans.config_content import GATES, list_config_reads, list_config_wakes, list_follow_rights
from pykruise.plans.kind import (
    AGE,
    POD_OWNER_LENDS,
    POD_TEMPLATE,
    Kind,
    list_workload_rights,
    make_two_versions,
)
from pykruise.plans.nodes_out_of_service import wake_for_node_states
from pykruise.plans.pod_groups import GROUP_GATES, explain_no_gate, list_group_reads, list_group_rights
from pykruise.plans.purposes import Purpose
from pykruise.plans.review import Reviews
from pykruise.plans.stored_values import TEMPLATE_IS_JUDGED_LATER, StoredSpec, add_judgement
from pykruise.plans.views import CLAIM_VIEWS, NODE_VIEWS, POD_VIEWS, PULL_JOB_VIEWS, REVISION_VIEWS
from pykruise.plans.wakes import wake_namesake
from pykruise.pods.images.pull_jobs import IMAGE_PULL_JOBS
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.amounts import Amount
from pykruise.pods.workload.claims import ClaimView
from pykruise.pods.workload.derived_names import HASH, LONGEST_LABEL, DerivedName
from pykruise.pods.workload.kstatus import standing_of
from pykruise.pods.workload.ordinals import split_name
from pykruise.pods.workload.waiting import WAITING
from pykruise.runtime.control import Control
from pykruise.runtime.read import Around
from pykruise.runtime.views import BY_NAMESPACE, Views
from pykruise.runtime.wakes import Later, Wake, wake_adopters, wake_itself, wake_owner

_COLUMNS = (
    Column("DESIRED", "integer", ".spec.replicas"),
    Column("CURRENT", "integer", ".status.replicas"),
    Column("UPDATED", "integer", ".status.updatedReplicas"),
    Column("READY", "integer", ".status.readyReplicas"),
    AGE,
    *POD_TEMPLATE,
)


def _list_reads(settings: StatefulSetSettings) -> Sequence[Views[Any]]:
    return (
        *(POD_VIEWS, REVISION_VIEWS, CLAIM_VIEWS, NODE_VIEWS),
        *((PULL_JOB_VIEWS,) if settings.pre_download else ()),
        *((STORAGE_CLASS_VIEWS,) if settings.auto_resize_claims else ()),
        *list_config_reads(settings),
        *list_group_reads(settings),
    )


def _list_wakes(settings: StatefulSetSettings) -> Sequence[Wake]:
    return (
        wake_itself(STATEFUL_SET_VIEWS),
        wake_owner(POD_VIEWS, ADVANCED_STATEFUL_SETS),
        wake_adopters(POD_VIEWS, STATEFUL_SET_VIEWS, may_own=StatefulSetView.may_own),
        Wake(on=POD_VIEWS, keys=_enqueue_by_pod_name),
        Wake(on=CLAIM_VIEWS, keys=_enqueue_by_claim),
        wake_namesake(REVISION_VIEWS, STATEFUL_SET_VIEWS),
        wake_for_node_states(STATEFUL_SET_VIEWS),
        *((Wake(on=STORAGE_CLASS_VIEWS, keys=_enqueue_by_class),) if settings.auto_resize_claims else ()),
        *list_config_wakes(STATEFUL_SET_VIEWS, settings),
    )


def _enqueue_by_pod_name(change: Change[PodView], around: Around[StatefulSetSettings]) -> Iterable[Key]:
    """Enqueue the set that needs the name of a deleted pod. The owner of the pod does not matter."""
    if change.new is not None or change.old is None:
        return ()
    return _find_cached_key(Key(change.old.namespace, split_name(change.old.name)[0]), around)


CLAIM_S: Final = 5.0
"""Delay in seconds before the sets that count a changed PVC in their status are enqueued."""


def _enqueue_by_claim(
    change: Change[ClaimView], around: Around[StatefulSetSettings]
) -> Iterator[Key | Later]:
    """Enqueue the set that expanded a changed PVC. For a PVC that no set expanded, enqueue the sets whose status counts
    it. For a deleted PVC, enqueue the sets whose pod may wait for its deletion.
    """
    old, new = change.old, change.new
    if new is not None and old is not None:
        if new.grown_by:
            yield from _find_cached_key(Key(new.namespace, new.grown_by), around)
        elif (old.requested, old.capacity, old.is_deleting) != (new.requested, new.capacity, new.is_deleting):
            # New PVCs get their volume while their pod starts, which changes the status anyway.
            yield from (Later(key, CLAIM_S) for key in _find_keys_of_claim(new, around))
    elif old is not None:
        yield from _find_keys_of_claim(old, around)


def _find_keys_of_claim(claim: ClaimView, around: Around[StatefulSetSettings]) -> Iterator[Key]:
    base, _ = split_name(claim.name)
    for stateful_set in around.list_by_index(STATEFUL_SET_VIEWS, BY_NAMESPACE, claim.namespace):
        if base.endswith(f"-{stateful_set.name}"):
            yield stateful_set.key


def _enqueue_by_class(change: Change[StorageClassView], around: Around[StatefulSetSettings]) -> Iterator[Key]:
    """Enqueue the sets whose PVCs follow their templates, because the class may now allow expansion."""
    old, new = change.old, change.new
    if old is not None and new is not None and old.allows_expansion == new.allows_expansion:
        return
    for stateful_set in around.list_all(STATEFUL_SET_VIEWS):
        if stateful_set.spec is not None and stateful_set.spec.volume_claim_update_strategy is not None:
            yield stateful_set.key


def _find_cached_key(key: Key, around: Around[StatefulSetSettings]) -> tuple[Key, ...]:
    return (key,) if around.get(STATEFUL_SET_VIEWS, key) is not None else ()


_STORED: Final = StoredSpec(
    errors=find_stored_errors,
    options=OPTIONS,
    kept={
        "spec.template": TEMPLATE_IS_JUDGED_LATER,
        "spec.volumeClaimTemplates": TEMPLATE_IS_JUDGED_LATER,
        "spec.ordinals.start": "the first ordinal is 0",
        "spec.reserveOrdinals": "the valid entries have an effect, and an event names the malformed entries",
    },
)

KIND = Kind(
    resource=ADVANCED_STATEFUL_SETS,
    versions=make_two_versions(StatefulSet, StatefulSetV1Alpha1, columns=_COLUMNS, scale=ScalePaths()),
    short_names=("sts", "asts"),
    conversion=CONVERSION,
    released_in="v1beta1",
    amounts=(
        Amount(path=("spec", "scaleStrategy", "maxUnavailable"), takes_zero=False),
        Amount(path=("spec", "updateStrategy", "rollingUpdate", "maxUnavailable"), takes_zero=False),
        Amount(
            path=(
                "spec",
                "updateStrategy",
                "rollingUpdate",
                "inPlaceUpdateStrategy",
                "imagePreDownloadParallelism",
            ),
            is_used=False,
        ),
    ),
    derived=(
        DerivedName(
            what="the label controller-revision-hash of its pods",
            longest=LONGEST_LABEL,
            of=lambda doc, _: (f"{doc['metadata']['name']}{HASH}",),
        ),
        DerivedName(
            what="the name of its last pod (also a label and a host name)",
            longest=LONGEST_LABEL,
            of=lambda doc, _: list_last_pod_names(doc),
        ),
    ),
    own_gates={**GATES, **GROUP_GATES},
    settings=StatefulSetSettings,
    reviews=Reviews(
        mutating=lambda settings, _: build_mutating_review(settings.defaulting),
        validating=lambda settings, lookups: build_validating_review(
            resizes_claims=settings.auto_resize_claims,
            classes=lookups.classes,
            revisions=lookups.revisions,
            group_problem=explain_no_gate(settings),
        ),
        is_protected=True,
    ),
    stored=_STORED,
    control=add_judgement(
        Control(
            name="statefulset",
            component="statefulset-controller",
            objects=STATEFUL_SET_VIEWS,
            reads=_list_reads,
            wakes=_list_wakes,
            snapshot=read_snapshot,
            object_of=lambda snapshot: snapshot.statefulset,
            plan=plan_statefulset,
            failed=compute_status_after,
            unreported=frozenset({Purpose.TIDY_UP}),
            standing=standing_of,
            own_conditions=frozenset({WAITING}),
            urgent_conditions=frozenset({WAITING}),
        ),
        _STORED,
    ),
    lends=(*POD_OWNER_LENDS, make_right(PERSISTENT_VOLUME_CLAIMS, "create", "delete", "patch")),
    rights=(
        *list_workload_rights(ADVANCED_STATEFUL_SETS),
        make_right(STORAGE_CLASSES, *READ, why="StatefulSet: to check whether volumes of claims can grow"),
        make_right(
            IMAGE_PULL_JOBS, *READ, "create", "delete", why="StatefulSet: to pull images ahead of updates"
        ),
    ),
    rights_by_gate={**list_follow_rights("StatefulSet"), **list_group_rights("StatefulSet")},
    insight=INSIGHT,
    shown=SHOWN,
)
