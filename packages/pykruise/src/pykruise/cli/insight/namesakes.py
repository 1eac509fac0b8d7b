"""Workloads of another kind or group with the name of a missing target: perhaps the target reference is wrong.

Explanation with a missing target ──workloads of that name──▶ with_namesakes()

This module only reads. Objects that the user may not read are ignored.
"""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from pykruise.cli.insight.explanations import Explanation, Wait
from pykruise.kube.client.answers import metadata_of
from pykruise.kube.client.client import Client
from pykruise.kube.documents import Document, get_path
from pykruise.kube.errors import ApiError, KubeError
from pykruise.kube.resources import Resource
from pykruise.kube.values.group_kinds import GroupKind
from pykruise.kube.values.near_misses import format_hint
from pykruise.plans.targets import TARGET_RESOURCES
from pykruise.pods.reasons import Code


async def with_namesakes(
    client: Client, explanation: Explanation, document: Document, kinds: Collection[GroupKind] | None
) -> Explanation:
    """Return the explanation with the workloads that a wrong target reference may mean. `kinds`: kinds that the
    reference can name; None for every workload.
    """
    target: Mapping[str, Any] = get_path(document, "spec", "targetRef", default={})
    if explanation.cause != Code.NO_TARGET or not target.get("name"):
        return explanation
    others = [
        resource
        for kind, resource in TARGET_RESOURCES.items()
        if (kinds is None or kind in kinds)
        and (resource.api_version, resource.kind) != (target.get("apiVersion"), target.get("kind"))
        and await _has(client, resource, explanation.namespace, str(target["name"]))
    ]
    if not others:
        return _add_to_words(explanation, await _hint_at_similar(client, explanation.namespace, target))
    owner = f"{explanation.kind} {explanation.name}"
    waits = tuple(
        _with_namesake(wait, others[0], str(target["name"]), owner) if wait.code == Code.NO_TARGET else wait
        for wait in explanation.waits
    )
    return msgspec.structs.replace(explanation, waits=waits)


def _add_to_words(explanation: Explanation, more: str) -> Explanation:
    waits = tuple(
        msgspec.structs.replace(wait, words=f"{wait.words}{more}") if wait.code == Code.NO_TARGET else wait
        for wait in explanation.waits
    )
    return msgspec.structs.replace(explanation, waits=waits)


async def _hint_at_similar(client: Client, namespace: str, target: Mapping[str, Any]) -> str:
    """Words about a workload of the target's kind whose name is similar; empty if there is no such workload."""
    group, kind = str(target.get("apiVersion")).rpartition("/")[0], str(target.get("kind"))
    resource = TARGET_RESOURCES.get(GroupKind(group, kind))
    if resource is None:
        return ""
    try:
        listed = await client.list(resource, namespace, metadata_only=True)
    except KubeError:
        return ""
    return format_hint(str(target["name"]), [metadata_of(raw).name for raw in listed.items])


async def _has(client: Client, resource: Resource, namespace: str, name: str) -> bool:
    try:
        await client.get(resource, namespace, name)
    except ApiError:
        return False
    return True


def _with_namesake(wait: Wait, resource: Resource, name: str, owner: str) -> Wait:
    workload = f"{resource.kind} of {resource.api_version}"
    return msgspec.structs.replace(
        wait,
        words=f"{wait.words}; there is a {resource.kind} {name} of {resource.api_version}",
        remedy=f"create {owner} again with {workload} as the target, because spec.targetRef cannot be changed",
    )
