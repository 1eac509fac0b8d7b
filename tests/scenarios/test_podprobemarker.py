"""PodProbeMarkers on a cluster whose simulated nodes play the agent: what probes find shows on pods."""

from typing import Any

import msgspec
import pytest

from pykruise.agent.simulated import AgentTasks, make_simulated_agents
from pykruise.cli.explain import read_and_explain
from pykruise.kinds.nodepodprobe.kind import KIND as NODE_KIND
from pykruise.kinds.podprobemarker.kind import KIND as MARKER_KIND
from pykruise.kube.documents import annotations_of, get_path, labels_of
from pykruise.kube.errors import InvalidError
from pykruise.kube.ids import Key
from pykruise.kube.resources import NODES, PODS
from pykruise.pods.probes.views import NODE_POD_PROBES, POD_PROBE_MARKERS
from pykruise.sandbox.cluster import ClusterSettings
from pykruise.sandbox.nodes.faults import Rule
from support.faults import DropAnswer, FaultyTransport, Request, patches, writes
from support.kills import Kill
from support.scenario import Object, Stage, cloneset

CONDITION = "game.io/idle"
COST = "controller.kubernetes.io/pod-deletion-cost"


@pytest.fixture
def cluster_settings(cluster_settings: ClusterSettings) -> ClusterSettings:
    """Settings of nodes with agents."""
    agents = make_simulated_agents(AgentTasks(probes=True))
    return msgspec.structs.replace(cluster_settings, agents=agents)


def probe(name: str = "idle", **fields: Any) -> Object:
    """A probe whose result is shown in a condition, unless the fields contain a markerPolicy."""
    shown = {} if "markerPolicy" in fields else {"podConditionType": CONDITION}
    return {
        "name": name,
        "containerName": "main",
        "probe": {"exec": {"command": ["/idle.sh"]}, "periodSeconds": 1},
        **shown,
        **fields,
    }


def marker(*probes: Object, name: str = "game", app: str = "web") -> Object:
    return {
        "apiVersion": POD_PROBE_MARKERS.api_version,
        "kind": POD_PROBE_MARKERS.kind,
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": app}}, "probes": list(probes or (probe(),))},
    }


def policy(state: str, *, labels: Object | None = None, annotations: Object | None = None) -> Object:
    return {
        "state": state,
        **({"labels": labels} if labels else {}),
        **({"annotations": annotations} if annotations else {}),
    }


async def mark(stage: Stage, doc: Object) -> Object:
    return await stage.create(doc, resource=POD_PROBE_MARKERS)


async def with_pods(stage: Stage, replicas: int = 1) -> list[Object]:
    await stage.create(cloneset(replicas=replicas))
    await stage.settled(replicas=replicas)
    return await stage.stored(PODS)


def condition(pod: Object, type_: str = CONDITION) -> str | None:
    """The status of a condition; None: the pod has none."""
    result = [condition for condition in pod["status"].get("conditions", ()) if condition["type"] == type_]
    return str(result[0]["status"]) if result else None


async def entries(stage: Stage) -> dict[str, list[str]]:
    """Name of a pod in this namespace → names of its probes in NodePodProbes."""
    entries: dict[str, list[str]] = {}
    for doc in await stage.stored(NODE_POD_PROBES):
        for pod in get_path(doc, "spec", "podProbes", default=()):
            if pod["namespace"] == stage.namespace:
                entries[pod["name"]] = [probe["name"] for probe in pod["probes"]]
    return entries


async def until_all(stage: Stage, status: str | None, count: int) -> list[Object]:
    """Wait until this number of pods has this status of the condition; returns the pods."""

    async def shows() -> list[Object] | None:
        pods = await stage.stored(PODS)
        return pods if sum(condition(pod) == status for pod in pods) == count else None

    result: list[Object] = await stage.until(shows)
    return result


