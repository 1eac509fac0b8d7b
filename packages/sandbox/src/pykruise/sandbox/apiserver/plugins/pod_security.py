"""Pod security standards of namespaces: which pods a namespace accepts.

labels of the namespace ──▶ policy_of() ──▶ PodSecurityPolicy ──▶ explain_violations(pod) ──▶ a message, or empty
writes.py ──▶ check(core, call, new, old) ──▶ Refusal (403 for a pod, 422 for a namespace), or the write continues

Same rules and messages as Kubernetes' admission plugin PodSecurity for the label
`pod-security.kubernetes.io/enforce` and its version from v1.25 on (an older version counts as v1.25). The labels
`warn` and `audit` are only checked.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.documents import Document, decode, get_path
from pykruise.kube.errors import Cause
from pykruise.kube.ids import Key
from pykruise.kube.pod_rules.field_errors import make_invalid_error
from pykruise.kube.values.go_text import quote_text
from pykruise.sandbox.apiserver.core import Core
from pykruise.sandbox.apiserver.requests.call import Call
from pykruise.sandbox.apiserver.requests.statuses import make_forbidden, make_invalid

_PREFIX: Final = "pod-security.kubernetes.io/"
_LABEL: Final = f"{_PREFIX}enforce"
_BASELINE: Final = "baseline"
_RESTRICTED: Final = "restricted"
_LEVELS: Final = ("privileged", _BASELINE, _RESTRICTED)
_LATEST: Final = "latest"
_VERSION: Final = re.compile(r"v1\.(0|[1-9][0-9]*)")
_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
_UNCHECKED: Final = frozenset({"binding", "eviction", "log", "status"})
"""Subresources of pods that the plugin ignores."""


class PodSecurityPolicy(msgspec.Struct, frozen=True):
    """The enforced standard."""

    level: str
    version: str
    """`latest`, or such as `v1.30`."""

    def __str__(self) -> str:
        return f"{self.level}:{self.version}"


class _PodFacts(msgspec.Struct, frozen=True):
    """A pod as the checks read it."""

    metadata: Mapping[str, Any]
    spec: Mapping[str, Any]
    minor: int
    """Minor version of the standard."""

    @property
    def containers(self) -> Iterator[Mapping[str, Any]]:
        """All containers, in Kubernetes' order."""
        for field in _CONTAINERS:
            yield from self.spec.get(field) or ()

    @property
    def context(self) -> Mapping[str, Any]:
        """Security context of the pod."""
        return self.spec.get("securityContext") or {}

    @property
    def is_windows(self) -> bool:
        return bool(get_path(self.spec, "os", "name") == "windows")

    @property
    def has_own_users(self) -> bool:
        """Whether the pod has a user namespace, for which v1.35 relaxes some checks."""
        return self.minor >= 35 and self.spec.get("hostUsers") is False


_Violation = tuple[str, str]
"""The forbidden property, and its details."""
_Check = Callable[[_PodFacts], _Violation | None]


def policy_of(labels: Mapping[str, str]) -> PodSecurityPolicy:
    """Return the policy. An unreadable level counts as restricted, an unreadable version as the latest, as in
    Kubernetes.
    """
    level, version = labels.get(_LABEL, _LEVELS[0]), labels.get(f"{_LABEL}-version", _LATEST)
    return PodSecurityPolicy(
        level if level in _LEVELS else _RESTRICTED, version if _VERSION.fullmatch(version) else _LATEST
    )


def explain_violations(pod: Document, policy: PodSecurityPolicy, *, minor: int) -> str:
    """Return all violations of the policy in one message; empty: the pod is accepted. `minor`: Kubernetes' version."""
    checks = {_BASELINE: _BASELINE_CHECKS, _RESTRICTED: _RESTRICTED_CHECKS}.get(policy.level, ())
    asked = _VERSION.fullmatch(policy.version)
    facts = _PodFacts(pod["metadata"], pod["spec"], min(int(asked[1]), minor) if asked else minor)
    violations = (check(facts) for check in checks)
    return ", ".join(f"{what} ({details})" for what, details in filter(None, violations))


