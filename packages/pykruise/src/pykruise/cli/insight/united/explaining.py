"""The state of a UnitedDeployment in words: the distribution of its pods, and the cause that stops its progress.

Client ──look()──▶ Sight ──the kind's plan──▶ what the UnitedDeployment itself waits for ─┐
                   workloads of its subsets ──their own explain, or their pods──▶ waits ──┴▶ Explanation

Waits of a subset's workload and its pods come before waits of the UnitedDeployment that only follow from them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.cli.insight.autoscalers import find_part_autoscalers
from pykruise.cli.insight.causes import cause_of
from pykruise.cli.insight.children import read_refused_creations
from pykruise.cli.insight.cluster_reading import Sight, find_lost_nodes, look
from pykruise.cli.insight.explaining import explain, next_of, phase_of, verdict_of
from pykruise.cli.insight.explanations import Explanation, Wait, drop_repeats, rank_waits, wait_of
from pykruise.cli.insight.harmless_remedies import add_way_back
from pykruise.cli.insight.known_kinds import is_of
from pykruise.cli.insight.node_terms import LABEL_NODES, describe_unmatched_term, list_matching
from pykruise.cli.insight.optional_reads import read_optional
from pykruise.cli.insight.readiness_gates import see_gates
from pykruise.cli.insight.refused_writes import find_template_remedy, make_refusal_wait
from pykruise.cli.insight.refusing_nodes import judge_nodes
from pykruise.cli.insight.united.protected_workloads import find_protected_workloads
from pykruise.cli.insight.way_back import find_revision_before, find_way_back
from pykruise.kinds import find_kind
from pykruise.kinds.uniteddeployment.insight import headline_of
from pykruise.kinds.uniteddeployment.kind import KIND
from pykruise.kinds.uniteddeployment.schedulability import passed_over_of
from pykruise.kinds.uniteddeployment.snapshot import UnitedSnapshot
from pykruise.kinds.uniteddeployment.status import PROVISIONED, SUBSETS_UPDATED
from pykruise.kinds.uniteddeployment.workloads import (
    ADVANCED_STATEFUL_SET,
    CLONE_SET,
    SubsetWorkload,
    type_of,
)
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document, decode, get_path
from pykruise.kube.errors import ApiError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.resources import PODS
from pykruise.kube.values.counts import format_count
from pykruise.kube.values.owners import controller_of
from pykruise.manager.settings import ManagerSettings
from pykruise.plans.progress import Phase
from pykruise.plans.views import POD_VIEWS
from pykruise.pods.corrections import Correction, join_remedies
from pykruise.pods.reasons import AT_REST, NOT_WRITTEN, ONE_AT_A_TIME, REPEATED, Code
from pykruise.pods.workload.revisions import RevisionView
from pykruise.runtime.kstatus import RECONCILING
from pykruise.runtime.plan import Plan
from pykruise.runtime.refusals import find_refused_fields

EXPLAINED: Final[Mapping[str, str]] = {CLONE_SET: "CloneSet", ADVANCED_STATEFUL_SET: "StatefulSet"}
"""Kinds that `explain` knows, by the template that creates them. For all other workloads only the pods are examined."""

_VAGUE: Final = frozenset({Code.SUBSETS, Code.CREATING, Code.UPDATING, Code.STARTING})
"""Codes that only report that the work continues."""

_NOT_DONE: Final = frozenset({Code.PATCH, *(NOT_WRITTEN - {Code.NO_MANAGER})})
"""Codes of work that the manager reported as impossible."""


_REPEATED_FROM_WORKLOADS: Final = REPEATED | NOT_WRITTEN
"""Codes of waits that the plan copies from the workloads of subsets. The explanations of these workloads describe the
waits in more detail.
"""


async def explain_united(
    client: Client, key: Key, now: Instant, settings: ManagerSettings | None
) -> Explanation:
    """Read and explain the UnitedDeployment. Raises NotFoundError, and KubeError for reads that fail."""
    sight = await look(client, KIND, key, now=now, settings=settings)
    plan = sight.plan()
    own = _with_missing_nodes(explain(sight, plan), sight)
    back = _find_rollback_remedy(sight.snapshot, key)
    below: list[Wait] = []
    harmless: list[Wait] = []
    moving = False
    for workload in _list_subset_workloads(sight.snapshot):
        explanation = await _explain_workload(
            client, sight, workload, now=now, settings=settings, way_back=back
        )
        below += explanation.waits
        if explanation.phase is Phase.HEALTHY:
            harmless += explanation.waits  # such as pods that never terminate, but have successors
        moving = moving or explanation.verdict == "moving"
    parts = ((workload.resource, workload.name) for workload in _list_subset_workloads(sight.snapshot))
    below += await find_part_autoscalers(client, sight.document, parts)
    detailed = {wait.code for wait in below} & _REPEATED_FROM_WORKLOADS
    of_own = [wait for wait in own.waits if wait.code not in detailed]
    protected = list(find_protected_workloads(sight.document, sight.snapshot.workloads, settings))
    rejected = [*of_own, *_list_failed_writes(sight.document)]
    if protected:  # the same rejections, with the names of the workloads
        rejected = [wait for wait in rejected if wait.code != Code.WEBHOOK]
    all_waits = [*protected, *rejected, *below]
    waits = drop_repeats(rank_waits(_drop_vague(all_waits)))
    ignored = {wait.code for wait in harmless} - {wait.code for wait in below if wait not in harmless}
    verdict = own.verdict
    if verdict not in ("terminating", "refused"):
        verdict = verdict_of(waits, plan, sight.document)
        if moving and not {wait.code for wait in waits} - AT_REST - _VAGUE:
            verdict = "moving"
    return msgspec.structs.replace(
        own,
        verdict=verdict,
        phase=phase_of(sight.document, [wait for wait in waits if wait.code not in ignored]),
        headline=_describe_counts(sight.document, plan),
        done=tuple(_describe_subsets(sight.snapshot)),
        waits=waits,
        next=tuple(next_of(plan, waits)),
        rollback_to=_find_rollback_revision(sight.snapshot),
    )


async def explain_part(
    client: Client, document: Document, now: Instant, settings: ManagerSettings | None
) -> Explanation | None:
    """Read and explain the workload of a subset, with remedies that change its UnitedDeployment; None if no
    UnitedDeployment creates it, or if the user may not read the UnitedDeployment.
    """
    owner = controller_of(document)
    if owner is None or not is_of(KIND, {"apiVersion": owner.api_version, "kind": owner.kind}):
        return None
    meta = document["metadata"]
    key = Key(meta.get("namespace", ""), owner.name)
    try:
        sight = await look(client, KIND, key, now=now, settings=settings)
    except ApiError:
        return None
    for workload in _list_subset_workloads(sight.snapshot):
        if workload.uid == meta["uid"] and workload.template in EXPLAINED:
            back = _find_rollback_remedy(sight.snapshot, key)
            explanation = await _explain_workload(
                client, sight, workload, now=now, settings=settings, way_back=back
            )
            return msgspec.structs.replace(explanation, rollback_to=0)
    return None


def _describe_counts(document: Document, plan: Plan) -> str:
    """Return the headline. The number of wanted pods is spec.replicas, or status.replicas if it is larger."""
    status: Mapping[str, Any] = plan.status if plan.status is not None else document.get("status") or {}
    wanted = max(_to_int(document["spec"].get("replicas")), _to_int(status.get("replicas")))
    return headline_of({**status, "replicas": wanted})


def _with_missing_nodes(explanation: Explanation, sight: Sight) -> Explanation:
    """Return the explanation of the UnitedDeployment itself, with the labels that its skipped subsets require and no
    node has.
    """
    entries = sight.snapshot.united.status.subset_statuses or ()
    missing = [
        f"no node matches nodeSelectorTerm of subset {entry.name} in spec.topology.subsets: {labels}"
        for entry in entries
        if passed_over_of(entry) is not None and (labels := _find_missing_nodes(sight, entry.name))
    ]
    if not missing:
        return explanation
    waits = tuple(
        msgspec.structs.replace(wait, words=f"{wait.words}; {'; '.join(missing)}", remedy=LABEL_NODES)
        if wait.code == Code.UNSCHEDULABLE
        else wait
        for wait in explanation.waits
    )
    return msgspec.structs.replace(explanation, waits=waits)


def _find_rollback_remedy(snapshot: UnitedSnapshot, key: Key) -> str:
    """Return the remedy that rolls the UnitedDeployment back; empty if there is no older revision."""
    history = _find_history(snapshot)
    if history is None:
        return ""
    older, serving, current = history
    return find_way_back(
        KIND.resource, key.name, key.namespace, revisions=older, serving=serving, current=current
    )


def _find_rollback_revision(snapshot: UnitedSnapshot) -> int:
    history = _find_history(snapshot)
    if history is None:
        return 0
    older, serving, current = history
    revision = find_revision_before(older, serving=serving, current=current)
    return 0 if revision is None else revision.number


def _find_history(snapshot: UnitedSnapshot) -> tuple[Sequence[RevisionView], set[str], str] | None:
    """Return the revisions, the names of serving ones, and the name of the newest. A workload of the newest revision
    does not show the revision of its older pods. When no workload of an older revision serves, the previous revision
    counts as serving.
    """
    older = sorted(snapshot.revisions.own, key=lambda revision: revision.number)
    if len(older) < 2:
        return None
    current = older[-1].name
    serving = {workload.revision for workload in snapshot.workloads if workload.ready} - {current}
    return older, serving or {older[-2].name}, current


def _list_subset_workloads(snapshot: UnitedSnapshot) -> Iterator[SubsetWorkload]:
    """Return the UnitedDeployment's workloads of the template's kind, sorted by subset."""
    wanted = [
        workload
        for workload in snapshot.workloads
        if workload.template == snapshot.united.template and workload.subset
    ]
    return iter(sorted(wanted, key=lambda workload: workload.subset))


def _drop_vague(waits: Sequence[Wait]) -> Iterator[Wait]:
    """Return the waits, without those that only report unfinished subsets when another wait names the cause."""
    codes = {wait.code for wait in waits}
    dropped = _VAGUE if codes - _VAGUE - AT_REST else frozenset()
    if codes & _NOT_DONE:
        # The manager observes the generation only after all of its work is done.
        dropped |= {Code.NO_MANAGER}
    return (wait for wait in waits if wait.code not in dropped)


def _describe_subsets(snapshot: UnitedSnapshot) -> Iterator[str]:
    for entry in snapshot.united.status.subset_statuses or ():
        if entry.replicas and not entry.ready_replicas and passed_over_of(entry) is None:
            continue  # nothing is done yet
        words = (
            f"subset {entry.name}: {entry.ready_replicas} of "
            f"{format_count(entry.replicas, 'pod is', 'pods are')} ready"
        )
        if entry.reserved_pods:
            words += f", {entry.reserved_pods} in reserve"
        yield f"{words}, skipped now" if passed_over_of(entry) else words


def _list_failed_writes(document: Document) -> Iterator[Wait]:
    """Yield writes that were rejected at the last attempt."""
    conditions = (document.get("status") or {}).get("conditions") or ()
    known = {item.get("type"): item.get("reason") for item in conditions if item.get("status") == "True"}
    for condition in conditions:
        if condition.get("type") in (PROVISIONED, SUBSETS_UPDATED) and condition.get("status") == "False":
            # OpenKruise's reason is Error for all failures; the condition Reconciling has the specific one.
            reasons = (condition.get("reason"), known.get(RECONCILING))
            code = next((Code(reason) for reason in reasons if reason in NOT_WRITTEN), Code.WRITE_FAILED)
            yield make_refusal_wait(
                code,
                str(condition.get("message") or ""),
                namespace=document["metadata"]["namespace"],
                since=condition.get("lastTransitionTime") or "",
            )


async def _explain_workload(
    client: Client,
    sight: Sight,
    workload: SubsetWorkload,
    *,
    now: Instant,
    settings: ManagerSettings | None,
    way_back: str,
) -> Explanation:
    """Return the explanation of a subset's workload; each wait names the subset. Rollback commands name the
    UnitedDeployment, because it reverts changes of its workloads.
    """
    if workload.template in EXPLAINED:
        kind = find_kind(EXPLAINED[workload.template])
        try:
            inner = await look(client, kind, workload.key, now=now, settings=settings)
            inner = await see_gates(client, inner, settings=settings)
        except NotFoundError:
            return Explanation(kind="", namespace="", name="", verdict="moving", headline="")
        explanation = explain(
            inner, inner.plan(), way_back=way_back, correction=_build_correction(workload, sight.document)
        )
    else:
        document = decode(await client.get(workload.resource, workload.namespace, workload.name))
        in_order = _is_ordered(document)
        waits = tuple(
            add_way_back(wait, way_back, replaces_stuck=not in_order, namespace=workload.namespace)
            for wait in _waits_of_built_in(sight, workload, document, now)
        )
        if {wait.code for wait in waits} == {Code.CREATING}:
            waits = (*await _read_refusals(client, workload), *waits)
        explanation = Explanation(
            kind=workload.resource.kind,
            namespace=workload.namespace,
            name=workload.name,
            verdict="waiting" if waits else "done",
            headline="",
            waits=waits,
        )
    missing = _find_missing_nodes(sight, workload.subset)
    listed = [
        msgspec.structs.replace(
            wait,
            words=f"{wait.words} (subset {workload.subset}){_explain_nodes(wait, missing)}",
            remedy=_find_remedy(wait, workload, sight.document, way_back, missing=missing),
        )
        for wait in explanation.waits
    ]
    judged = [await _judge_nodes(client, wait, sight, workload) for wait in listed]
    return msgspec.structs.replace(explanation, waits=tuple(judged))


async def _judge_nodes(client: Client, wait: Wait, sight: Sight, workload: SubsetWorkload) -> Wait:
    """Return the wait. If a label, a taint or a cordon keeps its pods from the nodes that the subset selects, the wait
    names it.
    """
    term = _find_node_selector_term(sight.document, workload.subset)
    nodes = list_matching(term, sight.nodes.values())
    if wait.code != Code.UNSCHEDULABLE or not term or not nodes or not wait.pods:
        return wait
    pod = await read_optional(client, PODS, Key(workload.namespace, wait.pods[0]))
    if pod is None:
        return wait
    state = judge_nodes(nodes, pod, correction=_build_correction(workload, sight.document))
    if state.is_full:
        return wait
    words = f"{wait.words}; of the nodes of the subset, {state.words}"
    return msgspec.structs.replace(wait, words=words, remedy=join_remedies(state.remedy, _lower(workload)))


async def _read_refusals(client: Client, workload: SubsetWorkload) -> Sequence[Wait]:
    """Return why the API server rejects the pods of a workload; empty when the user may not read events."""
    try:
        return await read_refused_creations(client, workload.uid, workload.namespace)
    except ApiError:
        return ()


def _build_correction(workload: SubsetWorkload, united: Document) -> Correction:
    """Return the correction in the UnitedDeployment, which reverts changes of its workloads. The patch of the subset
    has precedence over the template.
    """
    name = f"spec.template.{workload.template}"
    if _find_subset(united, workload.subset).get("patch"):
        name = f"{name} or in {_name_patch(workload.subset)}"
    return Correction(where=name, name=name)


def _name_refused_part(wait: Wait, workload: SubsetWorkload, united: Document) -> str:
    """Return the field that defines the rejected part of a subset's pods: the template, or the patch of the subset if
    the patch sets the fields that the API server rejects.
    """
    fields = find_refused_fields(wait.words)
    patched = get_path(_find_subset(united, workload.subset), "patch", "spec")
    if not fields:
        return _build_correction(workload, united).where
    is_patched = isinstance(patched, Mapping) and not fields.isdisjoint(patched)
    return _name_patch(workload.subset) if is_patched else f"spec.template.{workload.template}"


def _name_patch(subset: str) -> str:
    return f"the patch of subset {subset} in spec.topology.subsets"


def _find_subset(united: Document, name: str) -> Mapping[str, Any]:
    """Return a subset of the spec; empty if the spec does not have it."""
    subsets = get_path(united, "spec", "topology", "subsets", default=())
    subset: Mapping[str, Any] = next((item for item in subsets if item.get("name") == name), {})
    return subset


def _find_node_selector_term(united: Document, subset: str) -> Mapping[str, Any]:
    """Return the nodeSelectorTerm of a subset; empty if the subset has none."""
    return _find_subset(united, subset).get("nodeSelectorTerm") or {}


def _find_missing_nodes(sight: Sight, subset: str) -> str:
    """Return the labels that the nodeSelectorTerm of a subset requires and no node has; empty if a node has these
    labels.
    """
    return describe_unmatched_term(_find_node_selector_term(sight.document, subset), sight.nodes.values())


def _explain_nodes(wait: Wait, missing: str) -> str:
    if not missing or wait.code != Code.UNSCHEDULABLE:
        return ""
    return f"; no node matches the subset's nodeSelectorTerm in spec.topology.subsets: {missing}"


def _find_remedy(
    wait: Wait, workload: SubsetWorkload, united: Document, way_back: str, *, missing: str
) -> str:
    """Return a remedy that names the UnitedDeployment's fields instead of the workload's. `missing`: labels that the
    subset requires and no node has.
    """
    name, namespace = united["metadata"]["name"], united["metadata"].get("namespace", "")
    strategy = f"spec.template.{workload.template}.spec.updateStrategy"
    match wait.code:
        case Code.PARTITION:
            command = (
                f"kubectl kruise set partition {KIND.resource}/{name} {workload.subset}=0 -n {namespace}"
            )
            return f"lower the partition of the subset to continue: {command}"
        case Code.UNSCHEDULABLE if missing:
            return join_remedies(LABEL_NODES, _lower(workload))
        case Code.UNSCHEDULABLE if _find_node_selector_term(united, workload.subset):
            room = (
                f"make room on the nodes of subset {workload.subset}, whose node selector cannot be changed"
            )
            change = _build_correction(workload, united).change("requests, host ports or affinity")
            return join_remedies(room, _lower(workload), change, way_back)
        case code if code in NOT_WRITTEN:
            return find_template_remedy(wait, _name_refused_part(wait, workload, united), namespace=namespace)
        case Code.PAUSED:
            return f"resume: set {strategy}.rollingUpdate.paused to false"
        case Code.ON_DELETE:
            return f"delete the pods {ONE_AT_A_TIME}; or set {strategy}.type to RollingUpdate"
        case _:
            return wait.remedy


def _lower(workload: SubsetWorkload) -> str:
    """Return the remedy with fewer pods; empty if the pod surges, because fewer replicas do not remove such a pod."""
    is_surging = workload.ready >= workload.replicas
    return "" if is_surging else "lower the replicas of the subset in spec.topology.subsets"


def _waits_of_built_in(
    sight: Sight, workload: SubsetWorkload, document: Document, now: Instant
) -> Iterator[Wait]:
    """Yield waits of a Deployment or StatefulSet, from its conditions and its pods."""
    kind = type_of(workload.template)
    for condition in (document.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True":
            words = f"{kind} {workload.name} cannot create pods: {condition.get('message')}"
            yield Wait(code=Code.WRITE_FAILED, words=words, since=condition.get("lastTransitionTime") or "")
    if document["spec"].get("paused"):
        remedy = "set spec.template.deploymentTemplate.spec.paused to false"
        yield Wait(code=Code.PAUSED, words=f"{kind} {workload.name} is paused", remedy=remedy)
    pods = sight.snapshot.subset_pods.get(workload.uid, ())
    listed = sight.listed[POD_VIEWS]
    lost = find_lost_nodes(pods, sight.nodes) if sight.nodes else frozenset[str]()
    for pod in pods:
        pod_document = listed.get_document(Key(pod.namespace, pod.name))
        if pod_document is None or not (pod.is_active or pod.is_deleting):
            continue
        min_ready_s = _to_int(document["spec"].get("minReadySeconds"))
        cause = cause_of(
            pod_document,
            pod,
            now=now,
            min_ready_s=min_ready_s,
            lost_nodes=lost,
            correction=_build_correction(workload, sight.document),
        )
        if cause is not None:
            yield wait_of(cause, pod.name)
    missing = workload.replicas - sum(pod.is_active for pod in pods)
    if missing > 0:
        name = f"{kind} {workload.name}"
        words = f"{format_count(missing, f'pod of {name} is', f'pods of {name} are')} missing"
        yield Wait(code=Code.CREATING, words=words)


def _is_ordered(document: Document) -> bool:
    """Whether a stuck pod blocks all others even after a template change: Kubernetes' StatefulSet updates pods in
    order.
    """
    is_parallel: bool = document["spec"].get("podManagementPolicy") == "Parallel"
    return document["kind"] == "StatefulSet" and not is_parallel


def _to_int(value: Any) -> int:
    return value if isinstance(value, int) else 0
