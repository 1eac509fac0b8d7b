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
        "422 with every field error and its whole path; a refused eviction 429, other refusals 403",
        "clients can show where, and drain tools try again",
    ),
    (
        "server-side apply takes the containers, volumes and other lists of a template as one value",
        "it merges them by key, as in a Deployment; a template with one name twice is refused by the API server",
        "two appliers of one template do not replace each other's containers",
    ),
    (
        "a spec that cannot be read counts as 0 or as its default",
        "a condition or event names the field, and no pod is touched",
        "a partition that became 0 updates everything",
    ),
    (
        "`spec.selector` of a stored object is followed wherever it goes",
        "one that got past admission touches nothing: `SelectorMismatch`",
        "it would orphan all pods and create as many again",
    ),
    (
        "a template, or a patch of pods, may have labels and annotations that are about one pod "
        "(`apps.kruise.io/specified-delete`, a lifecycle state, an instance id, a revision hash): each pod gets them",
        "they are refused; a stored template is read without them",
        "pods would be created and deleted for ever",
    ),
    (
        "a workload whose new pods are marked for deletion creates and deletes them without end",
        "an object that undoes its own work three times waits 1 s, 2 s, 4 s, … up to five minutes: `Churning`",
        "one object must not take what the API server has",
    ),
    (
        "tools that follow kstatus (Flux, Helm 4) take every object for ready at once",
        "workloads report `Ready`, `Reconciling` and `Stalled`",
        "they wait for rollouts ([gitops.md](gitops.md))",
    ),
    (
        "a write conflict sets a failure condition that nothing clears",
        "a conflict is no failure; failure conditions become False when their cause is gone",
        "alerts on conditions mean something",
    ),
    (
        "one event for each pod",
        "events of one kind and plan are one event with a count and a list",
        "client-go's limits cut them off in large rollouts",
    ),
    (
        "revisions are compared byte by byte",
        "they are compared by meaning: a default that a definition or a webhook spells out (of a pod template too, such"
        " as `imagePullPolicy: Always`) makes no other revision",
        "taking over a cluster rolls no pod",
    ),
    (
        "the manager reads the newest version of each kind; on a cluster that stores another one a webhook converts",
        "it reads the version that the cluster stores and converts itself",
        "it works on the definitions of every release, and beside a manager that answers conversions",
    ),
    (
        "fields that one version lacks are lost by a write through it",
        "they are kept in the annotation `pykruise.io/conversion-<version>`",
        "old clients do no harm",
    ),
    (
        "no condition says why a workload does not converge",
        "the condition `Waiting`, and a Warning where a person has to act",
        "it is what people ask about",
    ),
    (
        "creations in a namespace that terminates are tried with backoff",
        "they are tried once",
        "such a namespace takes nothing new any more",
    ),
    (
        "webhooks write whole objects: `creationTimestamp: null`, `resources: {}`, `paused: false`, "
        "`enablePVCReuse: false` are stored though no client wrote them",
        "webhooks add the defaults that mean something, and nothing else",
        "what a client wrote is what it reads",
    ),
    (
        "quantities in templates are stored in another form: `1000m` as `1`, `1024Mi` as `1Gi`",
        "as they were written",
        "what a client wrote is what it reads",
    ),
    (
        "negative amounts, and texts that are no amounts, are stored where no webhook looks (a BroadcastJob's "
        "`parallelism`, `activeDeadlineSeconds` and `restartLimit`, a StatefulSet's `revisionHistoryLimit`, an "
        "EphemeralJob's `replicas`)",
        "refused with their field",
        "they could only fail later",
    ),
)

