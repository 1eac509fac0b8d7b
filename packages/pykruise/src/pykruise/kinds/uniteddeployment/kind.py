"""Registration of the kind UnitedDeployment for the rest of the program.

KIND ──▶ definitions, roles, caches, controllers, admission, doctor, explain, plan (plans/kind.py)

A CloneSet template of v1alpha1 has the fields of a v1beta1 CloneSet, and also the flat update strategy of a v1alpha1
CloneSet, which manifests for releases before OpenKruise 1.9 use.
"""

from typing import Any, Final

from pykruise.kinds.uniteddeployment.admission import build_mutating_review, validate_united
from pykruise.kinds.uniteddeployment.conversion import CONVERSION
from pykruise.kinds.uniteddeployment.insight import INSIGHT
from pykruise.kinds.uniteddeployment.plan import compute_status_after, plan_united
from pykruise.kinds.uniteddeployment.shown import SHOWN
from pykruise.kinds.uniteddeployment.snapshot import (
    REPLICA_SET_VIEWS,
    UNITED_VIEWS,
    UnitedSettings,
    read_snapshot,
)
from pykruise.kinds.uniteddeployment.types import UNITED_DEPLOYMENTS, UnitedDeployment
from pykruise.kinds.uniteddeployment.v1alpha1 import UnitedDeploymentV1Alpha1
from pykruise.kinds.uniteddeployment.validation import find_stored_errors
from pykruise.kinds.uniteddeployment.wakes import list_wakes
from pykruise.kinds.uniteddeployment.workload_documents import list_subset_revisions
from pykruise.kinds.uniteddeployment.workloads import TEMPLATES, WORKLOAD_VIEWS
from pykruise.kube.documents import Document
from pykruise.kube.rbac import READ, WRITE, make_right
from pykruise.kube.resources import DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS
from pykruise.kube.schemas.crds import Column, ScalePaths, Version
from pykruise.kube.schemas.merged_lists import build_merging_object
from pykruise.plans.kind import AGE, Kind, SpecSchema, list_workload_rights
from pykruise.plans.purposes import Purpose
from pykruise.plans.review import Reviews
from pykruise.plans.stored_values import TEMPLATE_IS_JUDGED_LATER, StoredSpec, add_judgement
from pykruise.plans.views import POD_VIEWS, REVISION_VIEWS
from pykruise.pods.workload.amounts import EACH, Amount
from pykruise.pods.workload.derived_names import HASH, LONGEST_LABEL, DerivedName
from pykruise.pods.workload.kstatus import standing_of
from pykruise.pods.workload.v1alpha1_strategy import FLAT_FIELDS
from pykruise.runtime.control import Control

_COLUMNS = (
    Column("DESIRED", "integer", ".spec.replicas"),
    Column("CURRENT", "integer", ".status.replicas"),
    Column("UPDATED", "integer", ".status.updatedReplicas"),
    Column("READY", "integer", ".status.readyReplicas"),
    AGE,
)

_CLONE_SET: Final = "spec.template.cloneSetTemplate.spec"
_STATEFUL_SET: Final = "spec.template.advancedStatefulSetTemplate.spec"


def _build_versions(schema_of: SpecSchema) -> tuple[Version, ...]:
    """Build the versions. The specs of the templates have the schemas of the v1beta1 workloads."""
    clone_set, stateful_set = schema_of("CloneSet"), schema_of("StatefulSet")
    builtin = {
        "spec.template.deploymentTemplate.spec": build_merging_object("io.k8s.api.apps.v1.DeploymentSpec"),
        "spec.template.statefulSetTemplate.spec": build_merging_object("io.k8s.api.apps.v1.StatefulSetSpec"),
    }
    old = {_CLONE_SET: _with_released_fields(clone_set), _STATEFUL_SET: stateful_set, **builtin}
    new = {_CLONE_SET: clone_set, _STATEFUL_SET: stateful_set, **builtin}
    shown: dict[str, Any] = {"columns": _COLUMNS, "scale": ScalePaths()}
    return (
        Version(name="v1alpha1", root=UnitedDeploymentV1Alpha1, embeds=old, **shown),
        Version(name="v1beta1", root=UnitedDeployment, embeds=new, storage=True, **shown),
    )


