"""All codes of reasons (runtime/reasons.py) with their meanings and remedies: the only table of codes.

Code ──▶ CODES ──▶ docs/reasons.md, explain

Pure.
"""

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from pykruise.runtime.reasons import Reason, WriteFault


class Code(StrEnum):
    """Code of an obstacle. `explain` looks for the cause in the order of the members."""

    # rejected, or not managed at all
    GATE_OFF = "GateOff"
    REFUSED = "Refused"
    INVALID_SPEC = "InvalidSpec"
    SELECTING_ALL = "SelectingAll"
    SELECTOR_CHANGED = "SelectorChanged"
    NO_MANAGER = "NoManager"
    NO_TARGET = "NoTarget"
    PROTECTS_NOTHING = "ProtectsNothing"
    CONFLICT = "Conflict"
    NAME_TAKEN = "NameTaken"
    NO_NAMESPACE = "NoNamespace"
    NOTHING_SELECTED = "NothingSelected"
    PROBE_PORT = "ProbePort"
    NO_TOPOLOGY = "NoTopology"
    NO_TICK = "NoTick"
    NO_WEBHOOK = "NoWebhook"
    INJECTION_FAILS = "InjectionFails"
    PATCH = "Patch"
    LIMIT_IS_ZERO = "LimitIsZero"
    # writes that the API server rejects
    QUOTA = WriteFault.QUOTA.value
    WEBHOOK = WriteFault.WEBHOOK.value
    POLICY = WriteFault.POLICY.value
    FORBIDDEN = WriteFault.FORBIDDEN.value
    NAME_TOO_LONG = WriteFault.NAME_TOO_LONG.value
    WRITE_FAILED = WriteFault.WRITE_FAILED.value
    RESIZE_REFUSED = WriteFault.RESIZE_REFUSED.value
    DISRUPTION_REFUSED = WriteFault.DISRUPTION_REFUSED.value
    CHURNING = WriteFault.CHURNING.value
    # a pod that cannot continue until a person acts
    NO_NODE_IMAGE = "NoNodeImage"
    NODE_LOST = "NodeLost"
    NO_AGENT = "NoAgent"
    NOT_READ = "NotRead"
    FINALIZER = "Finalizer"
    IMAGE_PULL = "ImagePull"
    CONTAINER_FAILS = "ContainerFails"
    UNBOUND_CLAIMS = "UnboundClaims"
    UNSCHEDULABLE = "Unschedulable"
    SCHEDULING_GATED = "SchedulingGated"
    NO_SCHEDULER = "NoScheduler"
    RESIZE_INFEASIBLE = "ResizeInfeasible"
    RESIZE_DEFERRED = "ResizeDeferred"
    RESIZE_PENDING = "ResizePending"
    READINESS_GATE = "ReadinessGate"
    MOUNT_FAILS = "MountFails"
    NOT_MOUNTED = "NotMounted"
    NOT_READY = "NotReady"
    # updates that cannot continue, and hooks
    BROKEN_UPDATE = "BrokenUpdate"
    BROKEN_UPDATE_STATE = "BrokenUpdateState"
    NOT_IN_PLACE = "NotInPlace"
    CANNOT_UPDATE = "CannotUpdate"
    PRE_DELETE_HOOK = "PreDeleteHook"
    IN_PLACE_UPDATE_HOOK = "InPlaceUpdateHook"
    PRE_NORMAL_HOOK = "PreNormalHook"
    BACKOFF = "Backoff"
    POD_FAILED = "PodFailed"
    POD_FINISHED = "PodFinished"
    CONTAINER_FAILED = "ContainerFailed"
    JOB_FAILED = "JobFailed"
    RUN_FAILED = "RunFailed"
    NOT_INJECTED = "NotInjected"
    HOT_UPGRADE = "HotUpgrade"
    NO_SUBSET = "NoSubset"
    TWO_AUTOSCALERS = "TwoAutoscalers"
    # obstacles that disappear automatically
    TERMINATING_OBJECT = "TerminatingObject"
    GRACE_PERIOD = "GracePeriod"
    UPDATING_IN_PLACE = "UpdatingInPlace"
    LIFECYCLE = "Lifecycle"
    STARTING = "Starting"
    SCHEDULING = "Scheduling"
    MIN_READY_SECONDS = "MinReadySeconds"
    DEPARTING = "Departing"
    TERMINATING = "Terminating"
    DELETING = "Deleting"
    UPDATING = "Updating"
    UPDATE_HELD = "UpdateHeld"
    CLAIM = "Claim"
    CLAIM_CANNOT_FOLLOW = "ClaimCannotFollow"
    CLAIMS_GROW = "ClaimsGrow"
    # requested limits and strategies
    SCALE_UP_LIMITED = "ScaleUpLimited"
    PAUSED = "Paused"
    ON_DELETE = "OnDelete"
    DISRUPTION_BUDGET = "DisruptionBudget"
    EVICTION_BUDGET = "EvictionBudget"
    BUDGET = "Budget"
    MAX_UNAVAILABLE = "MaxUnavailable"
    TURN = "Turn"
    OLDER_REVISION = "OlderRevision"
    POD_GROUP = "PodGroup"
    SPECIFIED = "Specified"
    PARTITION = "Partition"
    PARTITIONED_SCALING = "PartitionedScaling"
    NODE_SELECTOR = "NodeSelector"
    LOST_NODES = "LostNodes"
    NODE_LEFT_OUT = "NodeLeftOut"
    PLACEMENT = "Placement"
    NOT_PLACED = "NotPlaced"
    OTHER = "Other"
    CLAIMS = "Claims"
    ORPHAN = "Orphan"
    OTHER_OWNERS = "OtherOwners"
    OTHER_BUDGET = "OtherBudget"
    DEADLINE = "Deadline"
    NOT_UPDATE = "NotUpdate"
    NOT_SELECTED = "NotSelected"
    CANARY = "Canary"
    INJECTION_PAUSED = "InjectionPaused"
    NO_PODS = "NoPods"
    CLOSED = "Closed"
    CREATING = "Creating"
    LEAVING = "Leaving"
    SURPLUS = "Surplus"
    SUBSETS = "Subsets"
    IN_RESERVE = "InReserve"
    IMAGE_PULLING = "ImagePulling"
    PODS_ACTIVE = "PodsActive"
    PARALLELISM = "Parallelism"
    JOB_OVER = "JobOver"
    CHILD_ACTIVE = "ChildActive"
    RUN_MISSED = "RunMissed"
    UNFIT_NODE = "UnfitNode"
    NEXT_TICK = "NextTick"
    PROBE_FAILS = "ProbeFails"
    NO_NODES = "NoNodes"
    NO_TARGETS = "NoTargets"
    NO_EFFECT = "NoEffect"
    AUTOSCALED = "Autoscaled"