_CLONE_SET: Final = _differences_of(
    "CloneSet",
    (
        "a pod that is recreated is labelled `specified-delete` first, then deleted",
        "deleted at once where the budget lets it, with the same event `SuccessfulUpdatePodReCreate`",
        "a write less for each pod",
    ),
    (
        "`SuccessfulUpdatePodReCreate` is sent in each pass while a labelled pod waits",
        "once",
        "counts are true",
    ),
    (
        "an available CloneSet that is older than `progressDeadlineSeconds` is overdue as soon as a rollout begins",
        "a rollout has its whole deadline, and progress renews it",
        "the deadline is about standing still",
    ),
    (
        "`ProgressDeadlineExceeded` stays until the CloneSet is available, paused or at its partition",
        "also until another template is set",
        "the new rollout has not missed anything yet",
    ),
    (
        "`maxSurge` creates and deletes pods also for an update that restarts nothing (labels, annotations, resizes)",
        "no pod is created or deleted; as many pods are updated at once",
        "nothing leaves service",
    ),
    (
        "cpu and memory change in place with the gate `InPlaceWorkloadVerticalScaling`; those of whole pods never",
        "without a gate on Kubernetes 1.35 and later, of whole pods on 1.36 and later; `=false` switches it off",
        "the API server can, and nothing restarts",
    ),
    (
        "a resize that the node can never give waits for ever",
        "under InPlaceIfPossible the pod is recreated after `--inplace-resize-timeout`",
        "the policy allows it",
    ),
    (
        "v1beta1 refuses `maxUnavailable: 0` beside a `maxSurge`, and OnDelete with a partial `rollingUpdate`",
        "both are accepted",
        "v1alpha1 accepts them, and they make sense",
    ),
    (
        "`12.5%` is accepted and counts as 0, `5` as 5%",
        "admission and controller read amounts alike; numbers as text are refused",
        "rollouts do not stand still",
    ),
    (
        "`scaleStrategy.maxUnavailable` is not checked; nonsense stops scaling up",
        "refused",
        "it could only fail later",
    ),
    (
        "under OnDelete the default of 20% is rounded down",
        "rounded up",
        "a ready pod of a small set can be replaced",
    ),
    (
        "while missing pods use `maxUnavailable` up, none is updated; a pod that is down can hold them back",
        "one pod that is down is updated at a time",
        "a corrected template reaches pods that only it can repair",
    ),
    ("pods on their way out wait while pods are created", "they go on", "neither builds on the other"),
    (
        "scatter order and settled counts of a surge depend on timing",
        "the same situation gives the same plan",
        "it can be explained and tested",
    ),
    (
        "pods of a deleted CloneSet that match a new one stay unseen",
        "they are not adopted either; `OrphansMatchSelector` names them",
        "adoption would surprise those who switch over",
    ),
)

_STATEFUL_SET: Final = _differences_of(
    "StatefulSet",
    (
        "a failed pod can block the set when `scaleStrategy.maxUnavailable` is 1",
        "it is made anew; a pod costs one of it, never two",
        "a set heals by itself",
    ),
    (
        "a hook under OrderedReady can block all others for good",
        "it blocks no pod for good, and `PreparingDelete` is left again",
        "no hand is needed",
    ),
    ("pods fail when a claim template is added", "they do not", "a running pod cannot get the volume anyway"),
    (
        "one bad entry of `reserveOrdinals` counts as none or stops all",
        "it is left out with a warning; the others count",
        "a typing error does no harm",
    ),
    ("specified deletion waits under OnDelete and while paused", "it works", "it is asked for by name"),
    ("orphans are adopted by the next change of the set", "when they appear", "nothing has to be touched"),
    (
        "under a partition the rollout counts as complete when the pods kept back are missing, or scaled to nothing",
        "it does not: as many pods come back old",
        "ordinals have revisions, and the partition says which",
    ),
    (
        "the status is guessed ahead of the cluster",
        "it follows the pods by one look",
        "numbers are never wrong for long",
    ),
    (
        "a template without containers is stored",
        "refused",
        "no pod could be created",
    ),
    (
        "a deletion that leaves the pods deletes their revision",
        "it stays with them, as a CloneSet's does",
        "a set that takes them over knows what they are",
    ),
)

