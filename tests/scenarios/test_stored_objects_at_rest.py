"""Objects that admission would have refused, as an older version or an outage of webhooks leaves them: the manager
says what is wrong and comes to rest.

Each of these objects once kept the manager busy forever. `make fuzz` looks for more.
"""

import asyncio
from typing import Final

import pytest

from pykruise.kinds import blank_status_of, find_kind, list_kinds
from pykruise.kube.resources import PODS
from pykruise.plans.kind import Kind
from support.busy_keys import busy_cluster
from support.restless_objects import STORED
from support.sandbox import pod
from support.wrong_values import objects


@pytest.mark.parametrize("what", STORED)
async def test_a_stored_object_is_left_at_rest(what: str) -> None:
    kind, spec = STORED[what]
    resource = find_kind(kind).resource
    async with busy_cluster(reviewed=False) as place:
        await place.create(PODS, pod("web", labels={"app": "web"}))
        await place.create(
            resource,
            {"kind": kind, "apiVersion": resource.api_version, "metadata": {"name": "web"}, "spec": spec},
        )
        await asyncio.sleep(60)
        # when
        busy = await place.busy_over(600)
        # then
        assert sum(busy.writes.values()) < 10
        assert sum(busy.reconciles.values()) < 60
        assert place.tracebacks.kept == []
        assert await place.events("Churning") == []


REPORTING: Final = [
    kind.name for kind in list_kinds() if kind.control is not None and kind.control.standing is not None
]


@pytest.mark.parametrize("name", REPORTING)
async def test_a_status_without_any_counts_may_have_a_stalled_condition(name: str) -> None:
    (kind,) = (kind for kind in list_kinds() if kind.name == name)
    (whole,) = (whole for whole in objects().values() if whole.is_stored and whole.resource == kind.resource)
    condition = {"type": "Stalled", "status": "True", "reason": "InvalidSpec", "message": "why"}
    condition["lastTransitionTime"] = "2026-01-31T12:00:00Z"
    only: list[Kind] = []
    async with busy_cluster(reviewed=False, kinds=only) as place:
        await place.create(kind.resource, {**whole.document, "metadata": {"name": "web"}, "status": None})
        # when
        status = {**blank_status_of(kind), "conditions": [condition]}
        stored = await place.merge(kind.resource, "web", {"status": status}, subresource="status")
        # then
        assert stored["status"] == status
