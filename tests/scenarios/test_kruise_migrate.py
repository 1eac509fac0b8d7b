"""`kubectl kruise migrate` of StatefulSets and DaemonSets: pods stay and change their owner, and may go back."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from pykruise.kinds.daemonset.types import DAEMON_SETS as ADVANCED_DAEMON_SETS
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kube.documents import decode
from pykruise.kube.errors import NotFoundError
from pykruise.kube.resources import DAEMON_SETS, HORIZONTAL_POD_AUTOSCALERS, PODS, STATEFUL_SETS, Resource
from pykruise.kube.values.owners import controller_of
from support.faults import Answer, FaultyTransport, Request, deletes
from support.kruise import Kruise
from support.scenario import Object, Stage
from support.statefulsets import claim_template

OURS = {"StatefulSet": ADVANCED_STATEFUL_SETS, "DaemonSet": ADVANCED_DAEMON_SETS}
THEIRS = {"StatefulSet": STATEFUL_SETS, "DaemonSet": DAEMON_SETS}
OF_KIND = {
    "StatefulSet": {"replicas": 3, "serviceName": "web", "volumeClaimTemplates": [claim_template()]},
    "DaemonSet": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}},
}


def built_in(kind: str, **spec: Any) -> Object:
    """A workload `web` of Kubernetes' own kind."""
    labels = {"app": "web"}
    container: Object = {"name": "main", "image": "nginx:1", "resources": {"requests": {"cpu": "0.1"}}}
    if kind == "StatefulSet":
        container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    pod = {"terminationGracePeriodSeconds": 1, "containers": [container]}
    template = {"metadata": {"labels": labels}, "spec": pod}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **OF_KIND[kind], **spec},
    }


async def rolled_out(stage: Stage, kind: str, **spec: Any) -> dict[str, str]:
    """Start a manager, and create Kubernetes' own workload. Returns the uids of its ready pods by name."""
    await stage.start_manager()
    await stage.create(built_in(kind, **spec), resource=THEIRS[kind])

    async def is_done() -> bool:
        status = (await stage.get("web", resource=THEIRS[kind])).get("status") or {}
        wanted = status.get("desiredNumberScheduled") if kind == "DaemonSet" else 3
        ready = status.get("numberReady" if kind == "DaemonSet" else "readyReplicas")
        return bool(wanted) and ready == wanted

    await stage.until(is_done)
    return await uids(stage)


async def uids(stage: Stage) -> dict[str, str]:
    return {pod.name: pod.uid for pod in await stage.pods()}


async def owners(stage: Stage) -> set[str]:
    """apiVersion of the pods' controller."""
    listed = await stage.client.list(PODS, stage.namespace)
    owner_references = [controller_of(decode(raw)) for raw in listed.items]
    return {owner_reference.api_version if owner_reference else "" for owner_reference in owner_references}


def taken_from(name: str) -> Object:
    """The document of a file, which is removed."""
    file = Path(name)
    document: Object = json.loads(file.read_text())
    file.unlink()
    return document


async def is_gone(stage: Stage, resource: Resource) -> bool:
    try:
        await stage.get("web", resource=resource)
    except NotFoundError:
        return True
    return False


@pytest.mark.parametrize("kind", OURS)
async def test_pods_survive_the_migration_of_their_workload_to_openkruise_and_back(
    stage: Stage, kind: str
) -> None:
    # given
    before = await rolled_out(stage, kind)
    ours, theirs = OURS[kind], THEIRS[kind]
    kruise = Kruise(stage)
    there = ("-n", stage.namespace, "--src-name", "web")
    # when it is looked at
    plan = await kruise.says("migrate", kind, "--from", kind, *there, "--plan")
    # then it is said, and nothing is done
    assert f"{len(before)} pods are adopted, none restarts" in plan
    assert await is_gone(stage, ours)
    # when it is done
    said = await kruise.says("migrate", kind, "--from", kind, *there)
    # then every pod has kept its uid, and has another owner
    assert said.startswith(plan)
    assert said.endswith(
        f"Successfully migrated {len(before)} pods from {kind.lower()}.apps/web to"
        f" {kind.lower()}.apps.kruise.io/web\n"
    )
    assert await owners(stage) == {ours.api_version}
    assert await is_gone(stage, theirs)
    assert (await stage.get("web", resource=ours))["spec"]["updateStrategy"]["type"] == "RollingUpdate"
    await kruise.says("rollout", "status", f"{ours}/web", "--timeout=60s")
    assert await uids(stage) == before
    # when the way back is gone, as it was written out
    (back,) = [line for line in said.splitlines() if line.startswith("to undo this: kubectl kruise ")]
    await kruise.says(*back.removeprefix("to undo this: kubectl kruise ").split())
    # then
    assert await owners(stage) == {theirs.api_version}
    assert await is_gone(stage, ours)
    await kruise.says("rollout", "status", f"{theirs}/web", "--timeout=60s")
    assert await uids(stage) == before