_DAEMON_SET: Final = _differences_of(
    "DaemonSet",
    (
        "`…rollingUpdate.rollingUpdate.type` in the paths of errors",
        "`spec.updateStrategy.rollingUpdate.…`",
        "the path leads to the field",
    ),
    (
        "a node that is deleted changes nothing until something else happens",
        "its DaemonSets are looked at",
        "`desiredNumberScheduled` is right",
    ),
    (
        "percentages are resolved against the last status: nothing on the first pass, `10%` of 5 nodes is 0 for ever",
        "against the nodes of this pass, and a burst of at least 1",
        "percentages work on the first pass and on small clusters",
    ),
    (
        "`burstReplicas` and the node selector are not checked",
        "nonsense is refused",
        "it could only fail later",
    ),
    (
        "a pod that succeeded stays, and its node has none",
        "it is replaced (`SucceededDaemonPod`)",
        "the node has its daemon",
    ),
    (
        "the template's selector can be changed when webhooks are down, and every node gets a second pod",
        "nothing is touched ([how to recover](daemonset.md#the-selector-cannot-be-changed-and-a-change-does-no-harm))",
        "see all kinds",
    ),
    (
        "v1alpha1's annotation for progressive creation stays when v1beta1 switched it off",
        "it is not shown then",
        "a client of v1alpha1 does not switch it on again",
    ),
    (
        "a readiness gate that the template has already is added a second time",
        "it is there once",
        "one gate is one condition",
    ),
)

_SIDECAR_SET: Final = _differences_of(
    "SidecarSet",
    (
        "a pod that is not ready is upgraded beside as many ready ones as `maxUnavailable` says",
        "it is upgraded at once and counts",
        "a corrected image does not take one more pod out of service",
    ),
    (
        "with `NotUpdate` the number of ready pods is that of the last creation of a pod",
        "the status follows pods and namespaces at once",
        "the number is stale there",
    ),
    (
        "whether two selectors can meet is guessed",
        "it is worked out whether they can meet",
        "no false conflict, and none overlooked",
    ),
    ("a base cannot be updated while it has a canary", "it can", "its canary is compared by name"),
    (
        "a hot sidecar without an empty image is accepted, and so are `cpu*cpu` and `100MB`",
        "refused; `cpu - 2` is accepted",
        "they could never be evaluated",
    ),
    (
        "a pod's condition stays False when a change in the way is taken back, and remembers SidecarSets that are gone",
        "it becomes True, and forgets them",
        "conditions are about now",
    ),
    (
        "pods miss a SidecarSet that is about as old as they while the manager's cache is behind",
        "while its watch is broken the API server is asked for each pod",
        "no pod without its sidecar after an outage",
    ),
)

_WORKLOAD_SPREAD: Final = _differences_of(
    "WorkloadSpread",
    (
        "pods beyond what all subsets take are adopted once something makes the manager look, into a full subset too",
        "they are left alone: no annotation, no patch, no deletion cost",
        "its own end-to-end tests expect that; pods of subsets cost more anyway",
    ),
    (
        "an existing pod is adopted while admission may give its place away",
        "only once the status counts it",
        "no subset gets more than its maximum",
    ),
    (
        "patches for Advanced StatefulSets are tried on Kubernetes' of that name; reserved ordinals take places",
        "they are tried on the set itself, and only ordinals that exist take places",
        "both kinds alike",
    ),
    (
        "a v1beta1 CloneSet has 0 replicas for percentages",
        "both versions alike",
        "the first pods find their subset",
    ),
    ("a kind named like a built-in one cannot be on the white list", "it can", "the group tells them apart"),
    (
        "`targetFilter` without a selector means no pod at creation",
        "all pods, as in the controller",
        "one meaning",
    ),
    (
        "StatefulSets are not watched, the white list is read once",
        "both are followed",
        "no restart is needed",
    ),
    (
        "a revision whose pods are all moved at once forgets that its subset is full, and new pods go there again",
        "it is remembered for its five minutes",
        "pods were deleted and made again every `rescheduleCriticalSeconds`",
    ),
    ("rescheduling waits for other events", "it reacts to the pod", "the time that is set is kept"),
    ("a paused Deployment stops the status", "only deletion costs wait", "numbers are right"),
    (
        "each admitted pod is a write of the status",
        "claims are batched, and the status is written only when it differs",
        "hundreds of pods at once",
    ),
    (
        "a place is handed out again although its pod's deletion is refused after admission",
        "only when the pod is seen to go",
        "no subset gets more than its maximum",
    ),
    (
        "a pod that is deleted right after its creation keeps its place",
        "its successor finds it free",
        "it would be elsewhere for good",
    ),
    ("a dry run of an eviction takes a place for 15 s", "it leaves no trace", "a dry run writes nothing"),
    (
        "each pod that goes gives a place back",
        "not where the subset has more than its maximum",
        "a lowered maximum is reached",
    ),
    (
        "a patch that is a string or a number is accepted where the target does not exist",
        "refused, with `spec.subsets[i].patch`",
        "no pod could be created",
    ),
    (
        "`status.spread` does not exist",
        "a line for people: `a 3/3, b 2`",
        "`kubectl get ws` shows where pods are",
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
        "`stringData` of a Secret costs a write in each pass",
        "it is compared as the `data` that it becomes",
        "no writes without a change",
    ),
    (
        "a failed namespace has all of them tried again with a backoff",
        "each namespace is tried again by itself, after 1 s up to 5 minutes",
        "one quota keeps no other namespace busy",
    ),
    (
        "an object in the way is found to be gone at the next other event",
        "its deletion brings the copy",
        "nothing has to be touched",
    ),
    (
        "all Secrets and ConfigMaps are mirrored whole",
        "only their metadata; contents of own copies by a digest",
        "no secret is held that is none of its business",
    ),
    (
        "`failed` is all that did not succeed in the last pass",
        "all that failed; while writes are under way there are some that are neither",
        "a rollout is no failure",
    ),
    (
        "the reason of a condition is a fixed sentence",
        "it names the object or the namespace",
        "people see which",
    ),
)

