"""Registration of the kind PersistentPodState for the rest of the program.

KIND ──▶ definitions, conversion, roles, caches, controllers, admission, doctor, explain, plan (plans/kind.py)
"""

from typing import Final

from pykruise.kinds.persistentpodstate.admission import build_validating_review
from pykruise.kinds.persistentpodstate.conversion import CONVERSION
from pykruise.kinds.persistentpodstate.insight import INSIGHT
from pykruise.kinds.persistentpodstate.plan import plan_state
from pykruise.kinds.persistentpodstate.pod_steps import STEPS
from pykruise.kinds.persistentpodstate.readers import RIGHTS
from pykruise.kinds.persistentpodstate.shown import SHOWN
from pykruise.kinds.persistentpodstate.snapshot import StateSettings, read_snapshot
from pykruise.kinds.persistentpodstate.types import PERSISTENT_POD_STATES, PersistentPodState
from pykruise.kinds.persistentpodstate.v1alpha1 import PersistentPodStateV1Alpha1
from pykruise.kinds.persistentpodstate.validation import find_stored_errors
from pykruise.kinds.persistentpodstate.view import (
    STATE_VIEWS,
    WORKLOAD_VIEWS,
    make_absent_view,
    make_further_views,
)
from pykruise.kinds.persistentpodstate.wakes import list_wakes, make_further_wake
from pykruise.kube.rbac import READ, WRITE, make_right
from pykruise.kube.resources import PODS
from pykruise.plans.kind import Kind, make_two_versions
from pykruise.plans.review import Reviews
from pykruise.plans.stored_values import StoredSpec, add_judgement
from pykruise.plans.views import NODE_VIEWS, POD_VIEWS
from pykruise.pods.workload.allowed_workloads import CONFIGURATION, STATEFUL_KINDS, read_white_list
from pykruise.runtime.control import Control
from pykruise.runtime.named_kinds import FurtherReads

_STORED: Final = StoredSpec(
    errors=find_stored_errors,
    kept={
        "spec.requiredPersistentTopology.keys": "the labels that nodes have are recorded and required",
        "spec.preferredPersistentTopology[].preference.keys": "the labels that nodes have are recorded and preferred",
        "spec.preferredPersistentTopology[].weight": "the labels are recorded, and new pods do not get the preference",
        "spec.persistentPodAnnotations": "the annotations that pods have are recorded",
        "spec.persistentPodStateRetentionPolicy": "the policy is WhenScaled",
    },
)

KIND = Kind(
    resource=PERSISTENT_POD_STATES,
    versions=make_two_versions(PersistentPodState, PersistentPodStateV1Alpha1),
    conversion=CONVERSION,
    settings=StateSettings,
    reviews=Reviews(
        validating=lambda _, lookups: build_validating_review(lookups.readers.get("persistentpodstate"))
    ),
    stored=_STORED,
    control=add_judgement(
        Control(
            name="persistentpodstate",
            component="persistentpodstate-controller",
            objects=STATE_VIEWS,
            reads=lambda _: (POD_VIEWS, NODE_VIEWS, *WORKLOAD_VIEWS.values()),
            further=FurtherReads(
                configuration=CONFIGURATION,
                key=STATEFUL_KINDS,
                read=lambda text: read_white_list(text).workloads,
                namespace=lambda settings: str(settings.namespace),
                views=make_further_views,
                wake=make_further_wake,
                known=frozenset(WORKLOAD_VIEWS),
            ),
            wakes=list_wakes,
            absent=make_absent_view,
            snapshot=read_snapshot,
            object_of=lambda snapshot: snapshot.state,
            plan=plan_state,
        ),
        _STORED,
    ),
    lends=(make_right(PODS, "create"),),
    rights=(
        *RIGHTS,
        make_right(
            PERSISTENT_POD_STATES,
            *WRITE,
            why="PersistentPodState: to create the objects that workloads request",
        ),
        make_right(
            PERSISTENT_POD_STATES,
            "patch",
            subresource="status",
            why="PersistentPodState: to record the nodes of pods",
        ),
        *(
            make_right(
                views.resource, *READ, why="PersistentPodState: to read the workloads of recorded pods"
            )
            for views in WORKLOAD_VIEWS.values()
        ),
    ),
    insight=INSIGHT,
    shown=SHOWN,
    pods=STEPS,
)
