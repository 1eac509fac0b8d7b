"""The built-in controllers, one line each. manager.py runs them."""

from collections.abc import Sequence

from pykruise.runtime.operator import Work
from pykruise.sandbox.controllers import (
    autoscaling,
    cluster_roles,
    cron_jobs,
    daemon_sets,
    deployments,
    disruption,
    endpoints,
    ephemeral_volumes,
    jobs,
    node_lifecycle,
    replica_sets,
    service_accounts,
    stateful_sets,
    volumes,
)

WORK: Sequence[Work] = (
    replica_sets.WORK,
    deployments.WORK,
    stateful_sets.WORK,
    daemon_sets.WORK,
    jobs.WORK,
    jobs.TRACKED_PODS,
    cron_jobs.WORK,
    endpoints.WORK,
    service_accounts.WORK,
    volumes.DEFAULT_CLASS,
    volumes.CLAIMS,
    volumes.VOLUMES,
    disruption.WORK,
    node_lifecycle.LIFECYCLE,
    node_lifecycle.EVICTION,
    node_lifecycle.POD_COLLECTION,
    cluster_roles.WORK,
    ephemeral_volumes.WORK,
    autoscaling.WORK,
)