async def test_a_probe_runs_on_the_pods_node_and_its_result_is_a_condition(stage: Stage) -> None:
    """containers case 43"""
    await stage.start_manager()
    (pod,) = await with_pods(stage)
    await mark(stage, marker())
    await until_all(stage, "True", 1)
    node = await stage.get(pod["spec"]["nodeName"], resource=NODE_POD_PROBES)
    (entry,) = [probe for probe in node["spec"]["podProbes"] if probe["namespace"] == stage.namespace]
    assert (entry["name"], entry["uid"]) == (pod["metadata"]["name"], pod["metadata"]["uid"])
    assert entry["IP"] == pod["status"]["podIP"]
    assert [probe["name"] for probe in entry["probes"]] == ["game#idle"]
    result = await stage.get("game", resource=POD_PROBE_MARKERS)
    assert result["status"] == {"observedGeneration": 1, "matchedPods": 1}
    assert result["metadata"]["finalizers"] == ["kruise.io/node-pod-probe-cleanup"]


IDLE = policy("Succeeded", labels={"idle": "yes"}, annotations={COST: "-10"})
BUSY = policy("Failed", labels={"idle": "no"}, annotations={COST: "10"})


async def test_outcomes_become_labels_and_annotations_and_steer_a_scale_in(stage: Stage) -> None:
    """containers case 44"""
    await stage.start_manager()
    pods = await with_pods(stage, 3)
    names = sorted(pod["metadata"]["name"] for pod in pods)
    stage.kubelets.set_rules(
        [Rule(pod=name, fails_probe="game#idle", output="17 players") for name in names[1:]]
    )
    await mark(stage, marker(probe(podConditionType=CONDITION, markerPolicy=[IDLE, BUSY])))

    async def are_marked() -> bool:
        result = {pod["metadata"]["name"]: pod for pod in await stage.stored(PODS)}
        costs = [annotations_of(result[name]).get(COST) for name in names]
        labels = [labels_of(result[name]).get("idle") for name in names]
        return costs == ["-10", "10", "10"] and labels == ["yes", "no", "no"]

    await stage.until(are_marked)
    busy = (await until_all(stage, "False", 2))[names.index(names[1])]
    assert [
        condition["message"] for condition in busy["status"]["conditions"] if condition["type"] == CONDITION
    ] == ["17 players"]
    # when the set is scaled in
    await stage.scale("web", 2)
    await stage.settled(replicas=2)
    # then the idle pod goes
    assert sorted(pod["metadata"]["name"] for pod in await stage.stored(PODS)) == names[1:]


async def test_a_probe_that_fails_later_changes_what_it_showed(stage: Stage) -> None:
    """containers cases 44 and 45"""
    await stage.start_manager()
    await with_pods(stage)
    await mark(
        stage,
        marker(probe(markerPolicy=[policy("Succeeded", labels={"idle": "yes"}, annotations={"a": "b"})])),
    )

    async def is_marked() -> bool:
        (pod,) = await stage.stored(PODS)
        return labels_of(pod).get("idle") == "yes" and annotations_of(pod).get("a") == "b"

    async def is_unmarked() -> bool:
        (pod,) = await stage.stored(PODS)
        return "idle" not in labels_of(pod) and "a" not in annotations_of(pod)

    await stage.until(is_marked)
    stage.kubelets.set_rules([Rule(fails_probe="game#*")])
    await stage.until(is_unmarked)
    stage.kubelets.set_rules([])
    await stage.until(is_marked)


async def test_a_container_that_restarts_is_unknown_first(stage: Stage) -> None:
    """containers case 47"""
    await stage.start_manager()
    await with_pods(stage)
    slow = {"exec": {"command": ["/idle.sh"]}, "periodSeconds": 2, "successThreshold": 2}
    await mark(stage, marker(probe(podConditionType=CONDITION, markerPolicy=[IDLE], probe=slow)))
    (pod,) = await until_all(stage, "True", 1)
    seen: list[tuple[str | None, str | None]] = []

    async def is_back() -> bool:
        (now,) = await stage.stored(PODS)
        shown = condition(now), labels_of(now).get("idle")
        if not seen or seen[-1] != shown:
            seen.append(shown)
        return len(seen) > 1 and shown == ("True", "yes")

    stage.kubelets.set_rules([Rule(first_runs=1, exit_code=1)])
    await stage.until(is_back)
    assert ("False", None) in seen
    (after,) = await stage.stored(PODS)
    assert after["metadata"]["uid"] == pod["metadata"]["uid"]
    assert after["status"]["containerStatuses"][0]["restartCount"] == 1


