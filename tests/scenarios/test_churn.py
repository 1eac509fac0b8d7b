"""Objects that undo their own work: the runtime brakes them, whatever their kind, and they say so.

Time is virtual: each scenario looks at minutes.
"""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

import pykruise.kinds
from pykruise.kinds import find_kind
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.admission import AdmissionAnswer, AdmissionRequest, ResourceRule, ReviewRule
from pykruise.kube.documents import decode
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, PODS, Resource
from pykruise.plans.kind import Kind
from pykruise.pods.view.keys import SPECIFIED_DELETE_LABEL
from support.busy_keys import BusyPlace, busy_cluster
from support.scenario import cloneset

FOLDER = Path(__file__).parents[1] / "support" / "new_kind"
CREWS = Resource("apps.kruise.io", "v1beta1", "crews", "Crew")

Object = dict[str, Any]


async def mark_new_pods(request: AdmissionRequest) -> AdmissionAnswer:
    """A webhook of others that marks each new pod for deletion."""
    pod: Object = request.object or {}
    metadata = {
        **pod["metadata"],
        "labels": {**pod["metadata"].get("labels", {}), SPECIFIED_DELETE_LABEL: ""},
    }
    return AdmissionAnswer(object={**pod, "metadata": metadata})


MARKING = ReviewRule(
    name="marks.example.com",
    path="/mark",
    mutating=True,
    rules=(ResourceRule(groups=("",), versions=("v1",), resources=("pods",), operations=("CREATE",)),),
    reviewer=mark_new_pods,
)


async def uids(place: BusyPlace) -> set[str]:
    listed = await place.client.list(PODS, "default")
    return {decode(raw)["metadata"]["uid"] for raw in listed.items}


async def pods_made_within(place: BusyPlace, seconds: float) -> int:
    """Number of pods that were created during these seconds."""
    begun, seen = await uids(place), set[str]()
    for _ in range(int(seconds)):
        await asyncio.sleep(1)
        seen |= await uids(place)
    return len(seen - begun)


@pytest.mark.parametrize("kind", ["CloneSet", "StatefulSet"])
async def test_pods_that_others_mark_for_deletion_are_recreated_less_and_less_often(kind: str) -> None:
    resource = find_kind(kind).resource
    async with busy_cluster(reviewed=False, further=[MARKING]) as place:
        # given pods that never become ready, so that no limit holds them up
        web = cloneset(replicas=3, nodeSelector={"no": "where"})
        web["spec"]["template"]["spec"]["nodeSelector"] = {"no": "where"}
        del web["spec"]["nodeSelector"]
        web["apiVersion"], web["kind"] = resource.api_version, resource.kind
        await place.create(resource, web)
        await asyncio.sleep(60)
        # when
        busy = await place.busy_over(600)
        # then
        assert sum(busy.writes.values()) < 60
        assert busy.above(per_s=1) == {}
        assert await place.events("Churning")
        if kind == "CloneSet":
            conditions = (await place.get(CLONE_SETS, "web"))["status"]["conditions"]
            assert "Churning" in {condition["reason"] for condition in conditions}


async def test_a_change_of_the_spec_is_executed_immediately() -> None:
    async with busy_cluster(reviewed=False, further=[MARKING]) as place:
        web = cloneset(replicas=3)
        web["spec"]["template"]["spec"]["nodeSelector"] = {"no": "where"}
        await place.create(CLONE_SETS, web)
        await asyncio.sleep(400)
        # when
        await place.merge(CLONE_SETS, "web", {"spec": {"replicas": 0}})
        # then
        assert await place.until(lambda: _is_empty(place), within_s=5) < 5


async def _is_empty(place: BusyPlace) -> bool:
    return not await uids(place)


# ── a kind that does not exist yet ───────────────────────────────────────────


@pytest.fixture
def crew(monkeypatch: pytest.MonkeyPatch) -> Kind:
    """The toy kind, with a plan that has a fault: it deletes each pod that it has made, as soon as it sees it."""
    monkeypatch.setattr(pykruise.kinds, "__path__", [*pykruise.kinds.__path__, str(FOLDER)])
    kind = find_kind("Crew")
    assert kind.control is not None
    plan = kind.control.plan

    def faulty(snapshot: Any) -> Any:
        grown = {pod.name: pod for pod in snapshot.pods}
        if not grown:
            return plan(snapshot)
        spec = msgspec.structs.replace(snapshot.crew.spec, size=0)
        return plan(msgspec.structs.replace(snapshot, crew=msgspec.structs.replace(snapshot.crew, spec=spec)))

    return msgspec.structs.replace(kind, control=msgspec.structs.replace(kind.control, plan=faulty))


async def test_a_kind_whose_plan_reverts_itself_is_slowed_down_too(crew: Kind) -> None:
    definition = next(crd for crd in pykruise.kinds.build_crds() if crd["spec"]["names"]["kind"] == "Crew")
    async with busy_cluster(reviewed=False, kinds=[crew]) as place:
        await place.client.create(CUSTOM_RESOURCE_DEFINITIONS, "", definition)
        template = {"spec": {"containers": [{"name": "a", "image": "a:1"}], "nodeSelector": {"no": "where"}}}
        document = {
            "apiVersion": CREWS.api_version,
            "kind": "Crew",
            "metadata": {"name": "deck"},
            "spec": {"size": 3, "template": template},
        }
        await place.create(CREWS, document)
        await asyncio.sleep(60)
        # when
        busy = await place.busy_over(600)
        # then
        assert 0 < sum(busy.writes.values()) < 60
        assert busy.above(per_s=1) == {}
        assert await place.events("Churning")
