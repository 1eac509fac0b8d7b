"""Comparison of the running manager and agents with those that replace them in a switch.

manifests of the switch ──find_replacement()──▶ Replacement ─┐
Deployment, DaemonSet, budgets and nodes of the cluster ─────┴─▶ Finding, for each setting that would be lost

Pure.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.agent.rules.sockets import SOCKETS
from pykruise.kinds.gates import GateError, Gates
from pykruise.kube.documents import Document, get_path
from pykruise.kube.program.flags import HELP, FlagError, read_texts, read_value
from pykruise.kube.values.counts import format_count, format_first
from pykruise.kube.values.quantities import parse_quantity
from pykruise.manager.daemon import DAEMON, MOUNTED, RUN_FOLDER, RUNTIMES
from pykruise.manager.doctor.budgets import covers_labels
from pykruise.manager.doctor.findings import Finding, make_fault, make_warning
from pykruise.manager.doctor.live import (
    find_manager_container,
    list_arguments,
    read_environ,
    read_settings,
)
from pykruise.manager.flags import list_all_flags
from pykruise.manager.install import MANAGER, Installation, build_manifests
from pykruise.manager.settings import ManagerSettings

__all__ = [
    "LostFlag",
    "Replacement",
    "build_replacement",
    "find_mounts",
    "find_replacement",
    "find_socket_file",
    "list_agent_findings",
    "list_budget_findings",
    "list_lost_flags",
    "list_manager_findings",
    "read_replacement_settings",
]

_NAMED: Final = 3
"""Maximum number of nodes that a finding names."""
_LINKED_FOLDER: Final = "/run"
"""The folder to which RUN_FOLDER is usually a link."""
_OF_THE_LEASE: Final = frozenset(
    ("enable-leader-election", "leader-election-id", "leader-election-namespace")
)
"""Flags that another finding compares."""


class Replacement(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of the manifests of a switch that replace running parts."""

    namespace: str
    deployment: Document
    daemon_set: Document | None = None
    has_budget: bool = False


def build_replacement(namespace: str, gates: Gates) -> Replacement:
    """Return the parts that `pykruise install` prints with this namespace and these gates."""
    wanted = Installation(namespace=namespace, has_crds=False, gates=gates, feature_gates=str(gates))
    replacement = find_replacement(build_manifests(wanted))
    assert replacement is not None
    return replacement


def find_replacement(documents: Iterable[Document]) -> Replacement | None:
    """Return the parts of these manifests; None if no manager is among them."""
    by_name = {(doc["kind"], doc["metadata"]["name"]): doc for doc in documents}
    deployment = by_name.get(("Deployment", MANAGER))
    if deployment is None:
        return None
    return Replacement(
        namespace=deployment["metadata"].get("namespace") or "default",
        deployment=deployment,
        daemon_set=by_name.get(("DaemonSet", DAEMON)),
        has_budget=("PodDisruptionBudget", MANAGER) in by_name,
    )


def read_replacement_settings(replacement: Replacement, running: Document | None) -> ManagerSettings:
    """Return the settings of the new manager. Environment variables of the running manager stay, because a server-side
    apply merges them by name. Raises FlagError or GateError.
    """
    kept = read_environ(find_manager_container(running or {}))
    return read_settings(replacement.deployment, replacement.namespace, environ=kept)


# ── manager ──────────────────────────────────────────────────────────────────


def list_manager_findings(running: Document, replacement: Replacement) -> Iterator[Finding]:
    """Yield findings about settings of the running manager that the new one does not have: flags, gates, replicas,
    limits, and the Lease.
    """
    try:
        old = read_settings(running, running["metadata"].get("namespace") or replacement.namespace)
        new = read_replacement_settings(replacement, running)
    except (FlagError, GateError):
        return  # another finding reports this
    # `args` is one value for a server-side apply, so the flags of both managers are not merged.
    for lost in list_lost_flags(
        find_manager_container(running), find_manager_container(replacement.deployment)
    ):
        if lost.name not in _OF_THE_LEASE:
            flag = f"--{lost.name}={lost.text}"
            what = f"the running manager has {flag}; the new one has {lost.new}"
            yield make_warning("flags", what, f"write {flag} into the args of the Deployment in switch.yaml")
    changed = [f"{name}={str(on).lower()}" for name, on in old.gates if new.gates[name] != on]
    if changed:
        what = f"the switch changes gates of the running manager: {', '.join(changed)}"
        yield make_warning("gates", what, "give all gates to --feature-gates of pykruise install")
    replicas = get_path(running, "spec", "replicas", default=1)
    yield from _list_lease_findings(old, new, is_running=replicas > 0)
    new_replicas = get_path(replacement.deployment, "spec", "replicas", default=1)
    if new_replicas < replicas:
        now = format_count(replicas, "manager runs", "managers run")
        what = f"{now}; the switch reduces the number to {new_replicas}"
        yield make_warning(
            "replicas", what, f"give --replicas={replicas} to pykruise install (chart: manager.replicas)"
        )
    yield from _list_resource_findings(
        find_manager_container(running), find_manager_container(replacement.deployment)
    )


