"""On pykruise.runtime: each EphemeralVolumeClaim gets a number of its own, its slot on the storage.

python runtime_operator.py      until Ctrl-C, on the cluster of $KUBECONFIG
"""

import asyncio
import itertools
from typing import Any

from pykruise.kube.ids import Key
from pykruise.kube.resources import CONFIG_MAPS, Resource
from pykruise.operators import Observed
from pykruise.runtime.actions import Create
from pykruise.runtime.control import Control
from pykruise.runtime.objects import DocumentView, build_owner_reference_to, make_object_views
from pykruise.runtime.operator import Work
from pykruise.runtime.plan import Plan, Step, plan_of
from pykruise.runtime.read import Read
from pykruise.runtime.serving import serve
from pykruise.runtime.wakes import wake_itself, wake_owner

CLAIMS = Resource("kopf.dev", "v1", "ephemeralvolumeclaims", "EphemeralVolumeClaim")
CLAIM_VIEWS, SLOT_VIEWS = make_object_views(CLAIMS), make_object_views(CONFIG_MAPS)


async def snapshot(claim: DocumentView, read: Read[Any]) -> Observed:
    """Read the caches, which may be behind the API server."""
    seen = {CLAIMS: read.list_all(CLAIM_VIEWS), CONFIG_MAPS: read.list_all(SLOT_VIEWS)}
    return Observed(object=claim, owned=seen, now=read.now())


def plan(observed: Observed) -> Plan:
    """The correction: each slot has a ConfigMap, and the slot belongs to the claim that owns this ConfigMap."""
    claim, slots = observed.object, {item.name: item for item in observed.children(CONFIG_MAPS)}
    if claim.is_deleting or "slot" in claim.status:
        return Plan()
    own = next((name for name, slot in slots.items() if slot.owner_uid == claim.uid), None)
    if own is not None:
        return Plan(status={"slot": int(own.removeprefix("slot-"))})
    name = next(name for name in map("slot-{}".format, itertools.count()) if name not in slots)
    metadata = {"name": name, "namespace": claim.namespace}
    body = {"metadata": {**metadata, "ownerReferences": [build_owner_reference_to(CLAIMS, claim)]}}
    action = Create(resource=CONFIG_MAPS, key=Key(claim.namespace, name), body=body)
    return plan_of("take a slot", Step(action=action, because="the claim has no slot"))


def plan_with_bug(observed: Observed) -> Plan:
    """The bug: the slots of other claims are those that the cache knew a moment ago."""
    if observed.object.is_deleting or "slot" in observed.object.status:
        return Plan()
    taken = {claim.status.get("slot") for claim in observed.children(CLAIMS)}
    return Plan(status={"slot": next(slot for slot in itertools.count() if slot not in taken)})


def work_of(plan: Any) -> Work:
    control = Control(
        name="slots",
        component="slots",
        objects=CLAIM_VIEWS,
        reads=lambda _: (SLOT_VIEWS,),
        wakes=lambda _: (wake_itself(CLAIM_VIEWS), wake_owner(SLOT_VIEWS, CLAIMS)),
        snapshot=snapshot,
        object_of=lambda observed: observed.object,
        plan=plan,
    )
    return Work(resource=CLAIMS, control=control)


if __name__ == "__main__":
    asyncio.run(serve([work_of(plan)]))
