"""HorizontalPodAutoscalers that set the number of pods of a workload.

Client ──find_autoscalers()──▶ the autoscalers whose scaleTargetRef names the workload
Client + workloads of subsets ──find_part_autoscalers()──▶ waits TwoAutoscalers of their UnitedDeployment
Explanation + these autoscalers ──add_autoscalers()──▶ Explanation with waits Autoscaled, TwoAutoscalers and NoEffect

This module only reads. Without permission to list autoscalers, the explanation stays unchanged.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.cli.insight.explanations import Explanation, Wait, rank_waits
from pykruise.cli.insight.known_kinds import list_known_kinds
from pykruise.cli.insight.optional_reads import list_optional
from pykruise.kube.client.client import Client
from pykruise.kube.documents import Document, get_path
from pykruise.kube.ids import Key
from pykruise.kube.resources import HORIZONTAL_POD_AUTOSCALERS, Resource
from pykruise.kube.values.counts import format_count, format_first
from pykruise.kube.values.group_kinds import group_of
from pykruise.kube.values.owners import OwnerReference, controller_of
from pykruise.plans.kind import Kind
from pykruise.plans.progress import Phase, add_waits
from pykruise.pods.reasons import Code

MOST_NAMED: Final = 5
"""Maximum number of autoscalers that a sentence names."""


async def find_autoscalers(client: Client, resource: Resource, key: Key) -> list[Document]:
    """Return the autoscalers that scale the workload; none if they cannot be read."""
    named = await _list_by_name(client, resource, key)
    return [document for document in named if _group_of_target(document) == resource.group]


async def _list_by_name(client: Client, resource: Resource, key: Key) -> list[Document]:
    """List the autoscalers whose reference has the kind and the name of the workload, in any API group."""
    documents = await list_optional(client, HORIZONTAL_POD_AUTOSCALERS, key.namespace)
    return [
        document
        for document in documents
        if (target := _target_of(document)).get("name") == key.name and target.get("kind") == resource.kind
    ]


def _target_of(autoscaler: Document) -> Mapping[str, Any]:
    target: Mapping[str, Any] = get_path(autoscaler, "spec", "scaleTargetRef", default={})
    return target


def _group_of_target(autoscaler: Document) -> str | None:
    return group_of(str(_target_of(autoscaler).get("apiVersion") or ""))


async def add_autoscalers(
    client: Client, explanation: Explanation, kind: Kind, document: Document
) -> Explanation:
    """Return the explanation of an object with the autoscalers that set its spec.replicas."""
    if get_path(document, "spec", "replicas") is None:
        return explanation  # such objects have no number of pods, or leave it to others
    key = Key(explanation.namespace, explanation.name)
    named = await _list_by_name(client, kind.resource, key)
    if not named:
        return explanation
    waits = list(_find_waits(named, kind.resource, document))
    phase = add_waits(explanation.phase, (wait.code for wait in waits))
    is_stopped = phase is Phase.DEGRADED and explanation.verdict == "done"
    return msgspec.structs.replace(
        explanation,
        waits=rank_waits([*explanation.waits, *waits]),
        phase=phase,
        verdict="waiting" if is_stopped else explanation.verdict,
    )


async def find_part_autoscalers(
    client: Client, parent: Document, parts: Iterable[tuple[Resource, str]]
) -> list[Wait]:
    """Return a wait for each autoscaler that scales a workload of the parent. `parts`: resource and name of each of
    these workloads, in the parent's namespace.
    """
    by_target: Mapping[tuple[str | None, Any, Any], str] = {
        (resource.group, resource.kind, name): name for resource, name in parts
    }
    documents = await list_optional(client, HORIZONTAL_POD_AUTOSCALERS, parent["metadata"]["namespace"])
    waits: list[Wait] = []
    for autoscaler in documents:
        target = _target_of(autoscaler)
        name = by_target.get((_group_of_target(autoscaler), target.get("kind"), target.get("name")))
        if name is not None:
            wait = _explain_parent(autoscaler, f"{parent['kind']} {parent['metadata']['name']}")
            waits.append(msgspec.structs.replace(wait, words=f"{wait.words} ({target.get('kind')} {name})"))
    return waits


def _find_waits(named: Sequence[Document], resource: Resource, document: Document) -> Iterator[Wait]:
    own = [autoscaler for autoscaler in named if _group_of_target(autoscaler) == resource.group]
    parent = controller_of(document)
    if len(own) > 1:
        yield _explain_rivals(own)
    elif own and parent is not None and _is_of_a_known_kind(parent):
        yield _explain_parent(own[0], f"{parent.kind} {parent.name}")
    elif own:
        yield _explain_one(own[0], document)
    for autoscaler in named:
        if autoscaler not in own and _find_failure(autoscaler) is not None:
            yield _explain_wrong_group(autoscaler, resource)


def _is_of_a_known_kind(parent: OwnerReference) -> bool:
    """Whether a manager of pykruise handles the parent, and so also sets spec.replicas of its children."""
    known = (kind.resource for kind in list_known_kinds())
    return any((each.group, each.kind) == (parent.group, parent.kind) for each in known)


def _explain_rivals(autoscalers: Sequence[Document]) -> Wait:
    """Return the wait of a workload that several autoscalers scale."""
    names = format_first([f"{_name(each)} ({_describe_limits(each)})" for each in autoscalers], MOST_NAMED)
    stopped = any((_find_failure(each) or {}).get("reason") == "AmbiguousSelector" for each in autoscalers)
    result = "so Kubernetes stops them (AmbiguousSelector)" if stopped else "and undo each other's changes"
    free = [each for each in autoscalers if controller_of(each) is None]
    if not free:
        remedy = f"keep {_with_creator(autoscalers[0])}, and delete the creators of the others"
    else:
        surplus = free[1:] if len(free) == len(autoscalers) else free
        deleted = " ".join(_name(each) for each in surplus[:MOST_NAMED])
        kept = _with_creator(next(each for each in autoscalers if each not in surplus))
        command = f"kubectl delete hpa -n {_read_namespace(free[0])} {deleted}"
        remedy = f"keep one of them, such as {kept}, and delete the others ({command})"
    return Wait(
        code=Code.TWO_AUTOSCALERS,
        words=f"HorizontalPodAutoscalers {names} set spec.replicas of the same object, {result}",
        remedy=remedy,
    )


def _explain_parent(autoscaler: Document, parent: str) -> Wait:
    """Return the wait of a subset's workload that an autoscaler scales."""
    return Wait(
        code=Code.TWO_AUTOSCALERS,
        words=f"{_with_creator(autoscaler)} and {parent} both set spec.replicas, and undo each other's changes",
        remedy=f"set spec.scaleTargetRef of {_with_creator(autoscaler)} to {parent}",
    )