async def test_the_entry_of_a_deleted_pod_is_removed(stage: Stage) -> None:
    """containers case 51"""
    await stage.start_manager()
    pods = await with_pods(stage, 3)
    await mark(stage, marker())
    await until_all(stage, "True", 3)
    await stage.scale("web", 1)

    async def are_gone() -> bool:
        (left,) = await _names(stage) if len(await _names(stage)) == 1 else ("",)
        results = [
            status["name"]
            for doc in await stage.stored(NODE_POD_PROBES)
            for status in get_path(doc, "status", "podProbeStatuses", default=())
            if status["namespace"] == stage.namespace
        ]
        return list(await entries(stage)) == [left] == results

    await stage.until(are_gone)
    assert len(pods) == 3
    result = await stage.get("game", resource=POD_PROBE_MARKERS)
    assert result["status"]["matchedPods"] == 1


async def _names(stage: Stage) -> list[str]:
    return [pod["metadata"]["name"] for pod in await stage.stored(PODS)]


@pytest.mark.virtual_time("it deletes a node")
async def test_the_probes_of_a_deleted_node_are_removed(stage: Stage) -> None:
    """containers case 52"""
    await stage.start_manager()
    nodes = [node["metadata"]["name"] for node in await stage.stored(NODES)]

    async def have_all() -> bool:
        result = {entry["metadata"]["name"] for entry in await stage.stored(NODE_POD_PROBES)}
        return result == {entry["metadata"]["name"] for entry in await stage.stored(NODES)}

    await stage.until(have_all)
    await stage.delete(nodes[0], resource=NODES)
    await stage.until(have_all)
    assert len(await stage.stored(NODE_POD_PROBES)) == len(nodes) - 1


async def test_a_deleted_marker_removes_only_its_own_probes(stage: Stage) -> None:
    """containers case 50"""
    await stage.start_manager()
    (pod,) = await with_pods(stage)
    await mark(stage, marker(probe(podConditionType="a.io/x"), name="a"))
    await mark(stage, marker(probe(podConditionType="xa.io/x"), name="xa"))

    async def are_asked(*names: str) -> bool:
        return {text for some in (await entries(stage)).values() for text in some} == set(names)

    await stage.until(lambda: are_asked("a#idle", "xa#idle"))
    await stage.delete("a", resource=POD_PROBE_MARKERS)
    await stage.until(lambda: are_asked("xa#idle"))

    async def is_gone() -> bool:
        return not await stage.exists("a", resource=POD_PROBE_MARKERS)

    await stage.until(is_gone)
    assert list(await entries(stage)) == [pod["metadata"]["name"]]


async def test_a_changed_marker_changes_the_probes_and_the_labels(stage: Stage) -> None:
    await stage.start_manager()
    await with_pods(stage)
    await mark(
        stage, marker(probe(markerPolicy=[policy("Succeeded", labels={"idle": "yes"})]), probe("more"))
    )

    async def is_marked(**wanted: str | None) -> bool:
        (pod,) = await stage.stored(PODS)
        return all(labels_of(pod).get(key) == value for key, value in wanted.items())

    await stage.until(lambda: is_marked(idle="yes"))
    # when a policy changes, and a probe goes
    only = probe(
        markerPolicy=[policy("Succeeded", labels={"idle": "sure"}), policy("Failed", labels={"busy": "yes"})]
    )
    await stage.merge("game", {"spec": {"probes": [only]}}, resource=POD_PROBE_MARKERS)
    # then both are followed
    await stage.until(lambda: is_marked(idle="sure", busy=None))

    async def is_asked() -> bool:
        return list((await entries(stage)).values()) == [["game#idle"]]

    await stage.until(is_asked)


async def test_a_pod_that_is_no_longer_selected_is_not_probed(stage: Stage) -> None:
    await stage.start_manager()
    (pod,) = await with_pods(stage)
    await mark(stage, marker(app="web"))
    await until_all(stage, "True", 1)
    name = pod["metadata"]["name"]
    await stage.merge(name, {"metadata": {"labels": {"app": "other"}}}, resource=PODS)

    async def is_let_go() -> bool:
        return name not in await entries(stage)

    await stage.until(is_let_go)


