"""The plan of one Crew: it creates missing pods, and deletes pods beyond the size.

Snapshot ──▶ plan_crew() ──▶ Plan ──▶ runtime/execute.py

Pure.
"""

from collections.abc import Iterable, Iterator

from pykruise.kinds.crew.snapshot import ReadableCrewView, Snapshot, is_readable
from pykruise.kinds.crew.types import CREWS, CrewStatus
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.resources import PODS
from pykruise.plans.phases import DeletePod
from pykruise.plans.pod_writes import chain_of
from pykruise.plans.purposes import Purpose
from pykruise.plans.stored_values import make_refused_plan
from pykruise.runtime.actions import Create
from pykruise.runtime.plan import Chain, Plan, Stage, Step

__all__ = ["plan_crew"]


def plan_crew(snapshot: Snapshot) -> Plan:
    """Compute the plan for one snapshot."""
    if snapshot.crew.is_deleting:
        return Plan()
    if not is_readable(snapshot):
        return make_refused_plan(snapshot.refused or [snapshot.crew.problem])
    crew = snapshot.crew
    size = min(crew.spec.size, snapshot.settings.largest)
    there = {pod.name for pod in snapshot.pods}
    wanted = sorted(there) if crew.spec.paused else [f"{crew.name}-{number}" for number in range(size)]
    stages = (
        Stage(purpose=Purpose.CREATE_PODS, chains=tuple(_created(crew, set(wanted) - there))),
        Stage(purpose=Purpose.DELETE_SURPLUS_PODS, chains=tuple(_deleted(snapshot, wanted))),
    )
    status = CrewStatus(
        ready=sum(1 for pod in snapshot.pods if pod.is_serving),
        size=len(there),
        observed_generation=crew.generation,
    ).to_document()
    return Plan(stages=tuple(stage for stage in stages if stage.chains), status=status)


def _created(crew: ReadableCrewView, names: Iterable[str]) -> Iterator[Chain]:
    for name in sorted(names):
        action = Create(resource=PODS, key=Key(crew.namespace, name), body=_pod(crew, name))
        yield Chain(subject=name, steps=(Step(action=action, because="it is missing"),))


def _pod(crew: ReadableCrewView, name: str) -> Document:
    labels = (crew.spec.template.get("metadata") or {}).get("labels") or {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": crew.namespace,
            "labels": labels,
            "ownerReferences": [crew.build_reference(CREWS)],
        },
        "spec": crew.spec.template["spec"],
    }


def _deleted(snapshot: Snapshot, wanted: list[str]) -> Iterator[Chain]:
    for pod in snapshot.pods:
        if pod.name not in wanted and not pod.is_deleting:
            because = "the Crew is larger than its size"
            yield chain_of(DeletePod(pod=pod, because=because, unchanged=not pod.is_serving))
