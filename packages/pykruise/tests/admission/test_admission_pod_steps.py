"""Steps of pod admission for pods without usual fields, and the limits of values."""

from typing import Any

import orjson
import pytest

from pykruise.kinds.enhancedliveness.pod_steps import move_probes
from pykruise.kinds.gates import Gates
from pykruise.kinds.launchpriority.kind import KIND as LAUNCH_PRIORITY
from pykruise.kinds.launchpriority.pod_steps import LaunchPriority
from pykruise.kinds.podreadiness.kind import KIND as POD_READINESS
from pykruise.kinds.podreadiness.pod_steps import ReadinessGate
from pykruise.kube.documents import Document, deep_copy
from pykruise.kube.resources import PODS
from pykruise.plans.pod_steps import PodStep, StepError, is_dry
from support.pod_chains import step_context
from support.reviews import request

PRIORITY, BARRIER = "KRUISE_CONTAINER_PRIORITY", "KRUISE_CONTAINER_BARRIER"
ORDERED = {"apps.kruise.io/container-launch-priority": "Ordered"}


async def changed(step: PodStep, pod: Document) -> Document | None:
    before = deep_copy(pod)
    result = await step.change(pod, request(PODS, pod))
    assert pod == before, "what came in is not changed"
    return result


# ── launch priority ──────────────────────────────────────────────────────────


async def launched(*containers: Document, **metadata: Any) -> Document | None:
    """A pod with these containers, after the step."""
    pod = {"metadata": {"name": "web-x", **metadata}, "spec": {"containers": list(containers)}}
    return await changed(LaunchPriority(step_context(LAUNCH_PRIORITY)), pod)


def wants(name: str, priority: str, *env: Document) -> Document:
    return {"name": name, "env": [{"name": PRIORITY, "value": priority}, *env]}


def keys_of(keys: Document | None) -> list[str]:
    """Keys of the barriers that the containers wait for."""
    assert keys is not None
    last = [container["env"][-1] for container in keys["spec"]["containers"]]
    assert {item["name"] for item in last} == {BARRIER}
    return [item["valueFrom"]["configMapKeyRef"]["key"] for item in last]


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63)])
async def test_a_priority_has_64_bits(value: int) -> None:
    """admission case 22"""
    assert keys_of(await launched(wants("a", str(value)), {"name": "b"})) == [f"p_{value}", "p_0"]
    beyond = value + (1 if value > 0 else -1)
    with pytest.raises(StepError, match=str(beyond)):
        await launched(wants("a", str(beyond)), {"name": "b"})


