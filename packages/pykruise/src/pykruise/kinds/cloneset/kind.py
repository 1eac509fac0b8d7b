"""Registration of the kind CloneSet for the rest of the program.

KIND ──▶ definitions, roles, caches, controllers, admission, doctor, explain, plan, simulate (plans/kind.py)
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pykruise.kinds.cloneset.admission import build_mutating_review, build_validating_review
from pykruise.kinds.cloneset.conversion import CONVERSION
from pykruise.kinds.cloneset.insight import INSIGHT
from pykruise.kinds.cloneset.plan import compute_status_after, plan_cloneset
from pykruise.kinds.cloneset.selector_overlap import SELECTOR_OVERLAP
from pykruise.kinds.cloneset.shown import SHOWN
from pykruise.kinds.cloneset.snapshot import BY_UID, CLONE_SET_VIEWS, CloneSetSettings, read_snapshot
from pykruise.kinds.cloneset.status import TERMINATING_PODS
from pykruise.kinds.cloneset.types import CLONE_SETS, CloneSet
from pykruise.kinds.cloneset.v1alpha1 import CloneSetV1Alpha1
from pykruise.kinds.cloneset.v1alpha1_rules import make_spoke_rules
from pykruise.kinds.cloneset.validation import OPTIONS, find_stored_errors
from pykruise.kinds.cloneset.wakes import follow_overlaps, is_relevant
from pykruise.kube.cache.store import Change
from pykruise.kube.documents import get_path
from pykruise.kube.ids import Key
from pykruise.kube.rbac import READ, make_right
from pykruise.kube.resources import PERSISTENT_VOLUME_CLAIMS
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
from pykruise.plans.views import (
    BUDGET_VIEWS,
    CLAIM_VIEWS,
    NODE_VIEWS,
    POD_VIEWS,
    PULL_JOB_VIEWS,
    REVISION_VIEWS,
)
from pykruise.plans.wakes import wake_namesake
from pykruise.pods.images.pull_jobs import IMAGE_PULL_JOBS
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.amounts import Amount
from pykruise.pods.workload.budgets import POD_UNAVAILABLE_BUDGETS
from pykruise.pods.workload.claims import ClaimView, read_template_name
from pykruise.pods.workload.derived_names import HASH, LONGEST_LABEL, LONGEST_NAME, RANDOM_END, DerivedName
from pykruise.pods.workload.kstatus import standing_of
from pykruise.pods.workload.views import selects
from pykruise.pods.workload.waiting import WAITING
from pykruise.runtime.control import Control
from pykruise.runtime.read import Around
from pykruise.runtime.views import Views
from pykruise.runtime.wakes import Wake, wake_adopters, wake_itself, wake_owner

_COLUMNS = (
    Column("DESIRED", "integer", ".spec.replicas"),
    Column("UPDATED", "integer", ".status.updatedReplicas"),
    Column("UPDATED_READY", "integer", ".status.updatedReadyReplicas"),
    Column("UPDATED_AVAILABLE", "integer", ".status.updatedAvailableReplicas"),
    Column("READY", "integer", ".status.readyReplicas"),
    Column("TOTAL", "integer", ".status.replicas"),
    AGE,
    *POD_TEMPLATE,
    Column("SELECTOR", "string", ".status.labelSelector", priority=1),
)


def _list_reads(settings: CloneSetSettings) -> Sequence[Views[Any]]:
    return (
        *(POD_VIEWS, REVISION_VIEWS, CLAIM_VIEWS, NODE_VIEWS),
        *((PULL_JOB_VIEWS,) if settings.pre_download else ()),
        *((BUDGET_VIEWS,) if settings.asks_budgets else ()),
        *list_config_reads(settings),
        *list_group_reads(settings),
    )


def _list_wakes(settings: CloneSetSettings) -> Sequence[Wake]:
    return (
        wake_itself(CLONE_SET_VIEWS),
        wake_owner(POD_VIEWS, CLONE_SETS, when=_is_relevant if settings.filters_events else None),
        Wake(on=POD_VIEWS, keys=follow_overlaps),
        # A CloneSet reports orphans that its selector matches, but never adopts them.
        wake_adopters(
            POD_VIEWS, CLONE_SET_VIEWS, may_own=lambda cloneset, pod: selects(cloneset.selector, pod)
        ),
        Wake(on=CLAIM_VIEWS, keys=_enqueue_by_claim),
        wake_namesake(REVISION_VIEWS, CLONE_SET_VIEWS),
        wake_for_node_states(CLONE_SET_VIEWS),
        *list_config_wakes(CLONE_SET_VIEWS, settings),
    )


def _is_relevant(change: Change[PodView], key: Key, around: Around[CloneSetSettings]) -> bool:
    cloneset = around.get(CLONE_SET_VIEWS, key)
    if cloneset is None or cloneset.spec is None:
        return True  # the relevance is unknown, because the CloneSet is unreadable
    return is_relevant(change.old, change.new, cloneset.spec.lifecycle)


def _enqueue_by_claim(change: Change[ClaimView], around: Around[CloneSetSettings]) -> Iterable[Key]:
    """Enqueue the CloneSet of a PVC that gets another owner, or that is created unexpectedly: the API server may create
    a PVC long after the request timed out at the client, when the pod of the PVC no longer exists.

    A PVC that this manager is creating enqueues nothing, because the pod's creation will enqueue the CloneSet. A
    deleted PVC enqueues nothing either. Otherwise, if a pod cannot be created, creating and deleting its PVCs would
    start the next attempt immediately, without the wait after a failure.
    """
    old, new = change.old, change.new
    if new is None or (old is None and around.is_making(PERSISTENT_VOLUME_CLAIMS, change.key)):
        return
    if old is not None and (old.controller_uid, old.instance_id) == (new.controller_uid, new.instance_id):
        return
    for claim in (old, new):
        if claim is not None:
            for cloneset in around.list_by_index(CLONE_SET_VIEWS, BY_UID, claim.controller_uid):
                yield cloneset.key


def _list_claim_names(doc: Mapping[str, Any], _: CloneSetSettings) -> Iterator[str]:
    for template in get_path(doc, "spec", "volumeClaimTemplates", default=()):
        yield f"{read_template_name(template)}-{doc['metadata']['name']}{RANDOM_END}"


_IN_PLACE: Final = "spec.updateStrategy.rollingUpdate.inPlaceUpdateStrategy"

_STORED: Final = StoredSpec(
    errors=find_stored_errors,
    options=OPTIONS,
    kept={
        "spec.template": TEMPLATE_IS_JUDGED_LATER,
        "spec.volumeClaimTemplates": TEMPLATE_IS_JUDGED_LATER,
        # In v1alpha1, these fields are annotations, which admission does not check.
        f"{_IN_PLACE}.imagePreDownloadParallelism": "one node at a time pulls the new images",
        f"{_IN_PLACE}.imagePreDownloadTimeoutSeconds": "one pull may take 300 seconds",
        f"{_IN_PLACE}.imagePreDownloadMinUpdatedReadyPods": "no updated pod is needed before the new images are pulled",
    },
)

KIND = Kind(
    resource=CLONE_SETS,
    versions=make_two_versions(CloneSet, CloneSetV1Alpha1, columns=_COLUMNS, scale=ScalePaths()),
    short_names=("clone",),
    conversion=CONVERSION,
    amounts=(
        Amount(
            path=("spec", "scaleStrategy", "maxUnavailable"), stops="no pod is created", takes_negative=True
        ),
        Amount(path=("spec", "updateStrategy", "rollingUpdate", "partition"), takes_negative=True),
        Amount(path=("spec", "updateStrategy", "rollingUpdate", "maxSurge"), takes_negative=True),
        Amount(path=("spec", "updateStrategy", "rollingUpdate", "maxUnavailable"), takes_negative=True),
        Amount(
            path=(
                "spec",
                "updateStrategy",
                "rollingUpdate",
                "inPlaceUpdateStrategy",
                "imagePreDownloadParallelism",
            ),
            stops="no image is pulled before the update",
        ),
    ),
    derived=(
        DerivedName(
            what="the label controller-revision-hash of its pods",
            longest=LONGEST_LABEL,
            of=lambda doc, settings: () if settings.short_hash else (f"{doc['metadata']['name']}{HASH}",),
        ),
        DerivedName(
            what="the name of a pod",
            longest=LONGEST_NAME,
            of=lambda doc, _: (f"{doc['metadata']['name']}{RANDOM_END}",),
        ),
        DerivedName(what="the name of a pod's PVC", longest=LONGEST_NAME, of=_list_claim_names),
    ),
    own_gates={**GATES, **GROUP_GATES},
    settings=CloneSetSettings,
    reviews=Reviews(
        mutating=lambda settings, _: build_mutating_review(settings.defaulting),
        validating=lambda settings, lookups: build_validating_review(
            lookups.revisions, group_problem=explain_no_gate(settings)
        ),
        spoke=lambda settings, lookups: make_spoke_rules(
            lookups.pods, resources_in_place=settings.in_place_vertical_scaling
        ),
        is_protected=True,
    ),
    stored=_STORED,
    control=add_judgement(
        Control(
            name="cloneset",
            component="cloneset-controller",
            objects=CLONE_SET_VIEWS,
            reads=_list_reads,
            wakes=_list_wakes,
            snapshot=read_snapshot,
            object_of=lambda snapshot: snapshot.cloneset,
            plan=plan_cloneset,
            failed=compute_status_after,
            unreported=frozenset({Purpose.TIDY_UP}),
            standing=standing_of,
            own_conditions=frozenset({WAITING, SELECTOR_OVERLAP, TERMINATING_PODS}),
            urgent_conditions=frozenset({WAITING}),
        ),
        _STORED,
    ),
    lends=(*POD_OWNER_LENDS, make_right(PERSISTENT_VOLUME_CLAIMS, "create", "delete", "patch")),
    rights=(
        *list_workload_rights(CLONE_SETS),
        # After a pod is deleted, its name is removed from podsToDelete of its CloneSet.
        make_right(CLONE_SETS, "patch", why="CloneSet: to clear podsToDelete"),
        make_right(POD_UNAVAILABLE_BUDGETS, *READ, why="CloneSet: to check budgets before an update"),
        make_right(
            POD_UNAVAILABLE_BUDGETS,
            "patch",
            subresource="status",
            why="CloneSet: to record disruptions in budgets",
        ),
        make_right(
            IMAGE_PULL_JOBS, *READ, "create", "delete", why="CloneSet: to pull images ahead of updates"
        ),
    ),
    rights_by_gate={**list_follow_rights("CloneSet"), **list_group_rights("CloneSet")},
    insight=INSIGHT,
    shown=SHOWN,
)
