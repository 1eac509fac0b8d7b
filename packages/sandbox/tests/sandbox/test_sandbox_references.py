"""Pods that refer to missing objects do not run, in each form of a reference."""

import asyncio
from typing import Any

import msgspec
import pytest

from pykruise.kube.resources import CONFIG_MAPS, EVENTS, PODS, SECRETS
from pykruise.kube.schemas.builtin_types import fields_of
from pykruise.sandbox.nodes.references import (
    EnvironmentSource,
    ProjectedSource,
    ValueSource,
    VolumeSources,
    lack_of,
    references_of,
)
from support.sandbox import pod, small_cluster

Spec = dict[str, Any]


def env(source: Spec) -> Spec:
    return {"env": [{"name": "A", "valueFrom": source}]}


CONTAINERS = {
    "a key of a ConfigMap": env({"configMapKeyRef": {"name": "there", "key": "k"}}),
    "a key of a Secret": env({"secretKeyRef": {"name": "there", "key": "k"}}),
    "a whole ConfigMap": {"envFrom": [{"configMapRef": {"name": "there"}}]},
    "a whole Secret": {"envFrom": [{"secretRef": {"name": "there"}}]},
}
VOLUMES: dict[str, Spec] = {
    "a ConfigMap": {"configMap": {"name": "there"}},
    "an item of a ConfigMap": {"configMap": {"name": "there", "items": [{"key": "k", "path": "p"}]}},
    "a Secret": {"secret": {"secretName": "there"}},
    "an item of a Secret": {"secret": {"secretName": "there", "items": [{"key": "k", "path": "p"}]}},
    "a projected ConfigMap": {"projected": {"sources": [{"configMap": {"name": "there"}}]}},
    "a projected Secret": {
        "projected": {"sources": [{"secret": {"name": "there", "items": [{"key": "k", "path": "p"}]}}]}
    },
}


def optional(node: Any) -> Any:
    """A copy in which every reference is optional."""
    if isinstance(node, list):
        return [optional(item) for item in node]
    if not isinstance(node, dict):
        return node
    result = {name: optional(value) for name, value in node.items()}
    is_reference = "name" in result and "valueFrom" not in result and "sources" not in result
    return {**result, "optional": True} if is_reference or "secretName" in result else result


async def created(place: Any, key: str = "k") -> None:
    body = {"metadata": {"name": "there"}, "data": {key: "dg=="}}
    await place.create(CONFIG_MAPS, body)
    await place.create(SECRETS, body)


@pytest.mark.parametrize("field", ["containers", "initContainers"])
@pytest.mark.parametrize("spelling", CONTAINERS)
async def test_a_container_waits_for_what_its_environment_refers_to(spelling: str, field: str) -> None:
    async with small_cluster() as place:
        # given a pod whose container refers to a missing object
        doc = pod("web")
        container = {"name": "refers", "image": "busybox", **CONTAINERS[spelling]}
        doc["spec"][field] = [*doc["spec"].get(field, ()), container]
        await place.create(PODS, doc)
        await asyncio.sleep(30)
        # then its status names the missing object
        status = (await place.get(PODS, "web"))["status"]
        states = [*status["containerStatuses"], *status.get("initContainerStatuses", ())]
        (waiting,) = [state["state"]["waiting"] for state in states if state["name"] == "refers"]
        assert waiting["reason"] == "CreateContainerConfigError"
        assert waiting["message"] in ('configmap "there" not found', 'secret "there" not found')
        assert not await place.is_ready("web")
        # and the container starts when the object is created
        await created(place)
        if field == "containers":
            await place.until(lambda: place.is_ready("web"))