async def test_a_priority_from_a_field_reference_is_refused() -> None:
    reference = {"name": PRIORITY, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    with pytest.raises(StepError, match="is ''") as refused:
        await launched({"name": "a", "env": [reference]}, {"name": "b"})
    assert refused.value.code == 500


async def test_other_variables_stay_before_the_barrier() -> None:
    other = {"name": "OTHER", "value": "x"}
    containers = wants("a", "1", other), {"name": "b", "env": None}, {"name": "c", "env": [other]}
    result = await launched(*containers, labels={"app": "web"})
    assert keys_of(result) == ["p_1", "p_0", "p_0"]
    assert result is not None
    assert result["metadata"] == {"name": "web-x", "labels": {"app": "web"}}
    assert [container["env"][:-1] for container in result["spec"]["containers"]] == [
        [{"name": PRIORITY, "value": "1"}, other],
        [],
        [other],
    ]


async def test_only_those_without_a_barrier_get_one() -> None:
    mine = {"name": BARRIER, "value": "mine"}
    result = await launched(wants("a", "1", mine, {"name": "LAST"}), {"name": "b"})
    assert result is not None
    first, second = result["spec"]["containers"]
    assert first == wants("a", "1", mine, {"name": "LAST"})
    assert [variable["name"] for variable in second["env"]] == [BARRIER]


async def test_a_generated_name_is_chosen_only_for_a_pod_without_a_name() -> None:
    """admission case 21"""
    asked = (wants("a", "1"), {"name": "b"})
    named = await launched(*asked, name="web-0", generateName="web-")
    bare = await launched(*asked, name=None)
    assert named is not None
    assert bare is not None
    assert (named["metadata"]["name"], bare["metadata"]["name"]) == ("web-0", "")


async def test_a_pod_without_metadata_gets_launch_priorities() -> None:
    pod = {"spec": {"containers": [wants("a", "1"), {"name": "b"}]}}
    assert keys_of(await changed(LaunchPriority(step_context(LAUNCH_PRIORITY)), pod)) == ["p_1", "p_0"]


@pytest.mark.parametrize("spec", [None, {}, {"containers": None}, {"containers": []}])
async def test_no_containers_have_no_order(spec: Document | None) -> None:
    for annotations in ({}, ORDERED):
        pod = {"metadata": {"name": "web-x", "annotations": annotations}, "spec": spec}
        assert await changed(LaunchPriority(step_context(LAUNCH_PRIORITY)), pod) is None


# ── enhanced liveness ────────────────────────────────────────────────────────

PROBE = {"exec": {"command": ["true"]}}


@pytest.mark.parametrize("metadata", [None, {"name": "web-x", "labels": {"app": "web"}}])
def test_probes_move_and_all_else_stays(metadata: Document | None) -> None:
    """admission case 29"""
    containers = [{"name": "a", "image": "i", "livenessProbe": PROBE}, {"name": "b"}]
    pod = {"kind": "Pod", "metadata": metadata, "spec": {"nodeName": "n", "containers": containers}}
    stays = move_probes(pod)
    assert stays is not None
    text = stays["metadata"]["annotations"].pop("apps.kruise.io/container-probe-context")
    assert orjson.loads(text) == [{"name": "a", "livenessProbe": PROBE}]
    assert stays == {
        "kind": "Pod",
        "metadata": {**(metadata or {}), "annotations": {}},
        "spec": {"nodeName": "n", "containers": [{"name": "a", "image": "i"}, {"name": "b"}]},
    }


@pytest.mark.parametrize(
    "spec", [None, {}, {"containers": None}, {"containers": [{"name": "a"}, {"livenessProbe": None}]}]
)
def test_a_pod_without_liveness_probes_is_not_changed(spec: Document | None) -> None:
    assert move_probes({"metadata": {"name": "x"}, "spec": spec}) is None


# ── readiness gate ───────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("spec", "gates"),
    [
        (None, ["KruisePodReady"]),
        ({"readinessGates": None}, ["KruisePodReady"]),
        ({"readinessGates": [{}, {"conditionType": "mine"}]}, [None, "mine", "KruisePodReady"]),
    ],
)
async def test_the_pod_ready_gate_is_appended_last(spec: Document | None, gates: list[str | None]) -> None:
    context = step_context(POD_READINESS, gates=Gates.of(KruisePodReadinessGate=True))
    result = await changed(ReadinessGate(context), {"metadata": {"name": "x"}, "spec": spec})
    assert result is not None
    assert result["metadata"] == {"name": "x"}
    assert [gate.get("conditionType") for gate in result["spec"]["readinessGates"]] == gates


# ── dry runs ─────────────────────────────────────────────────────────────────

DRY = {"dryRun": ["All"]}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, False),
        ({"dry_run": True}, True),
        ({"options": DRY}, True),
        ({"options": {"dryRun": None}}, False),
        ({"options": {}}, False),
        ({"subresource": "eviction", "doc": {"deleteOptions": DRY}}, True),
        ({"subresource": "eviction", "doc": {"deleteOptions": {"dryRun": None}}}, False),
        ({"subresource": "eviction", "doc": {"deleteOptions": None}}, False),
        ({"subresource": "eviction", "doc": {}}, False),
        # in another request, deleteOptions is a field without a meaning
        ({"subresource": "", "doc": {"deleteOptions": DRY}}, False),
        ({"subresource": "eviction", "operation": "CREATE"}, False),
    ],
)
def test_a_dry_run_is_recognized_in_three_places(asked: dict[str, Any], expected: bool) -> None:
    assert is_dry(request(PODS, asked.pop("doc", None), **asked)) is expected