class Meaning(msgspec.Struct, frozen=True):
    """General meaning of a code and its general remedy. A Reason may have a more specific remedy."""

    means: str
    helps: str = ""
    """General remedy; empty if none is needed, because the obstacle disappears automatically or the spec requests
    it.
    """
    moves_in_s: float = 0.0
    """Maximum seconds until the object, its pods or PVCs change, if nothing is wrong and the wait ends automatically.
    AS_ASKED: the time depends on the object. 0 if the wait does not end automatically, or nothing waits.
    """


AS_ASKED: Final = math.inf
"""The time depends on minReadySeconds, terminationGracePeriodSeconds, the run time of a job's pods, or other
controllers.
"""
_A_MOMENT_S: Final = 60.0
"""Time for the manager's own next writes including the delay of a cache, and for the scheduler."""
_A_NODE_S: Final = 600.0
"""Longest time of a node's work: pulling an image, starting a container, restarting one in place, resizing a volume."""

_CORRECT: Final = "correct the field that the message names; the manager changes nothing until then"
RESUME: Final = "set spec.updateStrategy.rollingUpdate.paused to false"
_HOOK: Final = "the hook's owner must remove its label or finalizer from the pod"
REGISTER: Final = "run pykruise doctor: it shows the command that registers the webhooks"
ONE_AT_A_TIME: Final = "one at a time (wait until each replacement is available)"
"""Way to delete pods that serve: deleting all at the same time would cause an outage."""
_REJECTING: Final = "satisfy the webhook or policy, or change it; the write is retried automatically"

