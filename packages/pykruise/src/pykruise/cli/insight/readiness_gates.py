"""The object that keeps a readiness gate of a pod closed, with the reason that the plan of the object has for the pod.

pods with a closed gate, objects of kinds that set conditions of pods ──▶ find_gate_problems() ──▶ GateProblem
Explanation of an object that only observes pods ──▶ add_gates() ──▶ the Explanation with them

This module only reads. Objects that the user may not read add nothing.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from pykruise.cli.insight.cluster_reading import GateProblem, Sight, look
from pykruise.cli.insight.explanations import Explanation, Wait
from pykruise.cli.insight.known_kinds import insight_of, list_known_kinds
from pykruise.cli.insight.optional_reads import find_pod_key, read_optional
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Instant
from pykruise.kube.documents import decode, encode
from pykruise.kube.errors import ApiError
from pykruise.kube.ids import Key
from pykruise.kube.resources import PODS
from pykruise.manager.settings import ManagerSettings
from pykruise.plans.insight import SetCondition
from pykruise.plans.kind import Kind
from pykruise.pods.lifecycle.blockers import find_closed_gate
from pykruise.pods.probes.views import RESERVED_TYPES
from pykruise.pods.reasons import Code
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.reasons import Reason

MOST: Final = 10
"""Maximum number of waits for which a pod is examined."""


class _Setter(msgspec.Struct, frozen=True):
    """An object, and a condition of pods that it sets."""

    kind: Kind
    key: Key
    condition: SetCondition

    @property
    def name(self) -> str:
        """Kind and name of the object."""
        return f"{self.kind.resource.kind} {self.key.name}"


async def see_gates(client: Client, sight: Sight, *, settings: ManagerSettings | None = None) -> Sight:
    """Return the sight with the problems of the closed readiness gates of its pods."""
    problems = await find_gate_problems(client, sight.pod_views, now=sight.snapshot.now, settings=settings)
    return msgspec.structs.replace(sight, gate_problems=problems)


async def find_gate_problems(
    client: Client, pods: Iterable[PodView], *, now: Instant, settings: ManagerSettings | None
) -> dict[str, GateProblem]:
    """Return the problems of closed readiness gates, by name of the pod. The pods are in the same namespace."""
    closed = [(pod, gate) for pod in pods if pod.is_active and (gate := _find_gate(pod))]
    if not closed:
        return {}
    setters = await _list_setters(client, closed[0][0].namespace)
    plans: dict[Key, Mapping[str, Reason]] = {}
    problems: dict[str, GateProblem] = {}
    by_type: defaultdict[str, list[_Setter]] = defaultdict(list)
    for setter in setters:
        by_type[setter.condition.type].append(setter)
    if without := [(pod, gate) for pod, gate in closed if gate not in by_type]:
        problems = _explain_misplaced(without, await _list_setters(client, ""))
    for pod, gate in closed:
        if pod.name in problems:
            continue
        able = by_type.get(gate, [])
        selecting = [setter for setter in able if setter.condition.selects(pod.labels)]
        for setter in selecting:
            if setter.key not in plans:
                plans[setter.key] = await _read_reasons(client, setter, now=now, settings=settings)
        reasons = [(setter, plans[setter.key].get(pod.name)) for setter in selecting]
        others = setters[:_MOST_MISPLACED] if not able else ()
        beside = next((setter for setter in others if setter.condition.selects(pod.labels)), None)
        problems[pod.name] = _explain_gate(gate, able, reasons, beside=beside)
    return problems


def _find_gate(pod: PodView) -> str:
    """Return the closed readiness gate that keeps a pod with ready containers out of service; empty if no gate does."""
    gate, statuses = find_closed_gate(pod), pod.container_statuses
    is_starting = not statuses or any(not status.ready for status in statuses)
    return "" if is_starting or gate in RESERVED_TYPES else gate


async def _list_setters(client: Client, namespace: str) -> list[_Setter]:
    """Return the conditions that objects of the namespace set in pods; of all namespaces if it is empty. Lists that the
    user may not read add nothing.
    """
    setters: list[_Setter] = []
    for kind in list_known_kinds():
        conditions = insight_of(kind).conditions
        if conditions is None:
            continue
        try:
            listed = await client.list(kind.resource, namespace)
        except ApiError:
            continue
        for document in map(decode, listed.items):
            key = Key(document["metadata"]["namespace"], document["metadata"]["name"])
            setters += [_Setter(kind, key, condition) for condition in conditions(document)]
    return setters


def _explain_misplaced(
    without: Sequence[tuple[PodView, str]], setters: Sequence[_Setter]
) -> dict[str, GateProblem]:
    """Return the problems of pods whose condition only an object of another namespace sets, by name of the pod.
    `without`: pods and their gates, which no object of their namespace sets; `setters`: those of all namespaces.
    """
    problems: dict[str, GateProblem] = {}
    for gate in dict.fromkeys(gate for _, gate in without):
        able = [setter for setter in setters if setter.condition.type == gate][:_MOST_MISPLACED]
        for pod in (pod for pod, its_gate in without if its_gate == gate):
            setter = next((setter for setter in able if setter.condition.selects(pod.labels)), None)
            if setter is None:
                continue
            kind, place = setter.kind.resource.kind, pod.namespace
            words = (
                f"no {kind} of namespace {place} sets this condition; {kind} {setter.key} sets it in its own namespace"
                " only, and its selector would match the pod"
            )
            remedy = f"create {kind} {setter.key.name} in namespace {place} instead"
            problems[pod.name] = GateProblem(words=words, remedy=remedy)
    return problems


_MOST_MISPLACED: Final = 10
"""Maximum number of objects whose selectors are compared with a pod: objects of other namespaces, or objects that set
other conditions.
"""


async def _read_reasons(
    client: Client, setter: _Setter, *, now: Instant, settings: ManagerSettings | None
) -> Mapping[str, Reason]:
    """Return the reasons for the pods that the plan of the object skips."""
    try:
        return (await look(client, setter.kind, setter.key, now=now, settings=settings)).plan().skipped
    except ApiError:
        return {}


def _explain_gate(
    gate: str,
    able: Sequence[_Setter],
    selecting: Sequence[tuple[_Setter, Reason | None]],
    *,
    beside: _Setter | None,
) -> GateProblem:
    """Return the problem of a gate. `able`: objects that set the condition in some pods; `selecting`: the ones
    that select this pod, each with the reason that its plan has for the pod. `beside`: an object that selects the pod
    and sets another condition; None if there is none, or if an object sets this condition.
    """
    closed = f"its readiness gate {gate} is not True"
    if not selecting:
        if beside is not None:
            probe, condition = f"probe {beside.condition.probe} of {beside.name}", beside.condition.type
            return GateProblem(
                words=f"no {_name_kinds()} sets this condition; {probe} sets condition {condition} of the pod",
                remedy=f"if {condition} is a mistake, correct {probe} so that it sets {gate}; otherwise the"
                f" controller that is responsible for {gate} must set it",
            )
        if not able:
            return GateProblem(
                words=f"no {_name_kinds()} sets this condition, so another controller must set it"
            )
        name = able[0].name
        words = f"{closed}: {name} sets this condition, but does not select the pod"
        return GateProblem(words=words, remedy=f"label the pods so that {name} selects them", is_whole=True)
    known = [(setter, reason) for setter, reason in selecting if reason is not None]
    reported = [pair for pair in known if pair[1].code != Code.CONFLICT] or known
    if not reported:
        setter = selecting[0][0]
        words = f"{closed}: probe {setter.condition.probe} of {setter.name} sets this condition, and has not succeeded"
        return GateProblem(
            words=words,
            remedy=f"correct the problem that the probe reports, or correct {setter.name}",
            is_whole=True,
        )
    setter, reason = reported[0]
    start = "" if reason.code == Code.READINESS_GATE else f"{closed}: "
    remedy = reason.remedy or (_NOT_BEGUN if reason.code == Code.STARTING else "")
    return GateProblem(words=f"{start}{reason.message} ({setter.name})", remedy=remedy, is_whole=True)


_NOT_BEGUN: Final = "no action is needed: the probe has not begun yet"


def _name_kinds() -> str:
    """Return the kinds that set conditions of pods."""
    kinds = (kind for kind in list_known_kinds() if insight_of(kind).conditions is not None)
    return " or ".join(kind.resource.kind for kind in kinds)


async def add_gates(
    client: Client, explanation: Explanation, *, now: Instant, settings: ManagerSettings | None
) -> Explanation:
    """Return the explanation of an object whose pods have other owners, with the problems of their readiness gates. The
    waits of an owner already contain them. Pods with different problems get separate waits.
    """
    waits: list[Wait] = []
    for wait in explanation.waits:
        if wait.code == Code.READINESS_GATE and 0 < len(wait.pods) <= MOST:
            waits += await _split_by_gate(client, wait, explanation.namespace, now=now, settings=settings)
        else:
            waits.append(wait)
    return msgspec.structs.replace(explanation, waits=tuple(waits))


async def _read_pod(client: Client, name: str, namespace: str) -> PodView | None:
    key = find_pod_key(name, namespace)
    document = None if key is None else await read_optional(client, PODS, key)
    return None if document is None else project_pod(encode(document))


async def _split_by_gate(
    client: Client, wait: Wait, namespace: str, *, now: Instant, settings: ManagerSettings | None
) -> list[Wait]:
    pods = {name: await _read_pod(client, name, namespace) for name in wait.pods}
    known = [pod for pod in pods.values() if pod is not None]
    problems = {
        (place, name): problem
        for place in dict.fromkeys(pod.namespace for pod in known)
        for name, problem in (
            await find_gate_problems(
                client, [pod for pod in known if pod.namespace == place], now=now, settings=settings
            )
        ).items()
    }
    groups: dict[GateProblem | None, list[str]] = {}
    for name, pod in pods.items():
        problem = None if pod is None else problems.get((pod.namespace, pod.name))
        groups.setdefault(problem, []).append(name)
    return [
        msgspec.structs.replace(
            wait,
            pods=tuple(names),
            words=wait.words if problem is None else problem.add_to(wait.words),
            remedy=wait.remedy if problem is None else problem.remedy or wait.remedy,
        )
        for problem, names in groups.items()
    ]
