"""Report of all writes that this manager would make if it took over a cluster now; it makes none of them.

cluster ──lists──▶ Listed, one per resource ──▶ snapshot() ─ plan() of every object of every kind ──▶ PlannedWrite
OpenKruise's Deployment, the new one ──▶ settings that would be lost ─┐
webhook configurations, CRDs ────────────────────────────────────────┴─▶ Finding ──▶ SwitchReport

Read-only. The plans are the manager's own, computed from one list of each resource, so they are the writes of the
first reconcile of each object.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.admission.configurations import CONFIGURATIONS
from pykruise.admission.reviewers import build_reviewers
from pykruise.admission.settings import AdmissionSettings
from pykruise.kinds import GROUPS
from pykruise.kinds import list_kinds as all_kinds
from pykruise.kinds.gates import GateError
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document, encode, get_path
from pykruise.kube.errors import KubeError
from pykruise.kube.ids import Key
from pykruise.kube.patches.json_patch import diff_json
from pykruise.kube.patches.merge import diff_merge
from pykruise.kube.program.flags import FlagError
from pykruise.kube.resources import (
    CONTROLLER_REVISIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
)
from pykruise.kube.values.counts import format_first
from pykruise.manager.daemon import DAEMON
from pykruise.manager.doctor.findings import Finding, FindingLevel, make_fault, make_fine, make_warning
from pykruise.manager.doctor.live import Live, find_manager_container, read_settings
from pykruise.manager.install import MANAGER
from pykruise.manager.replacement import (
    Replacement,
    build_replacement,
    list_agent_findings,
    list_budget_findings,
    list_manager_findings,
    read_replacement_settings,
)
from pykruise.manager.settings import ManagerSettings
from pykruise.manager.storage import KindStorage, read_storage
from pykruise.plans.kind import Kind
from pykruise.plans.views import POD_VIEWS, REVISION_VIEWS
from pykruise.pods.reasons import NEVER_OBSERVED
from pykruise.pods.workload.revisions import (
    RevisionView,
    project_revision,
    reduce_to_essence,
    sort_revisions,
)
from pykruise.runtime.actions import Action, Create, Delete, Patch
from pykruise.runtime.assemble import views_of
from pykruise.runtime.listed_objects import Listed, Only, list_once
from pykruise.runtime.plan import Plan
from pykruise.runtime.read import Read
from pykruise.runtime.views import Views

MOST_FIELDS: Final = 5
"""Maximum number of fields that a reason names."""

OWN_PREFIX: Final = "pykruise.io/"
"""Prefix of annotations that only this manager uses."""


class PlannedWrite(msgspec.Struct, frozen=True, kw_only=True):
    """A write that changes more than a status, an event or an annotation of this manager."""

    kind: str
    owner: str
    """`namespace/name` of the object whose plan contains the write."""
    verb: str
    """create, patch or delete."""
    target: str
    """Kind and key of the written object: `Pod shop/web-x`."""
    why: str
    pods: tuple[str, ...] = ()
    """Pods that the write affects: the written pod, or the pods of a workload whose template the write changes."""


class KindReport(msgspec.Struct, frozen=True, kw_only=True):
    """Report about one kind."""

    kind: str
    stored: str
    objects: int
    statuses: int
    """Number of objects whose status would be written."""
    writes: tuple[PlannedWrite, ...] = ()
    problems: tuple[str, ...] = ()
    """Objects that could not be read, or whose spec this manager rejects so that it would leave them as they are, and
    the reasons.
    """


class SwitchReport(msgspec.Struct, frozen=True, kw_only=True):
    """The writes after a switch to this manager, and the obstacles to the switch."""

    kinds: tuple[KindReport, ...]
    findings: tuple[Finding, ...]

    @property
    def pods(self) -> frozenset[str]:
        """Pods that would be affected, as `namespace/name`."""
        return frozenset(pod for kind in self.kinds for write in kind.writes for pod in write.pods)

    @property
    def writes(self) -> Sequence[PlannedWrite]:
        """Writes of all kinds that change more than statuses, events and annotations of this manager."""
        return [write for kind in self.kinds for write in kind.writes]

    @property
    def is_safe(self) -> bool:
        """Whether only statuses, events and annotations of this manager would be written, and nothing prevents the
        switch.
        """
        has_fault = any(finding.level is FindingLevel.FAULT for finding in self.findings)
        return not self.writes and not has_fault and not any(kind.problems for kind in self.kinds)


async def check_switch(
    client: Client,
    *,
    now: Instant,
    namespace: str = "kruise-system",
    settings: ManagerSettings | None = None,
    replacement: Replacement | None = None,
    seed: int = 1,
) -> SwitchReport:
    """Compute the report. `namespace`: of the running manager. `replacement`: parts of the manifests that the switch
    applies; None: those that `pykruise install` prints with the namespace and the gates of the running manager.
    `settings`: of the manager that would take over; None: those of the replacement, or the defaults if there is neither
    a replacement nor a running manager.

    `client` reads kinds in their stored versions (`use_stored_versions`). Raises KubeError when CRDs or objects of the
    kinds cannot be listed.
    """
    live = Live(client, namespace=namespace, clock=lambda: now)
    running = await live.read_deployment()
    findings = _check_manager(running, live.namespace, is_replaced=replacement is not None)
    is_printed = running is not None or replacement is not None
    if replacement is None:
        gates = settings.gates if settings is not None else await live.read_gates()
        replacement = build_replacement(namespace, gates)
    if settings is None:
        try:
            settings = read_replacement_settings(replacement, running) if is_printed else ManagerSettings()
        except (FlagError, GateError) as error:
            findings.append(
                make_fault("flags", f"the new manager rejects its flags: {error}", "correct switch.yaml")
            )
            settings = ManagerSettings()
    findings += list_manager_findings(running, replacement) if running is not None else ()
    storage = await read_storage(client)
    budgets = await live.list(POD_DISRUPTION_BUDGETS, replacement.namespace)
    agents = await live.get(DAEMON_SETS, live.namespace, DAEMON) or {}
    findings += list_budget_findings(budgets, replacement)
    findings += list_agent_findings(agents, replacement.daemon_set, await live.list(NODES))
    findings += await _check_namespace(live, replacement.namespace)
    findings += _list_storage_findings(storage)
    findings += await _check_webhooks(live, settings, replacement.namespace)
    reports = await _plan_everything(client, settings, storage, now=now, seed=seed)
    return SwitchReport(kinds=reports, findings=tuple(findings))


# ── plans ────────────────────────────────────────────────────────────────────


async def _plan_everything(
    client: Client, settings: ManagerSettings, storage: Sequence[KindStorage], *, now: Instant, seed: int
) -> tuple[KindReport, ...]:
    planned = [kind for kind in all_kinds() if kind.control and kind.is_enabled(settings.gates.__getitem__)]
    needed = [
        views
        for kind in planned
        if kind.control is not None
        for views in views_of(kind.control, settings.read_kind_settings(kind))
    ]
    within = {views: Only(namespace=settings.watch_namespace) for views in needed}
    listed = await list_once(client, needed, namespace=settings.watch_namespace, only=within)
    stored = {item.resource.kind: item.stored for item in storage}
    reports = []
    for kind in planned:
        version = stored.get(kind.resource.kind, kind.resource.version)
        reports.append(
            await _plan_kind(
                client, kind, version, settings.read_kind_settings(kind), listed, now=now, seed=seed
            )
        )
    return tuple(reports)


async def _plan_kind(
    client: Client,
    kind: Kind,
    stored: str,
    own: Any,
    listed: Mapping[Views[Any], Listed[Any]],
    *,
    now: Instant,
    seed: int,
) -> KindReport:
    control = kind.control
    assert control is not None
    statuses, writes, problems = 0, list[PlannedWrite](), list[str]()
    views = listed[control.objects].values()
    for view in views:
        key = Key(view.namespace, view.name)
        read: Read[Any] = Read(
            listed,
            key=key,
            uid=view.uid,
            now=lambda: now,
            rng=random.Random(seed),
            settings=own,
            live=client,
        )
        try:
            snapshot = await control.snapshot(view, read)
        except KubeError as error:
            problems.append(f"{key}: {error}")
            continue
        if snapshot is None:
            continue
        plan = control.plan(snapshot)
        if plan.waiting is not None and plan.waiting.code in NEVER_OBSERVED:
            problems.append(f"{key}: {plan.waiting.message}")
        statuses += _has_status_change(plan, view)
        writes += _list_writes(kind, key, plan, listed)
    return KindReport(
        kind=kind.name if control.objects is POD_VIEWS else kind.resource.kind,
        stored=stored,
        objects=len(views),
        statuses=statuses,
        writes=tuple(writes),
        problems=tuple(problems),
    )


def _has_status_change(plan: Plan, view: Any) -> bool:
    return plan.status is not None and bool(diff_merge(getattr(view, "stored_status", {}), plan.status))


def _list_writes(
    kind: Kind, key: Key, plan: Plan, listed: Mapping[Views[Any], Listed[Any]]
) -> Iterator[PlannedWrite]:
    pods, revisions = listed.get(POD_VIEWS), listed.get(REVISION_VIEWS)
    for step in plan.steps:
        action = step.action
        if _is_own(action):
            continue
        target = Key(action.key.namespace, action.key.name)
        yield PlannedWrite(
            kind=kind.resource.kind,
            owner=str(key),
            verb=_name_verb(action),
            target=f"{action.resource.kind} {target}",
            why=step.because + _explain_new_revision(action, revisions),
            pods=tuple(_list_affected_pods(action, pods)),
        )


def _explain_new_revision(action: Action, stored: Listed[RevisionView] | None) -> str:
    """Return the fields of the template in which a revision to create differs from the newest stored one; empty for
    other writes. OpenKruise leaves out fields that its types do not know, and pykruise does not.
    """
    if not isinstance(action, Create) or action.resource != CONTROLLER_REVISIONS or stored is None:
        return ""
    new = project_revision(encode(action.body))
    earlier = sort_revisions(stored.list_owned(new.controller_uid))
    if not earlier:
        return ""
    old = earlier[-1]
    changes = diff_json(reduce_to_essence(old.template), reduce_to_essence(new.template))
    fields = [change["path"].strip("/").replace("/", ".").replace("~1", "/") for change in changes]
    return f": the template differs from revision {old.name} in {format_first(fields, MOST_FIELDS)}"


def _name_verb(action: Action) -> str:
    match action:
        case Create():
            return "create"
        case Delete():
            return "delete"
        case Patch():
            return "patch"


def _is_own(action: Action) -> bool:
    """Whether the action writes only a status, or annotations of this manager."""
    if not isinstance(action, Patch):
        return False
    if action.subresource == "status" and action.resource != PODS:
        return True
    if not isinstance(action.body, Mapping) or not action.body.keys() <= {"metadata"}:
        return False
    metadata: Mapping[str, Any] = action.body["metadata"]
    changed = metadata.keys() - {"uid", "resourceVersion"}
    return changed <= {"annotations"} and all(
        name.startswith(OWN_PREFIX) for name in metadata.get("annotations") or ()
    )


def _list_affected_pods(action: Action, pods: Listed[Any] | None) -> Iterator[str]:
    """Yield the pods that the write affects: the written pod, or the pods of a workload whose template the write
    changes.
    """
    if action.resource == PODS:
        yield str(action.key)
    elif isinstance(action, Patch) and pods is not None and _has_template(action.body):
        yield from (str(Key(pod.namespace, pod.name)) for pod in pods.list_owned(action.uid))


def _has_template(body: Any) -> bool:
    return get_path(body, "spec", "template") is not None if isinstance(body, Mapping) else True


# ── surroundings ─────────────────────────────────────────────────────────────


def _check_manager(running: Document | None, namespace: str, *, is_replaced: bool) -> list[Finding]:
    """Report the running manager, and flags and gates that pykruise does not know. `is_replaced`: the manifests of the
    new manager are given, so that another finding reports their flags and gates.
    """
    if running is None:
        what = f"there is no Deployment {namespace}/{MANAGER}"
        what += "" if is_replaced else ": the defaults of flags and gates are assumed"
        return [make_warning("manager", what, "give the namespace of the manager with --namespace")]
    container = find_manager_container(running)
    image = container.get("image") or "an unknown image"
    gates = next((word for word in container.get("args") or () if "feature-gates" in str(word)), "")
    findings = [make_fine("manager", f"{image}{', ' + str(gates).lstrip('-') if gates else ''}")]
    make = make_warning if is_replaced else make_fault
    try:
        read_settings(running, namespace)
    except GateError as error:
        findings.append(
            make("gates", str(error), "leave the gate out of --feature-gates of pykruise install")
        )
    except FlagError as error:
        findings.append(
            make("flags", str(error), "leave the flag out: docs/migration.md lists the flags without effect")
        )
    return findings


async def _check_namespace(live: Live, wanted: str) -> list[Finding]:
    """Report a manager in another namespace than the wanted one: the switch would not replace it. The managers are
    found by their Deployments, and by the Services of the webhooks.
    """
    running: dict[str, bool] = {}
    for resource, name in CONFIGURATIONS:
        configuration = await live.get(resource, "", name) or {}
        for webhook in configuration.get("webhooks") or ():
            if namespace := get_path(webhook, "clientConfig", "service", "namespace", default=""):
                running[namespace] = True
    for deployment in await live.list(DEPLOYMENTS):
        if deployment["metadata"]["name"] == MANAGER:
            namespace = deployment["metadata"]["namespace"]
            running[namespace] = get_path(deployment, "spec", "replicas", default=1) > 0
    return [
        make_fault(
            "namespace",
            f"the running manager is in the namespace {namespace}; the switch would start a second manager in {wanted}",
            f"give --namespace={namespace} to pykruise install and to this command",
        )
        for namespace, is_running in sorted(running.items())
        if is_running and namespace != wanted
    ]


def _list_storage_findings(storage: Sequence[KindStorage]) -> Iterator[Finding]:
    missing = sorted(
        kind.resource.kind
        for kind in all_kinds()
        if kind.conversion is not None
        and kind.resource.kind not in {element.resource.kind for element in storage}
    )
    if missing:
        fix = "pykruise crds | kubectl apply --server-side -f -"
        yield make_warning(
            "crds", f"{', '.join(missing)}: not installed, so no controller runs for these kinds", fix
        )
    for item in storage:
        kind = next(kind for kind in all_kinds() if kind.resource.kind == item.resource.kind)
        known = kind.conversion.versions if kind.conversion is not None else (kind.resource.version,)
        unknown = [version for version in (item.stored, *item.recorded) if version not in known]
        if unknown:
            shown = ", ".join(sorted(set(unknown)))
            what = f"{item.name} may have objects in versions that pykruise cannot read: {shown}"
            yield make_fault(
                "crds",
                what,
                "set storage to true in the CRD for a version that pykruise knows, and write each object again"
                " (kubectl get -o yaml, kubectl replace)",
            )
        elif item.stored not in item.served:
            yield make_fault(
                "crds",
                f"{item.name} stores objects in {item.stored}, but does not serve this version",
                "set served of that version in the CRD to true",
            )


async def _check_webhooks(live: Live, settings: ManagerSettings, namespace: str) -> list[Finding]:
    """Report webhooks of the running manager that this manager does not serve, and other programs' webhooks for the
    kinds.
    """
    admission = AdmissionSettings(
        namespace=namespace,
        gates=settings.gates,
        pod_webhook=settings.gates["PodWebhook"],
        deletion_protection=True,
    )
    served = {rule.path for rule in build_reviewers(admission)}
    own_names = {name for _, name in CONFIGURATIONS}
    findings = []
    for resource in {resource for resource, _ in CONFIGURATIONS}:
        for configuration in await live.list(resource):
            name = configuration["metadata"]["name"]
            for webhook in configuration.get("webhooks") or ():
                path = get_path(webhook, "clientConfig", "service", "path", default="")
                if name in own_names and path and path not in served:
                    what = f"{name}: {webhook.get('name')} ({path}) is not served by pykruise; the manager removes it"
                    findings.append(make_warning("webhooks", what, "docs/webhooks.md lists what is reviewed"))
                elif name not in own_names and _is_about_kinds(webhook):
                    what = f"{name}: {webhook.get('name')} of another program also reviews OpenKruise's kinds"
                    findings.append(
                        make_warning(
                            "webhooks",
                            what,
                            "check whether this webhook expects the user name of OpenKruise's manager",
                        )
                    )
    return findings


def _is_about_kinds(webhook: Mapping[str, Any]) -> bool:
    groups = {group for rule in webhook.get("rules") or () for group in rule.get("apiGroups") or ()}
    return not groups.isdisjoint(GROUPS)
