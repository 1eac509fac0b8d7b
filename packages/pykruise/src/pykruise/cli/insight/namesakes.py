"""Workloads of another kind or group with the name of a missing target: perhaps the target reference is wrong.

Explanation with a missing target ──workloads of that name──▶ with_namesakes()

This module only reads. Objects that the user may not read add nothing.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from pykruise.cli.insight.explaining import Explanation, Wait
from pykruise.kube.client.client import Client
from pykruise.kube.documents import Document, get_path
from pykruise.kube.errors import ApiError
from pykruise.kube.resources import Resource
from pykruise.plans.targets import TARGET_RESOURCES
from pykruise.pods.reasons import Code


async def with_namesakes(client: Client, explanation: Explanation, document: Document) -> Explanation:
    """Return the explanation with the workloads that a wrong target reference may mean."""
    target: Mapping[str, Any] = get_path(document, "spec", "targetRef", default={})
    if explanation.cause != Code.NO_TARGET or not target.get("name"):
        return explanation
    others = [
        resource
        for resource in TARGET_RESOURCES.values()
        if (resource.api_version, resource.kind) != (target.get("apiVersion"), target.get("kind"))
        and await _has(client, resource, explanation.namespace, str(target["name"]))
    ]
    if not others:
        return explanation
    waits = tuple(
        _with_namesake(wait, others[0], str(target["name"])) if wait.code == Code.NO_TARGET else wait
        for wait in explanation.waits
    )
    return msgspec.structs.replace(explanation, waits=waits)


async def _has(client: Client, resource: Resource, namespace: str, name: str) -> bool:
    try:
        await client.get(resource, namespace, name)
    except ApiError:
        return False
    return True


def _with_namesake(wait: Wait, resource: Resource, name: str) -> Wait:
    return msgspec.structs.replace(
        wait,
        words=f"{wait.words}; there is a {resource.kind} {name} of {resource.api_version}",
        remedy=f"name {resource.kind} of {resource.api_version} as the target: in spec.targetRef, or where that cannot"
        " be changed in an object that replaces this one",
    )
