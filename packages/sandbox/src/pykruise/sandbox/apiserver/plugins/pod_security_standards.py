"""Pod security standards: the rules that a pod breaks, in Kubernetes' order and words.

pod, PodSecurityPolicy ──▶ explain_violations() ──▶ one message, or empty

Pure. Same rules as k8s.io/pod-security-admission from v1.25 on; an older version of a standard is treated as v1.25.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.documents import Document, get_path
from pykruise.kube.values.go_text import quote_text

LEVELS: Final = ("privileged", "baseline", "restricted")
"""Standards, the strictest last."""
LATEST: Final = "latest"
VERSION: Final = re.compile(r"v1\.(0|[1-9][0-9]*)")
CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
"""Fields with containers, in Kubernetes' order."""

_Context = Mapping[str, Any]
"""Security context of a pod or of a container."""


class PodSecurityPolicy(msgspec.Struct, frozen=True):
    """The enforced standard."""

    level: str
    version: str
    """`latest`, or a version such as `v1.30`."""

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
        """All containers."""
        for field in CONTAINERS:
            yield from self.spec.get(field) or ()

    @property
    def context(self) -> _Context:
        """Security context of the pod."""
        return self.spec.get("securityContext") or {}

    @property
    def contexts(self) -> Iterator[_Context]:
        """Security contexts of the pod and of its containers."""
        yield self.context
        yield from map(_read_security_context, self.containers)

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


def explain_violations(pod: Document, policy: PodSecurityPolicy, *, minor: int) -> str:
    """Return all violations of the policy in one message; empty if there are none.

    `minor`: the minor version of the served Kubernetes.
    """
    asked = VERSION.fullmatch(policy.version)
    facts = _PodFacts(pod["metadata"], pod["spec"], min(int(asked[1]), minor) if asked else minor)
    violations = (check(facts) for check in _CHECKS[policy.level])
    return ", ".join(f"{what} ({details})" for what, details in filter(None, violations))


# ── helpers of checks ────────────────────────────────────────────────────────


