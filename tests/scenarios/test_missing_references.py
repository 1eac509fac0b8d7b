"""A template that refers to what is not there, by every spelling of a reference: the workload's condition names it.

Time is virtual: a pod whose volumes cannot be mounted is waited for, for a minute.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import pytest

from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.daemonset.types import DAEMON_SETS
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kube.resources import Resource
from pykruise.sandbox.nodes.faults import Rule
from support.daemonsets import daemonset
from support.scenario import Object, Stage, cloneset
from support.statefulsets import statefulset

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
WORKLOADS: Final[Mapping[str, tuple[Resource, Object]]] = {
    "CloneSet": (CLONE_SETS, cloneset(replicas=1)),
    "StatefulSet": (ADVANCED_STATEFUL_SETS, statefulset(replicas=1)),
    "DaemonSet": (DAEMON_SETS, daemonset("web")),
}


@pytest.mark.virtual_time("a pod is waited for, for a minute")
@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("kind", WORKLOADS)
async def test_the_condition_names_what_is_missing(stage: Stage, kind: str, spelling: str) -> None:
    # given
    resource, document = WORKLOADS[kind]
    template = document["spec"]["template"]
    own = {"spec": {**document["spec"], "template": {**template, "spec": SPELLINGS[spelling]}}}
    stage.kubelets.set_rules([Rule(image=PRIVATE, image_pull_error=True)])
    await stage.start_manager()
    # when
    await stage.create({**document, **own}, resource=resource)

    # then within some minutes: other words for the same code are written a minute later
    async def is_named() -> bool:
        stored = await stage.get("web", resource=resource)
        conditions = stored.get("status", {}).get("conditions") or ()
        return any(
            GONE in condition.get("message", "") and "nothing has to be done" not in condition["message"]
            for condition in conditions
            if condition["status"] == "True"
        )

    for _ in range(240):
        if await is_named():
            return
        await asyncio.sleep(1)
    raise AssertionError((await stage.get("web", resource=resource)).get("status"))
