"""Settings of a workload that another object makes ineffective: requests in annotations, and fields that choose nodes.

workload ──Insight.unheeded, Insight.bindings of all kinds──▶ add_unheeded() ──▶ Explanation with waits NoEffect
object that binds pods ──the template of its workload──▶ the same waits

This module only reads. Objects that the user may not read are ignored.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from pykruise.cli.insight.bindings import list_bindings
from pykruise.cli.insight.explanations import Explanation, Wait, rank_waits
from pykruise.cli.insight.known_kinds import insight_of, list_known_kinds
from pykruise.cli.insight.node_terms import describe_term
from pykruise.cli.insight.optional_reads import read_optional
from pykruise.kube.client.client import Client
from pykruise.kube.documents import Document, get_path
from pykruise.kube.ids import Key
from pykruise.kube.pod_rules.nodes import matches_term
from pykruise.kube.values.group_kinds import group_kind
from pykruise.plans.insight import Binding, Insight, WorkloadInsight
from pykruise.plans.targets import TARGET_RESOURCES
from pykruise.pods.corrections import IN_TEMPLATE
from pykruise.pods.reasons import Code
from pykruise.pods.template.node_placement import requirements_of


async def add_unheeded(
    client: Client, explanation: Explanation, document: Document, insight: Insight
) -> Explanation:
    """Return the explanation of an object with the settings that have no effect."""
    if isinstance(insight, WorkloadInsight):
        waits = [wait async for wait in _find_unheeded(client, document)]
        if insight.has_known_names and _has_node_choice(document):
            bindings = await list_bindings(client, explanation.namespace)
            waits += _find_overridden(document, bindings)
    elif insight.bindings is not None:
        workload = await _read_target(client, document)
        owner = f"{explanation.kind} {explanation.name}"
        bindings = [(owner, binding) for binding in insight.bindings(document)]
        waits = [] if workload is None else [*_find_overridden(workload, bindings)]
        if workload is not None and workload["metadata"]["name"] == explanation.name:
            waits += _describe_unheeded(insight, workload, document)
    else:
        return explanation
    if not waits:
        return explanation
    return msgspec.structs.replace(explanation, waits=rank_waits([*explanation.waits, *waits]))


async def _find_unheeded(client: Client, workload: Document) -> AsyncIterator[Wait]:
    """Yield the annotations of the workload that request objects without effect."""
    key = Key(workload["metadata"]["namespace"], workload["metadata"]["name"])
    for kind in list_known_kinds():
        insight = insight_of(kind)
        namesake = await read_optional(client, kind.resource, key) if insight.is_requested(workload) else None
        for wait in _describe_unheeded(insight, workload, namesake):
            yield wait


def _describe_unheeded(insight: Insight, workload: Document, namesake: Document | None) -> Iterator[Wait]:
    """Yield the annotations of the workload that request an object of one kind without effect. `namesake`: object of
    this kind with the workload's name.
    """
    words, remedy = ("", "") if insight.unheeded is None else insight.unheeded(workload, namesake)
    if words:
        yield Wait(code=Code.NO_EFFECT, words=words, remedy=remedy)


def _template_of(workload: Document) -> Mapping[str, Any]:
    template: Mapping[str, Any] = get_path(workload, "spec", "template", "spec", default={})
    return template


def _has_node_choice(workload: Document) -> bool:
    return not _template_of(workload).keys().isdisjoint({"nodeSelector", "affinity"})


def _find_overridden(workload: Document, bindings: Iterable[tuple[str, Binding]]) -> Iterator[Wait]:
    """Yield the pods of the workload that are bound to other node labels than its template requests."""
    name = str(workload["metadata"]["name"])
    for owner, binding in bindings:
        parent, _, ordinal = binding.pod.rpartition("-")
        if parent != name or not ordinal.isdecimal():
            continue
        if asked := _describe_contradiction(_template_of(workload), binding.labels):
            labels = ", ".join(f"{key}={value}" for key, value in sorted(binding.labels.items()))
            yield Wait(
                code=Code.NO_EFFECT,
                words=f"the node labels in {IN_TEMPLATE.where} ({asked}) have no effect, because {owner} keeps the pod"
                f" on nodes with {labels}",
                pods=(binding.pod,),
                remedy=binding.remedy,
            )


def _describe_contradiction(template: Mapping[str, Any], labels: Mapping[str, str]) -> str:
    """Return the labels that the template requests for keys of the binding, if their values differ; otherwise empty."""
    asked = requirements_of(template)
    other = [
        f"{key}={value}"
        for key, value in asked.node_selector.items()
        if key in labels and labels[key] != value
    ]
    if other:
        return ", ".join(other)
    terms = [
        {
            "matchExpressions": [
                item for item in term.get("matchExpressions") or () if item.get("key") in labels
            ]
        }
        for term in asked.terms or ()
    ]
    if not terms or any(
        not term["matchExpressions"] or matches_term(term, labels=labels, name="") for term in terms
    ):
        return ""
    return " or ".join(map(describe_term, terms))


async def _read_target(client: Client, document: Document) -> Document | None:
    """Read the workload of an object that binds pods; None if its kind is unknown."""
    target: Mapping[str, Any] = get_path(document, "spec", "targetRef", default={})
    kind = group_kind(str(target.get("apiVersion") or ""), str(target.get("kind") or ""))
    resource = TARGET_RESOURCES.get(kind) if kind is not None else None
    if resource is None:
        return None
    key = Key(document["metadata"]["namespace"], str(target.get("name") or ""))
    return await read_optional(client, resource, key)
