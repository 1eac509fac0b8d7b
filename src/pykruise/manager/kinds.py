"""The kinds that a manager runs, one entry each: how it is built, when it is on, and what it may do.

KINDS ──▶ Manager (controllers)    KINDS ──▶ install (RBAC)    KINDS ──▶ flags (--<name>-workers)

A further kind is one more entry. What all kinds share (pods, revisions, claims, nodes, events) is in SHARED.
"""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from pykruise.kinds.cloneset import controller as cloneset
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.daemonset import controller as daemonset
from pykruise.kinds.daemonset.types import DAEMON_SETS
from pykruise.kinds.gates import Gates
from pykruise.kinds.launchpriority import controller as launchpriority
from pykruise.kinds.podreadiness import controller as podreadiness
from pykruise.kinds.sidecarset import controller as sidecarset
from pykruise.kinds.sidecarset.snapshot import Settings as SidecarSetSettings
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kinds.sidecarterminator import controller as sidecarterminator
from pykruise.kinds.sidecarterminator.plan import REQUESTS as RECREATE_REQUESTS
from pykruise.kinds.statefulset import controller as statefulset
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kinds.workloadspread import controller as workloadspread
from pykruise.kinds.workloadspread.readers import RIGHTS as SPREAD_RIGHTS
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kube.controller import Controller
from pykruise.kube.ids import Key
from pykruise.kube.resources import (
    CONFIG_MAPS,
    CONTROLLER_REVISIONS,
    EVENTS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    STORAGE_CLASSES,
    Resource,
)
from pykruise.kube.rights import READ, Right, on
from pykruise.manager.settings import Settings
from pykruise.plans.reconcile import KindContext
from pykruise.pods.budgets import POD_UNAVAILABLE_BUDGETS
from pykruise.pods.image_pull_jobs import IMAGE_PULL_JOBS

__all__ = ["KINDS", "SHARED", "SHARED_RIGHTS", "Kind", "enabled"]


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of workload, as the manager knows it."""

    name: str
    """Of its controller, and in its flag `--<name>-workers`."""
    component: str
    """The controller's name in metrics and events: `cloneset-controller`."""
    resource: Resource
    """What it is about; its controller waits until the API server serves it."""
    build: Callable[[KindContext, Settings], Controller[Key]]
    gates: tuple[str, ...] = ()
    """All of these must be on."""
    any_gate: tuple[str, ...] = ()
    """At least one of these must be on, where there are any."""
    rights: tuple[Right, ...] = ()
    """Beyond SHARED_RIGHTS."""

    def is_enabled(self, gates: Gates) -> bool:
        """Whether its gates let it run."""
        return all(gates[name] for name in self.gates) and (
            not self.any_gate or any(gates[name] for name in self.any_gate)
        )


def workload_rights(resource: Resource) -> tuple[Right, ...]:
    """What the controller of a workload does to its own objects: read, report, and own others by them."""
    return (
        on(resource, *READ, why=f"{resource.kind}: to see them"),
        on(resource, "patch", subresource="status", why=f"{resource.kind}: to report their status"),
        # Owners with blockOwnerDeletion: OwnerReferencesPermissionEnforcement asks for it.
        on(resource, "update", subresource="finalizers", why=f"{resource.kind}: to own pods"),
    )


SHARED: Sequence[Resource] = (PODS, CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS, NODES)
"""What every kind looks at; see plans/sources.py."""

SHARED_RIGHTS: Sequence[Right] = (
    on(PODS, *READ, "create", "delete", "patch", why="pods of workloads"),
    on(PODS, "patch", subresource="status", why="readiness of pods in and out of an update"),
    on(PODS, "patch", subresource="resize", why="cpu and memory in place"),
    # As for workloads: OwnerReferencesPermissionEnforcement asks for it.
    on(PODS, "update", subresource="finalizers", why="claims that go with their pod"),
    on(CONTROLLER_REVISIONS, *READ, "create", "delete", "patch", why="revisions of workloads"),
    on(PERSISTENT_VOLUME_CLAIMS, *READ, "create", "delete", "patch", why="claims of workloads"),
    on(NODES, *READ, why="where pods run"),
    on(EVENTS, "create", "patch", why="events about workloads"),
)

