"""The built-in controllers, one line each. manager.py runs them."""

from collections.abc import Sequence

from pykruise.runtime.operator import Work
from pykruise.sandbox.controllers import (
    autoscaling,
    cluster_roles,
    daemon_sets,
    deployments,
    disruption,
    endpoints,
    ephemeral_volumes,
    replica_sets,
    service_accounts,
    stateful_sets,
)
from pykruise.sandbox.controllers.base import Loop
from pykruise.sandbox.controllers.cron_jobs import CronJobs
from pykruise.sandbox.controllers.jobs import Jobs, TrackedPods
from pykruise.sandbox.controllers.node_lifecycle import NodeLifecycle, PodCollector, TaintEviction
from pykruise.sandbox.controllers.volumes import Claims, DefaultClass, Volumes

__all__ = ["KINDS", "WORK"]

WORK: Sequence[Work] = (
    replica_sets.WORK,
    deployments.WORK,
    stateful_sets.WORK,
    daemon_sets.WORK,
    endpoints.WORK,
    service_accounts.WORK,
    disruption.WORK,
    cluster_roles.WORK,
    ephemeral_volumes.WORK,
    autoscaling.WORK,
)
"""Those that run on the shared runtime."""

KINDS: Sequence[type[Loop]] = (
    Jobs,
    TrackedPods,
    CronJobs,
    DefaultClass,
    Claims,
    Volumes,
    NodeLifecycle,
    TaintEviction,
    PodCollector,
)
