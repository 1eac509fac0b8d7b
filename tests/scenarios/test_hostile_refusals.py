"""An admission webhook refuses one tenant's objects: with a wait of a day, with a megabyte of text.

Others' objects are worked on as before, and what is stored of the refusal stays small.
"""

import asyncio
import itertools
import json
from collections.abc import Callable

import pytest
from test_refused_creations import CASES, Refused

from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.imagelistpulljob.types import IMAGE_LIST_PULL_JOBS
from pykruise.kube.documents import decode
from pykruise.kube.resources import NAMESPACES, PODS
from support.faults import Answer, FaultyTransport, Request
from support.pulls import PULLING
from support.scenario import Stage, cloneset

pytestmark = pytest.mark.virtual_time("the API server refuses on purpose")

LONG = " ".join(f"spec.containers[{number}]: not allowed" for number in range(30_000))
MOST_MORE = 64 * 1024
"""Maximum number of bytes by which a status may exceed its spec."""


CAUSES = {"causes": [{"field": "spec", "message": LONG[:1_000]}] * 1_000}


def creations(namespace: str, *, of: str = "") -> Callable[[Request], bool]:
    """Matches requests that create objects in the namespace: of any resource except events, or of this resource."""

    def is_one(request: Request) -> bool:
        is_event = request.path.endswith("/events")
        return request.method == "POST" and f"/namespaces/{namespace}/{of}" in request.path and not is_event

    return is_one


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_a_refusal_of_a_megabyte_stays_small_in_every_status(stage: Stage, case: Refused) -> None:
    # given
    faulty = FaultyTransport(stage.manager_transport())
    faulty.on(creations(stage.namespace), lambda _: Answer(403, message=LONG, details=CAUSES))
    await stage.start_manager(faulty, settings=PULLING if case.resource is IMAGE_LIST_PULL_JOBS else None)
    # when
    await stage.create(case.document, resource=case.resource)
    await asyncio.sleep(30.0)
    # then
    stored = await stage.get("web", resource=case.resource)
    size = len(json.dumps(stored.get("status", {})))
    assert 0 < size <= len(json.dumps(stored["spec"])) + MOST_MORE


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_a_refusal_with_other_words_each_time_is_tried_again_as_rarely_as_any(
    stage: Stage, case: Refused
) -> None:
    # given a webhook that puts a number of its own into each refusal
    faulty = FaultyTransport(stage.manager_transport())
    tries = itertools.count()
    refused = (of for of in (case.quota.partition("/")[2].partition(".")[0], case.quota) if of)
    faulty.on(
        creations(stage.namespace, of=next(refused)),
        lambda _: Answer(403, message=f"request {next(tries)}: no"),
    )
    await stage.start_manager(faulty, settings=PULLING if case.resource is IMAGE_LIST_PULL_JOBS else None)
    # when
    await stage.create(case.document, resource=case.resource)
    await asyncio.sleep(60.0)
    # then
    assert 3 < next(tries) < 60


async def test_one_tenants_refusals_with_a_wait_of_a_day_hold_nothing_else_up(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    # given a webhook that refuses all pods of one namespace, and twelve sets there
    faulty = FaultyTransport(stage.manager_transport())
    details = {**CAUSES, "retryAfterSeconds": 86_400}
    refusal = Answer(429, message=LONG, retry_after_s=86_400, details=details)
    faulty.on(creations("busy", of="pods"), lambda _: refusal)
    await stage.start_manager(faulty)
    await stage.client.create(NAMESPACES, "", {"metadata": {"name": "busy"}})
    for number in range(12):
        await stage.client.create(CLONE_SETS, "busy", cloneset(f"busy-{number}", replicas=2))
    await asyncio.sleep(5.0)
    # when
    began = stage.clock()
    await stage.create(cloneset(replicas=3))
    while len(await stage.pods()) < 3:
        await asyncio.sleep(0.1)
    # then
    assert stage.clock() - began < 2.0
    assert "writes of /api/v1/namespaces/busy/pods: no requests are sent" in caplog.text
    # and when the webhook stops refusing, its own namespace goes on within the bound
    faulty.clear()
    await asyncio.sleep(60.0)
    pods = await stage.client.list(PODS, "busy")
    assert len([decode(raw) for raw in pods.items]) == 24
