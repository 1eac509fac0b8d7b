"""Changes of a new pod. Cases are those of the specification of PersistentPodState."""

import asyncio
from typing import Any

import msgspec
import pytest

from pykruise.kinds.persistentpodstate.injection import inject
from pykruise.kinds.persistentpodstate.kind import KIND as PERSISTENT_POD_STATE
from pykruise.kinds.persistentpodstate.pod_steps import StateInjection
from pykruise.kinds.persistentpodstate.types import PERSISTENT_POD_STATES
from pykruise.kinds.persistentpodstate.view import ADVANCED, BUILT_IN, StateView, project_state
from pykruise.kube.documents import Document, encode
from pykruise.kube.errors import KubeError, UnreachableError
from pykruise.kube.resources import PODS
from pykruise.kube.values.cel import ALWAYS, NEVER, LabelSelection
from pykruise.kube.values.group_kinds import GroupKind
from pykruise.kube.values.selectors import EVERYTHING
from pykruise.plans.pod_steps import StepError
from pykruise.pods.workload.allowed_workloads import WhiteListError
from support.pod_chains import step_context
from support.reviews import request

TARGET = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "web"}
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
BOTH = {"zone": "a", "host": "n1"}
KIND = PERSISTENT_POD_STATES.kind


def state(
    labels: Document | None = BOTH,
    *,
    required: Any = ("zone",),
    preferred: Any = (("host",),),
    weight: int = 100,
) -> StateView:
    spec: Document = {"targetRef": TARGET}
    if required is not None:
        spec["requiredPersistentTopology"] = {"keys": list(required)}
    if preferred:
        spec["preferredPersistentTopology"] = [
            {"weight": weight, "preference": {"keys": list(keys)}} for keys in preferred
        ]
    states = {"web-1": {"nodeName": "n1", "nodeTopologyLabels": labels}} if labels is not None else {}
    return project_state(
        encode(
            {
                "metadata": {"name": "web", "namespace": "shop", "uid": "s1", "resourceVersion": "1"},
                "spec": spec,
                "status": {"observedGeneration": 1, "podStates": states},
            }
        )
    )


def pod(name: str = "web-1", *, api_version: str = "apps.kruise.io/v1alpha1", **spec: Any) -> Document:
    owner = {**TARGET, "apiVersion": api_version, "uid": "w1", "controller": True}
    return {
        "metadata": {"name": name, "ownerReferences": [owner]},
        "spec": {"containers": [{"name": "main"}], **spec},
    }


def term(key: str, value: str) -> Document:
    return {
        "weight": 100,
        "preference": {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]},
    }


def test_a_recreated_pod_is_sent_to_its_recorded_topology() -> None:
    """persistentpodstate case 27, admission case 27"""
    before = pod()
    result = inject(before, state())
    assert result is not None
    assert result["spec"]["nodeSelector"] == {"zone": "a"}
    assert result["spec"]["affinity"]["nodeAffinity"] == {PREFERRED: [term("host", "n1")]}
    assert result["metadata"]["annotations"] == {"kruise.io/injected-persistent-pod-state": "web"}
    assert before == pod()


def test_the_record_overrides_the_node_selector_of_the_template() -> None:
    """persistentpodstate case 28"""
    result = inject(pod(nodeSelector={"zone": "b", "disk": "ssd"}), state())
    assert result is not None
    assert result["spec"]["nodeSelector"] == {"zone": "a", "disk": "ssd"}


def test_recorded_preferences_are_appended_to_those_of_the_template() -> None:
    """persistentpodstate case 29"""
    required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "x", "operator": "Exists"}]}]}
    given = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": required,
            PREFERRED: [term("disk", "ssd")],
        }
    }
    result = inject(pod(affinity=given), state())
    assert result is not None
    affinity = result["spec"]["affinity"]["nodeAffinity"]
    assert affinity[PREFERRED] == [term("disk", "ssd"), term("host", "n1")]
    assert affinity["requiredDuringSchedulingIgnoredDuringExecution"] == required


@pytest.mark.parametrize("labels", [None, {}], ids=["no record", "no labels"])
def test_a_pod_without_a_record_is_not_changed(labels: Document | None) -> None:
    """persistentpodstate case 30, admission case 28"""
    assert inject(pod(), state(labels)) is None


def test_a_state_without_required_keys_adds_no_node_selector() -> None:
    """persistentpodstate case 31"""
    result = inject(pod(), state(required=None))
    assert result is not None
    assert "nodeSelector" not in result["spec"]


def test_a_state_without_preferred_keys_adds_no_affinity() -> None:
    result = inject(pod(), state(preferred=()))
    assert result is not None
    assert result["spec"] == {"containers": [{"name": "main"}], "nodeSelector": {"zone": "a"}}


@pytest.mark.parametrize("metadata", [None, {}, {"generateName": "web-"}])
def test_a_pod_without_a_name_is_not_changed(metadata: Document | None) -> None:
    """6.5: pods with only generateName never match"""
    assert inject({"metadata": metadata, "spec": {}}, state()) is None