_PERSISTENT_POD_STATE: Final = _differences_of(
    "PersistentPodState",
    (
        "what a person wrote is overwritten or deleted by annotations of a workload of that name",
        "only what the workload owns is, and its retention policy stays; an event tells of the rest",
        "nothing of a person's is lost",
    ),
    (
        "weights, keys and policies are not checked",
        "what would fail later is refused",
        "pods would not be created",
    ),
    (
        "an empty preferred term is put into pods",
        "it is left out",
        "it matches no node",
    ),
    (
        "`ordinals.start` is ignored: the record of a rebuilt pod is dropped",
        "ordinals are counted from there",
        "the pod comes back to its place",
    ),
    (
        "a node that cannot be read loses the record until the next event",
        "it is tried again",
        "nothing has to be touched",
    ),
    (
        "a label of a node that gets another value stays recorded, for the pods that come to the node later too",
        "what is recorded is the node as it is",
        "no pod could come back to the node, with a required key perhaps to none",
    ),
    (
        "a malformed white list refuses all pods with a controller",
        "only those of kinds that would need the list",
        "a typing error does little harm",
    ),
)

_POD_PROBE_MARKER: Final = _differences_of(
    "PodProbeMarker",
    (
        "probes that a marker has no more, and pods that it selects no more, are checked for ever",
        "they are taken back; a changed marker is followed at once",
        "what was taken away has no effect",
    ),
    (
        "deleting a marker `a` takes back the probes of a marker `xa` too, and none on nodes without its pods",
        "exactly its own, on all nodes",
        "one marker does not change another",
    ),
    (
        "an address that was empty when the pod was matched is filled in once",
        "it follows the pod",
        "probes ask the pod, and no other",
    ),
    (
        "a NodePodProbe that comes after its pods stays empty until one of them changes",
        "markers are looked at when it comes",
        "probes are made from the start",
    ),
    (
        "a NodePodProbe is made for a node that is gone",
        "only for nodes that are there and ready",
        "nothing stays behind",
    ),
    (
        "conditions, labels and annotations are sent in one update of the pod's status",
        "metadata by a patch of the pod, conditions by one of its status",
        "API servers drop labels and annotations from the one",
    ),
    (
        "two markers with one condition type: the second is silently not shown",
        "the event `PodConditionConflict` names the first",
        "people see why",
    ),
    (
        "`scheme` of an HTTP probe is required; conditions of Kubernetes and Kruise can be taken over",
        "left out it is HTTP; `Ready` and the like are refused",
        "as for probes of containers; who owns a condition writes it",
    ),
    (
        "on virtual nodes labels and annotations of the other state stay",
        "they are taken away, as on other nodes",
        "a pod is not idle and busy at once",
    ),
)

