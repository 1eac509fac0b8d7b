"""Fields of templates in the two versions of UnitedDeployments."""

from pykruise.kinds.uniteddeployment.kind import KIND
from pykruise.kube.documents import Document
from pykruise.kube.schemas.crds import Version
from pykruise.kube.schemas.merged_lists import build_merging_object
from pykruise.pods.workload.v1alpha1_strategy import FLAT_FIELDS

ROLLING: Document = {field: {"description": field} for field in (*FLAT_FIELDS, "podUpdatePolicy")}
CLONE_SET: Document = {
    "properties": {
        "replicas": {"type": "integer"},
        "updateStrategy": {"properties": {"type": {}, "rollingUpdate": {"properties": ROLLING}}},
        "scaleStrategy": {"properties": {"enablePVCReuse": {"type": "boolean", "default": False}}},
    }
}
STATEFUL_SET: Document = {"properties": {"replicas": {"type": "integer"}}}


def versions() -> tuple[Version, ...]:
    assert callable(KIND.versions)
    return KIND.versions({"CloneSet": CLONE_SET, "StatefulSet": STATEFUL_SET}.__getitem__)


def test_v1beta1_is_stored_and_both_can_be_scaled() -> None:
    assert [(version.name, version.storage, version.scale is not None) for version in versions()] == [
        ("v1alpha1", False, True),
        ("v1beta1", True, True),
    ]


def test_templates_have_the_schemas_of_their_workloads_and_the_older_takes_a_flat_strategy_too() -> None:
    old, new = (version.embeds for version in versions())
    clone_set, stateful_set = (
        "spec.template.cloneSetTemplate.spec",
        "spec.template.advancedStatefulSetTemplate.spec",
    )
    builtin = {
        f"spec.template.{template}.spec": build_merging_object(f"io.k8s.api.apps.v1.{kind}Spec")
        for template, kind in (("deploymentTemplate", "Deployment"), ("statefulSetTemplate", "StatefulSet"))
    }
    assert new == {clone_set: CLONE_SET, stateful_set: STATEFUL_SET, **builtin}
    assert old[stateful_set] == STATEFUL_SET
    # all fields of a CloneSet, whose strategy has the fields of rollingUpdate, too
    result = old[clone_set]["properties"]
    strategy = result["updateStrategy"]["properties"]
    nested = CLONE_SET["properties"]["updateStrategy"]["properties"]
    differing = {name: CLONE_SET["properties"][name] for name in ("updateStrategy", "scaleStrategy")}
    assert {**result, **differing} == CLONE_SET["properties"]
    scale = result["scaleStrategy"]["properties"]
    assert scale.keys() == {*CLONE_SET["properties"]["scaleStrategy"]["properties"], "disablePVCReuse"}
    assert not any("default" in field for field in scale.values())
    assert strategy == {**nested, **{field: ROLLING[field] for field in FLAT_FIELDS}}