_DISABLES_REUSE: Final[Document] = {
    "description": "Whether a recreated pod gets new PVCs instead of those of the previous pod.",
    "type": "boolean",
}


def _with_released_fields(spec: Document) -> Document:
    """Return the schema of a CloneSet spec that also accepts the fields of v1alpha1 CloneSets.

    The schema has no defaults, because a field that a v1alpha1 template omits has the default of a v1alpha1 CloneSet.
    """
    strategy = spec["properties"]["updateStrategy"]
    rolling = strategy["properties"]["rollingUpdate"]["properties"]
    flat = {field: rolling[field] for field in FLAT_FIELDS}
    strategy = {**strategy, "properties": {**strategy["properties"], **flat}}
    scale = spec["properties"]["scaleStrategy"]
    fields = {
        name: {key: part for key, part in field.items() if key != "default"}
        for name, field in scale["properties"].items()
    }
    scale = {**scale, "properties": {**fields, "disablePVCReuse": _DISABLES_REUSE}}
    return {**spec, "properties": {**spec["properties"], "updateStrategy": strategy, "scaleStrategy": scale}}


_STORED: Final = StoredSpec(
    errors=find_stored_errors,
    kept={
        "spec.template.statefulSetTemplate.spec.template": TEMPLATE_IS_JUDGED_LATER,
        "spec.template.advancedStatefulSetTemplate.spec.template": TEMPLATE_IS_JUDGED_LATER,
        "spec.template.cloneSetTemplate.spec.template": TEMPLATE_IS_JUDGED_LATER,
        "spec.template.deploymentTemplate.spec.template": TEMPLATE_IS_JUDGED_LATER,
        "spec.updateStrategy.type": "a type that is not Manual has no partitions",
        "spec.topology.subsets[].patch": "only the subset with this patch fails",
    },
)

KIND = Kind(
    resource=UNITED_DEPLOYMENTS,
    versions=_build_versions,
    short_names=("ud",),
    conversion=CONVERSION,
    amounts=(
        Amount(path=("spec", "topology", "subsets", EACH, "replicas")),
        Amount(path=("spec", "topology", "subsets", EACH, "minReplicas")),
        Amount(path=("spec", "topology", "subsets", EACH, "maxReplicas")),
    ),
    derived=(
        DerivedName(
            what="the label apps.kruise.io/controller-revision-hash of its workloads and pods",
            longest=LONGEST_LABEL,
            of=lambda doc, _: (f"{doc['metadata']['name']}{HASH}",),
        ),
        DerivedName(
            what="the label controller-revision-hash of a subset's pods",
            longest=LONGEST_LABEL,
            of=lambda doc, _: list_subset_revisions(doc),
        ),
    ),
    settings=UnitedSettings,
    reviews=Reviews(
        mutating=lambda settings, _: build_mutating_review(settings),
        validating=lambda *_: validate_united,
        is_protected=True,
    ),
    stored=_STORED,
    control=add_judgement(
        Control(
            name="uniteddeployment",
            component="uniteddeployment-controller",
            objects=UNITED_VIEWS,
            reads=lambda _: (POD_VIEWS, REVISION_VIEWS, REPLICA_SET_VIEWS, *WORKLOAD_VIEWS.values()),
            wakes=list_wakes,
            snapshot=read_snapshot,
            object_of=lambda snapshot: snapshot.united,
            plan=plan_united,
            failed=compute_status_after,
            unreported=frozenset({Purpose.TRUNCATE_REVISIONS}),
            standing=standing_of,
        ),
        _STORED,
    ),
    lends=tuple(make_right(resource, *WRITE) for resource in (DEPLOYMENTS, STATEFUL_SETS)),
    rights=(
        *list_workload_rights(UNITED_DEPLOYMENTS),
        *(
            make_right(resource, *READ, *WRITE, why="UnitedDeployment: to own the workloads of its subsets")
            for resource in TEMPLATES.values()
        ),
        make_right(REPLICA_SETS, *READ, why="UnitedDeployment: to find the workload of a pod"),
    ),
    insight=INSIGHT,
    shown=SHOWN,
)