def _quote_all(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _format_plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def _format_use(count: int) -> str:
    return "uses" if count == 1 else "use"


def _format_containers(names: Sequence[str]) -> str:
    return f"{_format_plural('container', len(names))} {_quote_all(names)}"


def _read_security_context(container: Mapping[str, Any]) -> _Context:
    return container.get("securityContext") or {}


def _list_names_where(facts: _PodFacts, is_bad: Callable[[_Context], bool]) -> list[str]:
    return [each["name"] for each in facts.containers if is_bad(_read_security_context(each))]


def _format_setters(facts: _PodFacts, is_bad: Callable[[_Context], bool]) -> str:
    """The places that set a bad value, such as `pod and container "a"`; empty if there are none."""
    names = _list_names_where(facts, is_bad)
    return " and ".join(
        [*(["pod"] if is_bad(facts.context) else ()), *([_format_containers(names)] if names else ())]
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
_SAFE_SYSCTLS: Final[Mapping[int, Collection[str]]] = {
    0: (
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
    ),
    27: ("net.ipv4.ip_local_reserved_ports",),
    29: (
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
    ),
    32: ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"),
    37: ("net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_notsent_lowat"),
}
"""Sysctls by the first minor of the standard that allows them."""
_PROFILES: Final = ("RuntimeDefault", "Localhost")


def _find_bad_profiles(facts: _PodFacts, field: str) -> tuple[str, list[str]]:
    """The places that set a forbidden profile, and their values. `field`: seccompProfile or appArmorProfile."""

    def is_bad(context: _Context) -> bool:
        profile = context.get(field)
        return profile is not None and profile.get("type") not in _PROFILES

    values = {str(each[field].get("type") or "") for each in facts.contexts if is_bad(each)}
    return _format_setters(facts, is_bad), sorted(values)


def _check_app_armor(facts: _PodFacts) -> _Violation | None:
    setters, values = _find_bad_profiles(facts, "appArmorProfile")
    annotations = sorted(
        f"{key}={quote_text(value)}"
        for key, value in (facts.metadata.get("annotations") or {}).items()
        if key.startswith("container.apparmor.security.beta.kubernetes.io/")
        and not (value in ("", "runtime/default") or value.startswith("localhost/"))
    )
    if annotations:
        setters = " and ".join(filter(None, (setters, _format_plural("annotation", len(annotations)))))
    if not setters:
        return None
    values += annotations
    details = f"{setters} must not set AppArmor profile type to {_quote_all(values)}"
    return _format_plural("forbidden AppArmor profile", len(values)), details


def _describe_added_capabilities(facts: _PodFacts, allowed: Collection[str]) -> str:
    """Describe the added capabilities that the standard does not allow; empty if there are none."""

    def added(context: _Context) -> set[str]:
        return set((context.get("capabilities") or {}).get("add") or ()).difference(allowed)

    names = _list_names_where(facts, lambda context: bool(added(context)))
    forbidden = sorted(set().union(*(added(_read_security_context(each)) for each in facts.containers)))
    details = (
        f"{_format_containers(names)} must not include {_quote_all(forbidden)} "
        "in securityContext.capabilities.add"
    )
    return details if names else ""


def _check_capabilities(facts: _PodFacts) -> _Violation | None:
    details = _describe_added_capabilities(facts, _CAPABILITIES)
    return ("non-default capabilities", details) if details else None


def _check_host_namespaces(facts: _PodFacts) -> _Violation | None:
    fields = [f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if facts.spec.get(name)]
    return ("host namespaces", ", ".join(fields)) if fields else None


def _check_host_paths(facts: _PodFacts) -> _Violation | None:
    names = [each["name"] for each in facts.spec.get("volumes") or () if each.get("hostPath") is not None]
    return (
        ("hostPath volumes", f"{_format_plural('volume', len(names))} {_quote_all(names)}") if names else None
    )


def _check_host_ports(facts: _PodFacts) -> _Violation | None:
    ports = {
        each["name"]: [str(port["hostPort"]) for port in each.get("ports") or () if port.get("hostPort")]
        for each in facts.containers
    }
    names = [name for name, listed in ports.items() if listed]
    forbidden = sorted({port for listed in ports.values() for port in listed})
    if not names:
        return None
    return "hostPort", (
        f"{_format_containers(names)} {_format_use(len(names))} "
        f"{_format_plural('hostPort', len(forbidden))} {', '.join(forbidden)}"
    )


def _check_hosts(facts: _PodFacts) -> _Violation | None:
    """Check that no probe and no hook names a host: v1.34 and later forbid hosts."""
    if facts.minor < 34:
        return None
    hosts = {each["name"]: set(_list_hosts(each)) for each in facts.containers}
    names = sorted(name for name, listed in hosts.items() if listed)
    forbidden = sorted(set().union(*hosts.values()))
    if not names:
        return None
    what = _format_plural("probe or lifecycle host", len(forbidden))
    return (
        "probe or lifecycle host",
        f"{_format_containers(names)} {_format_use(len(names))} {what} {_quote_all(forbidden)}",
    )


def _list_hosts(container: Mapping[str, Any]) -> Iterator[str]:
    lifecycle = container.get("lifecycle") or {}
    probes = (container.get(f"{name}Probe") for name in ("liveness", "readiness", "startup"))
    for handler in (*probes, lifecycle.get("postStart"), lifecycle.get("preStop")):
        for way in ("httpGet", "tcpSocket"):
            if host := get_path(handler or {}, way, "host"):
                yield str(host)


def _check_privileged(facts: _PodFacts) -> _Violation | None:
    names = _list_names_where(facts, lambda context: context.get("privileged") is True)
    details = f"{_format_containers(names)} must not set securityContext.privileged=true"
    return ("privileged", details) if names else None


def _check_proc_mount(facts: _PodFacts) -> _Violation | None:
    def is_bad(context: _Context) -> bool:
        return bool(context.get("procMount", "Default") != "Default")

    names = _list_names_where(facts, is_bad)
    if not names:
        return None
    values = sorted(
        {
            _read_security_context(each)["procMount"]
            for each in facts.containers
            if is_bad(_read_security_context(each))
        }
    )
    return (
        "procMount",
        f"{_format_containers(names)} must not set securityContext.procMount to {_quote_all(values)}",
    )


def _check_proc_mount_baseline(facts: _PodFacts) -> _Violation | None:
    return None if facts.has_own_users else _check_proc_mount(facts)


def _check_selinux(facts: _PodFacts) -> _Violation | None:
    allowed = {"", "container_t", "container_init_t", "container_kvm_t"}
    if facts.minor >= 31:
        allowed.add("container_engine_t")

    def bad_parts(context: _Context) -> Iterator[tuple[str, str]]:
        options = context.get("seLinuxOptions") or {}
        if (options.get("type") or "") not in allowed:
            yield "type", options["type"]
        yield from ((name, "") for name in ("user", "role") if options.get(name))

    setters = _format_setters(facts, lambda context: any(bad_parts(context)))
    if not setters:
        return None
    parts = {part for context in facts.contexts for part in bad_parts(context)}
    types = sorted(value for name, value in parts if name == "type")
    said = [f"{_format_plural('type', len(types))} {_quote_all(types)}"] if types else []
    said += [f"{name} may not be set" for name in ("user", "role") if (name, "") in parts]
    return "seLinuxOptions", f"{setters} set forbidden securityContext.seLinuxOptions: {'; '.join(said)}"


def _check_seccomp(facts: _PodFacts) -> _Violation | None:
    setters, values = _find_bad_profiles(facts, "seccompProfile")
    details = f"{setters} must not set securityContext.seccompProfile.type to {_quote_all(values)}"
    return ("seccompProfile", details) if setters else None


def _check_sysctls(facts: _PodFacts) -> _Violation | None:
    safe = {name for since, names in _SAFE_SYSCTLS.items() if facts.minor >= since for name in names}
    names = [each["name"] for each in facts.context.get("sysctls") or () if each["name"] not in safe]
    return ("forbidden sysctls", ", ".join(names)) if names else None


def _check_host_process(facts: _PodFacts) -> _Violation | None:
    setters = _format_setters(
        facts, lambda context: get_path(context, "windowsOptions", "hostProcess") is True
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
"""Sources of volumes that `restricted` allows."""


def _check_escalation(facts: _PodFacts) -> _Violation | None:
    if facts.is_windows:
        return None
    names = _list_names_where(facts, lambda context: context.get("allowPrivilegeEscalation") is not False)
    details = f"{_format_containers(names)} must set securityContext.allowPrivilegeEscalation=false"
    return ("allowPrivilegeEscalation != false", details) if names else None


def _check_dropped_capabilities(facts: _PodFacts) -> _Violation | None:
    if facts.is_windows:
        return None
    keeping = _list_names_where(
        facts, lambda context: "ALL" not in ((context.get("capabilities") or {}).get("drop") or ())
    )
    kept = (
        f'{_format_containers(keeping)} must set securityContext.capabilities.drop=["ALL"]' if keeping else ""
    )
    details = [text for text in (kept, _describe_added_capabilities(facts, {"NET_BIND_SERVICE"})) if text]
    return ("unrestricted capabilities", "; ".join(details)) if details else None


def _check_volumes(facts: _PodFacts) -> _Violation | None:
    bad = [each for each in facts.spec.get("volumes") or () if not _VOLUMES & each.keys()]
    if not bad:
        return None
    kinds = sorted({next((source for source in each if source != "name"), "unknown") for each in bad})
    return "restricted volume types", (
        f"{_format_plural('volume', len(bad))} {_quote_all(each['name'] for each in bad)} {_format_use(len(bad))} "
        f"{_format_plural('restricted volume type', len(kinds))} {_quote_all(kinds)}"
    )


def _check_non_root(facts: _PodFacts) -> _Violation | None:
    if facts.has_own_users:
        return None
    what = "runAsNonRoot != true"
    if setters := _format_setters(facts, lambda context: context.get("runAsNonRoot") is False):
        return what, f"{setters} must not set securityContext.runAsNonRoot=false"
    if facts.context.get("runAsNonRoot"):
        return None
    names = _list_names_where(facts, lambda context: context.get("runAsNonRoot") is None)
    return (
        (what, f"pod or {_format_containers(names)} must set securityContext.runAsNonRoot=true")
        if names
        else None
    )


def _check_user(facts: _PodFacts) -> _Violation | None:
    if facts.has_own_users:
        return None
    setters = _format_setters(facts, lambda context: context.get("runAsUser") == 0)
    return ("runAsUser=0", f"{setters} must not set runAsUser=0") if setters else None


def _check_seccomp_set(facts: _PodFacts) -> _Violation | None:
    if facts.is_windows:
        return None
    if (violation := _check_seccomp(facts)) is not None or facts.context.get("seccompProfile") is not None:
        return violation
    names = _list_names_where(facts, lambda context: context.get("seccompProfile") is None)
    field = "securityContext.seccompProfile.type"
    details = f'pod or {_format_containers(names)} must set {field} to "RuntimeDefault" or "Localhost"'
    return ("seccompProfile", details) if names else None


_CHECKS: Final[Mapping[str, Sequence[_Check]]] = {
    "privileged": (),
    "baseline": (
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
    ),
    "restricted": (
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
    ),
}
"""Checks of each standard, in the order in which Kubernetes reports them."""