async def test_the_first_of_two_markers_with_one_condition_wins_and_an_event_names_it(stage: Stage) -> None:
    """containers case 55"""
    await stage.start_manager()
    await with_pods(stage)
    await mark(stage, marker(name="first"))
    await until_all(stage, "True", 1)
    stage.kubelets.set_rules([Rule(fails_probe="second#*")])
    await mark(stage, marker(name="second"))

    async def is_reported() -> list[Object]:
        return await stage.events("PodConditionConflict")

    (event,) = await stage.until(is_reported)
    assert event["involvedObject"]["name"] == "second"
    assert "first#idle" in event["message"]
    (pod,) = await stage.stored(PODS)
    assert condition(pod) == "True"


async def test_explain_reports_the_numbers_of_pods_and_probes(stage: Stage) -> None:
    await stage.start_manager()
    (pod,) = await with_pods(stage)
    await mark(stage, marker())
    await until_all(stage, "True", 1)
    now, node = stage.clock(), pod["spec"]["nodeName"]
    explanation = await read_and_explain(
        stage.client, Key(stage.namespace, "game"), now=now, kind=MARKER_KIND
    )
    assert "1 pod is selected" in str(explanation)
    explanation = await read_and_explain(stage.client, Key("", node), now=now, kind=NODE_KIND)
    assert "1 succeed" in str(explanation)


async def test_wrong_markers_are_refused(stage: Stage) -> None:
    """containers cases 53 and 54"""
    await stage.start_manager()
    with pytest.raises(InvalidError, match=r"spec\.probes\[1\]\.name.*Duplicate"):
        await mark(stage, marker(probe(), probe(podConditionType="other")))
    with pytest.raises(InvalidError, match=r"spec\.probes\[0\]\.probe\.httpGet\.host"):
        await mark(stage, marker(probe(probe={"httpGet": {"host": "a.io", "port": 80, "path": "/"}})))
    await mark(stage, marker())
    with pytest.raises(InvalidError, match=r"spec\.selector.*immutable"):
        await stage.merge(
            "game", {"spec": {"selector": {"matchLabels": {"app": "b"}}}}, resource=POD_PROBE_MARKERS
        )


def _is_about_probes(sent: Request) -> bool:
    return writes("probe")(sent) or patches("/pods/")(sent)


@pytest.mark.checkered
@pytest.mark.few_on_real(3)
@pytest.mark.parametrize("takes_effect", [False, True])
@pytest.mark.parametrize("at", range(9))
async def test_a_manager_killed_at_any_write_is_succeeded_by_another(
    stage: Stage, at: int, takes_effect: bool
) -> None:
    kill = Kill(at, takes_effect=takes_effect)
    faulty = FaultyTransport(stage.manager_transport())
    faulty.on(_is_about_probes, kill)
    await stage.start_manager(faulty)
    await stage.create(cloneset(replicas=1))
    await mark(stage, marker(probe(podConditionType=CONDITION, markerPolicy=[IDLE])))

    async def is_marked() -> bool:
        pods = await stage.stored(PODS)
        return len(pods) == 1 and is_idle(pods[0])

    def is_idle(pod: Object) -> bool:
        return condition(pod) == "True" and annotations_of(pod).get(COST) == "-10"

    async def is_over() -> bool:
        return kill.reached or await is_marked()

    await stage.until(is_over)
    await stage.kill_manager()
    await stage.start_manager()
    await stage.until(is_marked)


async def test_lost_answers_change_nothing(stage: Stage) -> None:
    faulty = FaultyTransport(stage.manager_transport())
    faulty.on(patches("/pods/"), DropAnswer(), None, DropAnswer())
    await stage.start_manager(faulty)
    await with_pods(stage)
    await mark(stage, marker(probe(podConditionType=CONDITION, markerPolicy=[IDLE])))
    (pod,) = await until_all(stage, "True", 1)
    assert labels_of(pod)["idle"] == "yes"
