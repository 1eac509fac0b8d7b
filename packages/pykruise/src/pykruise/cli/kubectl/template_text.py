"""Text of a pod template for `rollout history --revision` and `rollout undo --dry-run`.

template ──▶ describe_template() ──▶ text, the words and tabs of `kubectl describe`

Pure.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pykruise.kube.values.quantities import format_quantity

Document = Mapping[str, Any]


def describe_template(template: Document) -> str:
    """Text of a pod template: begins with `Pod Template:`, ends with a line end. A tab separates columns."""
    return "".join(f"{line}\n" for line in _format_template(template))


def _format_template(template: Document) -> Iterator[str]:
    yield "Pod Template:"
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    yield from _pair_lines("  Labels:\t", meta.get("labels") or {}, "=")
    if annotations := meta.get("annotations"):
        yield from _pair_lines("  Annotations:\t", annotations, ": ")
    if account := spec.get("serviceAccountName"):
        yield f"  Service Account:\t{account}"
    if containers := spec.get("initContainers"):
        yield from _with_title("  Init Containers", _format_containers(containers))
    yield from _with_title("  Containers", _format_containers(spec.get("containers") or ()))
    yield from _with_title("  Volumes", _format_volumes(spec.get("volumes") or ()))
    if constraints := spec.get("topologySpreadConstraints"):
        yield from _spread_lines(constraints)
    if priority := spec.get("priorityClassName"):
        yield f"  Priority Class Name:\t{priority}"
    yield from _pair_lines("  Node-Selectors:\t", spec.get("nodeSelector") or {}, "=")
    yield from _format_tolerations(spec.get("tolerations") or ())


def _pair_lines(title: str, values: Mapping[str, str], sign: str) -> Iterator[str]:
    if not values:
        yield f"{title}<none>"
        return
    for number, key in enumerate(sorted(values)):
        yield f"{title if not number else chr(9)}{key}{sign}{str(values[key]).rstrip()}"


def _spread_lines(constraints: Sequence[Document]) -> Iterator[str]:
    ordered = sorted(constraints, key=lambda constraint: str(constraint.get("topologyKey")))
    for number, value in enumerate(ordered):
        start = "  Topology Spread Constraints:\t" if not number else "\t"
        labels = (value.get("labelSelector") or {}).get("matchLabels") or {}
        selector = ",".join(f"{key}={labels[key]}" for key in sorted(labels))
        yield (
            f"{start}{value.get('topologyKey')}:{value.get('whenUnsatisfiable')} when max skew {value.get('maxSkew')}"
            f" is exceeded for selector {selector or '<none>'}"
        )


def _format_tolerations(tolerations: Sequence[Document]) -> Iterator[str]:
    if not tolerations:
        yield "  Tolerations:\t<none>"
        return
    ordered = sorted(tolerations, key=lambda toleration: str(toleration.get("key", "")))
    for number, value in enumerate(ordered):
        start = "  Tolerations:\t" if not number else "\t"
        text = value.get("key", "")
        if value.get("value"):
            text += f"={value['value']}"
        if value.get("effect"):
            text += f":{value['effect']}"
        if value.get("operator") == "Exists" and not value.get("value"):
            text += " op=Exists" if value.get("key") or value.get("effect") else "op=Exists"
        if value.get("tolerationSeconds") is not None:
            text += f" for {value['tolerationSeconds']}s"
        yield f"{start}{text}"


# ── containers ───────────────────────────────────────────────────────────────


def _with_title(title: str, lines: Iterable[str]) -> Iterator[str]:
    """The lines under their title, or the title with `<none>`."""
    result = list(lines)
    yield f"{title}:" if result else f"{title}:\t<none>"
    yield from result


def _format_containers(containers: Sequence[Document]) -> Iterator[str]:
    for container in containers:
        yield f"   {container.get('name')}:"
        yield f"    Image:\t{container.get('image', '')}"
        yield from _format_ports(container.get("ports") or ())
        for name, words in (("Command", container.get("command")), ("Args", container.get("args"))):
            if words:
                yield f"    {name}:"
                yield from (f"      {line}" for word in words for line in str(word).split("\n"))
        yield from _format_amounts(container.get("resources") or {})
        for name, field in (
            ("Liveness", "livenessProbe"),
            ("Readiness", "readinessProbe"),
            ("Startup", "startupProbe"),
        ):
            if probe := container.get(field):
                yield f"    {name}:\t{_probe_text(probe)}"
        yield from _format_env_from(container.get("envFrom") or ())
        yield from _with_title("    Environment", _format_env(container))
        yield from _with_title("    Mounts", _mount_lines(container.get("volumeMounts") or ()))
        if devices := container.get("volumeDevices"):
            yield "    Devices:"
            yield from (f"      {device['devicePath']} from {device['name']}" for device in devices)


def _format_ports(ports: Sequence[Document]) -> Iterator[str]:
    def text(port: Document, field: str) -> str:
        name = f" ({port['name']})" if port.get("name") else ""
        return f"{port.get(field, 0)}/{port.get('protocol') or 'TCP'}{name}"

    many = "s" if len(ports) > 1 else ""
    yield f"    Port{many}:\t{', '.join(text(port, 'containerPort') for port in ports) or '<none>'}"
    yield f"    Host Port{many}:\t{', '.join(text(port, 'hostPort') for port in ports) or '<none>'}"


def _format_amounts(resources: Document) -> Iterator[str]:
    for name in ("limits", "requests"):
        if amounts := resources.get(name):
            yield f"    {name.capitalize()}:"
            yield from (f"      {key}:\t{format_quantity(amounts[key])}" for key in sorted(amounts))


def _probe_text(probe: Document) -> str:
    times = (
        f"delay={probe.get('initialDelaySeconds', 0)}s timeout={probe.get('timeoutSeconds', 1)}s"
        f" period={probe.get('periodSeconds', 10)}s successThreshold={probe.get('successThreshold', 1)}"
        f" failureThreshold={probe.get('failureThreshold', 3)}"
    )
    if act := probe.get("exec"):
        return f"exec [{' '.join(act.get('command') or ())}] {times}"
    if act := probe.get("httpGet"):
        scheme = str(act.get("scheme") or "HTTP").lower()
        path = act.get("path") or ""
        return f"http-get {scheme}://{act.get('host', '')}:{act.get('port')}{path} {times}"
    if act := probe.get("tcpSocket"):
        return f"tcp-socket {act.get('host', '')}:{act.get('port')} {times}"
    if act := probe.get("grpc"):
        return f"grpc <pod>:{act.get('port')} {act.get('service') or ''} {times}"
    return f"unknown {times}"


def _format_env_from(sources: Sequence[Document]) -> Iterator[str]:
    if not sources:
        return
    yield "    Environment Variables from:"
    for source in sources:
        field, kind = ("configMapRef", "ConfigMap") if source.get("configMapRef") else ("secretRef", "Secret")
        ref = source.get(field) or {}
        prefix = f" with prefix '{source['prefix']}'" if source.get("prefix") else ""
        yield f"      {ref.get('name')}\t{kind}{prefix}\tOptional: {_format_bool(ref.get('optional'))}"


def _format_env(container: Document) -> Iterator[str]:
    for variable in container.get("env") or ():
        name, source = variable.get("name"), variable.get("valueFrom")
        if not source:
            lines = str(variable.get("value", "")).split("\n")
            yield f"      {name}:\t{lines[0]}"
            yield from (f"\t{line}" for line in lines[1:])
        elif ref := source.get("fieldRef"):
            yield f"      {name}:\t ({ref.get('apiVersion', 'v1')}:{ref.get('fieldPath')})"
        elif ref := source.get("resourceFieldRef"):
            yield f"      {name}:\t{amount_of(container, ref)} ({ref.get('resource')})"
        elif ref := source.get("secretKeyRef"):
            yield (
                f"      {name}:\t<set to the key '{ref.get('key')}' in secret '{ref.get('name')}'>"
                f"\tOptional: {_format_bool(ref.get('optional'))}"
            )
        elif ref := source.get("configMapKeyRef"):
            yield (
                f"      {name}:\t<set to the key '{ref.get('key')}' of config map '{ref.get('name')}'>"
                f"\tOptional: {_format_bool(ref.get('optional'))}"
            )


def amount_of(container: Document, ref: Document) -> str:
    """Limit or request of the container, in whole units of the divisor, rounded up."""
    from pykruise.kube.values.quantities import parse_quantity

    kind, _, name = str(ref.get("resource", "")).partition(".")
    amount = ((container.get("resources") or {}).get(kind) or {}).get(name)
    if amount is None:
        return "node allocatable" if kind == "limits" else "0"
    divisor = parse_quantity(ref.get("divisor") or "0") or 1
    return str(-(-parse_quantity(amount) // divisor))


def _mount_lines(mounts: Sequence[Document]) -> Iterator[str]:
    for entry in sorted(mounts, key=lambda mount: str(mount.get("mountPath"))):
        flags = ["ro" if entry.get("readOnly") else "rw"]
        if entry.get("subPath"):
            flags.append(f'path="{entry["subPath"]}"')
        yield f"      {entry.get('mountPath')} from {entry.get('name')} ({','.join(flags)})"


# ── volumes ──────────────────────────────────────────────────────────────────


def _format_volumes(volumes: Sequence[Document]) -> Iterator[str]:
    for volume in volumes:
        yield f"   {volume.get('name', '')}:"
        yield from (f"    {line}" for line in _describe_volume(volume))


_SOURCES: Final[Mapping[str, tuple[str, tuple[tuple[str, str, Any], ...]]]] = {
    "emptyDir": (
        "EmptyDir (a temporary directory that shares a pod's lifetime)",
        (("Medium", "medium", ""), ("SizeLimit", "sizeLimit", "<unset>")),
    ),
    "hostPath": (
        "HostPath (bare host directory volume)",
        (("Path", "path", None), ("HostPathType", "type", "")),
    ),
    "configMap": (
        "ConfigMap (a volume populated by a ConfigMap)",
        (("Name", "name", None), ("Optional", "optional", False)),
    ),
    "secret": (
        "Secret (a volume populated by a Secret)",
        (("SecretName", "secretName", None), ("Optional", "optional", False)),
    ),
    "persistentVolumeClaim": (
        "PersistentVolumeClaim (a reference to a PersistentVolumeClaim in the same namespace)",
        (("ClaimName", "claimName", None), ("ReadOnly", "readOnly", False)),
    ),
}
"""Source of a volume → its description and its fields: title, field, value of an absent field."""


def _describe_volume(volume: Document) -> Iterable[str]:
    source = next((name for name in volume if name != "name"), "emptyDir")
    value = volume.get(source) or {}
    if source in _SOURCES:
        what, fields = _SOURCES[source]
        return (
            f"Type:\t{what}",
            *(f"{title}:\t{_format_field_value(value, field, empty)}" for title, field, empty in fields),
        )
    match source:
        case "downwardAPI":
            return (
                "Type:\tDownwardAPI (a volume populated by information about the pod)",
                "Items:",
                *(f"  {_name_item_source(item)} -> {item.get('path')}" for item in value.get("items") or ()),
            )
        case "projected":
            return (
                "Type:\tProjected (a volume that contains injected data from multiple sources)",
                *(line for source in value.get("sources") or () for line in _format_projection(source)),
            )
    return ("Type:\t<unknown>",) if not value else (f"Type:\t{source}",)


def _format_field_value(value: Document, field: str, empty: Any) -> Any:
    return _format_bool(value.get(field)) if empty is False else value.get(field, empty)


def _name_item_source(item: Document) -> str:
    if ref := item.get("fieldRef"):
        return str(ref.get("fieldPath"))
    ref = item.get("resourceFieldRef") or {}
    return str(ref.get("resource"))


def _format_projection(source: Document) -> Iterable[str]:
    if (value := source.get("secret")) is not None:
        return (f"SecretName:\t{value.get('name')}", f"Optional:\t{_format_bool(value.get('optional'))}")
    if source.get("downwardAPI") is not None:
        return ("DownwardAPI:\ttrue",)
    if (value := source.get("configMap")) is not None:
        return (f"ConfigMapName:\t{value.get('name')}", f"Optional:\t{_format_bool(value.get('optional'))}")
    if (value := source.get("serviceAccountToken")) is not None:
        return (f"TokenExpirationSeconds:\t{value.get('expirationSeconds', 3600)}",)
    return ()


def _format_bool(value: Any) -> str:
    return "true" if value else "false"
