"""Every known difference from OpenKruise, with its reason: the table in docs/migration.md.

DIFFERENCES ──▶ table() ──▶ Markdown; `python -m tools.differences docs/migration.md` writes it into the page

A test compares the page with this table.
"""

import sys
from pathlib import Path
from typing import Final

import msgspec

__all__ = ["BEGIN", "DIFFERENCES", "END", "Difference", "table", "with_table"]

BEGIN: Final = "<!-- made by: python -m tools.differences docs/migration.md -->"
END: Final = "<!-- end of what is made -->"


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One difference. All texts are Markdown; `about` is a kind or a part of the manager."""

    about: str
    original: str
    here: str
    why: str


def _differences_of(about: str, *rows: tuple[str, str, str]) -> tuple[Difference, ...]:
    return tuple(Difference(about=about, original=a, here=b, why=c) for a, b, c in rows)


_EVERYWHERE: Final = _differences_of(
    "all kinds",
    (
        "a refusal has the code 400, 422 or 500",
        "422 with every field error and its whole path; a refused eviction gets 429, other refusals 403",
        "clients can show the field, and drain tools try again",
    ),
    (
        "server-side apply treats the containers, volumes and other lists of a template as one value",
        "it merges them by key, as in a Deployment; the API server refuses a template with the same name twice",
        "two users who apply parts of one template do not remove each other's containers",
    ),
    (
        "a spec that cannot be read counts as 0 or as its default",
        "a condition or event names the field, and no pod is changed",
        "a partition that became 0 would update all pods",
    ),
    (
        "the controller uses a changed `spec.selector` of a stored object",
        "it changes nothing while the selector differs: `SelectorMismatch`",
        "it would orphan all pods and create as many again",
    ),
    (
        "a template, or a patch of pods, may have labels and annotations that belong to a single pod "
        "(`apps.kruise.io/specified-delete`, a lifecycle state, an instance id, a revision hash): each pod "
        "gets them",
        "they are refused, and ignored in a stored template",
        "pods would be created and deleted without end",
    ),
    (
        "a workload that marks its new pods for deletion creates and deletes them without end",
        "an object that undoes its own work three times waits 1 s, 2 s, 4 s, … up to five minutes: `Churning`",
        "one object must not use up the API server",
    ),
    (
        "tools that use kstatus (Flux, Helm 4) see every object as ready immediately",
        "workloads report `Ready`, `Reconciling` and `Stalled`",
        "these tools wait for rollouts ([gitops.md](gitops.md))",
    ),
    (
        "a write conflict sets a failure condition that nothing clears",
        "a conflict is not a failure; failure conditions become False when their cause is removed",
        "alerts on conditions are reliable",
    ),
    (
        "one event for each pod",
        "one event with a count and a list for all events of one kind in a plan",
        "in large rollouts client-go's limits would drop events",
    ),
    (
        "revisions are compared byte by byte",
        "they are compared by meaning: an explicit default of a definition or a webhook (also in a pod "
        "template, such as `imagePullPolicy: Always`) makes no other revision",
        "a switch of the manager rolls no pod",
    ),
    (
        "the manager reads the newest version of each kind; when the cluster stores another version, a webhook "
        "converts",
        "it reads the version that the cluster stores and converts it",
        "it works with the definitions of every release, and next to a manager that answers conversions",
    ),
    (
        "a write through one version removes the fields that this version lacks",
        "they are kept in the annotation `pykruise.io/conversion-<version>`",
        "old clients remove nothing",
    ),
    (
        "no condition shows why a workload does not converge",
        "the condition `Waiting`, and a Warning event when a user must act",
        "users need to know why",
    ),
    (
        "creations in a terminating namespace are retried with backoff",
        "they are tried once",
        "such a namespace accepts no new objects",
    ),
    (
        "webhooks write whole objects: `creationTimestamp: null`, `resources: {}`, `paused: false`, "
        "`enablePVCReuse: false` are stored although no client wrote them",
        "webhooks add only defaults that have an effect",
        "clients read what they wrote",
    ),
    (
        "quantities in templates are stored in another form: `1000m` as `1`, `1024Mi` as `1Gi`",
        "they are stored as they were written",
        "clients read what they wrote",
    ),
    (
        "no webhook checks some fields for negative or malformed values (a BroadcastJob's `parallelism`, "
        "`activeDeadlineSeconds` and `restartLimit`, a StatefulSet's `revisionHistoryLimit`, an EphemeralJob's "
        "`replicas`)",
        "such values are refused, with their field",
        "they could only fail later",
    ),
)

_CLONE_SET: Final = _differences_of(
    "CloneSet",
    (
        "a pod to be recreated first gets the label `specified-delete`, and is then deleted",
        "it is deleted immediately when the budget allows it, with the same event `SuccessfulUpdatePodReCreate`",
        "one write less per pod",
    ),
    (
        "each pass sends `SuccessfulUpdatePodReCreate` while a labelled pod waits",
        "the event is sent once",
        "its count is right",
    ),
    (
        "an available CloneSet that is older than `progressDeadlineSeconds` exceeds its deadline as soon as a "
        "rollout begins",
        "a rollout has its whole deadline, and progress extends it",
        "the deadline applies to rollouts without progress",
    ),
    (
        "`ProgressDeadlineExceeded` stays until the CloneSet is available, paused or at its partition",
        "it also ends when the template changes",
        "the new rollout has not exceeded its deadline",
    ),
    (
        "`maxSurge` creates and deletes pods also for an update that restarts nothing (labels, annotations, "
        "resizes)",
        "no pod is created or deleted; the same number of pods is updated at the same time",
        "all pods stay available",
    ),
    (
        "cpu and memory of containers change in place with the gate `InPlaceWorkloadVerticalScaling`; "
        "resources of a whole pod never",
        "without a gate on Kubernetes 1.35 and later, for whole pods on 1.36 and later; `=false` switches it "
        "off",
        "the API server supports it, and nothing restarts",
    ),
    (
        "a resize that does not fit on the node waits forever",
        "under InPlaceIfPossible the pod is recreated after `--inplace-resize-timeout`",
        "the policy allows it",
    ),
    (
        "v1beta1 refuses `maxUnavailable: 0` together with a `maxSurge`, and OnDelete with a partial "
        "`rollingUpdate`",
        "both are accepted",
        "v1alpha1 accepts them, and both have a meaning",
    ),
    (
        "`12.5%` is accepted and counts as 0, `5` counts as 5%",
        "admission and controller read values in the same way; a number as a string is refused",
        "rollouts are not blocked",
    ),
    (
        "`scaleStrategy.maxUnavailable` is not checked; an invalid value stops scaling up",
        "refused",
        "it could only fail later",
    ),
    (
        "under OnDelete the default of 20% is rounded down",
        "it is rounded up",
        "a ready pod of a small CloneSet can be replaced",
    ),
    (
        "while missing pods use up `maxUnavailable`, no pod is updated; an unavailable pod can block them",
        "one unavailable pod is updated at a time",
        "a corrected template reaches pods that only an update can repair",
    ),
    (
        "pods that are being deleted wait while pods are created",
        "their deletion continues",
        "the two do not depend on each other",
    ),
    (
        "scatter order and the final counts of a surge depend on timing",
        "the same situation gives the same plan",
        "plans can be explained and tested",
    ),
    (
        "nothing reports pods of a deleted CloneSet that match a new one",
        "they are not adopted either; `OrphansMatchSelector` names them",
        "after a switch, users do not expect an adoption",
    ),
)

_STATEFUL_SET: Final = _differences_of(
    "StatefulSet",
    (
        "a failed pod can block the StatefulSet when `scaleStrategy.maxUnavailable` is 1",
        "it is created again; a pod uses at most one of `maxUnavailable`",
        "the StatefulSet recovers automatically",
    ),
    (
        "under OrderedReady a hook can block all other pods forever",
        "it blocks no pod forever, and a pod can return from `PreparingDelete`",
        "no user must act",
    ),
    (
        "after a new claim template, updates of pods fail",
        "they do not fail",
        "a running pod cannot get the volume",
    ),
    (
        "with one invalid entry of `reserveOrdinals`, no entry counts, or the StatefulSet stops",
        "only this entry is ignored, with a warning",
        "a typing error has little effect",
    ),
    (
        "specified deletion waits under OnDelete and while paused",
        "the pod is deleted",
        "the user has named the pod",
    ),
    (
        "orphans are adopted at the next change of the StatefulSet",
        "they are adopted when they appear",
        "no user must act",
    ),
    (
        "under a partition, the rollout counts as complete when the pods below the partition are missing, or "
        "after a scale to 0",
        "it is not complete: missing pods are created with the old revision",
        "the partition decides the revision of each ordinal",
    ),
    (
        "the status is computed before the writes are done",
        "it is computed from the pods of one snapshot",
        "its numbers are not wrong for long",
    ),
    (
        "a template without containers is stored",
        "refused",
        "no pod could be created",
    ),
    (
        "a deletion with orphan propagation deletes the pods' revision",
        "the revision stays with the pods, as for a CloneSet",
        "a StatefulSet that adopts the pods knows their revision",
    ),
)

_DAEMON_SET: Final = _differences_of(
    "DaemonSet",
    (
        "the paths of errors contain `…rollingUpdate.rollingUpdate.type`",
        "they contain `spec.updateStrategy.rollingUpdate.…`",
        "the path names the field",
    ),
    (
        "the deletion of a node has no effect until another event",
        "its DaemonSets are reconciled",
        "`desiredNumberScheduled` is right",
    ),
    (
        "percentages are of the numbers in the last status: 0 in the first pass, and `10%` of 5 nodes is "
        "always 0",
        "they are of the nodes of this pass, and a burst is at least 1",
        "percentages work in the first pass and on small clusters",
    ),
    (
        "`burstReplicas` and the node selector are not checked",
        "invalid values are refused",
        "they could only fail later",
    ),
    (
        "a pod that succeeded stays, and its node has no running pod",
        "it is replaced (`SucceededDaemonPod`)",
        "the node has its daemon",
    ),
    (
        "when webhooks are down, the template's selector can be changed, and every node gets a second pod",
        "no pod is changed ([how to recover](daemonset.md#the-selector-cannot-be-changed))",
        'see "all kinds"',
    ),
    (
        "v1alpha1's annotation for progressive creation stays after v1beta1 switched it off",
        "it is then not shown",
        "a client of v1alpha1 does not switch it on again",
    ),
    (
        "a readiness gate of the template is added a second time",
        "it is not added again",
        "one gate belongs to one condition",
    ),
)

_SIDECAR_SET: Final = _differences_of(
    "SidecarSet",
    (
        "`maxUnavailable` limits only the upgrades of ready pods; a pod that is not ready is upgraded in "
        "addition",
        "a pod that is not ready is upgraded immediately and counts",
        "a corrected image does not make one more pod unavailable",
    ),
    (
        "with `NotUpdate`, the number of ready pods changes only when a pod is created",
        "the status follows changes of pods and namespaces immediately",
        "otherwise the number is stale",
    ),
    (
        "whether two selectors can match the same pod is guessed",
        "it is computed",
        "there is no false conflict, and no conflict is missed",
    ),
    (
        "a base cannot be updated while it has a canary",
        "it can",
        "the canary is recognised by the name of its base",
    ),
    (
        "a hot sidecar without an empty image is accepted, and so are `cpu*cpu` and `100MB`",
        "they are refused; `cpu - 2` is accepted",
        "they could never be evaluated",
    ),
    (
        "a pod's condition stays False when a refused change is reverted, and keeps the names of deleted "
        "SidecarSets",
        "it becomes True, and the names are removed",
        "conditions describe the present state",
    ),
    (
        "while the manager's cache is stale, new pods can miss a SidecarSet of about the same age",
        "while its watch is broken, the manager reads from the API server for each pod",
        "no pod lacks its sidecar after an outage",
    ),
)

_WORKLOAD_SPREAD: Final = _differences_of(
    "WorkloadSpread",
    (
        "pods for which no subset has room are adopted at a later sync, also into a full subset",
        "they do not change: no annotation, no patch, no deletion cost",
        "OpenKruise's own end-to-end tests expect this; pods of subsets have a higher deletion cost",
    ),
    (
        "an existing pod is adopted while admission may give its slot to another pod",
        "it is adopted only when the status counts it",
        "no subset gets more pods than its maximum",
    ),
    (
        "patches for an Advanced StatefulSet are checked against the built-in StatefulSet of that name; "
        "reserved ordinals use slots",
        "they are checked against the target, and only existing ordinals use slots",
        "both kinds of StatefulSet work in the same way",
    ),
    (
        "for percentages, a v1beta1 CloneSet has 0 replicas",
        "both versions have the same replicas",
        "the first pods get their subset",
    ),
    (
        "the white list cannot contain a kind with the name of a built-in kind",
        "it can",
        "the group distinguishes them",
    ),
    (
        "`targetFilter` without a selector matches no pod at creation",
        "it matches all pods, as in the controller",
        "it has one meaning",
    ),
    (
        "StatefulSets are not watched, and the white list is read once",
        "both are watched",
        "no restart is needed",
    ),
    (
        "when all pods of a revision are rescheduled at the same time, the subset is no longer unschedulable, "
        "and new pods are placed there again",
        "the subset stays unschedulable for five minutes",
        "pods were deleted and created again every `rescheduleCriticalSeconds`",
    ),
    (
        "rescheduling waits for other events",
        "events of the pod cause it",
        "it happens at the configured time",
    ),
    (
        "a paused Deployment stops the status",
        "only deletion costs wait",
        "numbers are right",
    ),
    (
        "each admitted pod causes a write of the status",
        "admissions are batched, and the status is written only when it differs",
        "hundreds of pods can be created at the same time",
    ),
    (
        "a slot is allocated again although the deletion of its pod was refused after admission",
        "it is allocated again only when the deletion is observed",
        "no subset gets more pods than its maximum",
    ),
    (
        "a pod that is deleted right after its creation keeps its slot",
        "its replacement gets the slot",
        "the replacement would stay in another subset forever",
    ),
    (
        "a dry run of an eviction uses a slot for 15 s",
        "it changes nothing",
        "a dry run writes nothing",
    ),
    (
        "each deleted pod frees a slot",
        "it frees none while the subset has more pods than its maximum",
        "the number of pods reaches a lowered maximum",
    ),
    (
        "a patch that is a string or a number is accepted when the target does not exist",
        "refused, with `spec.subsets[i].patch`",
        "no pod could be created",
    ),
    (
        "`status.spread` does not exist",
        "it is a summary for users: `a 3/3, b 2`",
        "`kubectl get ws` shows how many pods each subset has",
    ),
    (
        "a second WorkloadSpread for the same workload is accepted",
        "refused",
        "both would place the same pods",
    ),
)

_RESOURCE_DISTRIBUTION: Final = _differences_of(
    "ResourceDistribution",
    (
        "`stringData` of a Secret causes a write in each pass",
        "it is compared as `data`",
        "without a change there is no write",
    ),
    (
        "after a failure in one namespace, all namespaces are tried again with backoff",
        "only this namespace is tried again, after 1 s up to 5 minutes",
        "a quota of one namespace causes no work for others",
    ),
    (
        "when a conflicting object is deleted, the copy is created at the next other event",
        "the deletion causes the creation",
        "no user must act",
    ),
    (
        "all Secrets and ConfigMaps are cached completely",
        "only their metadata is cached, and digests of the contents of copies",
        "the manager holds no foreign secrets",
    ),
    (
        "`failed` counts everything that did not succeed in the last pass",
        "it counts only failures; during a pass, some namespaces have neither succeeded nor failed",
        "a running distribution is not a failure",
    ),
    (
        "the reason of a condition is a fixed sentence",
        "it names the object or the namespace",
        "users see which one failed",
    ),
)

_PERSISTENT_POD_STATE: Final = _differences_of(
    "PersistentPodState",
    (
        "annotations of a workload overwrite or delete an object of that name that a user wrote",
        "they affect only objects that the workload owns; the user's retention policy stays, and an event "
        "reports other objects",
        "objects of users stay",
    ),
    (
        "weights, keys and policies are not checked",
        "values that would fail later are refused",
        "pods would not be created",
    ),
    (
        "pods get an empty preferred term",
        "it is left out",
        "it matches no node",
    ),
    (
        "`ordinals.start` is ignored: the record of a recreated pod is dropped",
        "ordinals are counted from there",
        "the pod returns to its node",
    ),
    (
        "when a node cannot be read, the record is lost until the next event",
        "the read is retried",
        "no user must act",
    ),
    (
        "when a label of a node changes, the old value stays recorded, also for pods that start on the node "
        "later",
        "the current labels of the node are recorded",
        "no pod could return to the node, and with a required key perhaps to no node",
    ),
    (
        "a malformed white list refuses all pods with a controller",
        "it refuses only pods of kinds that need the list",
        "a typing error has little effect",
    ),
)

_POD_PROBE_MARKER: Final = _differences_of(
    "PodProbeMarker",
    (
        "removed probes of a marker, and pods that no longer match it, are probed forever",
        "these probes are removed; a changed marker has an effect immediately",
        "removed probes have no effect",
    ),
    (
        "the deletion of a marker `a` also removes the probes of a marker `xa`, and no probes on nodes without "
        "pods of `a`",
        "it removes exactly its own probes, on all nodes",
        "a marker does not change another one",
    ),
    (
        "an IP that was empty when the pod matched is set only once",
        "it follows the pod's IP",
        "probes reach this pod, and no other",
    ),
    (
        "a NodePodProbe that is created after its pods stays empty until one of them changes",
        "its creation enqueues the markers",
        "probes run from the start",
    ),
    (
        "a NodePodProbe is created for a deleted node",
        "only for nodes that exist and are ready",
        "no objects of deleted nodes remain",
    ),
    (
        "one update of the pod's status contains conditions, labels and annotations",
        "a patch of the pod contains metadata, a patch of its status the conditions",
        "API servers drop labels and annotations from a status update",
    ),
    (
        "of two markers with the same condition type, the second has no effect and nothing reports it",
        "the event `PodConditionConflict` names the first",
        "users see the cause",
    ),
    (
        "`scheme` of an HTTP probe is required; a probe can overwrite conditions of Kubernetes and Kruise",
        "the default is HTTP; `Ready` and similar conditions are refused",
        "as for container probes; only the owner of a condition writes it",
    ),
    (
        "on virtual nodes, labels and annotations of the other state stay",
        "they are removed, as on other nodes",
        "a pod does not have the labels of both states",
    ),
)

_ADMISSION: Final = _differences_of(
    "admission",
    (
        "a kind refuses every update while its gate is off",
        "changes of labels and finalizers, and deletions, are allowed",
        "objects can be cleaned up",
    ),
    (
        "API servers call the webhook for every new pod",
        "only for pods that may need a review ([how](webhooks.md#which-pods-the-webhooks-review))",
        "other pods do not depend on the manager",
    ),
    (
        "a review may take 30 s",
        "it may take 10 s",
        "a failing manager does not block an API server for long",
    ),
    (
        "unchanged stored fields are checked again",
        "only changed fields are checked",
        "a stricter rule does not prevent the removal of finalizers",
    ),
)

_MANAGER: Final = _differences_of(
    "manager",
    (
        "`--rest-config-qps`, `--rest-config-burst` limit requests",
        "no effect: the number of concurrent requests adapts to the API server's answers",
        "no number fits all clusters",
    ),
    (
        "`--expectation-timeout`, gate `ForceDeleteTimeoutExpectationGate`",
        "no effect",
        "there are no expectations that could time out",
    ),
    (
        "`--disable-no-deepcopy`",
        "no effect",
        "cached values cannot be changed",
    ),
    (
        "log files (`--log_dir`, …), `--vmodule`",
        "no effect: logs go to standard error",
        "containers' logs are collected there",
    ),
    (
        "`--leader-election-resource-lock` accepts several values",
        "it accepts only `leases`",
        "Kubernetes has removed the others",
    ),
    (
        "`--controller-cache-sync-timeout` ends the process",
        "the log reports caches that are late, and the manager continues",
        "a restart would begin again with empty caches",
    ),
    (
        "a CRD that is installed later needs a restart",
        "its controller starts automatically",
        "you can install in any order",
    ),
    (
        "the Lease expires when a manager ends",
        "the manager releases it",
        "the next one works within two seconds",
    ),
)

_POD_UNAVAILABLE_BUDGET: Final = _differences_of(
    "PodUnavailableBudget",
    (
        "a refused eviction gets 403, and an eviction with a dry run only in its body spends budget",
        "it gets 429, and a dry run spends nothing",
        "`kubectl drain` tries again",
    ),
    (
        "a record counts for every pod with its name",
        "it counts for one pod, by uid",
        "the next pod of a StatefulSet has the same name",
    ),
    (
        "a resize is recorded in `disruptedPods`, among deletions",
        "it is recorded in `unavailablePods`",
        "its pod stays",
    ),
    (
        "unknown replicas count as -1",
        "they count as 0, with the Warning `UnknownReplicas`",
        "every deleted pod must have been counted",
    ),
    (
        "a pod of a deleted budget has no budget",
        "the next budget that selects it protects it",
        "the pod stays protected",
    ),
    (
        "after four conflicts a request is refused",
        "it is retried for six seconds",
        "no allowed request is refused only because of conflicts",
    ),
    (
        "the cache decides whether a recorded pod may be deleted again, and when its record is removed",
        "a second deletion is allowed in the first half of the record's time; the record is removed only after "
        "a read of the pod from the API server",
        "a stalled watch allows no deletion",
    ),
)

_BROADCAST_JOB: Final = _differences_of(
    "BroadcastJob",
    (
        "when a node is cordoned, its finished pod is deleted, and the node gets a second run",
        "finished pods stay",
        "no node gets two runs",
    ),
    (
        "a restart of the manager removes a deadline",
        "it stays",
        "the deadline is kept",
    ),
    (
        "the failure policy `Pause` is not stored in the spec",
        "it sets `spec.paused`",
        "a user sees it, and resumes the job there",
    ),
    (
        "a pod that Kubernetes marks as failed because its node was deleted may fail the job",
        "it does not count",
        "nodes can be removed during the job",
    ),
    (
        "`nodeName` in the template is overwritten",
        "the job runs only on that node",
        "the template has an effect",
    ),
)

_ADVANCED_CRON_JOB: Final = _differences_of(
    "AdvancedCronJob",
    (
        "when the jobs of past times are deleted, these times start jobs again",
        "the last time never goes back",
        "no time starts two jobs",
    ),
    (
        "more than 100 missed times stop it forever",
        "the latest missed time starts a job",
        "the schedule continues",
    ),
    (
        "a changed schedule, zone or deadline, and the end of a pause, start a job immediately for an earlier "
        "time",
        "the first time after the change starts a job",
        "jobs start only at scheduled times",
    ),
    (
        "without a zone, the time zone of the manager's machine is used",
        "`TZ` in the manager's environment, else UTC",
        "all replicas use the same zone",
    ),
    (
        "labels and annotations of `broadcastJobTemplate` are pruned",
        "they are kept, and the BroadcastJobs have them",
        "the template has an effect",
    ),
    (
        "`active` and `lastScheduleTime` are those of the last scheduled time, and jobs beyond the limits stay "
        "until the next one",
        "they follow the jobs",
        "a finished job is not active",
    ),
    (
        "no event reports a job that was created or skipped",
        "the events `SuccessfulCreate` and `JobAlreadyActive`",
        "`kubectl describe` shows what happened",
    ),
)

_UNITED_DEPLOYMENT: Final = _differences_of(
    "UnitedDeployment",
    (
        "from 1.9 on, the CloneSet template of a v1alpha1 object has the fields of a v1beta1 CloneSet, and "
        "reuses PVCs only if it sets the field; up to 1.8 it has those of a v1alpha1 CloneSet, and reuses them",
        "both are read; a template without fields of either version reuses PVCs, as up to 1.8",
        "manifests of released versions keep their meaning",
    ),
    (
        "pods are not watched",
        "the UnitedDeployment is reconciled immediately when a pod cannot be scheduled, becomes ready or is "
        "deleted",
        "the loss of a zone is noticed without a timer",
    ),
    (
        "after an error the status is not written",
        "it is written with the error; `observedGeneration` is updated when all is done",
        "otherwise nothing shows why there is no progress",
    ),
    (
        "a patch that cannot be merged stops all subsets",
        "it stops only its own subset; admission warns about it",
        "the other subsets work",
    ),
    (
        "workloads, pods and revisions of all namespaces are listed; a matching orphan in another namespace "
        "stops everything",
        "only its own namespace is listed; an orphan of another kind than the template's is not changed or "
        "deleted",
        "objects of others do not change",
    ),
    (
        "when `kubectl scale` makes percentages inconsistent by rounding, all scaling stops",
        "the remaining pods are given to the largest fractions",
        "50% and 50% of 3 is 2 and 1",
    ),
    (
        "a new subset gets its replicas before other subsets are scaled down",
        "it begins with the replicas that the others leave free; scale-downs are written before scale-ups",
        "all subsets together never have more than `spec.replicas`",
    ),
    (
        "the names of workloads have a random suffix",
        "the suffix is computed from the UnitedDeployment's uid and the subset",
        "no workload is created twice, and a subset that is added again gets its former PVCs",
    ),
    (
        "the controller does not find the revisions of CloneSet templates",
        "they have the template's labels, are numbered, used again and truncated",
        "rollback and history work",
    ),
    (
        "a rollout may count as complete while a pod is old",
        "only when every allocated pod is updated and ready, in workloads that have observed their spec",
        "`currentRevision` is reliable",
    ),
    (
        "in reserve mode, pods that the partition holds back count as failed updates; a raised "
        "`maxUnavailable` stays",
        "they do not count; it is reset, is at least 1, and a Deployment with Recreate does not get it",
        "pods that the user keeps back get no substitutes",
    ),
)

_IMAGES: Final = (
    *_differences_of(
        "ImagePullJob",
        (
            "a user who may write ImagePullJobs and ImageListPullJobs can have images pulled on nodes without "
            "a right to do this",
            "no role of Kubernetes for namespaces has these rights: an administrator binds "
            "`kruise-imagepulljobs-editor` and `kruise-imagelistpulljobs-editor`, and for an AdvancedCronJob "
            "with a list of images, the webhook asks whether its user may create one",
            "a manager must not lend its rights",
        ),
        (
            "in v1alpha1 admission adds a job's finalizer",
            "its controller adds it, in both versions",
            "both versions work in the same way",
        ),
        (
            "nodes pull in the order of their names",
            "in the order of names, or of the workload's updates",
            "nodes that are updated first have the image first",
        ),
        (
            "after the deadline a node may count twice in `failed`, and `failedNodes` is not sorted",
            "each node counts once, and the list is sorted",
            "`failed` is never more than `desired`",
        ),
        (
            "when the namespace of copied secrets does not exist, a job cannot be deleted",
            "it can",
            "no secrets are left to release",
        ),
        (
            "after a change of `spec.image`, the job's entries for the old image stay",
            "they are removed",
            "nodes pull only the current image",
        ),
        (
            "an entry keeps the limits of the job that created it",
            "it has the largest limits of all jobs that need it",
            "no job is ended early by another",
        ),
        (
            "the `sandboxConfig` of the last job replaces those of others",
            "they are merged",
            "values of other jobs stay",
        ),
    ),
    *_differences_of(
        "ImageListPullJob",
        (
            "ImagePullJobs of a list have its time to live, and are created again when they are deleted first",
            "they are deleted with the list",
            "nothing is pulled again and again",
        ),
        (
            "a `pullPolicy` with one field gets no default for the other",
            "each field has its default, as in an ImagePullJob",
            "both kinds have the same rule",
        ),
        (
            "a list with a deadline below its timeout never creates a job",
            "it is refused",
            "the error names the field",
        ),
    ),
    *_differences_of(
        "NodeImage",
        (
            "pull secrets of an image are used for each of its tags, for every job",
            "for tags that a job of the secret's namespace needs; for tags without an owner, all secrets",
            "users who may create jobs must not pull with credentials of others",
        ),
        (
            "entries of a running job are removed when their time to live ends",
            "they stay",
            "no node pulls twice for one job",
        ),
        (
            "a NodeImage is created empty and gets its labels in a second write",
            "it is created with them",
            "one write less per node",
        ),
    ),
)

_EPHEMERAL_JOB: Final = _differences_of(
    "EphemeralJob",
    (
        "a user who may write it can add containers to running pods without the right to "
        "`pods/ephemeralcontainers`",
        "no role of Kubernetes for namespaces has this right: an administrator binds the ClusterRole "
        "`kruise-ephemeraljobs-editor`",
        "a manager must not lend its rights",
    ),
    (
        "when some pods succeeded and others failed, the phase is `Unknown` forever",
        "it is `Failed` once all have ended",
        "every job ends",
    ),
    (
        "with more `replicas` than pods match, it never ends",
        "it ends when all matching pods have ended",
        "every job ends",
    ),
    (
        "containers that have not started do not count against `parallelism`; a job continues after its "
        "deadline",
        "they count; after the deadline nothing more is injected",
        "both fields limit the job",
    ),
    (
        "every job has a finalizer, which protects nothing",
        "it has none, and OpenKruise's finalizer is removed when the job is deleted",
        "a deletion needs no manager",
    ),
    (
        "times of conditions change with every write",
        "they stay while the condition does not change",
        "fewer writes",
    ),
)

_CONTAINER_RECREATE_REQUEST: Final = _differences_of(
    "ContainerRecreateRequest",
    (
        "native sidecars (restartable init containers) are refused",
        "they can be recreated",
        "sidecars are containers too",
    ),
    (
        "a request that waits for another one never ends, even when its agent is gone",
        "it ends a minute after the previous one has ended",
        "nothing waits forever",
    ),
    (
        "the start time decides which containers are new",
        "the id and the restart count decide",
        "clocks of nodes differ",
    ),
    (
        "`minStartedSeconds` and `ttlSecondsAfterFinished` below 0 are accepted in v1alpha1",
        "refused in both versions",
        "they have no meaning",
    ),
)

_AGENT: Final = _differences_of(
    "agent on nodes",
    (
        "a digest is pulled as `name:sha256:…`, which runtimes refuse",
        "it is pulled as `name@sha256:…`, and looked up in the image's digests",
        "images can be named by digest",
    ),
    (
        "when a container has two probes, their results are mixed up",
        "each probe has its own result",
        "they check different things",
    ),
    (
        "a changed `periodSeconds` has an effect when the probe is created again; gRPC probes fail",
        "it has an effect from the next check on; gRPC health checks work",
        "the spec has an effect",
    ),
    (
        "preStop hooks over HTTP fail, because the pod's IP is unknown",
        "the IP comes from the runtime",
        "hooks run as in the kubelet",
    ),
    (
        "a request shows no message while its containers wait",
        "each container's state has a message",
        "users see why it waits",
    ),
    (
        "containers and their metadata are matched by position",
        "they are matched by name",
        "statuses can have any order",
    ),
    (
        "changes of a container are noticed at the next change of an object, or never",
        "events of the runtime are used; without such events, the runtime is asked every second",
        "a request continues as soon as the container changes",
    ),
    (
        "an unknown feature gate ends the agent",
        "the agent ignores gates of the manager",
        "other programs have gates too",
    ),
    (
        "its role may write pods and NodeImages",
        "it may write only statuses and events, and `get` secrets in one namespace",
        "an attacker who controls an agent can do less",
    ),
)

DIFFERENCES: Final = (
    *_EVERYWHERE,
    *_CLONE_SET,
    *_STATEFUL_SET,
    *_DAEMON_SET,
    *_SIDECAR_SET,
    *_WORKLOAD_SPREAD,
    *_RESOURCE_DISTRIBUTION,
    *_PERSISTENT_POD_STATE,
    *_POD_UNAVAILABLE_BUDGET,
    *_BROADCAST_JOB,
    *_ADVANCED_CRON_JOB,
    *_UNITED_DEPLOYMENT,
    *_IMAGES,
    *_EPHEMERAL_JOB,
    *_CONTAINER_RECREATE_REQUEST,
    *_POD_PROBE_MARKER,
    *_AGENT,
    *_ADMISSION,
    *_MANAGER,
)


def table() -> str:
    """Return the table in Markdown."""
    rows = (
        f"| {difference.about} | {difference.original} | {difference.here} | {difference.why} |"
        for difference in DIFFERENCES
    )
    return "\n".join(("| about | OpenKruise | pykruise | why |", "|---|---|---|---|", *rows))


def with_table(page: str) -> str:
    """Return the page with the current table between its markers. Raises ValueError for a page without markers."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page has no place for the table: {BEGIN} … {END}")
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(with_table(path.read_text("utf-8")), "utf-8")
