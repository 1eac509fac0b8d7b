"""A limit of 0 that OpenKruise accepts: the object is stored, does nothing, and says so with the code LimitIsZero.

Every amount of every kind that makes something stand still (`stops` in the tables of the kinds) is tried.
"""

from typing import Any, Final

import pytest

from pykruise.cli.explain import read_and_explain
from pykruise.kinds import list_kinds
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import DEPLOYMENTS, PODS, Resource
from pykruise.plans.kind import Kind
from pykruise.pods.reasons import Code
from pykruise.pods.workload.amounts import Amount
from pykruise.pods.workload.waiting import WAITING
from support.scenario import Object, Stage
from support.sources import ROOT
from support.yaml_documents import yaml_documents

_AHEAD: Final = "imagePreDownloadParallelism"
"""This limit stops no workload: only the ImagePullJob that is created with it reports that it stands still."""

STANDING: Final = [
    (kind, amount)
    for kind in list_kinds()
    for amount in kind.amounts
    if amount.stops and amount.path[-1] != _AHEAD
]


def _ids(value: Any) -> str:
    return value.resource.kind if isinstance(value, Kind) else value.field


def _resource_of(doc: Object) -> Resource:
    resources = [
        kind.resource for kind in list_kinds() if kind.versions and kind.resource.kind == doc["kind"]
    ]
    return resources[0] if resources and "kruise" in doc["apiVersion"] else DEPLOYMENTS


async def _created(stage: Stage, kind: Kind, amount: Amount) -> str:
    """Create the example of the kind with this amount at 0, and all objects that it needs; returns its name."""
    text = (ROOT / "examples" / f"{kind.resource.kind.lower()}.yaml").read_text("utf-8")
    name = ""
    for doc in yaml_documents(text):
        if doc["kind"] == kind.resource.kind:
            node, name = doc, doc["metadata"]["name"]
            for step in amount.path[:-1]:
                node = node.setdefault(step, {})
            node[amount.path[-1]] = 0
        await stage.create(doc, resource=_resource_of(doc))
    return name


@pytest.mark.virtual_time("all kinds, each until it says what it waits for")
@pytest.mark.parametrize(("kind", "amount"), STANDING, ids=_ids)
async def test_an_object_with_a_limit_of_zero_reports_it(stage: Stage, kind: Kind, amount: Amount) -> None:
    # given
    await stage.start_manager()
    name = await _created(stage, kind, amount)
    key = Key(stage.namespace if kind.resource.namespaced else "", name)
    if kind.resource.kind == "SidecarSet":  # whose limit is about pods that have older sidecars
        await stage.until(lambda: _pods_are_ready(stage))
        body = [{"op": "replace", "path": "/spec/containers/0/image", "value": "fluent-bit:3.2"}]
        await stage.client.patch(kind.resource, "", name, body, patch_type=PatchType.JSON)

    # then explain names the limit, with the field to raise
    async def says() -> bool:
        explanation = await read_and_explain(stage.client, key, now=stage.clock(), kind=kind)
        return any(
            wait.code == Code.LIMIT_IS_ZERO and amount.field in wait.remedy for wait in explanation.waits[:1]
        )

    await stage.until(says, what="LimitIsZero")
    status = (await stage.get(name, resource=kind.resource)).get("status") or {}
    waiting = [
        condition["reason"]
        for condition in status.get("conditions") or ()
        if condition["type"] in (WAITING, "Ready")
    ]
    assert set(waiting) <= {Code.LIMIT_IS_ZERO}


async def _pods_are_ready(stage: Stage) -> bool:
    result = await stage.stored(PODS)
    ready = [
        condition["status"]
        for pod in result
        for condition in (pod.get("status") or {}).get("conditions") or ()
        if condition["type"] == "Ready"
    ]
    return len(result) == 3 == ready.count("True")