_ADMISSION: Final = _differences_of(
    "admission",
    (
        "a kind whose gate is off refuses every update",
        "labels, finalizers and deletions are let through",
        "objects can be cleaned up",
    ),
    (
        "API servers ask about every new pod",
        "only about pods that may need a review ([how](webhooks.md#pods-that-were-not-reviewed))",
        "other pods do not depend on the manager",
    ),
    ("reviews have 30 s", "10 s", "an API server is not held up by a sick manager"),
    (
        "what is stored and not changed is checked again",
        "only what changes",
        "a stricter rule does not keep finalizers on",
    ),
)

_MANAGER: Final = _differences_of(
    "manager",
    (
        "`--rest-config-qps`, `--rest-config-burst` limit requests",
        "no effect: requests under way adapt to what the API server answers",
        "no number fits all clusters",
    ),
    (
        "`--expectation-timeout`, gate `ForceDeleteTimeoutExpectationGate`",
        "no effect",
        "there are no expectations that could be missed",
    ),
    ("`--disable-no-deepcopy`", "no effect", "cached values cannot be changed"),
    (
        "log files (`--log_dir`, …), `--vmodule`",
        "no effect: logs go to standard error",
        "containers' logs are collected there",
    ),
    ("`--leader-election-resource-lock` knows several", "only `leases`", "Kubernetes has nothing else left"),
    (
        "`--controller-cache-sync-timeout` ends the process",
        "the log says that caches are late; the manager goes on trying",
        "a restart would begin anew",
    ),
    (
        "a kind whose CRD comes later needs a restart",
        "its controller starts by itself",
        "installation in any order",
    ),
    ("the Lease runs out when a manager ends", "it is given back", "the next one works within two seconds"),
)

_POD_UNAVAILABLE_BUDGET: Final = _differences_of(
    "PodUnavailableBudget",
    (
        "a refused eviction is 403, and a dry run of an eviction that says so only in its body is spent",
        "429, and a dry run costs nothing",
        "`kubectl drain` tries again",
    ),
    (
        "a record counts for whichever pod has the name",
        "for the pod that it was made for",
        "the next pod of a StatefulSet is another one",
    ),
    (
        "a resize is recorded among pods that are to be deleted",
        "in `unavailablePods`",
        "its pod stays",
    ),
    (
        "a number of replicas that cannot be known counts as -1",
        "it counts as 0, with the Warning `UnknownReplicas`",
        "no pod goes that was not counted",
    ),
    ("a pod whose budget was deleted is tied to none", "to the next one that selects it", "it is guarded"),
    (
        "after four conflicts a request is refused",
        "it is tried for six seconds",
        "no allowed request is refused for conflicts alone",
    ),
    (
        "a record lets its pod go again, and gives its place back, by what caches show",
        "again in the first half of its time; its place only after the API server was asked for the pod",
        "a watch that hangs lets no pod go",
    ),
)

_BROADCAST_JOB: Final = _differences_of(
    "BroadcastJob",
    (
        "a finished pod is deleted when its node is cordoned, and the node is run again",
        "finished pods stay",
        "no node is run twice",
    ),
    ("a deadline is forgotten when the manager restarts", "it is kept", "it means what it says"),
    (
        "the failure policy `Pause` is not stored in the spec",
        "`spec.paused` is set",
        "a person sees it, and resumes the job there",
    ),
    (
        "a pod that Kubernetes fails since its node no longer exists may fail the job",
        "it does not count",
        "nodes may come and go",
    ),
    (
        "`nodeName` in the template is overwritten",
        "the job runs on that node alone",
        "what the template says counts",
    ),
)

_ADVANCED_CRON_JOB: Final = _differences_of(
    "AdvancedCronJob",
    (
        "times that were served are served again when their children are deleted",
        "the last time never goes back",
        "nothing runs twice",
    ),
    (
        "more than 100 missed times stop it for good",
        "the latest missed time is made up for",
        "it runs as scheduled",
    ),
    (
        "a changed schedule, zone or deadline, and the end of a pause, start a job at once for a time before it",
        "it starts at the first time after the change",
        "nothing runs at a time that nobody scheduled",
    ),
    (
        "without a zone, the time zone of the manager's machine",
        "that of `TZ` in the manager's environment, else UTC",
        "all replicas agree",
    ),
    (
        "labels and annotations of `broadcastJobTemplate` are pruned",
        "they are kept, and the BroadcastJobs have them",
        "a template means what it says",
    ),
    (
        "`active` and `lastScheduleTime` are those of the last time of the schedule, and jobs beyond the limits "
        "stay until the next one",
        "they follow the jobs",
        "a finished job is not active",
    ),
    (
        "nothing is recorded of a job that was created or skipped",
        "the events `SuccessfulCreate` and `JobAlreadyActive`",
        "`kubectl describe` tells what happened",
    ),
)