CODES: Final[Mapping[Code, Meaning]] = {
    Code.GATE_OFF: Meaning(
        "a feature gate of the manager is off, so no controller handles the objects of this kind",
        "turn the feature gate on (--feature-gates of the manager)",
    ),
    Code.REFUSED: Meaning("the object requests something that cannot be carried out", _CORRECT),
    Code.INVALID_SPEC: Meaning("a stored field has a value that admission would have rejected", _CORRECT),
    Code.SELECTING_ALL: Meaning("the selector is empty and would match every pod", _CORRECT),
    Code.SELECTOR_CHANGED: Meaning(
        "spec.selector differs from the selector with which the pods were created; the manager changes nothing",
        "restore the old selector",
    ),
    Code.TERMINATING_OBJECT: Meaning("the object is being deleted", moves_in_s=AS_ASKED),
    Code.NO_MANAGER: Meaning(
        "no manager has handled the latest change",
        "if this lasts, check that the manager runs and is the leader (pykruise doctor)",
    ),
    Code.NO_TARGET: Meaning("the named workload does not exist", "create it"),
    Code.PROTECTS_NOTHING: Meaning(
        "an annotation exempts all pods of a PodUnavailableBudget, or other PodUnavailableBudgets apply to them, or the"
        " webhooks do not review pods of their namespace, so the budget protects none of them",
        "remove the annotation from the pods, and from the template that sets it; or delete the other budgets; or use a"
        " PodDisruptionBudget in this namespace",
    ),
    Code.CONFLICT: Meaning(
        "two SidecarSets inject containers, volumes or annotations with the same name into one pod, or two "
        "PodProbeMarkers set the same condition, label or annotation of a pod, or a WorkloadSpread and a"
        " PodProbeMarker set the deletion cost of a pod, or a PodProbeMarker changes a label that a workload's selector"
        " needs",
        "change the name in one of the SidecarSets; or set another podConditionType, or other labels or annotations,"
        " in one of the PodProbeMarkers",
    ),
    Code.NAME_TAKEN: Meaning(
        "another object already has the name; it was not created for this object, and stays unchanged",
        "rename or delete the other object, or exclude the namespace",
    ),
    Code.NO_NAMESPACE: Meaning(
        "a namespace does not exist, or is being deleted", "create the namespace, or remove it from the spec"
    ),
    Code.NOTHING_SELECTED: Meaning(
        "the selector matches no object, so the manager does nothing",
        "correct the selector, or the labels of the objects that it must match",
    ),
    Code.NO_TOPOLOGY: Meaning(
        "a node lacks a label that pods need to return to it",
        "label the node, or change the keys of spec.requiredPersistentTopology",
    ),
    Code.NO_TICK: Meaning("a schedule matches no time within five years", "correct spec.schedule"),
    Code.NO_WEBHOOK: Meaning("API servers do not call the webhooks", REGISTER),
    Code.INJECTION_FAILS: Meaning(
        "new pods are rejected, because their sidecars cannot be injected", _CORRECT
    ),
    Code.PATCH: Meaning("the patch of a subset results in invalid pods", "correct the patch"),
    Code.CHURNING: Meaning(
        "the manager undoes its own work on this object, and waits longer each time before it continues",
        "find out what marks or changes the objects that the manager creates: their template, a webhook, another "
        "controller",
    ),
    Code.LIMIT_IS_ZERO: Meaning(
        "a limit of the spec is 0 or less, and blocks everything that it limits",
        "raise the field that the message names",
    ),
    Code.QUOTA: Meaning(
        "a ResourceQuota rejects a write", "raise the ResourceQuota, or free resources that it counts"
    ),
    Code.WEBHOOK: Meaning("an admission webhook rejects a write", _REJECTING),
    Code.POLICY: Meaning("an admission policy rejects a write", _REJECTING),
    Code.FORBIDDEN: Meaning(
        "the manager lacks a permission", "grant the permission (pykruise doctor names it)"
    ),
    Code.NAME_TOO_LONG: Meaning(
        "a name or label that is derived from the object's name would be too long",
        "create the object again with a shorter name",
    ),
    Code.WRITE_FAILED: Meaning("the API server rejects a write", "read the API server's message"),
    Code.RESIZE_REFUSED: Meaning(
        "the API server rejects the resize of a running pod",
        "lower the requests of the pod, or make room on the node; under InPlaceIfPossible the pod is"
        " recreated after a while",
    ),
    Code.DISRUPTION_REFUSED: Meaning(
        "a PodUnavailableBudget rejects a write that would take a pod out of service",
        "wait until more of its pods serve, or change the budget to allow more",
    ),
    Code.NODE_LOST: Meaning("a pod's node does not respond", "bring the node back, or delete it"),
    Code.NOT_READ: Meaning("a pod could not be read; the manager retries", "read the API server's message"),
    Code.FINALIZER: Meaning(
        "a finalizer delays the deletion of the object, a pod, a PVC, or a copy of a ResourceDistribution",
        "the controller that is responsible for the finalizer must remove it",
    ),
    Code.IMAGE_PULL: Meaning("an image cannot be pulled", "correct the image or its pull secret"),
    Code.CONTAINER_FAILS: Meaning(
        "a container does not start, or ends repeatedly", "read its log; correct the template"
    ),
    Code.UNBOUND_CLAIMS: Meaning("a pod's PVC has no volume", "provide a volume or a storage class"),
    Code.UNSCHEDULABLE: Meaning(
        "no node is eligible for the pod",
        "add nodes or capacity, or change the pod's requests and constraints",
    ),
    Code.NO_SCHEDULER: Meaning(
        "no scheduler has handled the pod",
        "correct schedulerName of the pods, or start a scheduler of that name",
    ),
    Code.SCHEDULING_GATED: Meaning(
        "scheduling gates hold the pod", "the controllers that set the gates must remove them"
    ),
    Code.RESIZE_INFEASIBLE: Meaning(
        "the node can never provide the new resources of the pod",
        "lower the requested resources, or delete the pod",
    ),
    Code.RESIZE_DEFERRED: Meaning(
        "the node cannot provide the new resources of the pod now",
        "lower the requested resources, or delete the pod",
    ),
    Code.RESIZE_PENDING: Meaning(
        "the node has not provided the new resources of the pod",
        "lower the requested resources, or delete the pod",
    ),
    Code.READINESS_GATE: Meaning(
        "a readiness gate of the pod is not True", "the controller of the condition must set it"
    ),
    Code.MOUNT_FAILS: Meaning(
        "a volume of the pod cannot be mounted: its Secret or ConfigMap does not exist, or the node reports an error",
        "create what is missing, or correct the volume",
    ),
    Code.NOT_MOUNTED: Meaning(
        "the pod's containers are not created; its volumes need a Secret or ConfigMap",
        "create the Secrets and ConfigMaps that are missing",
    ),
    Code.NOT_READY: Meaning("the pod's containers run, but are not ready", "check its readiness probe"),
    Code.BROKEN_UPDATE: Meaning(
        "the in-place update of a pod cannot continue until a person acts",
        "correct the annotation or label that the message names, or delete the pod",
    ),
    Code.BROKEN_UPDATE_STATE: Meaning(
        "in-place updates of pods cannot continue until a person acts",
        "delete the pod, so that it is recreated",
    ),
    Code.NOT_IN_PLACE: Meaning(
        "the changed fields cannot be updated in place, and recreation is not allowed",
        "set spec.updateStrategy.rollingUpdate.podUpdatePolicy to InPlaceIfPossible, or undo the change",
    ),
    Code.CANNOT_UPDATE: Meaning(
        "pods cannot be updated as the strategy requires", "read the message about the pod"
    ),
    Code.PRE_DELETE_HOOK: Meaning("the preDelete hook delays the deletion of the pod", _HOOK),
    Code.IN_PLACE_UPDATE_HOOK: Meaning("the inPlaceUpdate hook delays the in-place update of the pod", _HOOK),
    Code.PRE_NORMAL_HOOK: Meaning(
        "the preNormal hook is not on the pod yet", "the hook's owner must add it to the pod"
    ),
    Code.BACKOFF: Meaning(
        "a pod ended soon after it replaced another pod; it is replaced after a delay",
        "find out why the pod ends on its node",
    ),
    Code.NOT_INJECTED: Meaning(
        "the pod has no sidecars of this SidecarSet", f"recreate the pods {ONE_AT_A_TIME}"
    ),
    Code.HOT_UPGRADE: Meaning("the pod is in a hot upgrade", moves_in_s=_A_NODE_S),
    Code.NO_SUBSET: Meaning("the pod belongs to no subset", moves_in_s=_A_MOMENT_S),
    Code.GRACE_PERIOD: Meaning(
        "the pod is in the grace period before its in-place update", moves_in_s=AS_ASKED
    ),
    Code.UPDATING_IN_PLACE: Meaning("the pod is being updated in place", moves_in_s=_A_NODE_S),
    Code.LIFECYCLE: Meaning("the pod is between two states of its lifecycle", moves_in_s=_A_MOMENT_S),
    Code.STARTING: Meaning("the pod's containers start", moves_in_s=_A_NODE_S),
    Code.SCHEDULING: Meaning("the pod waits for the scheduler", moves_in_s=_A_MOMENT_S),
    Code.MIN_READY_SECONDS: Meaning("the pod is ready, but not yet for minReadySeconds", moves_in_s=AS_ASKED),
    Code.DEPARTING: Meaning(
        "a pod or PVC must be deleted before its successor is created", moves_in_s=AS_ASKED
    ),
    Code.TERMINATING: Meaning("a pod terminates", "if that lasts, find out why the deletion does not end"),
    Code.DELETING: Meaning("pods must be deleted", moves_in_s=_A_MOMENT_S),
    Code.UPDATING: Meaning("pods have an older template and are being updated", moves_in_s=_A_MOMENT_S),
    Code.UPDATE_HELD: Meaning(
        "pods have an older template, and none of them can be updated now", moves_in_s=AS_ASKED
    ),
    Code.CLAIM: Meaning(
        "a PVC must be deleted before its pod is created", "if that lasts, find out what blocks the deletion"
    ),
    Code.CLAIM_CANNOT_FOLLOW: Meaning(
        "a PVC cannot get the size of its template", "correct what the message names"
    ),
    Code.CLAIMS_GROW: Meaning("PVCs do not have their requested size yet", moves_in_s=_A_NODE_S),
    Code.SCALE_UP_LIMITED: Meaning(
        "scaleStrategy.maxUnavailable is used up",
        "wait until more pods are available, or find out why they are not",
    ),
    Code.PAUSED: Meaning("updates are paused", f"resume: {RESUME}"),
    Code.ON_DELETE: Meaning(
        "a pod is updated only when a person deletes it",
        f"delete the pods {ONE_AT_A_TIME}; or set spec.updateStrategy.type to RollingUpdate",
    ),
    Code.DISRUPTION_BUDGET: Meaning(
        "a PodUnavailableBudget allows no more pods to be out of service",
        "wait until more of its pods serve, or change the budget to allow more",
    ),
    Code.EVICTION_BUDGET: Meaning(
        "a PodDisruptionBudget allows no more evictions",
        "wait until more of its pods are healthy, or change the budget to allow more",
    ),
    Code.BUDGET: Meaning(
        "maxUnavailable or maxSurge is used up",
        "wait, or find out why the pods that use it up are not available",
    ),
    Code.MAX_UNAVAILABLE: Meaning(
        "maxUnavailable is used up", "wait until more pods are available, or find out why they are not"
    ),
    Code.TURN: Meaning("other pods are handled first", moves_in_s=AS_ASKED),
    Code.OLDER_REVISION: Meaning(
        "a pod of an older revision is not available, and is updated only after it is available",
        "delete the pod",
    ),
    Code.SPECIFIED: Meaning(
        "the pod is specified for deletion and waits for its successor", moves_in_s=AS_ASKED
    ),
    Code.POD_GROUP: Meaning(
        "the pods of a group start together and are updated together, and the limits do not allow this now",
        "set maxUnavailable or maxSurge to 100%, and partition to 0; raise the parallelism of a BroadcastJob",
    ),
    Code.PARTITION: Meaning(
        "the partition keeps the pod at its revision",
        "lower spec.updateStrategy.rollingUpdate.partition to continue",
    ),
    Code.PARTITIONED_SCALING: Meaning(
        "because of the partition, some nodes get no pod",
        "lower spec.updateStrategy.rollingUpdate.partition",
    ),
    Code.NODE_SELECTOR: Meaning(
        "rollingUpdate.selector does not select the pod's node",
        "widen rollingUpdate.selector to continue",
    ),
    Code.LOST_NODES: Meaning(
        "nodes that are not ready use up maxUnavailable",
        "bring the nodes back, or delete them, or let the update ignore them (annotation "
        "pykruise.io/ignore-unavailable-nodes)",
    ),
    Code.NODE_LEFT_OUT: Meaning(
        "a pod's node is out of service, and the pod does not use up maxUnavailable",
        "bring the node back, or delete it",
    ),
    Code.PLACEMENT: Meaning(
        "an old pod is not updated, because its node must not get another pod",
        "remove the taint or tolerate it, or delete the pod",
    ),
    Code.NOT_PLACED: Meaning("the node should have no pod, and has no pod", moves_in_s=AS_ASKED),
    Code.POD_FAILED: Meaning("a pod failed and is replaced", "if that repeats, read its events and logs"),
    Code.POD_FINISHED: Meaning(
        "a pod ended although it must keep running; it is replaced",
        "if that repeats, read its events and logs",
    ),
    Code.CONTAINER_FAILED: Meaning(
        "a container of a job ended with an error", "read its log, and correct what it runs"
    ),
    Code.JOB_FAILED: Meaning(
        "a job has failed and creates no more pods", "correct its cause, and create the job again"
    ),
    Code.RUN_FAILED: Meaning(
        "the latest run of a schedule failed",
        "correct its cause; if the cause is spec.template, delete the schedule and create it with a correct template",
    ),
    Code.OTHER: Meaning("any other reason; the message explains it", moves_in_s=AS_ASKED),
    Code.CLAIMS: Meaning("PVCs differ from their templates"),
    Code.ORPHAN: Meaning(
        "a pod matches the selector, but has no owner; a CloneSet never adopts pods",
        "delete it, or give it other labels",
    ),
    Code.OTHER_OWNERS: Meaning(
        "the selector matches pods of other owners too",
        "create this workload or the other owner again with another selector and other pod labels: a selector cannot "
        "be changed",
    ),
    Code.OTHER_BUDGET: Meaning(
        "another PodUnavailableBudget covers the pod, and only that budget is checked",
        "cover each pod with one budget",
    ),
    Code.DEADLINE: Meaning(
        "no progress within progressDeadlineSeconds",
        "correct what stops the pods, which the other reasons name",
    ),
    Code.NOT_UPDATE: Meaning(
        "updateStrategy.type is NotUpdate",
        f"set spec.updateStrategy.type to RollingUpdate; or recreate the pods {ONE_AT_A_TIME}",
    ),
    Code.NOT_SELECTED: Meaning(
        "updateStrategy.selector does not select the pod",
        "change spec.updateStrategy.selector, or the pod's labels",
    ),
    Code.CANARY: Meaning("the pod has the sidecars of a canary SidecarSet"),
    Code.INJECTION_PAUSED: Meaning("new pods get no sidecars", "set spec.injectionStrategy.paused to false"),
    Code.NO_PODS: Meaning("no pod is selected", "correct the selector, or the labels of the pods"),
    Code.CLOSED: Meaning("a subset is skipped, because its pods found no node", "make room on its nodes"),
    Code.CREATING: Meaning(
        "pods are being created, or were admitted but are not in the manager's cache yet",
        moves_in_s=_A_MOMENT_S,
    ),
    Code.LEAVING: Meaning("a pod is leaving a subset", moves_in_s=AS_ASKED),
    Code.PARALLELISM: Meaning(
        "the maximum number of pods or jobs is active",
        "wait until others have ended, or raise spec.parallelism",
    ),
    Code.JOB_OVER: Meaning("the job has ended and starts no more pods"),
    Code.PODS_ACTIVE: Meaning("pods of a job run, or have not started yet", moves_in_s=AS_ASKED),
    Code.NO_AGENT: Meaning("the agent of a node does not respond", "check the agent's pod on that node"),
    Code.CHILD_ACTIVE: Meaning(
        "the previous run is still active, and concurrencyPolicy is Forbid",
        "wait until this run ends, or set concurrencyPolicy to Allow or Replace",
    ),
    Code.RUN_MISSED: Meaning(
        "a run of a schedule could not start within startingDeadlineSeconds, so it was skipped",
        "raise spec.startingDeadlineSeconds: a run that waits for the previous run must start within this time",
    ),
    Code.UNFIT_NODE: Meaning(
        "a node is not eligible for a job's pods, so the job creates no pod for it",
        "make the node fit, or change spec.template",
    ),
    Code.NEXT_TICK: Meaning("a schedule waits for its next time"),
    Code.IMAGE_PULLING: Meaning(
        "a node pulls an image", "if that lasts, check that the agent runs on the node, and read its log"
    ),
    Code.NO_NODE_IMAGE: Meaning(
        "a named node has no NodeImage",
        "correct the name; a new node gets a NodeImage when the node has been ready for half a minute",
    ),
    Code.PROBE_PORT: Meaning(
        "a probe names a port that its container does not have",
        "name the port in the container, or use a port number in the probe",
    ),
    Code.PROBE_FAILS: Meaning(
        "a probe of a PodProbeMarker fails", "if the probe should succeed, read its message"
    ),
    Code.NO_EFFECT: Meaning(
        "a setting of the object has no effect", "change the setting that the message names, or remove it"
    ),
    Code.AUTOSCALED: Meaning(
        "a HorizontalPodAutoscaler sets the number of pods",
        "for another number of pods, change the autoscaler instead of spec.replicas",
    ),
    Code.TWO_AUTOSCALERS: Meaning(
        "several objects set the number of pods of one workload", "keep one of them, and delete the others"
    ),
    Code.NO_TARGETS: Meaning(
        "no namespace is a target yet",
        "label namespaces so that spec.targets selects them, or change spec.targets",
    ),
    Code.NO_NODES: Meaning(
        "no node is eligible for a pod",
        "change nodeSelector, affinity or tolerations of spec.template, or label nodes",
    ),
    Code.SURPLUS: Meaning("a subset has more pods than it should have; pods are not moved"),
    Code.SUBSETS: Meaning(
        "workloads of subsets are being created, scaled or updated, or their pods start", moves_in_s=_A_NODE_S
    ),
    Code.IN_RESERVE: Meaning(
        "pods of a subset found no node in time, or their update takes too long; they are kept, and other subsets "
        "have replacements for them",
        "make room on the subset's nodes, or find out why the update takes so long",
    ),
}
"""All codes with their meanings."""

