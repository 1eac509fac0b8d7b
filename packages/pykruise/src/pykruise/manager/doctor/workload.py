"""Checks of the manager: whether it runs, its flags, the leader, and the clocks."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pykruise.kinds.gates import GateError
from pykruise.kube.clock import parse_time
from pykruise.kube.documents import Document, annotations_of, get_path
from pykruise.kube.program.flags import FlagError
from pykruise.kube.resources import DAEMON_SETS, LEASES, NAMESPACES
from pykruise.kube.schemas.releases import MINORS, NEWEST_MINOR, number_of
from pykruise.kube.values.counts import format_count
from pykruise.manager.daemon import DAEMON, POLICIES_SINCE, has_admission_policies
from pykruise.manager.doctor.findings import Finding, make_fault, make_fine, make_warning
from pykruise.manager.doctor.live import Live
from pykruise.manager.install import MANAGER, NAMESPACE_LABELS, RUNS_IN
from pykruise.pods.in_place import has_resize

OLDEST = number_of(MINORS[0])
"""The oldest supported minor version. Since 1.28, webhooks have match conditions, which make most reviews
unnecessary.
"""

SKEW_S = 5.0

Version = tuple[int, int]


async def _read_version(live: Live) -> tuple[str, Version]:
    result = await live.read_path("/version")
    text = str(result.get("gitVersion") or "")
    match = re.match(r"v?(\d+)\.(\d+)", text)
    return text, (int(match[1]), int(match[2])) if match else (0, 0)


async def check_cluster(live: Live) -> Sequence[Finding]:
    """Check that the API server responds and has a supported version."""
    text, version = await _read_version(live)
    if version < OLDEST:
        what = f"Kubernetes {text or 'of an unknown version'} is older than {OLDEST[0]}.{OLDEST[1]}"
        return [make_fault("cluster", what, "upgrade the cluster")]
    if version > number_of(NEWEST_MINOR):
        what = f"Kubernetes {text} is newer than {NEWEST_MINOR}, the newest version that this pykruise knows"
        fix = "upgrade pykruise when a version supports this Kubernetes; fields that pykruise does not know are kept"
        return [make_warning("cluster", what, fix)]
    if not has_admission_policies(f"{version[0]}.{version[1]}"):
        what = (
            f"Kubernetes {text} has no ValidatingAdmissionPolicy: nothing restricts "
            "an agent to its own node, so the agent of a compromised node can write objects of other nodes"
        )
        return [make_warning("cluster", what, f"upgrade the cluster to {POLICIES_SINCE} or newer")]
    return [make_fine("cluster", f"Kubernetes {text}")]


async def check_namespace(live: Live) -> Sequence[Finding]:
    """Check that the namespace exists and that pod webhooks exclude it."""
    namespace = await live.get(NAMESPACES, "", live.namespace)
    if namespace is None:
        return [make_fault("namespace", f"{live.namespace} does not exist", live.apply)]
    labels = namespace["metadata"].get("labels") or {}
    missing = {key: value for key, value in NAMESPACE_LABELS.items() if labels.get(key) != value}
    if missing:
        pairs = " ".join(f"{key}={value}" for key, value in missing.items())
        what = (
            f"namespace {live.namespace} lacks the label {pairs}: managers would wait for their own webhooks"
        )
        return [
            make_fault("namespace", what, f"kubectl label namespace {live.namespace} {pairs} --overwrite")
        ]
    return [make_fine("namespace", f"{live.namespace} is excluded from pod webhooks")]


async def check_manager(live: Live) -> Sequence[Finding]:
    """Check that the Deployment exists and has ready pods."""
    deployment = await live.read_deployment()
    name = f"{live.namespace}/{MANAGER}"
    if deployment is None:
        what = f"there is no Deployment {name}; a manager outside the cluster cannot be examined from here"
        return [make_warning("manager", what, live.apply)]
    if place := annotations_of(deployment).get(RUNS_IN):
        return [make_fine("manager", f"the manager runs in {place}, not in a pod")]
    wanted = deployment["spec"].get("replicas", 1)
    status = deployment.get("status") or {}
    ready = status.get("readyReplicas", 0)
    if wanted == 0:
        what = f"Deployment {name} is scaled to 0: nothing is reconciled, and no webhook responds"
        return [
            make_fault(
                "manager", what, f"kubectl -n {live.namespace} scale deployment {MANAGER} --replicas=2"
            )
        ]
    if ready == 0:
        why = "; ".join(
            condition["message"]
            for condition in status.get("conditions") or ()
            if _is_bad(condition) and condition.get("message")
        )
        what = f"no pod of Deployment {name} is ready{f' ({why})' if why else ''}"
        fix = (
            f"kubectl -n {live.namespace} describe pods; kubectl -n {live.namespace} logs deployment/{MANAGER}"
            if status.get("replicas")
            else f"kubectl -n {live.namespace} describe replicasets"
        )
        return [make_fault("manager", what, fix)]
    if ready < wanted:
        what = (
            f"{ready} of "
            f"{format_count(wanted, f'pod of Deployment {name} is', f'pods of Deployment {name} are')} ready"
        )
        return [make_warning("manager", what, f"kubectl -n {live.namespace} describe pods")]
    return [make_fine("manager", f"{ready} of {format_count(wanted, 'pod is', 'pods are')} ready")]


def _is_bad(condition: Mapping[str, Any]) -> bool:
    """Whether a condition of a Deployment reports a problem."""
    return condition.get("status") == ("True" if condition.get("type") == "ReplicaFailure" else "False")


async def check_gates(live: Live) -> Sequence[Finding]:
    """Check that flags and gates are valid and that the cluster supports them."""
    try:
        settings = await live.read_settings()
    except (FlagError, GateError) as error:
        return [
            make_fault(
                "gates", f"the manager rejects its flags: {error}", "correct the args of its Deployment"
            )
        ]
    gates = settings.gates
    findings = [
        make_warning("gates", note, "set the gates to the values that you require") for note in gates.notes
    ]
    if gates["InPlaceWorkloadVerticalScaling"] and not has_resize(await live.read_path("/api/v1")):
        what = "InPlaceWorkloadVerticalScaling is on, but the API server has no pods/resize"
        fix = "switch the gate off, or upgrade to Kubernetes 1.33 (in 1.32, enable InPlacePodVerticalScaling)"
        findings.append(make_fault("gates", what, fix))
    daemon = await live.get(DAEMON_SETS, live.namespace, DAEMON)
    if gates["KruiseDaemon"]:
        findings += _list_daemon_findings(live, daemon)
    elif daemon is not None:
        what = f"KruiseDaemon is off, but DaemonSet {DAEMON} still runs agents"
        findings.append(make_warning("gates", what, f"kubectl -n {live.namespace} delete daemonset {DAEMON}"))
    return findings or [make_fine("gates", str(gates) or "all gates have their defaults")]


def _list_daemon_findings(live: Live, daemon: Document | None) -> list[Finding]:
    """Return findings about whether agents run on all nodes."""
    if daemon is None:
        what = "KruiseDaemon is on, but there is no DaemonSet kruise-daemon: features that need it wait"
        return [
            make_warning(
                "gates", what, f"start the manager with --feature-gates=KruiseDaemon=false, or {live.apply}"
            )
        ]
    status = daemon.get("status") or {}
    wanted, ready = status.get("desiredNumberScheduled", 0), status.get("numberReady", 0)
    if ready < wanted:
        nodes = f"{ready} of {format_count(wanted, 'node')}"
        what = f"agents are ready on {nodes}: on the other nodes, image pulls, probes and recreations wait"
        are_created = status.get("currentNumberScheduled", 0) >= wanted
        target = "pods -l control-plane=daemon" if are_created else f"daemonset {DAEMON}"
        fix = f"kubectl -n {live.namespace} describe {target}"
        return [make_warning("gates", what, fix)]
    return []


async def check_lease(live: Live) -> Sequence[Finding]:
    """Check that a manager leads and renews its Lease in time."""
    key = await live.find_lease()
    if key is None:
        return [make_fine("lease", "the manager needs no Lease (--enable-leader-election=false)")]
    lease = await live.get(LEASES, key.namespace, key.name)
    name = str(key)
    if lease is None:
        what = f"there is no lease {name}: no manager has ever been the leader"
        return [
            make_fault("lease", what, "read the manager's log; a replica leads only when its webhooks work")
        ]
    spec = lease.get("spec") or {}
    holder = spec.get("holderIdentity") or ""
    if not holder:
        return [make_fault("lease", f"lease {name} has no holder: no controller runs", "start a manager")]
    now = await live.read_server_time()
    renewed = parse_time(spec["renewTime"]) if spec.get("renewTime") else None
    length = spec.get("leaseDurationSeconds") or 15
    if now is not None and renewed is not None:
        if now - renewed > length + 1:
            what = f"{holder} has not renewed lease {name} for {now - renewed:.0f} s: no controller runs"
            return [make_fault("lease", what, "check whether that manager is alive, and read its log")]
        if renewed - now > SKEW_S:
            what = f"{holder} renewed lease {name} {renewed - now:.0f} s in the future: its clock is ahead"
            return [make_fault("lease", what, "synchronize the clocks of the nodes (NTP)")]
    return [make_fine("lease", f"{holder} leads")]


async def check_clock(live: Live) -> Sequence[Finding]:
    """Check that the clocks of this machine and the API server agree."""
    now = await live.read_server_time()
    if now is None:
        return [make_fine("clock", "the API server does not report its time")]
    # The API server's time comes from the header Date, which has whole seconds.
    skew_s = live.clock() - now
    if abs(skew_s) > SKEW_S + 1:
        side = "ahead of" if skew_s > 0 else "behind"
        what = f"this machine is {abs(skew_s):.0f} s {side} the API server"
        return [
            make_warning(
                "clock", what, "synchronize the clocks (NTP): certificates and times to live depend on them"
            )
        ]
    return [make_fine("clock", "the clock of the API server agrees with this machine")]


def count_ready_addresses(slices: Sequence[dict[str, object]]) -> int:
    """Count the ready endpoints of EndpointSlices."""
    return sum(
        1
        for slice_ in slices
        for endpoint in get_path(slice_, "endpoints", default=[]) or ()
        if (endpoint.get("conditions") or {}).get("ready", True)
    )