_UNITED_DEPLOYMENT: Final = _differences_of(
    "UnitedDeployment",
    (
        "from 1.9 on, the CloneSet template of a v1alpha1 object has the fields of a v1beta1 CloneSet, and reuses no"
        " PVCs unless it says so; up to 1.8 it has those of a v1alpha1 CloneSet, and reuses them",
        "both are read; a template that shows neither reuses PVCs, as up to 1.8",
        "manifests of released versions mean what they meant",
    ),
    (
        "pods are not watched",
        "pods that find no node, become ready or go are looked at at once",
        "a zone that goes is noticed without a timer",
    ),
    (
        "when something fails the status is not written",
        "it is, with the error; `observedGeneration` follows when all is done",
        "else nothing shows why it does not go on",
    ),
    (
        "a patch that cannot be merged stops all subsets",
        "it stops its own; admission warns of it",
        "the others are all right",
    ),
    (
        "workloads, pods and revisions of all namespaces are listed; a matching orphan elsewhere stops everything",
        "only its own namespace; an orphan of another kind than the template's is left alone, not deleted",
        "nothing of others is touched",
    ),
    (
        "percentages that `kubectl scale` makes wrong by rounding stop all scaling",
        "the odd pods go to the largest fractions",
        "50% and 50% of 3 is 2 and 1",
    ),
    (
        "a new subset gets its share before the others give it up",
        "it begins with what the others leave free; what shrinks is written before what grows",
        "all together never have more than `spec.replicas`",
    ),
    (
        "names of workloads end by chance",
        "they follow from the UnitedDeployment's uid and the subset",
        "none is made twice; a subset that comes back finds the PVCs that it had",
    ),
    (
        "revisions of CloneSet templates are never found again",
        "they carry the template's labels, are numbered, used again and truncated",
        "rollback and history work",
    ),
    (
        "a rollout may count as over while a pod is old",
        "only once every allocated pod is updated and ready, as workloads say that have seen their spec",
        "`currentRevision` means something",
    ),
    (
        "held-back pods of a partition count as failed updates where pods are kept in reserve; a raised "
        "`maxUnavailable` stays",
        "they do not; it is set back, is at least 1, and is not put into a Deployment that recreates",
        "nothing gets substitutes that was asked to stay",
    ),
)

_IMAGES: Final = (
    *_differences_of(
        "ImagePullJob",
        (
            "who may write ImagePullJobs and ImageListPullJobs has images put onto nodes without the right to that",
            "no role of Kubernetes for namespaces has them: `kruise-imagepulljobs-editor` and "
            "`kruise-imagelistpulljobs-editor` are bound by hand, and an AdvancedCronJob with a list of images asks "
            "whether its user may create one",
            "a manager must not lend its rights",
        ),
        (
            "in v1alpha1 admission adds a job's finalizer",
            "its controller does, in both versions",
            "one way for both",
        ),
        (
            "nodes start by name",
            "in the order of names, or of the workload's updates",
            "images are where they are needed first",
        ),
        (
            "after the deadline a node may count twice in `failed`, and `failedNodes` is in no order",
            "each counts once, sorted",
            "`failed` is never more than `desired`",
        ),
        (
            "without the namespace of copied secrets a job cannot be deleted",
            "it can",
            "there is nothing left to release",
        ),
        (
            "a changed `spec.image` leaves the job's entries for the old one",
            "they go",
            "nodes pull what is wanted",
        ),
        (
            "an entry keeps the limits of the job that made it",
            "the larger of all jobs that want it",
            "no job is cut short by another",
        ),
        (
            "the `sandboxConfig` of the last job replaces those of others",
            "they are merged",
            "what others said stays",
        ),
    ),
    *_differences_of(
        "ImageListPullJob",
        (
            "ImagePullJobs of a list have its time to live, and are made again when they go first",
            "they go with the list",
            "nothing is pulled again and again",
        ),
        (
            "a `pullPolicy` with one field gets no default for the other",
            "each field has its default, as in an ImagePullJob",
            "one rule for both",
        ),
        (
            "a list with a deadline below its time-out makes nothing for ever",
            "it is refused",
            "the error has a field",
        ),
    ),
    *_differences_of(
        "NodeImage",
        (
            "pull secrets of an image are used for each of its tags, whoever asks for it",
            "for tags that a job of the secret's namespace asks for; for those without an owner, all",
            "who may create jobs must not pull with others' credentials",
        ),
        (
            "entries of a job that is not over go by their time to live",
            "they stay",
            "no node pulls twice for one job",
        ),
        (
            "a NodeImage is made empty and gets its labels in a second write",
            "it is made with them",
            "one write a node less",
        ),
    ),
)