_ORDER: Final = {code: number for number, code in enumerate(Code)}

NOT_WRITTEN: Final = frozenset(
    {
        *(
            Code.NO_MANAGER,
            Code.CHURNING,
            Code.QUOTA,
            Code.WEBHOOK,
            Code.POLICY,
            Code.FORBIDDEN,
            Code.NAME_TOO_LONG,
        ),
        Code.WRITE_FAILED,
        Code.RESIZE_REFUSED,
        Code.DISRUPTION_REFUSED,
    }
)
"""Codes of planned writes that failed, were rejected, or are not sent (yet)."""

AT_REST: Final = frozenset(
    {
        *(Code.PARTITION, Code.PARTITIONED_SCALING, Code.NODE_SELECTOR, Code.CLAIMS, Code.ORPHAN),
        *(Code.ON_DELETE, Code.PAUSED, Code.NOT_UPDATE, Code.NOT_SELECTED, Code.CANARY),
        *(Code.INJECTION_PAUSED, Code.NO_PODS, Code.SURPLUS, Code.JOB_OVER, Code.IN_RESERVE),
        *(Code.RUN_MISSED, Code.NEXT_TICK, Code.OTHER_BUDGET, Code.OTHER_OWNERS, Code.NODE_LEFT_OUT),
        *(Code.NO_NODES, Code.NO_TARGETS, Code.PROBE_FAILS, Code.UNFIT_NODE, Code.NO_EFFECT),
        Code.AUTOSCALED,
    }
)
"""Codes of states that the spec requests, or that are only information: nothing waits."""

