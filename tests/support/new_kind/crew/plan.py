"""What is to be done about one Crew: the pods that are missing are created, those beyond its size deleted.

Snapshot ──▶ plan_crew() ──▶ Plan ──▶ runtime/execute.py

Pure.
"""

from collections.abc import Iterable, Iterator

from pykruise.kinds.crew.snapshot import CrewView, Snapshot
from pykruise.kinds.crew.types import CREWS, CrewStatus
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.resources import PODS
from pykruise.plans.phases import delete_steps, pod_chain
from pykruise.plans.purposes import Purpose
from pykruise.pods.reasons import Code
from pykruise.runtime.actions import Create
from pykruise.runtime.plan import Chain, Note, Plan, Stage, Step
from pykruise.runtime.reasons import Reason

__all__ = ["plan_crew"]


def plan_crew(snapshot: Snapshot) -> Plan:
    """Everything decided from one snapshot."""
    crew = snapshot.crew
    if crew.is_deleting:
        return Plan()
    if crew.spec is None:
        note = Note(reason=Code.INVALID_SPEC, message=crew.problem, warning=True)
        return Plan(waiting=Reason(Code.INVALID_SPEC, crew.problem), notes=(note,))
    size = min(crew.spec.size, snapshot.settings.largest)
    wanted = [f"{crew.name}-{number}" for number in range(size)]
    there = {pod.name for pod in snapshot.pods}
    stages = (
        Stage(purpose=Purpose.CREATE_PODS, chains=tuple(_created(crew, set(wanted) - there))),
        Stage(purpose=Purpose.DELETE_SURPLUS_PODS, chains=tuple(_deleted(snapshot, wanted))),
    )
    status = CrewStatus(
        ready=sum(1 for pod in snapshot.pods if pod.is_serving),
        size=len(there),
        observed_generation=crew.generation,
    ).document()
    return Plan(stages=tuple(one for one in stages if one.chains), status=status)


def _created(crew: CrewView, names: Iterable[str]) -> Iterator[Chain]:
    for name in sorted(names):
        action = Create(resource=PODS, key=Key(crew.namespace, name), body=_pod(crew, name))
        yield Chain(subject=name, steps=(Step(action=action, because="it is missing"),))


def _pod(crew: CrewView, name: str) -> Document:
    assert crew.spec is not None
    labels = (crew.spec.template.get("metadata") or {}).get("labels") or {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": crew.namespace,
            "labels": labels,
            "ownerReferences": [crew.reference_as(CREWS)],
        },
        "spec": crew.spec.template["spec"],
    }


def _deleted(snapshot: Snapshot, wanted: list[str]) -> Iterator[Chain]:
    for pod in snapshot.pods:
        if pod.name not in wanted and not pod.is_deleting:
            steps, _ = delete_steps(
                pod, hook=None, now=snapshot.now, because="the Crew is larger than its size"
            )
            yield pod_chain(pod, *steps)
