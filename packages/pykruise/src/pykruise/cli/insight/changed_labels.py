"""Pods that left their workload, because another object changes a label that the workload's selector needs.

object that sets labels ──workloads of its namespace──────────┐
workload ──objects of its namespace that set labels───────────┴▶ add_changed_labels() ──▶ Explanation with the wait

This module only reads. Kinds declare the labels that their objects set (`Insight.labels`). Objects that the user may
not read are ignored. A wait is added only if pods of the workload have these labels, or none of their keys, and no
owner.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from pykruise.cli.insight.explanations import Explanation, Wait, rank_waits
from pykruise.cli.insight.known_kinds import insight_of, list_known_kinds
from pykruise.cli.insight.optional_reads import list_optional
from pykruise.kube.client.client import Client
from pykruise.kube.documents import Document, decode, get_path, labels_of
from pykruise.kube.errors import ApiError
from pykruise.kube.resources import PODS, Resource
from pykruise.kube.values.counts import format_count
from pykruise.kube.values.owners import controller_of
from pykruise.kube.values.selectors import Selector, SelectorError, parse_selector
from pykruise.plans.insight import Insight, SetLabels, WorkloadInsight
from pykruise.plans.progress import add_waits
from pykruise.plans.targets import TARGET_RESOURCES
from pykruise.pods.reasons import Code

_REVISION_LABELS: Final = frozenset({"controller-revision-hash", "pod-template-hash"})
"""Workloads set one of these labels in each of their pods."""

MOST: Final = 5
"""Maximum number of waits."""


class _Change(msgspec.Struct, frozen=True, kw_only=True):
    """Labels that an object sets or removes, and the workload whose selector no longer matches the pods."""

    setter: str
    labels: SetLabels
    workload: str
    workload_name: str
    selector: Selector
    """The selector of the workload."""
    others: Mapping[str, str]
    """Labels of the workload's template that the object neither sets nor removes."""


async def add_changed_labels(
    client: Client, explanation: Explanation, document: Document, insight: Insight
) -> Explanation:
    """Return the explanation with the labels that take pods away from a workload. The object sets these labels, or it
    is the workload.
    """
    if "deletionTimestamp" in document["metadata"]:
        return explanation
    namespace = explanation.namespace
    if insight.labels is not None:
        own = list(insight.labels(document))
        workloads = await _list_all(client, list(TARGET_RESOURCES.values()), namespace) if own else []
        setters = [(document, own)]
    elif isinstance(insight, WorkloadInsight):
        workloads, setters = [document], await _list_setters(client, namespace)
    else:
        return explanation
    changes = [
        change
        for setter, labels in setters
        for workload in workloads
        for change in _find_changes(setter, labels, workload)
    ]
    candidates = [await _make_wait(client, change, namespace) for change in changes[:MOST]]
    waits = [wait for wait in candidates if wait is not None]
    if not waits:
        return explanation
    return msgspec.structs.replace(
        explanation,
        waits=rank_waits([*waits, *explanation.waits]),
        verdict="waiting" if explanation.verdict in ("done", "moving") else explanation.verdict,
        phase=add_waits(explanation.phase, (wait.code for wait in waits)),
    )


async def _list_setters(client: Client, namespace: str) -> list[tuple[Document, list[SetLabels]]]:
    """Return the objects of the namespace that set labels of pods."""
    setters: list[tuple[Document, list[SetLabels]]] = []
    for kind in list_known_kinds():
        labels_set_by = insight_of(kind).labels
        if labels_set_by is not None:
            listed = await _list_all(client, [kind.resource], namespace)
            setters += ((document, list(labels_set_by(document))) for document in listed)
    return setters


async def _list_all(client: Client, resources: Sequence[Resource], namespace: str) -> list[Document]:
    documents: list[Document] = []
    for resource in resources:
        for document in await list_optional(client, resource, namespace):
            document.setdefault("kind", resource.kind)
            documents.append(document)
    return documents


def _find_changes(setter: Document, labels: Sequence[SetLabels], workload: Document) -> Iterator[_Change]:
    """Yield the labels that take pods away from the workload when the object sets or removes them."""
    try:
        selector = parse_selector(get_path(workload, "spec", "selector"))
    except SelectorError:
        return
    template = get_path(workload, "spec", "template") or {}
    own = labels_of(template) if isinstance(template, dict) else {}
    for item in labels:
        if not item.selects(own) or not selector.matches(own):
            continue
        others = {key: value for key, value in own.items() if key not in item.labels}
        if not selector.matches({**others, **item.labels}) or not selector.matches(others):
            yield _Change(
                setter=f"{setter['kind']} {setter['metadata']['name']}",
                labels=item,
                workload=f"{workload['kind']} {workload['metadata']['name']}",
                workload_name=workload["metadata"]["name"],
                selector=selector,
                others=others,
            )


async def _make_wait(client: Client, change: _Change, namespace: str) -> Wait | None:
    """Return the wait for pods that have left the workload; None if there are none, or they cannot be read."""
    keys = sorted(change.labels.labels)
    set_labels = ",".join(f"{key}={change.labels.labels[key]}" for key in keys)
    left, only_left = 0, []
    for selector in (set_labels, ",".join(f"!{key}" for key in keys)):
        try:
            listed = await client.list(PODS, namespace, label_selector=selector, metadata_only=True)
        except ApiError:
            return None
        pods = list(map(decode, listed.items))
        leavers = [pod for pod in pods if _is_leaver(pod, change)]
        left_now = sum(controller_of(pod) is None for pod in leavers)
        left += left_now
        if left_now and len(leavers) == len(pods):
            only_left.append(selector)
    if not left:
        return None
    have = format_count(left, "pod has left it and has no owner", "pods have left it and have no owner")
    words = (
        f"{change.labels.where} of {change.setter} sets {set_labels}, and removes {', '.join(keys)} in other states of"
        f" the probe, but spec.selector of {change.workload} does not match these pods: they leave their workload,"
        f" which creates other pods; {have} now"
    )
    remedy = f"use labels that no selector of a workload needs in {change.labels.where} of {change.setter}"
    if only_left:
        commands = " and ".join(
            f"kubectl delete pod -n {namespace} -l '{selector}'" for selector in only_left
        )
        remedy += f", then delete the pods that left ({commands})"
    return Wait(code=Code.CONFLICT, words=words, remedy=remedy)


def _is_leaver(pod: Document, change: _Change) -> bool:
    """Whether the workload created the pod, judged by its name, owner and labels, and its selector no longer matches
    the pod.
    """
    labels, owner = labels_of(pod), controller_of(pod)
    is_created = (
        pod["metadata"]["name"].startswith(f"{change.workload_name}-")
        and (owner is None or owner.name == change.workload_name)
        and not _REVISION_LABELS.isdisjoint(labels)
        and change.others.items() <= labels.items()
    )
    return is_created and not change.selector.matches(labels)