_EPHEMERAL_JOB: Final = _differences_of(
    "EphemeralJob",
    (
        "who may write it has containers put into running pods without the right to `pods/ephemeralcontainers`",
        "no role of Kubernetes for namespaces has it: the ClusterRole `kruise-ephemeraljobs-editor` is bound by hand",
        "a manager must not lend its rights",
    ),
    (
        "some pods succeeded and others failed: `Unknown` for ever",
        "`Failed` once all have ended",
        "a job ends",
    ),
    (
        "more `replicas` than pods match: it never ends",
        "it ends when all pods that match have",
        "a job ends",
    ),
    (
        "what has not started does not count against `parallelism`; a job past its deadline goes on",
        "it counts; nothing more is injected",
        "both mean what they say",
    ),
    (
        "every job carries a finalizer, which protects nothing",
        "none is set, and the original's is taken away when the job is deleted",
        "a deletion needs no manager",
    ),
    (
        "times of conditions move with every write",
        "they stay while the condition says the same",
        "fewer writes",
    ),
)

_CONTAINER_RECREATE_REQUEST: Final = _differences_of(
    "ContainerRecreateRequest",
    (
        "init containers that run beside the others are refused",
        "they can be recreated",
        "sidecars are containers too",
    ),
    (
        "one that waits behind another is never given up, even when its agent is gone",
        "a minute after the one before has ended",
        "nothing waits for ever",
    ),
    (
        "which containers are new is judged by their start",
        "by id and restart count",
        "clocks of nodes differ",
    ),
    (
        "`minStartedSeconds` and `ttlSecondsAfterFinished` below 0 are accepted in v1alpha1",
        "refused in both versions",
        "they mean nothing",
    ),
)

_AGENT: Final = _differences_of(
    "agent on nodes",
    (
        "a digest is asked for as `name:sha256:…`, which runtimes refuse",
        "as `name@sha256:…`, and found by the image's digests",
        "images are named by digests",
    ),
    (
        "which probe of a container found what is mixed up when it has two",
        "each probe has a result of its own",
        "they say different things",
    ),
    (
        "a changed `periodSeconds` counts when the probe is made anew; gRPC probes fail",
        "it counts from the next check on; gRPC health checks are made",
        "what is written is what happens",
    ),
    (
        "preStop hooks over HTTP fail: the pod's address is not known",
        "the address is the runtime's",
        "hooks run as the kubelet runs them",
    ),
    (
        "a request whose containers wait says nothing of it",
        "each container's state has a message",
        "nothing hangs without one",
    ),
    (
        "containers and their metadata are matched by position",
        "by name",
        "statuses come in any order",
    ),
    (
        "an event of a container comes with the next change of an object, or not",
        "events of the runtime (where it has them) wake what waits; else it is asked every second",
        "a request goes on when the container does",
    ),
    (
        "an unknown feature gate ends it",
        "gates that are none of its own are left to the manager",
        "kinds of others have gates too",
    ),
    (
        "its role may write pods and NodeImages",
        "statuses and events alone; `get` of secrets in one namespace",
        "an agent that is taken over can do less",
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