DEADLINE_EXCEEDED: Final = "ProgressDeadlineExceeded"
"""Reason of the condition Progressing when progressDeadlineSeconds have passed. Deployments use the same reason."""

HELD: Final = frozenset({Code.PAUSED, Code.PARTITION, Code.PARTITIONED_SCALING, Code.NODE_SELECTOR})
"""Codes of rollouts that continue only when a person allows it."""

REPLACED_WITH_ITS_POD: Final = frozenset(
    {
        *(
            Code.IMAGE_PULL,
            Code.CONTAINER_FAILS,
            Code.UNSCHEDULABLE,
            Code.NO_SCHEDULER,
            Code.SCHEDULING_GATED,
        ),
        *(Code.READINESS_GATE, Code.NOT_MOUNTED, Code.NOT_READY),
    }
)
"""Codes of obstacles that may disappear when the pod is replaced by a pod of a newer template."""


def add_room(code: str, own: str, replace: str) -> str:
    """Return the remedy of a pod of an older template. `own`: remedy of the obstacle; `replace`: instruction that
    replaces the pod. A pod of the newest template perhaps finds no node either, so an unschedulable pod keeps its own
    remedy too.
    """
    return f"{own}; or {replace}" if code == Code.UNSCHEDULABLE else replace


NEVER_OBSERVED: Final = frozenset({Code.INVALID_SPEC, Code.SELECTING_ALL, Code.SELECTOR_CHANGED})
"""Reasons for which a spec is rejected: the status may describe the previous generation forever."""


