"""Content of ConfigMaps and Secrets as a part of a rollout (pykruise.io/roll-on-config), on both clusters."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pykruise.agent.simulated import AgentTasks, make_simulated_agents
from pykruise.cli.explain import read_and_explain
from pykruise.cli.plan import find_config_changes, run_plan
from pykruise.kinds.cloneset.kind import KIND
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.daemonset.types import DAEMON_SETS
from pykruise.kinds.gates import Gates
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kinds.uniteddeployment.types import UNITED_DEPLOYMENTS
from pykruise.kube.client.client import Client
from pykruise.kube.errors import InvalidError
from pykruise.kube.ids import Key
from pykruise.kube.resources import CONFIG_MAPS, NAMESPACES, PODS, SECRETS, Resource
from pykruise.manager.settings import ManagerSettings
from pykruise.plans.config_content import CONFIG_MISSING
from pykruise.pods.template.config_content import CONTENT_ANNOTATION, START_ANNOTATION
from pykruise.pods.workload.options import ROLL_ON_CONFIG
from pykruise.sandbox.cluster import ClusterSettings
from support.daemonsets import Pool
from support.scenario import Object, Stage, cloneset, rolling
from support.statefulsets import statefulset
from support.uniteddeployments import CLONE_SET, united_document

FOLLOWING = ManagerSettings(gates=Gates.of(RollOnConfig=True))

MOUNTED: Object = {
    "volumes": [{"name": "config", "configMap": {"name": "app"}}],
    "containers": [
        {"name": "main", "image": "nginx:1", "volumeMounts": [{"name": "config", "mountPath": "/etc/app"}]}
    ],
}
IN_ENVIRONMENT: Object = {
    "containers": [{"name": "main", "image": "nginx:1", "envFrom": [{"configMapRef": {"name": "app"}}]}]
}
SECRET_IN_ENVIRONMENT: Object = {
    "containers": [{"name": "main", "image": "nginx:1", "envFrom": [{"secretRef": {"name": "app"}}]}]
}


@pytest.fixture
def cluster_settings(cluster_settings: ClusterSettings) -> ClusterSettings:
    """Settings of nodes with agents."""
    agents = make_simulated_agents(AgentTasks(reports_containers=True))
    return msgspec.structs.replace(cluster_settings, agents=agents)


def follow(document: Object, pod: Object, *, names: str = "all") -> Object:
    """The workload with this pod spec and the option."""
    document["metadata"]["annotations"] = {ROLL_ON_CONFIG.annotation: names}
    document["spec"]["template"]["spec"] = pod
    return document


def config(value: str = "1", *, kind: str = "ConfigMap", **fields: Any) -> Object:
    data = {"data": {"key": value}} if kind == "ConfigMap" else {"stringData": {"key": value}}
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "app"}, **data, **fields}


async def start(
    stage: Stage, document: Object, *, replicas: int, resource: Resource = CONFIG_MAPS
) -> set[str]:
    """Create the object and the CloneSet that follows it, and return the uids of the pods."""
    await stage.start_manager(settings=FOLLOWING)
    await stage.create(config(kind=resource.kind), resource=resource)
    await stage.create(document)
    await stage.settled(replicas=replicas)
    return await uids_of(stage)


async def uids_of(stage: Stage) -> set[str]:
    return {pod.uid for pod in await stage.pods()}


async def annotations_of(stage: Stage, name: str) -> set[str | None]:
    pods = await stage.stored(PODS)
    return {(pod["metadata"].get("annotations") or {}).get(name) for pod in pods}


async def test_a_partition_limits_the_pods_that_get_a_new_environment(stage: Stage) -> None:
    """cloneset case 106"""
    # given
    document = follow(cloneset(updateStrategy=rolling(partition=2)), IN_ENVIRONMENT)
    before = await start(stage, document, replicas=3)
    # when
    await stage.merge("app", {"data": {"key": "2"}}, resource=CONFIG_MAPS)

    async def is_one_new() -> bool:
        return len(await uids_of(stage) - before) == 1 and len(await stage.pods()) == 3

    # then
    await stage.until(is_one_new)
    await asyncio.sleep(min(stage.long_s, 60))
    assert len(await uids_of(stage) & before) == 2
    # when
    await stage.merge("web", {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})
    await stage.settled(replicas=3)
    # then
    assert not await uids_of(stage) & before
    assert len(await annotations_of(stage, START_ANNOTATION)) == 1


async def test_pods_that_mount_the_content_are_updated_in_place(stage: Stage) -> None:
    """cloneset case 107"""
    # given
    document = follow(cloneset(updateStrategy=rolling(podUpdatePolicy="InPlaceIfPossible")), MOUNTED)
    before = await start(stage, document, replicas=3)
    (old,) = await annotations_of(stage, CONTENT_ANNOTATION)
    # when
    await stage.merge("app", {"data": {"key": "2"}}, resource=CONFIG_MAPS)

    async def have_new() -> bool:
        return old not in await annotations_of(stage, CONTENT_ANNOTATION)

    await stage.until(have_new)
    await stage.settled(replicas=3)
    # then
    assert await uids_of(stage) == before
    assert len(await annotations_of(stage, CONTENT_ANNOTATION)) == 1
    assert all(status.restart_count == 0 for pod in await stage.pods() for status in pod.container_statuses)


async def test_a_deleted_object_begins_no_rollout(stage: Stage) -> None:
    """cloneset case 108"""
    # given
    before = await start(stage, follow(cloneset(), IN_ENVIRONMENT), replicas=3)
    # when
    await stage.delete("app", resource=CONFIG_MAPS)

    async def is_reported() -> bool:
        return bool(await stage.events(CONFIG_MISSING))

    await stage.until(is_reported)
    key, now = Key(stage.namespace, "web"), stage.clock()
    explanation = await read_and_explain(stage.client, key, now=now, kind=KIND, settings=FOLLOWING)
    assert (
        "ConfigMap app does not exist: changes of the content start no rollout until the manager can read it"
        in explanation.next
    )
    await stage.scale("web", 2)
    await stage.until(lambda: _count_is(stage, 2))
    # then
    assert await uids_of(stage) < before
    # when the same content exists again
    await stage.create(config(), resource=CONFIG_MAPS)
    await asyncio.sleep(min(stage.long_s, 60))
    # then
    assert await uids_of(stage) < before


async def _count_is(stage: Stage, count: int) -> bool:
    return len(await stage.pods()) == count


async def test_the_content_of_a_secret_rolls_and_is_shown_nowhere(stage: Stage) -> None:
    """cloneset case 109"""
    before = await start(stage, follow(cloneset(), SECRET_IN_ENVIRONMENT), replicas=2 + 1, resource=SECRETS)
    await stage.merge("app", {"stringData": {"key": "2"}}, resource=SECRETS)

    async def are_all_new() -> bool:
        return not await uids_of(stage) & before

    await stage.until(are_all_new)
    await stage.settled(replicas=3)


async def test_content_begins_no_rollout_without_the_option_and_without_the_gate(stage: Stage) -> None:
    """cloneset case 110"""
    # given
    await stage.start_manager(settings=FOLLOWING)
    await stage.create(config(), resource=CONFIG_MAPS)
    document = follow(cloneset(), IN_ENVIRONMENT)
    del document["metadata"]["annotations"]
    await stage.create(document)
    await stage.settled(replicas=3)
    before = await uids_of(stage)
    # when
    await stage.merge("app", {"data": {"key": "2"}}, resource=CONFIG_MAPS)
    await asyncio.sleep(min(stage.long_s, 60))
    # then
    assert await uids_of(stage) == before
    # when another manager has the gate off
    await stage.kill_manager()
    await stage.start_manager()
    await stage.merge("web", {"metadata": {"annotations": {ROLL_ON_CONFIG.annotation: "all"}}})
    await stage.merge("app", {"data": {"key": "3"}}, resource=CONFIG_MAPS)
    await asyncio.sleep(min(stage.long_s, 60))
    # then
    assert await uids_of(stage) == before
    assert await annotations_of(stage, START_ANNOTATION) == {None}


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("", "must be all, or names"),
        ("App", "must be all, or names"),
        ("app,other", "the template names no ConfigMap or Secret other"),
    ],
)
async def test_an_option_that_follows_nothing_is_refused(stage: Stage, value: str, problem: str) -> None:
    """cloneset case 111"""
    await stage.start_manager(settings=FOLLOWING)
    with pytest.raises(InvalidError, match=rf"metadata.annotations\[pykruise.io/roll-on-config\].*{problem}"):
        await stage.create(follow(cloneset(), MOUNTED, names=value), resource=CLONE_SETS)


async def test_a_container_whose_variable_reads_the_record_restarts_in_place(stage: Stage) -> None:
    """cloneset case 113"""
    # given
    container = {
        **IN_ENVIRONMENT["containers"][0],
        "env": [
            {
                "name": "CONFIG",
                "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{START_ANNOTATION}']"}},
            }
        ],
    }
    strategy = rolling(podUpdatePolicy="InPlaceIfPossible")
    document = follow(cloneset(updateStrategy=strategy), {"containers": [container]})
    before = await start(stage, document, replicas=3)
    (old,) = await annotations_of(stage, START_ANNOTATION)
    # when
    await stage.merge("app", {"data": {"key": "2"}}, resource=CONFIG_MAPS)

    async def have_new() -> bool:
        return old not in await annotations_of(stage, START_ANNOTATION)

    await stage.until(have_new)
    await stage.settled(replicas=3)
    # then
    assert await uids_of(stage) == before
    assert all(status.restart_count == 1 for pod in await stage.pods() for status in pod.container_statuses)


async def test_a_statefulset_rolls_from_the_highest_ordinal(stage: Stage) -> None:
    """statefulset case 91"""
    # given
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    document = follow(statefulset(updateStrategy=strategy), IN_ENVIRONMENT)
    await stage.start_manager(settings=FOLLOWING)
    await stage.create(config(), resource=CONFIG_MAPS)
    await stage.create(document, resource=ADVANCED_STATEFUL_SETS)

    async def are_ready() -> bool:
        return sum(pod.is_ready for pod in await stage.pods()) == 3

    await stage.until(are_ready)
    before = {pod.name: pod.uid for pod in await stage.pods()}
    # when
    await stage.merge("app", {"data": {"key": "2"}}, resource=CONFIG_MAPS)

    async def is_last_new() -> bool:
        pods = {pod.name: pod for pod in await stage.pods()}
        return "web-2" in pods and pods["web-2"].uid != before["web-2"] and pods["web-2"].is_ready

    # then
    await stage.until(is_last_new)
    await asyncio.sleep(min(stage.long_s, 60))
    changed = {pod.name for pod in await stage.pods() if pod.uid != before[pod.name]}
    assert changed == {"web-2"}


async def test_a_daemonset_keeps_the_old_content_on_the_partition(pool: Pool) -> None:
    """daemonset case 83"""
    # given
    stage = pool.stage
    document = follow(
        pool.daemonset(updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}),
        {**pool.daemonset()["spec"]["template"]["spec"], **IN_ENVIRONMENT},
    )
    await stage.start_manager(settings=FOLLOWING)
    await stage.create(config(), resource=CONFIG_MAPS)
    await stage.create(document, resource=DAEMON_SETS)
    await pool.settled()
    before = await uids_of(stage)
    # when
    await stage.merge("app", {"data": {"key": "2"}}, resource=CONFIG_MAPS)

    async def is_one_old() -> bool:
        now = await uids_of(stage)
        return len(now) == len(before) and len(now & before) == 1

    # then
    await stage.until(is_one_old)
    await asyncio.sleep(min(stage.long_s, 60))
    assert await is_one_old()


async def test_the_clonesets_of_a_uniteddeployment_follow_the_content(stage: Stage) -> None:
    # given
    document = united_document(CLONE_SET, [{"name": "a"}, {"name": "b"}], replicas=4)
    template = document["spec"]["template"][CLONE_SET]
    template["metadata"]["annotations"] = {ROLL_ON_CONFIG.annotation: "all"}
    template["spec"]["template"]["spec"] = IN_ENVIRONMENT
    await stage.start_manager(settings=FOLLOWING)
    await stage.create(config(), resource=CONFIG_MAPS)
    await stage.create(document, resource=UNITED_DEPLOYMENTS)

    async def are_ready() -> bool:
        return sum(pod.is_ready and pod.is_active for pod in await stage.pods()) == 4

    await stage.until(are_ready)
    before = await uids_of(stage)
    # when
    await stage.merge("app", {"data": {"key": "2"}}, resource=CONFIG_MAPS)

    async def are_new() -> bool:
        return not await uids_of(stage) & before and await are_ready()

    # then
    await stage.until(are_new)


async def plan_file(stage: Stage, folder: Path, *documents: Object) -> tuple[int, str]:
    """Exit code and output of `pykruise plan -f` with the gate."""
    file = folder / "changed.yaml"
    file.write_text("\n---\n".join(json.dumps(document) for document in documents))
    said: list[str] = []

    @asynccontextmanager
    async def reach(_: Path | None, __: str | None) -> AsyncIterator[tuple[Client, str]]:
        yield stage.client, stage.namespace

    code = await run_plan(
        file=file,
        target=None,
        sets=(),
        namespace=None,
        kubeconfig=None,
        context=None,
        output="text",
        say=said.append,
        feature_gates="RollOnConfig=true",
        reach=reach,
    )
    return code, "\n".join(said)


async def test_plan_shows_the_workloads_that_a_changed_object_rolls(stage: Stage, tmp_path: Path) -> None:
    """cloneset case 112"""
    # given
    strategy = rolling(partition=2, podUpdatePolicy="InPlaceIfPossible")
    await start(stage, follow(cloneset(updateStrategy=strategy), IN_ENVIRONMENT), replicas=3)
    # when
    code, text = await plan_file(stage, tmp_path, config("2"))
    # then
    assert code == 2
    assert "CloneSet" in text
    assert "ConfigMap app: data[key]: 1 → 2" in text
    assert "reads a ConfigMap or Secret only when it starts" in text
    assert text.count("delete") == 1
    # when nothing changes
    code, text = await plan_file(stage, tmp_path, config("1"))
    # then
    assert (code, "nothing would change" in text) == (0, True), text


async def test_plan_gives_each_of_two_namesakes_the_object_of_its_namespace(stage: Stage) -> None:
    """cloneset case 112"""
    # given CloneSets of one name in two namespaces, each with a ConfigMap
    other = f"{stage.namespace}-other"
    await stage.client.create(NAMESPACES, "", {"metadata": {"name": other}})
    for namespace in (stage.namespace, other):
        workload = follow(cloneset(replicas=0), IN_ENVIRONMENT)
        await stage.client.create(CONFIG_MAPS, namespace, config())
        await stage.client.create(CLONE_SETS, namespace, workload)
    changed = [config(), config("2", metadata={"name": "app", "namespace": other})]
    # when
    changes, rest = await find_config_changes(
        stage.client, changed, (), namespace=stage.namespace, settings=FOLLOWING
    )
    # then
    assert rest == []
    assert [changes.of(follower, namespace="") for follower in changes.followers] == [
        [doc] for doc in changed
    ]
    assert [follower["metadata"]["namespace"] for follower in changes.followers] == [stage.namespace, other]
