"""PersistentPodStates at work: pods of a StatefulSet come back to where they were.

Cases are those of the specification of PersistentPodState.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import pytest

from pykruise.kinds.persistentpodstate.types import PERSISTENT_POD_STATES
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kube.client.transport import Transport
from pykruise.kube.errors import AlreadyExistsError, BadRequestError, NotFoundError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    PODS,
    STATEFUL_SETS,
    Resource,
)
from pykruise.manager.settings import NAMESPACE
from pykruise.pods.view.keys import INJECTED_STATE_ANNOTATION
from pykruise.pods.workload.allowed_workloads import CONFIGURATION
from support.control_plane import grant
from support.faults import (
    Answer,
    DropAnswer,
    FaultyTransport,
    GoneAfter,
    conflict,
    patches,
    posts,
    reads,
    watches,
)
from support.scenario import Object, Stage, cloneset
from support.statefulsets import Sets, statefulset

HOST = "kubernetes.io/hostname"
STATES = "/persistentpodstates"
STATUS = "/persistentpodstates/web/status"
TARGET = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "web"}
AUTO = {
    "kruise.io/auto-generate-persistent-pod-state": "true",
    "kruise.io/required-persistent-topology": HOST,
    "kruise.io/preferred-persistent-topology": "kubernetes.io/os, kubernetes.io/arch,",
}

POD = {"containers": [{"name": "main", "image": "nginx:1"}]}

needs_admission = pytest.mark.needs_admission


def state(name: str = "web", **spec: Any) -> Object:
    return {
        "apiVersion": PERSISTENT_POD_STATES.api_version,
        "kind": PERSISTENT_POD_STATES.kind,
        "metadata": {"name": name},
        "spec": {"targetRef": TARGET, "requiredPersistentTopology": {"keys": [HOST]}, **spec},
    }


async def records(stage: Stage, name: str = "web") -> dict[str, Any]:
    result = (await stage.get(name, resource=PERSISTENT_POD_STATES)).get("status") or {}
    return dict(result.get("podStates") or {})


async def until_recorded(stage: Stage, *names: str) -> dict[str, Any]:
    async def are_recorded() -> bool:
        return set(await records(stage)) == set(names)

    await stage.until(are_recorded, what=f"records of {names}")
    return await records(stage)


async def remembered(stage: Stage, *, replicas: int = 3, **spec: Any) -> tuple[Sets, dict[str, Any]]:
    """A StatefulSet with a PersistentPodState that has recorded all of its pods."""
    sets = Sets(stage)
    await stage.start_manager()
    await sets.create(replicas=replicas, parallel=True)
    await stage.create(state(**spec), resource=PERSISTENT_POD_STATES)
    await sets.settled(replicas=replicas)
    return sets, await until_recorded(stage, *(f"web-{number}" for number in range(replicas)))


@pytest.mark.node
async def test_a_deleted_pod_is_recreated_on_its_node(stage: Stage) -> None:
    """persistentpodstate cases 1, 4, 27 and 30"""
    sets, before = await remembered(stage)
    pod = await stage.get("web-1", resource=PODS)
    assert "nodeSelector" not in pod["spec"]
    assert before["web-1"]["nodeName"] == pod["spec"]["nodeName"]
    # when
    await stage.delete("web-1", resource=PODS)

    async def is_back() -> Object | None:
        there = {entry["metadata"]["name"]: entry for entry in await stage.stored(PODS)}
        outcome = there.get("web-1")
        return outcome if outcome and outcome["metadata"]["uid"] != pod["metadata"]["uid"] else None

    result = await stage.until(is_back, what="the pod is back")
    # then
    assert result["metadata"]["annotations"][INJECTED_STATE_ANNOTATION] == "web"
    assert result["spec"]["nodeSelector"] == before["web-1"]["nodeTopologyLabels"]
    await sets.settled(replicas=3)
    assert (await stage.get("web-1", resource=PODS))["spec"]["nodeName"] == pod["spec"]["nodeName"]
    assert await records(stage) == before


@pytest.mark.node
async def test_records_of_surplus_pods_are_removed_with_them(stage: Stage) -> None:
    """persistentpodstate case 15"""
    sets, _ = await remembered(stage)
    await sets.scale(1)
    await sets.settled(replicas=1)
    await until_recorded(stage, "web-0")


@pytest.mark.node
async def test_records_may_be_kept_until_the_workload_is_deleted(stage: Stage) -> None:
    """persistentpodstate cases 20 and 23"""
    sets, before = await remembered(stage, persistentPodStateRetentionPolicy="WhenDeleted")
    await sets.scale(1)
    await sets.settled(replicas=1)
    assert await records(stage) == before
    # when it grows again
    await sets.scale(3)
    await sets.settled(replicas=3)
    for name, record in before.items():
        assert (await stage.get(name, resource=PODS))["spec"]["nodeName"] == record["nodeName"]
    # when it is deleted
    await stage.delete("web", resource=ADVANCED_STATEFUL_SETS)
    await until_recorded(stage)


@pytest.mark.node
async def test_annotations_of_pods_are_recorded(stage: Stage) -> None:
    """persistentpodstate case 10"""
    sets = Sets(stage)
    await stage.start_manager()
    await sets.create(replicas=2, parallel=True)
    await sets.settled(replicas=2)
    await stage.merge("web-0", {"metadata": {"annotations": {"ip": "1.2.3.4"}}}, resource=PODS)
    # when
    await stage.create(state(persistentPodAnnotations=[{"key": "ip"}]), resource=PERSISTENT_POD_STATES)
    # then
    annotations = await until_recorded(stage, "web-0", "web-1")
    assert annotations["web-0"]["annotations"] == {"ip": "1.2.3.4"}
    assert "annotations" not in annotations["web-1"]


@pytest.mark.node
@pytest.mark.parametrize("members", [1, 2])
async def test_a_state_that_was_requested_before_a_manager_works_is_created(
    stage: Stage, members: int
) -> None:
    # given
    doc = statefulset(replicas=1)
    doc["metadata"]["annotations"] = AUTO
    await stage.create(doc, resource=ADVANCED_STATEFUL_SETS)
    # when managers start, of which one leads or which share the keys
    for number in range(2):
        await stage.start_manager(identity=f"manager-{number}", members=members)
    # then
    await stage.until(lambda: stage.exists("web", resource=PERSISTENT_POD_STATES))


@pytest.mark.node
async def test_a_stateful_set_requests_a_state_by_annotations_and_releases_it(stage: Stage) -> None:
    """persistentpodstate cases 40, 43, 44, 45 and 48"""
    sets = Sets(stage)
    await stage.start_manager()
    doc = statefulset(replicas=1)
    doc["metadata"]["annotations"] = AUTO
    made = await stage.create(doc, resource=ADVANCED_STATEFUL_SETS)
    # then
    await stage.until(lambda: stage.exists("web", resource=PERSISTENT_POD_STATES))
    asks = await stage.get("web", resource=PERSISTENT_POD_STATES)
    (owner,) = asks["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == (made["metadata"]["uid"], True)
    assert asks["spec"] == {
        "targetRef": TARGET,
        "requiredPersistentTopology": {"keys": [HOST]},
        "preferredPersistentTopology": [
            {"weight": 100, "preference": {"keys": ["kubernetes.io/os", "kubernetes.io/arch"]}}
        ],
    }
    await sets.settled(replicas=1)
    await until_recorded(stage, "web-0")
    # when the policy is the user's, and an annotation changes
    policy = {"spec": {"persistentPodStateRetentionPolicy": "WhenDeleted"}}
    await stage.merge("web", policy, resource=PERSISTENT_POD_STATES)
    annotations: dict[str, str | None] = {"kruise.io/required-persistent-topology": None}
    await stage.merge("web", {"metadata": {"annotations": annotations}}, resource=ADVANCED_STATEFUL_SETS)

    async def has_changed() -> bool:
        spec = (await stage.get("web", resource=PERSISTENT_POD_STATES))["spec"]
        return "requiredPersistentTopology" not in spec

    await stage.until(has_changed)
    spec = (await stage.get("web", resource=PERSISTENT_POD_STATES))["spec"]
    assert spec["persistentPodStateRetentionPolicy"] == "WhenDeleted"
    # when it does not ask any more
    annotations = {"kruise.io/auto-generate-persistent-pod-state": None}
    await stage.merge("web", {"metadata": {"annotations": annotations}}, resource=ADVANCED_STATEFUL_SETS)

    async def is_gone() -> bool:
        return not await stage.exists("web", resource=PERSISTENT_POD_STATES)

    await stage.until(is_gone, what="it is deleted")


@pytest.mark.node
@pytest.mark.all_controllers
async def test_a_generated_state_is_deleted_with_its_workload(stage: Stage) -> None:
    """persistentpodstate case 49: garbage collection takes it"""
    sets = Sets(stage)
    await stage.start_manager()
    doc = statefulset(replicas=1)
    doc["metadata"]["annotations"] = AUTO
    await stage.create(doc, resource=ADVANCED_STATEFUL_SETS)
    await sets.settled(replicas=1)
    await until_recorded(stage, "web-0")
    # when
    await stage.client.delete(ADVANCED_STATEFUL_SETS, stage.namespace, "web")

    async def is_gone() -> bool:
        return not await stage.exists("web", resource=PERSISTENT_POD_STATES)

    await stage.until(is_gone, what="it is collected")


@pytest.mark.node
async def test_a_state_written_by_a_user_is_neither_changed_nor_deleted(stage: Stage) -> None:
    """persistentpodstate case 47"""
    await stage.start_manager()
    written = await stage.create(state(), resource=PERSISTENT_POD_STATES)
    doc = statefulset(replicas=1)
    doc["metadata"]["annotations"] = AUTO
    await stage.create(doc, resource=ADVANCED_STATEFUL_SETS)
    # then
    await stage.until(lambda: stage.events("PersistentPodStateNotGenerated"), what="an event says so")
    await stage.merge(
        "web", {"metadata": {"annotations": dict.fromkeys(AUTO)}}, resource=ADVANCED_STATEFUL_SETS
    )
    await Sets(stage).settled(replicas=1)
    await until_recorded(stage, "web-0")
    result = await stage.get("web", resource=PERSISTENT_POD_STATES)
    assert (result["spec"], result["metadata"]["uid"]) == (written["spec"], written["metadata"]["uid"])


@pytest.mark.node
@pytest.mark.all_controllers
async def test_built_in_stateful_sets_are_remembered_too(stage: Stage) -> None:
    """persistentpodstate cases 37 and 40"""
    await stage.start_manager()
    doc = statefulset(replicas=1)
    doc.update(apiVersion="apps/v1")
    del doc["spec"]["template"]["spec"]["readinessGates"]
    doc["metadata"]["annotations"] = AUTO
    await stage.create(doc, resource=STATEFUL_SETS)
    await stage.until(lambda: stage.exists("web", resource=PERSISTENT_POD_STATES))
    await until_recorded(stage, "web-0")
    # when it goes, what it asked for is collected
    await stage.delete("web", resource=STATEFUL_SETS)

    async def is_gone() -> bool:
        return not await stage.exists("web", resource=PERSISTENT_POD_STATES)

    await stage.until(is_gone, what="it is collected")


@needs_admission
async def test_an_unworkable_state_is_refused(stage: Stage) -> None:
    """persistentpodstate cases 52, 53, 54 and 55"""

    async def refused(doc: Object, *, match: str) -> None:
        with pytest.raises(BadRequestError, match=match):
            await stage.create(doc, resource=PERSISTENT_POD_STATES)

    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    await refused(state(targetRef=deployment), match="spec.targetRef")
    bare = state()
    del bare["spec"]["requiredPersistentTopology"]
    await refused(bare, match="requiredPersistentTopology")
    await stage.create(state(), resource=PERSISTENT_POD_STATES)

    async def is_second_refused() -> bool:  # as soon as the manager's cache has the first
        try:
            await stage.client.create(PERSISTENT_POD_STATES, stage.namespace, state("other"), dry_run=True)
        except BadRequestError as error:
            return "PersistentPodState web" in str(error)
        return False

    await stage.until(is_second_refused, what="the second for one workload is refused")
    built_in = {**TARGET, "apiVersion": "apps/v1"}
    await stage.create(state("built-in", targetRef=built_in), resource=PERSISTENT_POD_STATES)
    changed = {"spec": {"targetRef": {"apiVersion": "apps.kruise.io/v1alpha1"}}}
    with pytest.raises(BadRequestError, match="cannot be changed"):
        await stage.merge("web", changed, resource=PERSISTENT_POD_STATES)


@pytest.mark.virtual_time("the white list of a shared control plane is not this test's")
async def test_a_kind_on_the_white_list_is_remembered(stage: Stage) -> None:
    """persistentpodstate cases 39, 50 (recording) and 52"""
    key = "PPS_Watch_Custom_Workload_WhiteList"
    listed = '{"workloads":[{"group":"apps.kruise.io","version":"v1beta1","kind":"CloneSet"}]}'
    configuration = {"metadata": {"name": "kruise-configuration"}, "data": {key: listed}}
    await stage.client.create(CONFIG_MAPS, "kruise-system", configuration)
    await stage.start_manager()
    await stage.create(cloneset(replicas=1))
    target = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"}
    await stage.create(state(targetRef=target), resource=PERSISTENT_POD_STATES)
    await stage.settled(replicas=1)
    (pod,) = await stage.pods()
    await until_recorded(stage, pod.name)


GAME_SETS = Resource("example.com", "v1", "gamesets", "GameSet")
LISTED = {
    "PPS_Watch_Custom_Workload_WhiteList": json.dumps(
        {"workloads": [{"Group": "example.com", "Version": "v1", "Kind": "GameSet"}]}
    )
}


def game_sets() -> Object:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "gamesets", "singular": "gameset", "kind": "GameSet", "listKind": "GameSetList"}
    return {
        "metadata": {"name": "gamesets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }


_RBAC = {"apiGroup": "rbac.authorization.k8s.io"}
WATCHERS: tuple[Object, ...] = (
    {
        "kind": "ClusterRole",
        "metadata": {"name": "kruise-manager-gamesets"},
        "rules": [
            {"apiGroups": ["example.com"], "resources": ["gamesets"], "verbs": ["get", "list", "watch"]}
        ],
    },
    {
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "kruise-manager-gamesets"},
        "roleRef": {**_RBAC, "kind": "ClusterRole", "name": "kruise-manager-gamesets"},
        "subjects": [{"kind": "ServiceAccount", "name": "kruise-manager", "namespace": NAMESPACE}],
    },
)
"""Objects that docs/persistentpodstate.md asks administrators to create."""


@pytest.fixture
async def allowed(stage: Stage, request: pytest.FixtureRequest) -> AsyncIterator[Transport | None]:
    """Allow the manager to watch the kind; yields its transport, None: the usual one. In the sandbox, the manager has
    only the generated rights, so it gets the administrator's transport."""
    if request.config.getoption("--cluster") != "real":
        yield stage.client.transport
        return
    await grant(stage.client, WATCHERS)
    yield None
    # The kind and the white list belong to the whole cluster.
    with suppress(NotFoundError):
        await stage.client.delete(CUSTOM_RESOURCE_DEFINITIONS, "", "gamesets.example.com")
    with suppress(NotFoundError):
        await stage.client.delete(CONFIG_MAPS, NAMESPACE, CONFIGURATION)