KINDS: Sequence[Kind] = (
    Kind(
        name=cloneset.NAME,
        component=cloneset.COMPONENT,
        resource=CLONE_SETS,
        build=lambda context, settings: cloneset.build(context, settings=settings.cloneset),
        # A pod's deletion through its owner's podsToDelete is taken out of the list again.
        rights=(
            *workload_rights(CLONE_SETS),
            on(CLONE_SETS, "patch", why="CloneSet: to clear podsToDelete"),
            on(POD_UNAVAILABLE_BUDGETS, *READ, why="CloneSet: to ask budgets before an update"),
            on(POD_UNAVAILABLE_BUDGETS, "patch", subresource="status", why="CloneSet: to spend of budgets"),
            on(IMAGE_PULL_JOBS, *READ, "create", "delete", why="CloneSet: to pull images ahead of updates"),
        ),
    ),
    Kind(
        name=daemonset.NAME,
        component=daemonset.COMPONENT,
        resource=DAEMON_SETS,
        build=lambda context, settings: daemonset.build(context, settings=settings.daemonset),
        rights=(
            *workload_rights(DAEMON_SETS),
            on(IMAGE_PULL_JOBS, *READ, "create", "delete", why="DaemonSet: to pull images ahead of updates"),
        ),
    ),
    Kind(
        name=launchpriority.NAME,
        component=launchpriority.COMPONENT,
        resource=PODS,
        build=lambda context, settings: launchpriority.build(context),
        rights=(
            on(
                CONFIG_MAPS,
                *("get", "create", "patch", "delete"),
                why="containers that start one after the other: what they wait for",
            ),
        ),
    ),
    Kind(
        name=podreadiness.NAME,
        component=podreadiness.COMPONENT,
        resource=PODS,
        build=lambda context, settings: podreadiness.build(context),
    ),
    Kind(
        name=sidecarset.NAME,
        component=sidecarset.COMPONENT,
        resource=SIDECAR_SETS,
        build=lambda context, settings: sidecarset.build(
            context, settings=SidecarSetSettings(namespace=settings.revision_namespace)
        ),
        rights=(
            *workload_rights(SIDECAR_SETS),
            on(NAMESPACES, *READ, why="SidecarSet: to know the labels of namespaces"),
        ),
    ),
    Kind(
        name=sidecarterminator.NAME,
        component=sidecarterminator.COMPONENT,
        resource=RECREATE_REQUESTS,
        build=lambda context, settings: sidecarterminator.build(context),
        gates=("SidecarTerminator",),
        rights=(on(RECREATE_REQUESTS, *READ, "create", why="sidecars of jobs: to end them"),),
    ),
    Kind(
        name=statefulset.NAME,
        component=statefulset.COMPONENT,
        resource=ADVANCED_STATEFUL_SETS,
        build=lambda context, settings: statefulset.build(context, settings=settings.statefulset),
        rights=(
            *workload_rights(ADVANCED_STATEFUL_SETS),
            on(STORAGE_CLASSES, *READ, why="StatefulSet: whether volumes of claims can grow"),
            on(
                IMAGE_PULL_JOBS, *READ, "create", "delete", why="StatefulSet: to pull images ahead of updates"
            ),
        ),
    ),
    Kind(
        name=workloadspread.NAME,
        component=workloadspread.COMPONENT,
        resource=WORKLOAD_SPREADS,
        build=lambda context, settings: workloadspread.build(
            context, namespace=settings.own_namespace, versioned=settings.versioned_status_kinds
        ),
        gates=("WorkloadSpread",),
        rights=SPREAD_RIGHTS,
    ),
)
"""In the order in which their controllers start."""


def enabled(gates: Gates, kinds: Iterable[Kind] = KINDS) -> tuple[Kind, ...]:
    """The kinds that these gates let run."""
    return tuple(kind for kind in kinds if kind.is_enabled(gates))
