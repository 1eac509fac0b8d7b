"""The ConfigMap kruise-configuration: an unreadable value of one key affects no other key."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pykruise.admission.pods.chain import list_pod_kinds
from pykruise.admission.pods.readers import make_live_readers
from pykruise.admission.reviewers import ReviewContext, build_reviewers
from pykruise.kinds.sidecarset.admission_facts import WHITELIST_KEY
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kinds.workloadspread.readers import WHITE_LIST_KEY
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kube.admission import AdmissionAnswer
from pykruise.kube.clock import make_loop_clock
from pykruise.kube.resources import CONFIG_MAPS, NAMESPACES, Resource
from pykruise.plans.pod_steps import ReaderPlace
from pykruise.plans.review import Lookups
from pykruise.pods.workload.allowed_workloads import CONFIGURATION
from support.reviews import request
from support.sandbox import small_cluster

ANNOTATIONS = '{"rules":[{"allowedAnnotationKeyExprs":["^oom$"]}]}'
WORKLOADS = '{"workloads":[{"Group":"games.example.com","Version":"v1","Kind":"GameServer"}]}'

SIDECARS = {
    "metadata": {"name": "log"},
    "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "containers": [{"name": "log", "image": "log", "imagePullPolicy": "Always"}],
        "patchPodMetadata": [{"annotations": {"oom": "1"}, "patchPolicy": "Retain"}],
        "updateStrategy": {"type": "RollingUpdate"},
    },
}
SPREAD = {
    "metadata": {"name": "web"},
    "spec": {
        "targetRef": {"apiVersion": "games.example.com/v1", "kind": "GameServer", "name": "web"},
        "subsets": [{"name": "a", "maxReplicas": 1}, {"name": "b"}],
    },
}


@asynccontextmanager
async def judged_by(data: dict[str, str] | None) -> AsyncIterator[Any]:
    """The webhooks of a cluster with this configuration, as a function of resource and object."""
    async with small_cluster(nodes=0) as place:
        await place.client.create(NAMESPACES, "", {"metadata": {"name": "kruise-system"}})
        if data is not None:
            doc = {"metadata": {"name": CONFIGURATION}, "data": data}
            await place.client.create(CONFIG_MAPS, "kruise-system", doc)
        clock = make_loop_clock(start=0.0)
        here = ReaderPlace(
            client=lambda: place.client, namespace="kruise-system", clock=clock, rng=random.Random(1)
        )
        rules = build_reviewers(
            context=ReviewContext(lookups=Lookups(readers=make_live_readers(list_pod_kinds(), here)))
        )

        async def ask(resource: Resource, doc: dict[str, Any]) -> AdmissionAnswer:
            rule = next(rule for rule in rules if rule.name == f"v{resource.kind.lower()}.kb.io")
            return await rule.reviewer(request(resource, doc))

        yield ask


def fields(answer: AdmissionAnswer) -> list[str]:
    """Fields with an error; empty if the object is allowed."""
    assert answer.refusal is None or answer.refusal.details is not None, answer.refusal
    return [cause.field for cause in answer.refusal.details.causes] if answer.refusal is not None else []


@pytest.mark.parametrize(
    ("data", "allows_annotation", "allows_workload"),
    [
        ({WHITELIST_KEY: ANNOTATIONS, WHITE_LIST_KEY: WORKLOADS}, True, True),
        ({WHITELIST_KEY: "{", WHITE_LIST_KEY: WORKLOADS}, False, True),
        ({WHITELIST_KEY: ANNOTATIONS, WHITE_LIST_KEY: "{"}, True, False),
        ({WHITELIST_KEY: '{"rules":3}', WHITE_LIST_KEY: '{"workloads":3}'}, False, False),
        ({"of-others": "{", WHITE_LIST_KEY: WORKLOADS}, False, True),
        (None, False, False),
    ],
)
async def test_each_key_is_read_for_itself(
    data: dict[str, str] | None, allows_annotation: bool, allows_workload: bool
) -> None:
    """operations cases 27 and 29, across keys"""
    async with judged_by(data) as ask:
        sidecars, spread = await ask(SIDECAR_SETS, SIDECARS), await ask(WORKLOAD_SPREADS, SPREAD)
    assert fields(sidecars) == ([] if allows_annotation else ["spec.patchPodMetadata"])
    assert fields(spread) == ([] if allows_workload else ["spec.targetRef"])
