"""The built-in controllers, one line each. manager.py runs them."""

from collections.abc import Sequence

from pykruise.runtime.operator import Work
from pykruise.sandbox.controllers import deployments, replica_sets
from pykruise.sandbox.controllers.autoscaling import Autoscalers
from pykruise.sandbox.controllers.base import Loop
from pykruise.sandbox.controllers.cluster_roles import AggregatedRoles
from pykruise.sandbox.controllers.cron_jobs import CronJobs
from pykruise.sandbox.controllers.daemon_sets import DaemonSets
from pykruise.sandbox.controllers.disruption import Budgets
from pykruise.sandbox.controllers.endpoints import ServiceEndpoints
from pykruise.sandbox.controllers.ephemeral_volumes import EphemeralVolumes
from pykruise.sandbox.controllers.jobs import Jobs, TrackedPods
from pykruise.sandbox.controllers.node_lifecycle import NodeLifecycle, PodCollector, TaintEviction
from pykruise.sandbox.controllers.service_accounts import ServiceAccounts
from pykruise.sandbox.controllers.stateful_sets import StatefulSets
from pykruise.sandbox.controllers.volumes import Claims, DefaultClass, Volumes

__all__ = ["KINDS", "WORK"]

WORK: Sequence[Work] = (replica_sets.WORK, deployments.WORK)
"""Those that run on the shared runtime."""

KINDS: Sequence[type[Loop]] = (
    StatefulSets,
    DaemonSets,
    Jobs,
    TrackedPods,
    CronJobs,
    ServiceEndpoints,
    ServiceAccounts,
    DefaultClass,
    Claims,
    Volumes,
    Budgets,
    NodeLifecycle,
    TaintEviction,
    PodCollector,
    AggregatedRoles,
    EphemeralVolumes,
    Autoscalers,
)