async def white_list(stage: Stage) -> None:
    """Put GameSets on the white list."""
    with suppress(AlreadyExistsError):
        await stage.client.create(NAMESPACES, "", {"metadata": {"name": NAMESPACE}})
    body = {"metadata": {"name": CONFIGURATION}, "data": LISTED}
    try:
        await stage.client.create(CONFIG_MAPS, NAMESPACE, body)
    except AlreadyExistsError:
        await stage.client.patch(CONFIG_MAPS, NAMESPACE, CONFIGURATION, body, patch_type=PatchType.MERGE)


async def define_game_sets(stage: Stage) -> None:
    """Create the CRD of GameSets, and wait until it is served."""
    await stage.client.create(CUSTOM_RESOURCE_DEFINITIONS, "", game_sets())

    async def is_served() -> bool:
        try:
            await stage.client.list(GAME_SETS, stage.namespace)
        except NotFoundError:
            return False
        return True

    await stage.until(is_served)


@pytest.mark.node
@pytest.mark.few_on_real(1)
@pytest.mark.parametrize("is_late", ["the list", "the definition"])
async def test_a_kind_added_to_the_white_list_at_run_time_requests_a_state(
    stage: Stage, allowed: Transport | None, is_late: str
) -> None:
    """persistentpodstate cases 50 and 51: the controller has started before both are there"""
    if is_late == "the definition":
        await white_list(stage)
    await stage.start_manager(allowed)
    sets = Sets(stage)
    await sets.create(replicas=1)
    await sets.settled(replicas=1)
    # when
    await define_game_sets(stage)
    if is_late == "the list":
        await white_list(stage)
    made = await stage.create(
        {
            "apiVersion": "example.com/v1",
            "kind": "GameSet",
            "metadata": {"name": "game", "annotations": AUTO},
            "spec": {"replicas": 1},
        },
        resource=GAME_SETS,
    )
    # then it has one, as soon as it is watched
    await stage.until(lambda: stage.exists("game", resource=PERSISTENT_POD_STATES), within_s=180)
    asks = await stage.get("game", resource=PERSISTENT_POD_STATES)
    assert asks["spec"]["targetRef"] == {"apiVersion": "example.com/v1", "kind": "GameSet", "name": "game"}
    assert asks["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    # and pods that it owns are recorded
    owner = {
        "apiVersion": "example.com/v1",
        "kind": "GameSet",
        "name": "game",
        "uid": made["metadata"]["uid"],
        "controller": True,
    }
    pod = {"metadata": {"name": "game-0", "ownerReferences": [owner]}, "spec": POD}
    await stage.create(pod, resource=PODS)

    async def is_recorded() -> bool:
        return set(await records(stage, "game")) == {"game-0"}

    await stage.until(is_recorded)
    # when it is no longer named
    await stage.client.patch(
        CONFIG_MAPS, NAMESPACE, CONFIGURATION, {"data": None}, patch_type=PatchType.MERGE
    )
    await asyncio.sleep(2)
    annotations: dict[str, str | None] = {"kruise.io/required-persistent-topology": None}
    await stage.merge("game", {"metadata": {"annotations": annotations}}, resource=GAME_SETS)
    await asyncio.sleep(5)
    assert (await stage.get("game", resource=PERSISTENT_POD_STATES))["spec"] == asks["spec"]


@pytest.mark.virtual_time("a workload that cannot be read for a while")
async def test_a_workload_that_cannot_be_read_leaves_its_records(stage: Stage) -> None:
    """persistentpodstate case 26: the kind may not be watched, so its objects are read one by one"""
    await define_game_sets(stage)
    await white_list(stage)
    faulty = FaultyTransport(stage.client.transport)
    faulty.on(lambda request: request.path.endswith("/gamesets"), lambda _: Answer(403))
    await stage.start_manager(faulty)
    document = {"apiVersion": "example.com/v1", "kind": "GameSet", "metadata": {"name": "game"}}
    made = await stage.create({**document, "spec": {"replicas": 1}}, resource=GAME_SETS)
    target = {"apiVersion": "example.com/v1", "kind": "GameSet", "name": "game"}
    owner = {**target, "uid": made["metadata"]["uid"], "controller": True}
    pod = {"metadata": {"name": "game-0", "ownerReferences": [owner]}, "spec": POD}
    await stage.create(pod, resource=PODS)
    await stage.create(state("game", targetRef=target), resource=PERSISTENT_POD_STATES)

    async def is_recorded() -> bool:
        return set(await records(stage, "game")) == {"game-0"}

    await stage.until(is_recorded)
    before = await records(stage, "game")
    # when
    faulty.on(reads("/gamesets/game"), *[Answer(500)] * 8)
    await stage.delete("game-0", resource=PODS)
    await asyncio.sleep(120)
    # then
    assert await records(stage, "game") == before


Prepare = Callable[[FaultyTransport], None]

FAULTS: dict[str, Prepare] = {
    "the status meets errors": lambda faulty: faulty.on(
        patches(STATUS), Answer(500), conflict(), Answer(503)
    ),
    "answers about the status are lost": lambda faulty: faulty.on(
        patches(STATUS), DropAnswer(), DropAnswer()
    ),
    "watches of pods expire": lambda faulty: faulty.on(watches("/pods"), GoneAfter(3), GoneAfter(5)),
    "watches of sets expire": lambda faulty: faulty.on(watches("/statefulsets"), GoneAfter(1), GoneAfter(1)),
    "the creation meets errors": lambda faulty: faulty.on(
        posts(STATES), Answer(500), Answer(503), Answer(429)
    ),
    "the answer about the creation is lost": lambda faulty: faulty.on(posts(STATES), DropAnswer()),
    "pods cannot be read": lambda faulty: faulty.on(
        reads("/pods/web-"), Answer(500), Answer(500), Answer(500)
    ),
}


@pytest.mark.few_on_real(2)
@pytest.mark.parametrize("prepare", FAULTS.values(), ids=FAULTS)
async def test_faults_delay_records_and_do_not_change_them(stage: Stage, prepare: Prepare) -> None:
    # given
    faulty = FaultyTransport(stage.manager_transport())
    prepare(faulty)
    await stage.start_manager(faulty)
    doc = statefulset(replicas=2, parallel=True)
    doc["metadata"]["annotations"] = {**AUTO, "kruise.io/persistent-pod-annotations": "ip"}
    # when
    await stage.create(doc, resource=ADVANCED_STATEFUL_SETS)
    # then
    await stage.until(lambda: stage.exists("web", resource=PERSISTENT_POD_STATES))
    result = await until_recorded(stage, "web-0", "web-1")
    for name, record in result.items():
        assert record["nodeName"] == (await stage.get(name, resource=PODS))["spec"]["nodeName"]


@pytest.mark.node
async def test_a_later_started_manager_keeps_the_records(stage: Stage) -> None:
    """Take-over: a pod that was deleted while no manager ran comes back to its node"""
    sets, before = await remembered(stage)
    await stage.kill_manager()
    await stage.delete("web-2", resource=PODS)

    async def is_gone() -> bool:
        return not await stage.exists("web-2", resource=PODS)

    await stage.until(is_gone)
    # when
    await stage.start_manager()
    await sets.settled(replicas=3)
    # then
    assert (await stage.get("web-2", resource=PODS))["spec"]["nodeName"] == before["web-2"]["nodeName"]
    assert await records(stage) == before