def _explain_one(autoscaler: Document, document: Document) -> Wait:
    """Return the wait of a workload that one autoscaler scales."""
    what, edit = (
        _with_creator(autoscaler),
        f"kubectl edit hpa -n {_read_namespace(autoscaler)} {_name(autoscaler)}",
    )
    limits = _describe_limits(autoscaler)
    creator = controller_of(autoscaler)
    remedy = f"for another number of pods, change minReplicas or maxReplicas of {what} ({edit})"
    if creator is not None:
        remedy = (
            f"for another number of pods, change {creator.kind} {creator.name}, which creates the autoscaler"
        )
    failure = _find_failure(autoscaler)
    replicas = get_path(document, "spec", "replicas")
    if replicas == 0 and get_path(autoscaler, "spec", "minReplicas") != 0:
        words = f"spec.replicas is 0, so {what} does not scale the object"
        remedy = "set spec.replicas to 1"
    elif failure is not None:
        words = f"{what} cannot set spec.replicas ({failure.get('reason')}): {failure.get('message')}"
        remedy = f"correct the cause that the message names, in the cluster or in {(creator and creator.kind) or what}"
    elif replicas == get_path(autoscaler, "spec", "maxReplicas"):
        words = f"{what} sets spec.replicas ({limits}), and keeps it at the maximum; other values do not last"
    else:
        words = f"{what} sets spec.replicas ({limits}); values that others set do not last"
    return Wait(code=Code.AUTOSCALED, words=words, remedy=remedy)


def _explain_wrong_group(autoscaler: Document, resource: Resource) -> Wait:
    """Return the wait of a workload whose autoscaler cannot scale, because scaleTargetRef has the wrong API group."""
    version = str(_target_of(autoscaler).get("apiVersion") or "")
    body = f'{{"spec":{{"scaleTargetRef":{{"apiVersion":"{resource.api_version}"}}}}}}'
    command = (
        f"kubectl patch hpa -n {_read_namespace(autoscaler)} {_name(autoscaler)} --type=merge -p '{body}'"
    )
    return Wait(
        code=Code.NO_EFFECT,
        words=f"{_with_creator(autoscaler)} does not scale the object: its spec.scaleTargetRef.apiVersion is"
        f" {version or 'empty'} instead of {resource.api_version}",
        remedy=f"correct scaleTargetRef of the autoscaler ({command})",
    )


def _find_failure(autoscaler: Document) -> Mapping[str, Any] | None:
    """Return the condition by which an autoscaler reports that it cannot scale; None if it can."""
    conditions: Sequence[Mapping[str, Any]] = get_path(autoscaler, "status", "conditions", default=())
    return next(
        (
            condition
            for condition in conditions
            if condition.get("type") in ("AbleToScale", "ScalingActive")
            and condition.get("status") == "False"
        ),
        None,
    )


def _name(autoscaler: Document) -> str:
    return str(autoscaler["metadata"]["name"])


def _read_namespace(autoscaler: Document) -> str:
    return str(autoscaler["metadata"]["namespace"])


def _with_creator(autoscaler: Document) -> str:
    """Return the autoscaler in words, with the object that creates it, such as a ScaledObject of KEDA."""
    creator = controller_of(autoscaler)
    made_by = f" of {creator.kind} {creator.name}" if creator is not None else ""
    return f"{HORIZONTAL_POD_AUTOSCALERS.kind} {_name(autoscaler)}{made_by}"


def _describe_limits(autoscaler: Document) -> str:
    spec = autoscaler["spec"]
    least = spec.get("minReplicas")
    return f"{1 if least is None else least} to {format_count(int(spec['maxReplicas']), 'pod')}"