def find_label_errors(labels: Mapping[str, str]) -> Iterator[Cause]:
    """Yield an error for each unreadable label of a namespace."""
    for mode in ("enforce", "audit", "warn"):
        level, version = labels.get(_PREFIX + mode), labels.get(f"{_PREFIX}{mode}-version")
        if level is not None and level not in _LEVELS:
            detail = f"must be one of {', '.join(_LEVELS)}"
            yield make_invalid_error(f"metadata.labels[{_PREFIX}{mode}]", level, detail)
        if version is not None and version != _LATEST and _VERSION.fullmatch(version) is None:
            detail = 'must be "latest" or "v1.x"'
            yield make_invalid_error(f"metadata.labels[{_PREFIX}{mode}-version]", version, detail)


def check(core: Core, call: Call, new: Document, old: Document | None) -> None:
    """Refuse a pod that its namespace does not accept, and unreadable labels of a namespace that had none before.
    Raises Refusal.
    """
    if call.entry.shelf == "namespaces" and not call.subresource:
        causes = list(find_label_errors(new["metadata"].get("labels") or {}))
        if causes and not (old is not None and any(find_label_errors(old["metadata"].get("labels") or {}))):
            raise make_invalid("Namespace", "", new["metadata"]["name"], causes)
    if call.entry.shelf != "pods" or call.subresource in _UNCHECKED:
        return
    namespace = core.storage.get("namespaces", Key("", call.namespace))
    if namespace is None or _LABEL.encode() not in namespace.raw:
        return
    if old is not None and not _is_significant(new, old):
        return
    policy = policy_of(decode(namespace.raw)["metadata"].get("labels") or {})
    minor = int(core.catalog.minor.partition(".")[2])
    if violations := explain_violations(new, policy, minor=minor):
        why = f"violates PodSecurity {quote_text(str(policy))}: {violations}"
        raise make_forbidden(call.entry.resource, new["metadata"].get("name") or "", why)


def _is_significant(new: Document, old: Document) -> bool:
    """Whether an update changes annotations, images or the list of containers, the only parts that may matter."""
    return new["metadata"].get("annotations") != old["metadata"].get("annotations") or any(
        _images_of(new, field) != _images_of(old, field) for field in _CONTAINERS
    )


def _images_of(pod: Document, field: str) -> list[tuple[Any, Any]]:
    return [(each.get("name"), each.get("image")) for each in pod["spec"].get(field) or ()]


# ── helpers of checks ────────────────────────────────────────────────────────


