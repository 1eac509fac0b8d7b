"""Rows of the page of waiting pods: the pod, its workload, and the reason in the words of `explain`.

pod, its workload ──▶ build_waiting_pod() ──▶ PodRow; None: it does not wait

Pure. The reason comes from cli/insight/causes.py, which `explain` uses too.
"""

from collections.abc import Collection

import msgspec

from pykruise.cli.insight.causes import cause_of
from pykruise.cli.insight.known_kinds import is_of, list_known_kinds
from pykruise.cli.kubectl.pods import restarts_of, state_of
from pykruise.dashboard.objects import DashboardObject
from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document
from pykruise.kube.resources import Resource
from pykruise.plans.insight import WorkloadInsight
from pykruise.pods.lifecycle.states import Lifecycle
from pykruise.pods.reasons import NEEDS_A_PERSON
from pykruise.pods.view.decoding import project_pod

MOST_WORDS = 2_000
"""Maximum number of characters of a message."""


class PodRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One waiting pod."""

    id: str
    namespace: str
    name: str
    code: str
    """Code of the reason in docs/reasons.md."""
    words: str
    remedy: str = ""
    state: str = ""
    """State as in the output of `kubectl get pods`."""
    node: str = ""
    since: str = ""
    restarts: int = 0
    needs_a_person: bool = False
    owner_resource: str = ""
    """`clonesets.apps.kruise.io`; empty if the dashboard shows no workload of the pod."""
    owner_kind: str = ""
    owner: str = ""


def build_waiting_pod(
    view: DashboardObject,
    *,
    owner: tuple[Resource, Document] | None,
    now: Instant,
    lost_nodes: Collection[str] = (),
) -> PodRow | None:
    """Return the row of a waiting pod. `owner` is its workload, if known; `lost_nodes` do not respond."""
    pod, lifecycle = view.to_document, _find_lifecycle(owner)
    cause = cause_of(pod, project_pod(view.raw), now=now, lifecycle=lifecycle, lost_nodes=lost_nodes)
    if cause is None:
        return None
    meta = pod["metadata"]
    since = format_time(cause.since) if cause.since is not None else meta.get("creationTimestamp") or ""
    resource = owner[0] if owner is not None else None
    return PodRow(
        id=f"pods/{view.namespace}/{view.name}",
        namespace=view.namespace,
        name=view.name,
        code=str(cause.code),
        words=cause.words[:MOST_WORDS],
        remedy=cause.remedy[:MOST_WORDS],
        state=state_of(pod),
        node=str((pod.get("spec") or {}).get("nodeName") or ""),
        since=since,
        restarts=restarts_of(pod),
        needs_a_person=cause.code in NEEDS_A_PERSON,
        owner_resource=str(resource) if resource is not None else "",
        owner_kind=resource.kind if resource is not None else "",
        owner=owner[1]["metadata"]["name"] if owner is not None else "",
    )


def _find_lifecycle(owner: tuple[Resource, Document] | None) -> Lifecycle | None:
    if owner is None:
        return None
    for kind in list_known_kinds():
        if is_of(kind, owner[1]) and isinstance(kind.insight, WorkloadInsight):
            strategy, _ = kind.insight.strategy(owner[1].get("spec") or {})
            return strategy.lifecycle if strategy is not None else None
    return None