class LostFlag(msgspec.Struct, frozen=True, kw_only=True):
    """A flag of the running manager that has another value in the new one."""

    name: str
    text: str
    """The value of the running manager, as it is written."""
    new: str
    """The flag of the new manager, or its default."""


def list_lost_flags(running: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[LostFlag]:
    """Yield flags of the running manager's container that have another value in the new one, without feature gates.
    Raises FlagError.
    """
    known = {flag.name: flag for flag in list_all_flags()}
    given, wanted = read_texts(list_arguments(running), known), read_texts(list_arguments(new), known)
    for name, texts in given.items():
        if name == "feature-gates" or name in HELP or known[name].unused:
            continue
        flag = known[name]
        if read_value(flag, texts) != read_value(flag, wanted.get(name)):
            default = f"the default, {flag.default or 'empty'}"
            has = f"--{name}={wanted[name][-1]}" if name in wanted else default
            yield LostFlag(name=name, text=texts[-1], new=has)


def _list_lease_findings(
    old: ManagerSettings, new: ManagerSettings, *, is_running: bool
) -> Iterator[Finding]:
    """Yield a fault if the old and the new manager would work at the same time during the switch."""
    if not is_running:
        return
    if not (old.election.enabled and new.election.enabled):
        whose = "new" if old.election.enabled else "running"
        what = (
            f"the {whose} manager uses no Lease: during the switch, both managers would work at the same time"
        )
        yield make_fault("lease", what, f"scale the Deployment {MANAGER} to 0 before the switch")
        return
    leases = [f"{each.election.namespace}/{each.election.name}" for each in (old, new)]
    if leases[0] != leases[1]:
        what = (
            f"the running manager uses the Lease {leases[0]}, the new one {leases[1]}: during the switch, both managers"
            " would work at the same time"
        )
        fix = (
            f"write --leader-election-namespace={old.election.namespace} and --leader-election-id={old.election.name}"
            " into the args of the Deployment in switch.yaml, or scale the running one to 0 before the switch"
        )
        yield make_fault("lease", what, fix)


def _list_resource_findings(running: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield limits that are lower for the new manager, or that only the new one has."""
    had: Mapping[str, Any] = get_path(running, "resources", "limits", default={}) or {}
    limits: Mapping[str, Any] = get_path(new, "resources", "limits", default={}) or {}
    for name, limit in limits.items():
        before = had.get(name)
        if before is None or parse_quantity(limit) < parse_quantity(before):
            what = (
                f"the {name} limit of the running manager is {before}"
                if before is not None
                else f"the running manager has no {name} limit"
            )
            yield make_warning(
                "resources",
                f"{what}; the limit of the new one is {limit}",
                "change resources of the Deployment in switch.yaml (chart: manager.resources) if this is not enough",
            )


def list_budget_findings(budgets: Iterable[Document], replacement: Replacement) -> Iterator[Finding]:
    """Yield other PodDisruptionBudgets for the manager's pods. `budgets`: those of its namespace."""
    labels = get_path(replacement.deployment, "spec", "template", "metadata", "labels", default={})
    for budget in budgets if replacement.has_budget else ():
        name = budget["metadata"]["name"]
        if name != MANAGER and covers_labels(budget, labels):
            what = (
                f"the switch adds the PodDisruptionBudget {MANAGER}, but the PodDisruptionBudget {name} also covers the"
                " manager's pods: API servers evict no pod with two budgets, so nodes with a manager cannot be drained"
            )
            yield make_warning(
                "budgets",
                what,
                f"delete {name}, or give --no-disruption-budget to pykruise install"
                " (chart: manager.podDisruptionBudget.enabled=false)",
            )


# ── agents ───────────────────────────────────────────────────────────────────


def list_agent_findings(
    running: Document, replacement: Document | None, nodes: Sequence[Document]
) -> Iterator[Finding]:
    """Yield a warning if the running agents find the socket of the container runtime, and the new agents would not.

    `running` and `replacement`: the DaemonSets of the agents.
    """
    folder, file = find_mounts(running).get("", ""), find_socket_file(running)
    if replacement is None or not folder:
        return
    mounts = find_mounts(replacement)
    if file:
        if not _reaches_socket(f"{folder}/{file}", mounts, find_socket_file(replacement)):
            what = f"the running agents use the socket {folder}/{file}, which the new agents would not find"
            fix = (
                f"give --socket-location={folder} --socket-file={file} to pykruise install"
                " (chart: daemon.socketLocation, daemon.socketFile)"
            )
            yield make_warning("agents", what, fix)
        return
    if _expand_path(folder) in map(_expand_path, mounts.values()):
        return
    what = f"the agents find the container runtime's socket in {folder}, which the new agents would not mount"
    if _expand_path(folder) == RUN_FOLDER:
        others = sorted(node["metadata"]["name"] for node in nodes if not _has_known_runtime(node))
        if not others:
            return
        verb = "uses" if len(others) == 1 else "use"
        what = (
            f"{format_count(len(others), 'node')} ({format_first(others, _NAMED)}) {verb} neither containerd nor CRI-O;"
            " the new agents would not mount the sockets of other container runtimes"
        )
    fix = f"give --socket-location={folder} to pykruise install (chart: daemon.socketLocation)"
    yield make_warning("agents", what, fix)


def find_mounts(daemon_set: Document) -> dict[str, str]:
    """Return the nodes' folders that are mounted at MOUNTED (key: empty) or below it (key: the path from there)."""
    pod: Document = get_path(daemon_set, "spec", "template", "spec", default={})
    folders = {
        volume.get("name"): str(get_path(volume, "hostPath", "path", default="")).rstrip("/")
        for volume in pod.get("volumes") or ()
    }
    return {
        str(mount["mountPath"]).rstrip("/").removeprefix(MOUNTED).lstrip("/"): folders[mount["name"]]
        for container in pod.get("containers") or ()
        for mount in container.get("volumeMounts") or ()
        if f"{mount.get('mountPath')}/".startswith(f"{MOUNTED}/") and folders.get(mount.get("name"))
    }


def find_socket_file(daemon_set: Document) -> str:
    """Return the value of --socket-file; empty if the agents try all known sockets."""
    containers = get_path(daemon_set, "spec", "template", "spec", "containers", default=[])
    words = [str(word) for container in containers for word in container.get("args") or ()]
    for place, word in enumerate(words):
        name, equals, value = word.lstrip("-").partition("=")
        if word.startswith("-") and name == "socket-file":
            return value if equals else "".join(words[place + 1 : place + 2])
    return ""


def _reaches_socket(path: str, mounts: Mapping[str, str], socket_file: str) -> bool:
    """Whether an agent with these mounts finds the socket with this path on the node."""
    path = _expand_path(path)
    names = [
        f"{place}/{path.removeprefix(f'{folder}/')}".lstrip("/")
        for place, folder in ((place, _expand_path(folder)) for place, folder in mounts.items())
        if path.startswith(f"{folder}/")
    ]
    tried = (socket_file,) if socket_file else SOCKETS
    return any(name in tried for name in names)


def _expand_path(path: str) -> str:
    """Return the path with RUN_FOLDER in place of the folder to which it is a link."""
    return (
        RUN_FOLDER + path.removeprefix(_LINKED_FOLDER)
        if f"{path}/".startswith(f"{_LINKED_FOLDER}/")
        else path
    )


def _has_known_runtime(node: Document) -> bool:
    version = str(get_path(node, "status", "nodeInfo", "containerRuntimeVersion", default=""))
    return version.partition("://")[0] in ("", *RUNTIMES)
