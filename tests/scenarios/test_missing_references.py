"""A template that refers to what is not there, by every spelling of a reference: the workload's condition names it.

Time is virtual: a pod whose volumes cannot be mounted is waited for, for a minute.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import pytest

from pykruise.kinds.broadcastjob.types import BROADCAST_JOBS
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.daemonset.types import DAEMON_SETS
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kinds.uniteddeployment.types import UNITED_DEPLOYMENTS
from pykruise.kinds.uniteddeployment.workloads import ADVANCED_STATEFUL_SET, CLONE_SET
from pykruise.kube.resources import Resource
from pykruise.sandbox.nodes.faults import Rule
from support.daemonsets import daemonset
from support.scenario import Object, Stage, cloneset
from support.statefulsets import statefulset
from support.uniteddeployments import template_of, united_document

GONE: Final = "gone"
CONTAINER: Final[Object] = {"name": "main", "image": "nginx:1"}
PRIVATE: Final = "private/shop:1"
"""An image that no node can pull without the secret."""


def volume(**source: Any) -> Object:
    mounts = [{"name": "v", "mountPath": "/v"}]
    return {"containers": [{**CONTAINER, "volumeMounts": mounts}], "volumes": [{"name": "v", **source}]}


def reading(**source: Any) -> Object:
    return {"containers": [{**CONTAINER, **source}]}


def variable(**source: Any) -> Object:
    return {"env": [{"name": "A", "valueFrom": source}]}


SPELLINGS: Final[Mapping[str, Object]] = {
    "volume of a ConfigMap": volume(configMap={"name": GONE}),
    "volume of a Secret": volume(secret={"secretName": GONE}),
    "projected ConfigMap": volume(projected={"sources": [{"configMap": {"name": GONE}}]}),
    "projected Secret": volume(projected={"sources": [{"secret": {"name": GONE}}]}),
    "items of a ConfigMap": volume(configMap={"name": GONE, "items": [{"key": "k", "path": "p"}]}),
    "claim": volume(persistentVolumeClaim={"claimName": GONE}),
    "variable of a ConfigMap": reading(**variable(configMapKeyRef={"name": GONE, "key": "k"})),
    "variable of a Secret": reading(**variable(secretKeyRef={"name": GONE, "key": "k"})),
    "all variables of a ConfigMap": reading(envFrom=[{"configMapRef": {"name": GONE}}]),
    "all variables of a Secret": reading(envFrom=[{"secretRef": {"name": GONE}}]),
    "priority class": {"containers": [CONTAINER], "priorityClassName": GONE},
    "runtime class": {"containers": [CONTAINER], "runtimeClassName": GONE},
    "service account": {"containers": [CONTAINER], "serviceAccountName": GONE},
    "pull secret": {"containers": [{**CONTAINER, "image": PRIVATE}], "imagePullSecrets": [{"name": GONE}]},
}


def _with_pods(document: Object, pod: Object) -> Object:
    template = {**document["spec"]["template"], "spec": pod}
    return {**document, "spec": {**document["spec"], "template": template}}


def _job(pod: Object) -> Object:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"restartPolicy": "Never", **pod}}
    return {
        "apiVersion": BROADCAST_JOBS.api_version,
        "kind": BROADCAST_JOBS.kind,
        "metadata": {"name": "web"},
        "spec": {"template": template},
    }


def _united(kind: str) -> Callable[[Object], Object]:
    def document(pod: Object) -> Object:
        template = template_of(kind)
        workload = template[kind]["spec"]["template"]
        workload["spec"] = pod
        return united_document(kind, [{"name": "a"}], template=template, replicas=1)

    return document


WORKLOADS: Final[Mapping[str, tuple[Resource, Callable[[Object], Object]]]] = {
    "CloneSet": (CLONE_SETS, partial(_with_pods, cloneset(replicas=1))),
    "StatefulSet": (ADVANCED_STATEFUL_SETS, partial(_with_pods, statefulset(replicas=1))),
    "DaemonSet": (DAEMON_SETS, partial(_with_pods, daemonset("web"))),
    "BroadcastJob": (BROADCAST_JOBS, _job),
    "UnitedDeployment over CloneSets": (UNITED_DEPLOYMENTS, _united(CLONE_SET)),
    "UnitedDeployment over StatefulSets": (UNITED_DEPLOYMENTS, _united(ADVANCED_STATEFUL_SET)),
}


@pytest.mark.virtual_time("a pod is waited for, for a minute")
@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("kind", WORKLOADS)
async def test_the_condition_names_what_is_missing(stage: Stage, kind: str, spelling: str) -> None:
    # given
    resource, document_of = WORKLOADS[kind]
    stage.kubelets.set_rules([Rule(image=PRIVATE, image_pull_error=True)])
    await stage.start_manager()
    # when
    await stage.create(document_of(SPELLINGS[spelling]), resource=resource)

    # then within some minutes: other words for the same code are written a minute later
    async def is_named() -> bool:
        stored = await stage.get("web", resource=resource)
        conditions = stored.get("status", {}).get("conditions") or ()
        return any(
            GONE in condition.get("message", "") and "no action is needed" not in condition["message"]
            for condition in conditions
            if condition["status"] == "True"
        )

    for _ in range(240):
        if await is_named():
            return
        await asyncio.sleep(1)
    raise AssertionError((await stage.get("web", resource=resource)).get("status"))