def _quote_all(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def _containers(names: Sequence[str]) -> str:
    return f"{_plural('container', len(names))} {_quote_all(names)}"


def _security(container: Mapping[str, Any]) -> Mapping[str, Any]:
    return container.get("securityContext") or {}


def _names_where(facts: _PodFacts, is_bad: Callable[[Mapping[str, Any]], bool]) -> list[str]:
    return [each["name"] for each in facts.containers if is_bad(_security(each))]


def _setters(facts: _PodFacts, is_bad: Callable[[Mapping[str, Any]], bool]) -> str:
    """Setters of a bad value, such as `pod and container "a"`; empty: there is none."""
    names = _names_where(facts, is_bad)
    return " and ".join(
        [*(["pod"] if is_bad(facts.context) else ()), *([_containers(names)] if names else ())]
    )


# ── baseline ─────────────────────────────────────────────────────────────────

_CAPABILITIES: Final = frozenset(
    {
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    }
)
_SAFE_SYSCTLS: Final[Sequence[tuple[int, str]]] = (
    *(
        (0, name)
        for name in (
            "kernel.shm_rmid_forced",
            "net.ipv4.ip_local_port_range",
            "net.ipv4.tcp_syncookies",
            "net.ipv4.ping_group_range",
            "net.ipv4.ip_unprivileged_port_start",
        )
    ),
    (27, "net.ipv4.ip_local_reserved_ports"),
    *((29, f"net.ipv4.tcp_{name}") for name in ("keepalive_time", "fin_timeout", "keepalive_intvl")),
    (29, "net.ipv4.tcp_keepalive_probes"),
    (32, "net.ipv4.tcp_rmem"),
    (32, "net.ipv4.tcp_wmem"),
    (37, "net.ipv4.tcp_slow_start_after_idle"),
    (37, "net.ipv4.tcp_notsent_lowat"),
)
"""First minor of the standard that allows each sysctl."""
_PROFILES: Final = ("RuntimeDefault", "Localhost")


def _check_app_armor(facts: _PodFacts) -> _Violation | None:
    def is_bad(context: Mapping[str, Any]) -> bool:
        profile = context.get("appArmorProfile")
        return profile is not None and profile.get("type") not in _PROFILES

    contexts = [facts.context, *map(_security, facts.containers)]
    values = sorted({str(each["appArmorProfile"].get("type") or "") for each in contexts if is_bad(each)})
    annotations = sorted(
        f"{key}={quote_text(value)}"
        for key, value in (facts.metadata.get("annotations") or {}).items()
        if key.startswith("container.apparmor.security.beta.kubernetes.io/")
        and not (value in ("", "runtime/default") or value.startswith("localhost/"))
    )
    setters = [each for each in (_setters(facts, is_bad),) if each]
    if annotations:
        setters.append(_plural("annotation", len(annotations)))
    if not setters:
        return None
    values += annotations
    details = f"{' and '.join(setters)} must not set AppArmor profile type to {_quote_all(values)}"
    return _plural("forbidden AppArmor profile", len(values)), details


def _check_capabilities(facts: _PodFacts) -> _Violation | None:
    def added(context: Mapping[str, Any]) -> set[str]:
        return set((context.get("capabilities") or {}).get("add") or ()) - _CAPABILITIES

    names = _names_where(facts, lambda context: bool(added(context)))
    forbidden = sorted(set().union(*(added(_security(each)) for each in facts.containers)))
    if not names:
        return None
    details = (
        f"{_containers(names)} must not include {_quote_all(forbidden)} in securityContext.capabilities.add"
    )
    return "non-default capabilities", details


def _check_host_namespaces(facts: _PodFacts) -> _Violation | None:
    fields = [f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if facts.spec.get(name)]
    return ("host namespaces", ", ".join(fields)) if fields else None


def _check_host_paths(facts: _PodFacts) -> _Violation | None:
    names = [each["name"] for each in facts.spec.get("volumes") or () if each.get("hostPath") is not None]
    return ("hostPath volumes", f"{_plural('volume', len(names))} {_quote_all(names)}") if names else None


def _check_host_ports(facts: _PodFacts) -> _Violation | None:
    ports = {
        each["name"]: [str(port["hostPort"]) for port in each.get("ports") or () if port.get("hostPort")]
        for each in facts.containers
    }
    names = [name for name, listed in ports.items() if listed]
    forbidden = sorted({port for listed in ports.values() for port in listed})
    if not names:
        return None
    verb = "uses" if len(names) == 1 else "use"
    return "hostPort", (
        f"{_containers(names)} {verb} {_plural('hostPort', len(forbidden))} {', '.join(forbidden)}"
    )


def _check_hosts(facts: _PodFacts) -> _Violation | None:
    """Hosts of probes and hooks, since v1.34."""
    if facts.minor < 34:
        return None
    hosts = {each["name"]: set(_list_hosts(each)) for each in facts.containers}
    names = sorted(name for name, listed in hosts.items() if listed)
    forbidden = sorted(set().union(*hosts.values())) if hosts else []
    if not names:
        return None
    verb = "uses" if len(names) == 1 else "use"
    what = _plural("probe or lifecycle host", len(forbidden))
    return "probe or lifecycle host", f"{_containers(names)} {verb} {what} {_quote_all(forbidden)}"


def _list_hosts(container: Mapping[str, Any]) -> Iterator[str]:
    lifecycle = container.get("lifecycle") or {}
    probes = (container.get(f"{name}Probe") for name in ("liveness", "readiness", "startup"))
    for handler in (*probes, lifecycle.get("postStart"), lifecycle.get("preStop")):
        for way in ("httpGet", "tcpSocket"):
            if host := get_path(handler or {}, way, "host"):
                yield str(host)


def _check_privileged(facts: _PodFacts) -> _Violation | None:
    names = _names_where(facts, lambda context: context.get("privileged") is True)
    details = f"{_containers(names)} must not set securityContext.privileged=true"
    return ("privileged", details) if names else None


def _check_proc_mount(facts: _PodFacts) -> _Violation | None:
    def is_bad(context: Mapping[str, Any]) -> bool:
        return bool(context.get("procMount", "Default") != "Default")

    names = _names_where(facts, is_bad)
    if not names:
        return None
    values = sorted({_security(each)["procMount"] for each in facts.containers if is_bad(_security(each))})
    return "procMount", f"{_containers(names)} must not set securityContext.procMount to {_quote_all(values)}"


def _check_proc_mount_baseline(facts: _PodFacts) -> _Violation | None:
    return None if facts.has_own_users else _check_proc_mount(facts)


def _check_selinux(facts: _PodFacts) -> _Violation | None:
    allowed = {"", "container_t", "container_init_t", "container_kvm_t"}
    if facts.minor >= 31:
        allowed.add("container_engine_t")

    def bad_parts(context: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        options = context.get("seLinuxOptions") or {}
        if (options.get("type") or "") not in allowed:
            yield "type", options["type"]
        yield from ((name, "") for name in ("user", "role") if options.get(name))

    setters = _setters(facts, lambda context: any(bad_parts(context)))
    if not setters:
        return None
    contexts = [facts.context, *map(_security, facts.containers)]
    parts = {part for context in contexts for part in bad_parts(context)}
    types = sorted(value for name, value in parts if name == "type")
    said = [f"{_plural('type', len(types))} {_quote_all(types)}"] if types else []
    said += [f"{name} may not be set" for name in ("user", "role") if (name, "") in parts]
    return "seLinuxOptions", f"{setters} set forbidden securityContext.seLinuxOptions: {'; '.join(said)}"


def _is_bad_seccomp(context: Mapping[str, Any]) -> bool:
    profile = context.get("seccompProfile")
    return profile is not None and profile.get("type") not in _PROFILES


def _check_seccomp(facts: _PodFacts) -> _Violation | None:
    setters = _setters(facts, _is_bad_seccomp)
    if not setters:
        return None
    contexts = [facts.context, *map(_security, facts.containers)]
    values = sorted(
        {str(each["seccompProfile"].get("type") or "") for each in contexts if _is_bad_seccomp(each)}
    )
    return "seccompProfile", (
        f"{setters} must not set securityContext.seccompProfile.type to {_quote_all(values)}"
    )


def _check_sysctls(facts: _PodFacts) -> _Violation | None:
    safe = {name for since, name in _SAFE_SYSCTLS if facts.minor >= since}
    names = [each["name"] for each in facts.context.get("sysctls") or () if each["name"] not in safe]
    return ("forbidden sysctls", ", ".join(names)) if names else None


def _check_host_process(facts: _PodFacts) -> _Violation | None:
    setters = _setters(
        facts, lambda context: get_path(context, "windowsOptions", "hostProcess", default=None) is True
    )
    details = f"{setters} must not set securityContext.windowsOptions.hostProcess=true"
    return ("hostProcess", details) if setters else None


# ── restricted ───────────────────────────────────────────────────────────────

_VOLUMES: Final = frozenset(
    {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)
_OTHER_VOLUMES: Final = frozenset(
    {
        "hostPath",
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "gitRepo",
        "nfs",
        "iscsi",
        "glusterfs",
        "rbd",
        "flexVolume",
        "cinder",
        "cephfs",
        "flocker",
        "fc",
        "azureFile",
        "vsphereVolume",
        "quobyte",
        "azureDisk",
        "photonPersistentDisk",
        "portworxVolume",
        "scaleIO",
        "storageos",
    }
)


def _check_escalation(facts: _PodFacts) -> _Violation | None:
    if facts.is_windows:
        return None
    names = _names_where(facts, lambda context: context.get("allowPrivilegeEscalation") is not False)
    details = f"{_containers(names)} must set securityContext.allowPrivilegeEscalation=false"
    return ("allowPrivilegeEscalation != false", details) if names else None


def _check_dropped_capabilities(facts: _PodFacts) -> _Violation | None:
    if facts.is_windows:
        return None

    def added(context: Mapping[str, Any]) -> set[str]:
        return set((context.get("capabilities") or {}).get("add") or ()) - {"NET_BIND_SERVICE"}

    keeping = _names_where(
        facts, lambda context: "ALL" not in ((context.get("capabilities") or {}).get("drop") or ())
    )
    adding = _names_where(facts, lambda context: bool(added(context)))
    details = []
    if keeping:
        details.append(f'{_containers(keeping)} must set securityContext.capabilities.drop=["ALL"]')
    if adding:
        forbidden = sorted(set().union(*(added(_security(each)) for each in facts.containers)))
        details.append(
            f"{_containers(adding)} must not include {_quote_all(forbidden)} in securityContext.capabilities.add"
        )
    return ("unrestricted capabilities", "; ".join(details)) if details else None


def _check_volumes(facts: _PodFacts) -> _Violation | None:
    bad = [each for each in facts.spec.get("volumes") or () if not _VOLUMES & each.keys()]
    if not bad:
        return None
    kinds = sorted({next(iter(_OTHER_VOLUMES & each.keys()), "unknown") for each in bad})
    verb = "uses" if len(bad) == 1 else "use"
    return "restricted volume types", (
        f"{_plural('volume', len(bad))} {_quote_all(each['name'] for each in bad)} {verb} "
        f"{_plural('restricted volume type', len(kinds))} {_quote_all(kinds)}"
    )


def _check_non_root(facts: _PodFacts) -> _Violation | None:
    if facts.has_own_users:
        return None
    what = "runAsNonRoot != true"
    if setters := _setters(facts, lambda context: context.get("runAsNonRoot") is False):
        return what, f"{setters} must not set securityContext.runAsNonRoot=false"
    if facts.context.get("runAsNonRoot"):
        return None
    names = _names_where(facts, lambda context: context.get("runAsNonRoot") is None)
    return (
        (what, f"pod or {_containers(names)} must set securityContext.runAsNonRoot=true") if names else None
    )


def _check_user(facts: _PodFacts) -> _Violation | None:
    if facts.has_own_users:
        return None
    setters = _setters(facts, lambda context: context.get("runAsUser") == 0)
    return ("runAsUser=0", f"{setters} must not set runAsUser=0") if setters else None


def _check_seccomp_set(facts: _PodFacts) -> _Violation | None:
    if facts.is_windows:
        return None
    if (violation := _check_seccomp(facts)) is not None or facts.context.get("seccompProfile") is not None:
        return violation
    names = _names_where(facts, lambda context: context.get("seccompProfile") is None)
    field = "securityContext.seccompProfile.type"
    details = f'pod or {_containers(names)} must set {field} to "RuntimeDefault" or "Localhost"'
    return ("seccompProfile", details) if names else None


_BASELINE_CHECKS: Final[Sequence[_Check]] = (
    _check_app_armor,
    _check_capabilities,
    _check_host_namespaces,
    _check_host_paths,
    _check_host_ports,
    _check_hosts,
    _check_privileged,
    _check_proc_mount_baseline,
    _check_selinux,
    _check_seccomp,
    _check_sysctls,
    _check_host_process,
)
"""Checks in the order in which Kubernetes reports them."""
_RESTRICTED_CHECKS: Final[Sequence[_Check]] = (
    _check_app_armor,
    _check_host_namespaces,
    _check_host_ports,
    _check_hosts,
    _check_privileged,
    _check_selinux,
    _check_sysctls,
    _check_host_process,
    _check_escalation,
    _check_dropped_capabilities,
    _check_proc_mount,
    _check_volumes,
    _check_non_root,
    _check_user,
    _check_seccomp_set,
)