@pytest.mark.parametrize("kind", OURS)
async def test_a_refused_migration_restores_the_workload(stage: Stage, kind: str) -> None:
    # given an API server that takes the dry runs, and refuses the rest
    before = await rolled_out(stage, kind)
    faulty = FaultyTransport(stage.client.transport)
    ours = OURS[kind]

    def is_creation(request: Request) -> bool:
        is_ours = f"/{ours.group}/" in request.path
        return request.method == "POST" and is_ours and "dryRun" not in str(request.query)

    faulty.on(is_creation, Answer(403, message="no more of these"))
    # when
    said = await Kruise(stage, faulty).refuses(
        "migrate", kind, "--from", kind, "-n", stage.namespace, "--src-name", "web"
    )
    # then
    assert "no more of these" in said
    assert "is restored" in said

    async def is_owned() -> bool:
        return await owners(stage) == {"apps/v1"}

    await stage.until(is_owned)
    assert await uids(stage) == before


async def test_a_workload_that_cannot_be_recreated_is_saved_to_a_file(stage: Stage) -> None:
    # given an API server that lets it be deleted, and then refuses everything: as if the command were killed there
    before = await rolled_out(stage, "StatefulSet")
    faulty = FaultyTransport(stage.client.transport)
    faulty.on(
        lambda request: request.method == "POST" and "dryRun" not in str(request.query), *[Answer(403)] * 9
    )
    there = ("-n", stage.namespace, "--src-name", "web")
    # when
    said = await Kruise(stage, faulty).refuses("migrate", "sts", "--from", "sts", *there)
    # then the file that was named restores it
    named = re.search(r"kubectl create -f (\S+) restores statefulset.apps/web", said)
    assert named
    await stage.create(taken_from(named[1]), resource=STATEFUL_SETS)

    async def is_owned() -> bool:
        return await owners(stage) == {"apps/v1"}

    await stage.until(is_owned)
    assert await uids(stage) == before


async def test_a_workload_that_may_not_be_deleted_is_restored_immediately(stage: Stage) -> None:
    await rolled_out(stage, "DaemonSet")
    faulty = FaultyTransport(stage.client.transport)
    faulty.on(deletes(), Answer(403, message="you may not"))
    began = stage.clock()
    there = ("-n", stage.namespace, "--src-name", "web")
    said = await Kruise(stage, faulty).refuses("migrate", "ds", "--from", "ds", *there)
    assert "you may not; daemonset.apps/web is restored" in said
    assert stage.clock() - began < 30


async def test_pods_that_would_be_replaced_are_not(stage: Stage) -> None:
    # given one whose partition keeps pods at an older revision
    before = await rolled_out(stage, "DaemonSet", updateStrategy={"type": "RollingUpdate"})
    kruise = Kruise(stage)
    there = ("-n", stage.namespace, "--src-name", "web")
    await kruise.says("migrate", "ds", "--from", "ds", *there)
    strategy = {"rollingUpdate": {"partition": "100%"}}
    containers = [{"name": "main", "image": "nginx:2"}]
    change = {"spec": {"updateStrategy": strategy, "template": {"spec": {"containers": containers}}}}
    await stage.merge("web", change, resource=ADVANCED_DAEMON_SETS)

    async def is_observed() -> bool:
        result = await stage.get("web", resource=ADVANCED_DAEMON_SETS)
        status = result["status"]
        is_old = status.get("updatedNumberScheduled", 0) == 0
        return is_old and status["observedGeneration"] == result["metadata"]["generation"]

    await stage.until(is_observed)
    # when it goes to a kind that knows no partition
    said = await kruise.says("migrate", "daemonsets.apps", "--from", "ads", *there)
    # then it is said, and the pods stay
    assert "not carried over: spec.updateStrategy.rollingUpdate.partition" in said
    assert "gets its updateStrategy: OnDelete" in said
    assert await owners(stage) == {"apps/v1"}
    assert await uids(stage) == before


@pytest.mark.sandbox_only
async def test_wrong_arguments_are_refused_before_anything_is_done(stage: Stage) -> None:
    await rolled_out(stage, "StatefulSet")
    scaler = {
        "metadata": {"name": "load"},
        "spec": {
            "maxReplicas": 5,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"},
        },
    }
    await stage.create(scaler, resource=HORIZONTAL_POD_AUTOSCALERS)
    kruise = Kruise(stage)
    words = ("migrate", "sts", "--from", "sts", "-n", stage.namespace, "--src-name", "web")
    assert "target must have the name web" in await kruise.refuses(*words, "--dst-name", "other")
    assert "--max-surge is only for a target CloneSet" in await kruise.refuses(*words, "--max-surge", "2")
    assert "only StatefulSet.apps" in await kruise.refuses("migrate", "sts", "--from", "deploy", *words[4:])
    assert "afterwards: let HorizontalPodAutoscaler/load" in await kruise.says(*words, "--dry-run=server")
    assert not await is_gone(stage, STATEFUL_SETS)
    # and the way back is refused, because Kubernetes' StatefulSet knows no reserved ordinals
    await kruise.says(*words)
    await stage.merge("web", {"spec": {"reserveOrdinals": [1]}}, resource=ADVANCED_STATEFUL_SETS)
    back = ("migrate", "statefulsets.apps", "--from", "asts", *words[4:])
    assert "spec.reserveOrdinals" in await kruise.refuses(*back)
    assert await is_gone(stage, STATEFUL_SETS)