@pytest.mark.parametrize("spelling", VOLUMES)
async def test_no_container_starts_before_the_volumes_are_mounted(spelling: str) -> None:
    async with small_cluster() as place:
        doc = pod("web", volumes=[{"name": "v", **VOLUMES[spelling]}])
        await place.create(PODS, doc)
        await asyncio.sleep(30)
        status = (await place.get(PODS, "web"))["status"]
        assert [item["state"] for item in status["containerStatuses"]] == [
            {"waiting": {"reason": "ContainerCreating"}}
        ]
        listed = [msgspec.json.decode(raw) for raw in (await place.client.list(EVENTS, "default")).items]
        assert any("there" in item["message"] for item in listed if item["reason"] == "FailedMount")
        # when the object is created
        await created(place)
        await place.until(lambda: place.is_ready("web"))


@pytest.mark.parametrize(
    "spelling",
    [container for container in CONTAINERS if "key" in container]
    + [volume for volume in VOLUMES if "item" in volume],
)
async def test_a_key_that_is_missing_is_as_missing_as_the_object(spelling: str) -> None:
    async with small_cluster() as place:
        doc = pod("web")
        if spelling in CONTAINERS:
            doc["spec"]["containers"][0] |= CONTAINERS[spelling]
        else:
            doc["spec"]["volumes"] = [{"name": "v", **VOLUMES[spelling]}]
        await created(place, key="other")
        await place.create(PODS, doc)
        await asyncio.sleep(30)
        assert not await place.is_ready("web")


async def test_a_pull_secret_that_is_missing_is_an_event_and_the_pod_runs() -> None:
    async with small_cluster() as place:
        await place.create(PODS, pod("web", imagePullSecrets=[{"name": "there"}, {"name": "not-there"}]))
        await place.create(PODS, pod("plain", imagePullSecrets=[{"name": "there"}]))
        await created(place)
        await place.until(lambda: place.is_ready("web"))
        await asyncio.sleep(5)
        listed = [msgspec.json.decode(raw) for raw in (await place.client.list(EVENTS, "default")).items]
        (event,) = [
            item
            for item in listed
            if item["reason"] == "FailedToRetrieveImagePullSecret" and item["involvedObject"]["name"] == "web"
        ]
        assert "not-there" in event["message"]


async def test_optional_references_are_not_waited_for() -> None:
    async with small_cluster() as place:
        for number, part in enumerate(CONTAINERS.values()):
            doc = pod(f"env-{number}")
            doc["spec"]["containers"][0] |= optional(part)
            await place.create(PODS, doc)
            await place.until(lambda name=f"env-{number}": place.is_ready(name))
        for number, part in enumerate(VOLUMES.values()):
            doc = pod(f"volume-{number}", volumes=[{"name": "v", **optional(part)}])
            await place.create(PODS, doc)
            await place.until(lambda name=f"volume-{number}": place.is_ready(name))


@pytest.mark.parametrize(
    ("kind", "known"),
    [
        ("EnvVarSource", ValueSource),
        ("EnvFromSource", EnvironmentSource),
        ("Volume", VolumeSources),
        ("VolumeProjection", ProjectedSource),
    ],
)
def test_every_reference_to_a_configmap_or_secret_that_kubernetes_has_is_known(
    kind: str, known: type[msgspec.Struct]
) -> None:
    fields = {
        name
        for name in fields_of(f"io.k8s.api.core.v1.{kind}") or ()
        if name.lower().startswith(("configmap", "secret"))
    }
    assert fields
    assert fields <= {field.encode_name for field in msgspec.structs.fields(known)}


def test_the_words_are_those_of_kubelets() -> None:
    (whole,) = references_of([msgspec.convert({"secretRef": {"name": "s"}}, EnvironmentSource)])
    assert lack_of(whole, None, namespace="shop") == 'secret "s" not found'
    (item,) = references_of(
        [msgspec.convert({"configMap": {"name": "c", "items": [{"key": "k"}]}}, VolumeSources)]
    )
    assert lack_of(item, {"data": {}}, namespace="shop") == "couldn't find key k in ConfigMap shop/c"
    assert lack_of(item, {"binaryData": {"k": ""}}, namespace="shop") == ""
