"""All scenarios, by kind."""

from typing import Final

from recorded_original.language import Group, Wanted
from recorded_original.scenarios.budgets import POD, POD_UNAVAILABLE_BUDGET
from recorded_original.scenarios.cloneset import CLONE_SET
from recorded_original.scenarios.containers import (
    CONTAINER_RECREATE_REQUEST,
    EPHEMERAL_JOB,
    POD_PROBE_MARKER,
)
from recorded_original.scenarios.daemonset import DAEMON_SET
from recorded_original.scenarios.distributions import RESOURCE_DISTRIBUTION
from recorded_original.scenarios.examples import with_examples
from recorded_original.scenarios.images import IMAGE_LIST_PULL_JOB, IMAGE_PULL_JOB
from recorded_original.scenarios.jobs import ADVANCED_CRON_JOB, BROADCAST_JOB
from recorded_original.scenarios.largest import with_largest
from recorded_original.scenarios.nodes import NODE_IMAGE, NODE_POD_PROBE
from recorded_original.scenarios.sidecarset import SIDECAR_SET
from recorded_original.scenarios.spreads import PERSISTENT_POD_STATE, WORKLOAD_SPREAD
from recorded_original.scenarios.statefulset import STATEFUL_SET
from recorded_original.scenarios.uniteddeployment import UNITED_DEPLOYMENT

__all__ = ["EVERYWHERE", "GATES", "GROUPS"]

_KINDS: Final[tuple[Group, ...]] = (
    ADVANCED_CRON_JOB,
    BROADCAST_JOB,
    CLONE_SET,
    CONTAINER_RECREATE_REQUEST,
    DAEMON_SET,
    EPHEMERAL_JOB,
    IMAGE_LIST_PULL_JOB,
    IMAGE_PULL_JOB,
    NODE_IMAGE,
    NODE_POD_PROBE,
    PERSISTENT_POD_STATE,
    POD,
    POD_PROBE_MARKER,
    POD_UNAVAILABLE_BUDGET,
    RESOURCE_DISTRIBUTION,
    SIDECAR_SET,
    STATEFUL_SET,
    UNITED_DEPLOYMENT,
    WORKLOAD_SPREAD,
)

GROUPS: Final = tuple(with_largest(with_examples(group)) for group in _KINDS)

GATES: Final = ",".join(
    f"{name}=true"
    for name in (
        "ResourcesDeletionProtection",
        "DeletionProtectionForCRDCascadingGate",
        "ImagePullJobGate",
        "ResourceDistributionGate",
        "PodUnavailableBudgetUpdateGate",
    )
)
"""Feature gates of the managers, the recorded one and pykruise's."""

EVERYWHERE: Final[tuple[Wanted, ...]] = (
    Wanted(
        at=tuple(f"*/status/conditions/{name}" for name in ("Ready", "Reconciling", "Stalled", "Waiting")),
        why="conditions for kstatus, and one that says why a workload does not converge",
        shown_in="CloneSet",
    ),
    Wanted(
        at=("*/status/conditions/FailedUpdate", "*/events/*Warning FailedUpdate"),
        why="a write conflict is no failure; a condition that says one says which, and ends with it",
        shown_in="CloneSet",
    ),
    Wanted(
        at=("*/inplace-update-state/lastContainerStatuses/*/containerID",),
        why="a container that was started anew is known by its id where both images have one digest",
        shown_in="CloneSet",
    ),
    Wanted(
        at=("*",),
        only="blank",
        why="webhooks and controllers of the original write whole objects, with the empty values of Go's types",
        shown_in="CloneSet",
    ),
    Wanted(
        at=("*",),
        only="written",
        why="quantities in templates stay as they were written",
        shown_in="CloneSet",
    ),
    Wanted(
        at=("*/refused",),
        only="both",
        why="a refusal of fields is a 422",
        shown_in="DaemonSet",
    ),
    Wanted(
        at=("*/fields/*",),
        only="more",
        why="a refusal names every field that is wrong",
        shown_in="StatefulSet",
    ),
    Wanted(
        at=("*/annotations/pykruise.io/*",),
        why="pykruise's own notes",
        shown_in="AdvancedCronJob",
    ),
    Wanted(
        at=tuple(f"*/events/*Warning {reason}" for reason in ("ImagePull", "Unschedulable", "UnboundClaims")),
        why="an event of the workload says why its pods do not start",
        shown_in="CloneSet",
    ),
)
"""Differences of every kind."""
