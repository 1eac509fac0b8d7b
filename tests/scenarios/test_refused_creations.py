"""A creation that an API server refuses repeatedly is one event with a count, for every kind that creates objects."""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

import pytest

from pykruise.kinds.broadcastjob.types import BROADCAST_JOBS
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.daemonset.types import DAEMON_SETS
from pykruise.kinds.imagelistpulljob.types import IMAGE_LIST_PULL_JOBS
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kinds.uniteddeployment.types import UNITED_DEPLOYMENTS
from pykruise.kinds.uniteddeployment.workloads import CLONE_SET
from pykruise.kube.resources import Resource
from support.daemonsets import daemonset
from support.pulls import PULLING
from support.scenario import Object, Stage, cloneset
from support.statefulsets import claim_template, statefulset
from support.uniteddeployments import united_document

QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")


def broadcastjob() -> Object:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "nginx:1"}]}}
    return {
        "apiVersion": BROADCAST_JOBS.api_version,
        "kind": BROADCAST_JOBS.kind,
        "metadata": {"name": "web"},
        "spec": {"template": template},
    }


def pull_jobs() -> Object:
    return {
        "apiVersion": IMAGE_LIST_PULL_JOBS.api_version,
        "kind": IMAGE_LIST_PULL_JOBS.kind,
        "metadata": {"name": "web"},
        "spec": {"images": ["nginx:1", "nginx:2"], "completionPolicy": {"type": "Always"}},
    }


class Refused(NamedTuple):
    """An object, and the quota that prevents the creation of its child objects."""

    resource: Resource
    document: Object
    quota: str = "pods"
    reason: str = "FailedCreate"


CASES: Mapping[str, Refused] = {
    "cloneset": Refused(CLONE_SETS, cloneset()),
    "claims": Refused(
        CLONE_SETS, cloneset(volumeClaimTemplates=[claim_template()]), "persistentvolumeclaims"
    ),
    "statefulset": Refused(ADVANCED_STATEFUL_SETS, statefulset(parallel=True)),
    "daemonset": Refused(DAEMON_SETS, daemonset("web")),
    "broadcastjob": Refused(BROADCAST_JOBS, broadcastjob()),
    "uniteddeployment": Refused(
        UNITED_DEPLOYMENTS,
        united_document(CLONE_SET, [{"name": "a"}]),
        "count/clonesets.apps.kruise.io",
        "FailedUpdateSubset",
    ),
    "imagelistpulljob": Refused(IMAGE_LIST_PULL_JOBS, pull_jobs(), "count/imagepulljobs.apps.kruise.io"),
}


@pytest.mark.virtual_time("tries get rarer")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_refused_creations_are_one_event_with_a_count(stage: Stage, case: Refused) -> None:
    # given
    body = {"metadata": {"name": "team"}, "spec": {"hard": {case.quota: "0"}}}
    await stage.create(body, resource=QUOTAS)
    await stage.start_manager(settings=PULLING if case.resource is IMAGE_LIST_PULL_JOBS else None)
    # when
    await stage.create(case.document, resource=case.resource)
    await asyncio.sleep(60.0)
    # then
    (event,) = await stage.events(case.reason)
    assert event["count"] > 3
    assert "exceeded quota: team" in event["message"]