def test_required_keys_without_a_record_change_no_pod() -> None:
    """persistentpodstate case 32"""
    assert inject(pod(), state({"host": "n1"}, preferred=())) is None


def test_preferences_have_what_is_recorded_and_are_left_out_when_that_is_nothing() -> None:
    """persistentpodstate case 33"""
    result = inject(pod(), state({"host": "n1"}, required=None, preferred=(("host", "rack"), ("rack",))))
    assert result is not None
    assert result["spec"]["affinity"]["nodeAffinity"][PREFERRED] == [term("host", "n1")]


@pytest.mark.parametrize("weight", [0, 101])
def test_a_stored_preference_with_an_invalid_weight_changes_no_pod(weight: int) -> None:
    """LIFT-1: the API server would reject the pod"""
    result = inject(pod(), state(weight=weight))
    assert result is not None
    assert result["spec"] == {"containers": [{"name": "main"}], "nodeSelector": {"zone": "a"}}
    assert inject(pod(), state(weight=weight, required=None)) is None


# ── the step ─────────────────────────────────────────────────────────────────


class Reader:
    """Reads of these PersistentPodStates; `asked`: the namespaces that were read, `error`: the error of each read."""

    def __init__(self, *states: StateView, is_broken: bool = False, error: KubeError | None = None) -> None:
        self.found, self.is_broken, self.error = states, is_broken, error
        self.asked: list[str] = []

    async def list_states(self, namespace: str) -> tuple[StateView, ...]:
        self.asked.append(namespace)
        if self.error is not None:
            raise self.error
        return self.found

    async def is_supported(self, kind: GroupKind | None) -> bool:
        if kind not in (ADVANCED, BUILT_IN) and self.is_broken:
            raise WhiteListError("no JSON")
        return kind in (ADVANCED, BUILT_IN)


def changed(value: Document, reader: Reader, **fields: Any) -> Document | None:
    review = request(PODS, value, **fields)
    return asyncio.run(StateInjection(step_context(PERSISTENT_POD_STATE, reader)).change(value, review))


def test_the_version_of_the_owner_does_not_matter_and_a_dry_run_is_changed_too() -> None:
    """persistentpodstate cases 34 and 36"""
    assert changed(pod(), Reader(state())) is not None
    assert changed(pod(), Reader(state()), dry_run=True) is not None


def test_pods_of_a_set_of_another_group_get_nothing() -> None:
    """persistentpodstate case 37"""
    assert changed(pod(api_version="apps/v1"), Reader(state())) is None


def test_pods_of_other_kinds_cost_nothing() -> None:
    """persistentpodstate case 35"""
    reader, pods = Reader(state()), pod(api_version="apps/v1")
    pods["metadata"]["ownerReferences"][0]["kind"] = "ReplicaSet"
    assert changed(pods, reader) is None
    assert reader.asked == []


@pytest.mark.parametrize(
    "metadata",
    [{**pod()["metadata"], "name": None, "generateName": "web-"}, {"name": "web-1"}, None],
    ids=["no name", "no owner", "nothing"],
)
def test_a_pod_without_a_name_or_an_owner_costs_nothing(metadata: Document | None) -> None:
    reader = Reader(state())
    assert changed({"metadata": metadata, "spec": {}}, reader) is None
    assert reader.asked == []


def test_states_are_those_of_the_namespace_that_the_pod_is_created_in() -> None:
    reader = Reader(state())
    assert changed(pod(), reader, namespace="market") is not None
    assert reader.asked == ["market"]


def test_states_that_cannot_be_read_stop_no_pod() -> None:
    """6.5: an error of the list counts as an empty list"""
    assert changed(pod(), Reader(error=UnreachableError("no API server"))) is None


def test_an_owner_with_an_unreadable_kind_has_no_persistentpodstate() -> None:
    """A PersistentPodState without a target does not belong to it either"""
    unnamed = msgspec.structs.replace(state(), spec=None)
    assert changed(pod(api_version="a/b/c"), Reader(unnamed)) is None


def test_the_match_condition_covers_named_pods_only_where_states_exist() -> None:
    step = StateInjection(step_context(PERSISTENT_POD_STATE, Reader(state())))
    assert (
        step.build_match_condition({})
        == step.build_match_condition({KIND: [LabelSelection(selector=EVERYTHING)]})
        != ALWAYS
    )
    assert "has(object.metadata.name)" in step.build_match_condition({})
    assert step.build_match_condition({KIND: []}) == NEVER


def test_a_white_list_that_cannot_be_read_refuses_pods_that_may_be_on_it() -> None:
    """persistentpodstate case 39: not pods of StatefulSets, which need no list"""
    entry = pod(api_version="example.com/v1")
    with pytest.raises(StepError, match="white list"):
        changed(entry, Reader(is_broken=True))
    assert changed(pod(), Reader(state(), is_broken=True)) is not None