def rank_of(code: str) -> int:
    """Rank of a code: causes come before their consequences."""
    return _ORDER[Code(code)]


def remedy_of(reason: Reason) -> str:
    """Remedy for a person: the reason's own remedy, otherwise the general one of its code."""
    return reason.remedy or CODES[Code(reason.code)].helps


NEEDS_A_PERSON: Final = frozenset(code for code in CODES if rank_of(code) < rank_of(Code.GRACE_PERIOD)) - {
    Code.TERMINATING_OBJECT,
    Code.NO_MANAGER,
    Code.HOT_UPGRADE,
    Code.NOT_MOUNTED,
    Code.NOT_READY,
    Code.NOT_READ,
    Code.BACKOFF,
}
"""Codes that need a person: all except temporary stages and requested limits."""

REPEATED: Final = NEEDS_A_PERSON | {Code.NOT_MOUNTED}
"""If a pod or workload has one of these codes, its owner reports the code too. NOT_MOUNTED is not in NEEDS_A_PERSON,
because it may mean that a large image is being pulled.
"""


OF_A_SPEC: Final = frozenset(
    {Code.IMAGE_PULL, Code.IMAGE_PULLING, Code.NOTHING_SELECTED, Code.NO_NODE_IMAGE, Code.JOB_FAILED}
)
"""Codes whose remedy changes the spec of a job. For most of these codes, this is true only for kinds of jobs without
pods of their own, such as ImagePullJob.
"""


OF_A_NAMED_NODE: Final = frozenset({Code.NO_NODE_IMAGE})
"""Codes about a node that a job names."""


def compute_longest_wait_s(code: Code, spec: Mapping[str, Any]) -> float:
    """Seconds within which something changes when nothing is wrong; 0 if the wait does not end automatically.

    `spec`: spec of the waiting object. If fields of the spec set the length of the wait, it ends within the sum of
    the spec's seconds and the time of a node's work.
    """
    moves_in_s = CODES[code].moves_in_s
    return moves_in_s if moves_in_s < AS_ASKED else _A_NODE_S + _sum_seconds(spec)


def _sum_seconds(value: Any) -> float:
    """Add up all fields `…Seconds` of a document."""
    if isinstance(value, Mapping):
        return sum(
            float(part) if name.endswith("Seconds") and isinstance(part, int) else _sum_seconds(part)
            for name, part in value.items()
        )
    return sum(_sum_seconds(part) for part in value) if isinstance(value, list) else 0.0
