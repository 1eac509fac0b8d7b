"""Workloads whose pods the API server rejects, and into whose pods a SidecarSet would inject its sidecars.

Client ──list workloads──▶ find_refused_workloads() ──▶ RefusedWorkload ──▶ explain_refused() ──▶ Wait

This module only reads, and only while the SidecarSet has no pods: perhaps its own sidecars are the reason.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from pykruise.cli.insight.explanations import Wait
from pykruise.cli.insight.known_kinds import list_known_kinds
from pykruise.cli.insight.optional_reads import list_optional
from pykruise.cli.insight.refused_writes import code_of_refusal, make_refusal_wait
from pykruise.kinds.sidecarset.sidecar_contents import list_sidecar_names
from pykruise.kinds.sidecarset.view import SidecarSetView
from pykruise.kube.client.client import Client
from pykruise.kube.documents import Document, get_path
from pykruise.kube.resources import DEPLOYMENTS, Resource
from pykruise.plans.insight import WorkloadInsight
from pykruise.pods.reasons import Code
from pykruise.runtime.refusals import explain_refusal, list_refused_parts

MOST: Final = 3
"""Maximum number of workloads that are reported."""


class RefusedWorkload(msgspec.Struct, frozen=True, kw_only=True):
    """A workload whose pods the API server rejects."""

    kind: str
    namespace: str
    name: str
    code: Code
    message: str
    """Message of the condition."""


async def find_refused_workloads(
    client: Client, view: SidecarSetView, selects_namespace: Callable[[str], bool]
) -> list[RefusedWorkload]:
    """Return the workloads whose pods the SidecarSet selects and the API server rejects, at most `MOST`. Kinds that the
    user may not list are left out.
    """
    refused: list[RefusedWorkload] = []
    for resource in _list_resources():
        for workload in await list_optional(client, resource):
            labels = get_path(workload, "spec", "template", "metadata", "labels") or {}
            if view.selects(labels) and selects_namespace(workload["metadata"]["namespace"]):
                refused += _read_refusal(resource, workload)
            if len(refused) >= MOST:
                return refused[:MOST]
    return refused


def _list_resources() -> Iterator[Resource]:
    yield from (kind.resource for kind in list_known_kinds() if isinstance(kind.insight, WorkloadInsight))
    yield DEPLOYMENTS


def _read_refusal(resource: Resource, workload: Document) -> Iterator[RefusedWorkload]:
    meta = workload["metadata"]
    conditions: list[Mapping[str, Any]] = get_path(workload, "status", "conditions", default=[])
    for condition in conditions:
        code = code_of_refusal(condition, meta["namespace"])
        if condition.get("status") == "True" and code is not None:
            message = str(condition.get("message") or "")
            yield RefusedWorkload(
                kind=resource.kind, namespace=meta["namespace"], name=meta["name"], code=code, message=message
            )
            return


def explain_refused(workload: RefusedWorkload, view: SidecarSetView) -> Wait:
    """Return the wait of the SidecarSet for a workload that cannot create pods. If the SidecarSet adds a container or
    volume that is rejected, the remedy is to correct it in the SidecarSet.
    """
    wait = make_refusal_wait(workload.code, workload.message, namespace=workload.namespace)
    words, remedy = wait.words, wait.remedy
    own = _list_parts(view)
    added = {part: own[part] for part in list_refused_parts(wait.words) if part in own}
    fields = " and ".join(dict.fromkeys(added.values()))
    known = explain_refusal(
        wait.words, namespace=workload.namespace, template=f"{fields} of SidecarSet {view.name}"
    )
    if added and known is not None:
        parts = ", ".join(f"{what} {name}" for what, name in added)
        words = f"{words}; SidecarSet {view.name} adds {parts}"
        remedy = f"{known[1]}; or exclude the namespace with spec.namespaceSelector of SidecarSet {view.name}"
    words = (
        f"{workload.kind} {workload.namespace}/{workload.name}, whose pods it selects, has no pods: {words}"
    )
    return msgspec.structs.replace(wait, words=words, remedy=remedy)


def _list_parts(view: SidecarSetView) -> dict[tuple[str, str], str]:
    """Return the containers and volumes that the SidecarSet adds to pods, with the field that defines them."""
    contents = view.contents
    if contents is None:
        return {}
    return {
        **{("volume", name): "spec.volumes" for name in contents.volumes},
        **{
            ("container", name): "spec.initContainers"
            for name in list_sidecar_names(contents.init_containers)
        },
        **{("container", name): "spec.containers" for name in list_sidecar_names(contents.containers)},
    }
