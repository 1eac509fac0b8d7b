"""Objects as rows, for `kubectl get`: the Table that the server prints.

    documents + the entry of their resource ──▶ table_for() ──▶ Table document, a row for each

Built-in kinds have their columns in data/tables.json and a printer here, which makes the cells in that
order; custom resources have columns with JSONPaths; everything else gets name and age. Pure: ages are told
against `now`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import orjson

from pykruise.kube.clock import Instant, parse_time
from pykruise.kube.documents import Document
from pykruise.kube.field_errors import go_scalar
from pykruise.kube.owners import controller_of
from pykruise.kube.selectors import SelectorError, format_label_selector, selector_from
from pykruise.sandbox.apiserver.catalog import CatalogEntry, Column
from pykruise.sandbox.apiserver.json_path import JSONPathError, compile_path

__all__ = ["human_duration", "table_for"]

Doc = Mapping[str, Any]
_Print = Callable[[Doc, Instant], list[Any]]
_NONE: Final = "<none>"
_UNKNOWN: Final = "<unknown>"
_UNSET: Final = "<unset>"


def table_for(entry: CatalogEntry, docs: Sequence[Document], *, now: Instant) -> Document:
    """A Table with a row for each document, in their order; rows have no `object` yet."""
    columns, make_cells = _printer_of(entry)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {},
        "columnDefinitions": [_definition(column) for column in columns],
        "rows": [_row(entry, doc, make_cells(doc, now)) for doc in docs],
    }


def _definition(column: Column) -> Document:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def _row(entry: CatalogEntry, doc: Doc, cells: list[Any]) -> Document:
    row: Document = {"cells": cells}
    phase = (doc.get("status") or {}).get("phase")
    if entry.resource.plural == "pods" and not entry.resource.group and phase in ("Succeeded", "Failed"):
        message = f"The pod {'has completed successfully' if phase == 'Succeeded' else 'failed'}."
        row["conditions"] = [{"type": "Completed", "status": "True", "reason": phase, "message": message}]
    return row


_NAME: Final = Column(name="Name", format="name")
_AGE: Final = Column(name="Age", type="date", json_path=".metadata.creationTimestamp")


def _printer_of(entry: CatalogEntry) -> tuple[Sequence[Column], _Print]:
    if entry.is_custom:
        own = [column for column in entry.columns if column.json_path] or [_AGE]
        return [_NAME, *own], _custom_printer(own)
    printer = _PRINTERS.get(f"{entry.resource.api_version}/{entry.resource.plural}")
    if printer and entry.columns:
        return entry.columns, printer
    return [_NAME, _AGE], lambda doc, now: [_name(doc), _age(doc, now)]


# --- custom resources ---


def _custom_printer(columns: Sequence[Column]) -> _Print:
    cells = [_custom_cell(column) for column in columns]

    def make_cells(doc: Doc, now: Instant) -> list[Any]:
        return [_name(doc), *(cell(doc, now) for cell in cells)]

    return make_cells


def _custom_cell(column: Column) -> Callable[[Doc, Instant], Any]:
    try:
        find = compile_path(column.json_path)
    except JSONPathError:
        return lambda doc, now: None

    def cell(doc: Doc, now: Instant) -> Any:
        found = find(doc)
        return _typed_cell(column.type, found[0], now) if found else None

    return cell


def _typed_cell(kind: str, value: Any, now: Instant) -> Any:
    """A value as the column's type wants it; None (an empty cell) where it does not fit."""
    if value is None:
        return None
    match kind:
        case "integer":
            return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
        case "number":
            return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case "date":
            return _since(value, now) if isinstance(value, str) else None
    return orjson.dumps(value).decode() if isinstance(value, (dict, list)) else go_scalar(value)


# --- pieces of cells ---


def human_duration(seconds: float) -> str:
    """A duration in two units at most, as kubectl shows ages: `45s`, `5m3s`, `3h`, `2d5h`, `1y30d`."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 0:
        return "0s"
    if whole < 120:
        return f"{whole}s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 365 * 2:
        return f"{days}d"
    if days < 365 * 8:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(large: int, unit: str, small: int, small_unit: str) -> str:
    return f"{large}{unit}{small}{small_unit}" if small else f"{large}{unit}"


def _since(timestamp: str | None, now: Instant) -> str:
    if not timestamp:
        return _UNKNOWN
    try:
        return human_duration(now - parse_time(timestamp))
    except ValueError:
        return "<invalid>"


def _name(doc: Doc) -> str:
    return str((doc.get("metadata") or {}).get("name") or "")


def _age(doc: Doc, now: Instant) -> str:
    return _since((doc.get("metadata") or {}).get("creationTimestamp"), now)


def _spec(doc: Doc) -> Doc:
    return doc.get("spec") or {}


def _status(doc: Doc) -> Doc:
    return doc.get("status") or {}


def _is_ending(doc: Doc) -> bool:
    return bool((doc.get("metadata") or {}).get("deletionTimestamp"))


def _labels(labels: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels)) if labels else _NONE


def _selector(selector: Mapping[str, Any] | None) -> str:
    try:
        return format_label_selector(selector)
    except SelectorError:
        return "<error>"


def _template_spec(doc: Doc) -> Doc:
    return (_spec(doc).get("template") or {}).get("spec") or {}


def _containers(spec: Doc) -> list[str]:
    """Names and images, each joined by commas."""
    containers = spec.get("containers") or ()
    return [",".join(each.get(field) or "" for each in containers) for field in ("name", "image")]


def _with_more(items: Sequence[str], *, most: int = 3) -> str:
    """`a,b,c + 2 more...`."""
    if not items:
        return _UNSET
    shown = ",".join(items[:most])
    return f"{shown} + {len(items) - most} more..." if len(items) > most else shown


# --- pods ---


def _print_pod(pod: Doc, now: Instant) -> list[Any]:
    spec, status = _spec(pod), _status(pod)
    ready, total, reason, restarts, last_restart = _pod_state(pod)
    shown = str(restarts)
    if restarts and last_restart:
        shown = f"{restarts} ({_since(last_restart, now)} ago)"
    ips = status.get("podIPs") or ()
    return [
        _name(pod),
        f"{ready}/{total}",
        reason,
        shown,
        _age(pod, now),
        (ips[0].get("ip") if ips else "") or _NONE,
        spec.get("nodeName") or _NONE,
        status.get("nominatedNodeName") or _NONE,
        _readiness_gates(pod),
    ]


def _pod_state(pod: Doc) -> tuple[int, int, str, int, str]:
    """Ready and all containers, the reason shown as status, restarts, and when the last one was."""
    spec, status = _spec(pod), _status(pod)
    phase = status.get("phase") or ""
    reason = status.get("reason") or phase
    conditions = status.get("conditions") or ()
    if any(
        each.get("type") == "PodScheduled" and each.get("reason") == "SchedulingGated" for each in conditions
    ):
        reason = "SchedulingGated"
    total = len(spec.get("containers") or ()) + len(_sidecars(spec))
    init = _init_state(spec, status, reason)
    ready, reason, restarts, last = init.ready, init.reason, init.restarts, init.last
    if not init.unfinished or _is_true(conditions, "Initialized"):
        restarts, last = init.sidecar_restarts, init.sidecar_last
        running = False
        for container in reversed(status.get("containerStatuses") or ()):
            restarts += container.get("restartCount") or 0
            last = max(last, _last_end(container))
            state = container.get("state") or {}
            waiting, ended = state.get("waiting"), state.get("terminated")
            if waiting is not None and waiting.get("reason"):
                reason = waiting["reason"]
            elif ended is not None:
                reason = _end_reason(ended)
            elif container.get("ready") and state.get("running") is not None:
                running = True
                ready += 1
        if reason == "Completed" and running:
            reason = "Running" if _is_true(conditions, "Ready") else "NotReady"
    if _is_ending(pod):
        if status.get("reason") == "NodeLost":
            reason = "Unknown"
        elif phase not in ("Failed", "Succeeded"):
            reason = "Terminating"
    return ready, total, reason, restarts, last


class _InitState:
    """What the init containers contribute to a pod's row."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.ready = 0
        self.restarts = 0
        self.last = ""
        self.sidecar_restarts = 0
        self.sidecar_last = ""
        self.unfinished = False


def _init_state(spec: Doc, status: Doc, reason: str) -> _InitState:
    found = _InitState(reason)
    sidecars = _sidecars(spec)
    for index, container in enumerate(status.get("initContainerStatuses") or ()):
        count, last = container.get("restartCount") or 0, _last_end(container)
        found.restarts += count
        found.last = max(found.last, last)
        is_sidecar = container.get("name") in sidecars
        if is_sidecar:
            found.sidecar_restarts += count
            found.sidecar_last = max(found.sidecar_last, last)
        state = container.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated")
        if ended is not None and not ended.get("exitCode"):
            continue
        if is_sidecar and container.get("started"):
            found.ready += bool(container.get("ready"))
            continue
        if ended is not None:
            found.reason = f"Init:{_end_reason(ended)}"
        elif waiting.get("reason") and waiting["reason"] != "PodInitializing":
            found.reason = f"Init:{waiting['reason']}"
        else:
            found.reason = f"Init:{index}/{len(spec.get('initContainers') or ())}"
        found.unfinished = True
        break
    return found


def _sidecars(spec: Doc) -> set[Any]:
    return {
        container.get("name")
        for container in spec.get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    }


def _last_end(container: Doc) -> str:
    """When the container last ended. Timestamps are all UTC in one format, so their text orders them."""
    ended = (container.get("lastState") or {}).get("terminated") or {}
    return str(ended.get("finishedAt") or "")


def _end_reason(ended: Doc) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode') or 0}"


def _is_true(conditions: Iterable[Doc], kind: str) -> bool:
    return any(each.get("type") == kind and each.get("status") == "True" for each in conditions)


def _readiness_gates(pod: Doc) -> str:
    gates = _spec(pod).get("readinessGates") or ()
    if not gates:
        return _NONE
    conditions = _status(pod).get("conditions") or ()
    return f"{sum(_is_true(conditions, gate.get('conditionType') or '') for gate in gates)}/{len(gates)}"


# --- the other kinds, in the order of data/tables.json ---


def _print_node(node: Doc, now: Instant) -> list[Any]:
    status, info = _status(node), _status(node).get("nodeInfo") or {}
    ready = [each for each in status.get("conditions") or () if each.get("type") == "Ready"]
    words = [("Ready" if ready[-1].get("status") == "True" else "NotReady") if ready else "Unknown"]
    if _spec(node).get("unschedulable"):
        words.append("SchedulingDisabled")
    return [
        _name(node),
        ",".join(words),
        _roles(node),
        _age(node, now),
        info.get("kubeletVersion") or "",
        _address(status, "InternalIP"),
        _address(status, "ExternalIP"),
        info.get("osImage") or _UNKNOWN,
        info.get("kernelVersion") or _UNKNOWN,
        info.get("containerRuntimeVersion") or _UNKNOWN,
    ]


def _roles(node: Doc) -> str:
    prefix, roles = "node-role.kubernetes.io/", set()
    for key, value in ((node.get("metadata") or {}).get("labels") or {}).items():
        if key.startswith(prefix) and len(key) > len(prefix):
            roles.add(key.removeprefix(prefix))
        elif key == "kubernetes.io/role" and value:
            roles.add(value)
    return ",".join(sorted(roles)) or _NONE


def _address(status: Doc, kind: str) -> str:
    found = [each.get("address") for each in status.get("addresses") or () if each.get("type") == kind]
    return str(found[0]) if found else _NONE


def _print_claim(claim: Doc, now: Instant) -> list[Any]:
    spec, status = _spec(claim), _status(claim)
    bound = bool(spec.get("volumeName"))
    return [
        _name(claim),
        "Terminating" if _is_ending(claim) else status.get("phase") or "",
        spec.get("volumeName") or "",
        (status.get("capacity") or {}).get("storage", "0") if bound else "",
        _access_modes(status.get("accessModes")) if bound else "",
        spec.get("storageClassName") or "",
        _or_unset(spec.get("volumeAttributesClassName")),
        _age(claim, now),
        _or_unset(spec.get("volumeMode")),
    ]


def _print_volume(volume: Doc, now: Instant) -> list[Any]:
    spec, status = _spec(volume), _status(volume)
    claim = spec.get("claimRef")
    return [
        _name(volume),
        (spec.get("capacity") or {}).get("storage", "0"),
        _access_modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy") or "",
        "Terminating" if _is_ending(volume) else status.get("phase") or "",
        f"{claim.get('namespace') or ''}/{claim.get('name') or ''}" if claim else "",
        spec.get("storageClassName") or "",
        _or_unset(spec.get("volumeAttributesClassName")),
        status.get("reason") or "",
        _age(volume, now),
        _or_unset(spec.get("volumeMode")),
    ]


_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _access_modes(modes: Sequence[str] | None) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in (modes or ()))


def _or_unset(value: Any) -> str:
    return _UNSET if value is None else str(value)


def _print_service(service: Doc, now: Instant) -> list[Any]:
    spec = _spec(service)
    ports = ",".join(_service_port(port) for port in spec.get("ports") or ())
    return [
        _name(service),
        spec.get("type") or "",
        (spec.get("clusterIPs") or [_NONE])[0],
        _external_ip(service),
        ports or _NONE,
        _age(service, now),
        _labels(spec.get("selector")),
    ]


def _service_port(port: Doc) -> str:
    node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port', 0)}{node_port}/{port.get('protocol') or ''}"


def _external_ip(service: Doc) -> str:
    spec = _spec(service)
    own = list(spec.get("externalIPs") or ())
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(own) or _NONE
        case "LoadBalancer":
            points = (_status(service).get("loadBalancer") or {}).get("ingress") or ()
            given = [point.get("ip") or point.get("hostname") or "" for point in points]
            return ",".join([*given, *own]) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName") or "")
    return _UNKNOWN


def _print_event(event: Doc, now: Instant) -> list[Any]:
    """Events of both groups: their fields differ in name only."""
    about = event.get("involvedObject") or event.get("regarding") or {}
    source = event.get("source") or event.get("deprecatedSource") or {}
    first = event.get("firstTimestamp") or event.get("deprecatedFirstTimestamp") or event.get("eventTime")
    last = event.get("lastTimestamp") or event.get("deprecatedLastTimestamp") or first
    count = event.get("count") or event.get("deprecatedCount") or 1
    series = event.get("series")
    if series:
        last, count = series.get("lastObservedTime"), series.get("count") or 0
    kind = str(about.get("kind") or "").lower()
    component = source.get("component") or event.get("reportingComponent") or event.get("reportingController")
    instance = source.get("host") or event.get("reportingInstance")
    return [
        _since(last, now),
        event.get("type") or "",
        event.get("reason") or "",
        f"{kind}/{about['name']}" if about.get("name") else kind,
        about.get("fieldPath") or "",
        ", ".join(part for part in (component or "", instance or "") if part),
        str(event.get("message") or event.get("note") or "").strip(),
        _since(first, now),
        count,
        _name(event),
    ]


def _print_namespace(namespace: Doc, now: Instant) -> list[Any]:
    return [_name(namespace), _status(namespace).get("phase") or "", _age(namespace, now)]


def _print_config_map(config: Doc, now: Instant) -> list[Any]:
    size = len(config.get("data") or {}) + len(config.get("binaryData") or {})
    return [_name(config), size, _age(config, now)]


def _print_secret(secret: Doc, now: Instant) -> list[Any]:
    return [_name(secret), secret.get("type") or "", len(secret.get("data") or {}), _age(secret, now)]


def _print_service_account(account: Doc, now: Instant) -> list[Any]:
    return [_name(account), len(account.get("secrets") or ()), _age(account, now)]


def _print_endpoints(endpoints: Doc, now: Instant) -> list[Any]:
    shown: list[str] = []
    for subset in endpoints.get("subsets") or ():
        addresses = [_bracketed(address.get("ip") or "") for address in subset.get("addresses") or ()]
        ports = subset.get("ports") or ()
        for port in ports:
            shown += [f"{address}:{port.get('port')}" for address in addresses]
        if not ports:
            shown += [address.strip("[]") for address in addresses]
    text = _with_more(shown) if shown else "" if endpoints.get("subsets") else _NONE
    return [_name(endpoints), text, _age(endpoints, now)]


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _print_pod_template(template: Doc, now: Instant) -> list[Any]:
    inner = template.get("template") or {}
    labels = (inner.get("metadata") or {}).get("labels")
    return [_name(template), *_containers(inner.get("spec") or {}), _labels(labels)]


def _print_deployment(deployment: Doc, now: Instant) -> list[Any]:
    spec, status = _spec(deployment), _status(deployment)
    try:
        selector = str(selector_from(spec.get("selector")))
    except SelectorError:
        selector = "<invalid>"
    return [
        _name(deployment),
        f"{status.get('readyReplicas') or 0}/{spec.get('replicas') or 0}",
        status.get("updatedReplicas") or 0,
        status.get("availableReplicas") or 0,
        _age(deployment, now),
        *_containers(_template_spec(deployment)),
        selector,
    ]


def _print_replica_set(owner: Doc, now: Instant) -> list[Any]:
    spec, status = _spec(owner), _status(owner)
    return [
        _name(owner),
        spec.get("replicas") or 0,
        status.get("replicas") or 0,
        status.get("readyReplicas") or 0,
        _age(owner, now),
        *_containers(_template_spec(owner)),
        _selector(spec.get("selector")),
    ]


def _print_stateful_set(owner: Doc, now: Instant) -> list[Any]:
    ready = f"{_status(owner).get('readyReplicas') or 0}/{_spec(owner).get('replicas') or 0}"
    return [_name(owner), ready, _age(owner, now), *_containers(_template_spec(owner))]


def _print_daemon_set(owner: Doc, now: Instant) -> list[Any]:
    status = _status(owner)
    counts = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    return [
        _name(owner),
        *(status.get(count) or 0 for count in counts),
        _labels(_template_spec(owner).get("nodeSelector")),
        _age(owner, now),
        *_containers(_template_spec(owner)),
        _selector(_spec(owner).get("selector")),
    ]


def _print_controller_revision(revision: Doc, now: Instant) -> list[Any]:
    owner = controller_of(revision)
    shown = _NONE
    if owner is not None:
        group = owner.api_version.rpartition("/")[0]
        shown = f"{owner.kind.lower()}{f'.{group}' if group else ''}/{owner.name}"
    return [_name(revision), shown, revision.get("revision") or 0, _age(revision, now)]


def _print_job(job: Doc, now: Instant) -> list[Any]:
    spec, status = _spec(job), _status(job)
    done, parallel = status.get("succeeded") or 0, spec.get("parallelism") or 0
    if spec.get("completions") is not None:
        completions = f"{done}/{spec['completions']}"
    else:
        completions = f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"
    return [
        _name(job),
        _job_status(job),
        completions,
        _job_duration(status, now),
        _age(job, now),
        *_containers(_template_spec(job)),
        _selector(spec.get("selector")),
    ]


def _job_status(job: Doc) -> str:
    conditions = _status(job).get("conditions") or ()
    for kind in ("Complete", "Failed"):
        if _is_true(conditions, kind):
            return kind
    if _is_ending(job):
        return "Terminating"
    for kind, shown in (("Suspended", "Suspended"), ("FailureTarget", "FailureTarget")):
        if _is_true(conditions, kind):
            return shown
    return "Running"


def _job_duration(status: Doc, now: Instant) -> str:
    if not status.get("startTime"):
        return ""
    end = parse_time(status["completionTime"]) if status.get("completionTime") else now
    return human_duration(end - parse_time(status["startTime"]))


def _print_cron_job(job: Doc, now: Instant) -> list[Any]:
    spec, status = _spec(job), _status(job)
    inner = (spec.get("jobTemplate") or {}).get("spec") or {}
    last = status.get("lastScheduleTime")
    return [
        _name(job),
        spec.get("schedule") or "",
        spec.get("timeZone") or _NONE,
        "True" if spec.get("suspend") else "False",
        len(status.get("active") or ()),
        _since(last, now) if last else _NONE,
        _age(job, now),
        *_containers((inner.get("template") or {}).get("spec") or {}),
        _selector(inner.get("selector")),
    ]


def _print_lease(lease: Doc, now: Instant) -> list[Any]:
    return [_name(lease), _spec(lease).get("holderIdentity") or "", _age(lease, now)]


def _print_endpoint_slice(endpoints: Doc, now: Instant) -> list[Any]:
    ports = [str(port.get("port") or port.get("name") or "*") for port in endpoints.get("ports") or ()]
    addresses = [
        address for each in endpoints.get("endpoints") or () for address in each.get("addresses") or ()
    ]
    kind = endpoints.get("addressType") or ""
    return [_name(endpoints), kind, _with_more(ports), _with_more(addresses), _age(endpoints, now)]


def _print_budget(budget: Doc, now: Instant) -> list[Any]:
    spec = _spec(budget)
    limits = [
        "N/A" if spec.get(field) is None else str(spec[field]) for field in ("minAvailable", "maxUnavailable")
    ]
    return [_name(budget), *limits, _status(budget).get("disruptionsAllowed") or 0, _age(budget, now)]


def _print_autoscaler(autoscaler: Doc, now: Instant) -> list[Any]:
    spec, status = _spec(autoscaler), _status(autoscaler)
    target = spec.get("scaleTargetRef") or {}
    metrics, current = spec.get("metrics") or [], status.get("currentMetrics") or []
    known = [*current, *({} for _ in metrics)]
    shown = [_metric(one, at_present) for one, at_present in zip(metrics, known, strict=False)]
    more = f" + {len(shown) - _METRICS} more..." if len(shown) > _METRICS else ""
    return [
        _name(autoscaler),
        f"{target.get('kind')}/{target.get('name')}",
        ", ".join(shown[:_METRICS]) + more if shown else "<none>",
        str(spec.get("minReplicas", 1)),
        spec.get("maxReplicas") or 0,
        status.get("currentReplicas") or 0,
        _age(autoscaler, now),
    ]


_METRICS: Final = 2
"""So many are shown of an autoscaler."""


def _metric(metric: Doc, current: Doc) -> str:
    """The present value of a metric, and its target."""
    kind = metric.get("type") or ""
    field = kind[:1].lower() + kind[1:]
    source, found = metric.get(field) or {}, (current.get(field) or {}).get("current") or {}
    target = source.get("target") or {}
    is_resource = kind in ("Resource", "ContainerResource")
    before = f"{source.get('name')}: " if is_resource else ""
    if target.get("averageValue") is not None:
        after = " (avg)" if kind in ("Object", "External") else ""
        return f"{before}{found.get('averageValue', _UNKNOWN)}/{target['averageValue']}{after}"
    if not is_resource:
        return f"{found.get('value', _UNKNOWN)}/{target.get('value')}"
    share, wanted = found.get("averageUtilization"), target.get("averageUtilization")
    now_is = _UNKNOWN if share is None else f"{share}%"
    return f"{before}{now_is}/{'<auto>' if wanted is None else f'{wanted}%'}"


def _print_webhooks(configuration: Doc, now: Instant) -> list[Any]:
    return [_name(configuration), len(configuration.get("webhooks") or ()), _age(configuration, now)]


def _print_admission_policy(policy: Doc, now: Instant) -> list[Any]:
    spec = policy.get("spec") or {}
    kind = spec.get("paramKind")
    shown = f"{kind.get('apiVersion')}/{kind.get('kind')}" if kind else "<unset>"
    return [_name(policy), len(spec.get("validations") or ()), shown, _age(policy, now)]


def _print_admission_policy_binding(binding: Doc, now: Instant) -> list[Any]:
    spec = binding.get("spec") or {}
    return [
        _name(binding),
        spec.get("policyName") or "",
        _param_ref(spec.get("paramRef")),
        _age(binding, now),
    ]


def _param_ref(ref: Doc | None) -> str:
    if ref and ref.get("name"):
        return f"{ref.get('namespace') or '*'}/{ref['name']}"
    if not ref or ref.get("selector") is None:
        return "<unset>"
    # As Go's structs print themselves.
    selector = ref["selector"]
    labels = selector.get("matchLabels") or {}
    inner = "".join(f"{key}: {labels[key]}," for key in sorted(labels))
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{one.get('key')},Operator:{one.get('operator')},"
        f"Values:[{' '.join(one.get('values') or ())}],}},"
        for one in selector.get("matchExpressions") or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{inner}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )


def _print_name_and_creation(doc: Doc, now: Instant) -> list[Any]:
    return [_name(doc), (doc.get("metadata") or {}).get("creationTimestamp")]


def _print_role_binding(binding: Doc, now: Instant) -> list[Any]:
    role = binding.get("roleRef") or {}
    subjects: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in binding.get("subjects") or ():
        name = subject.get("name") or ""
        if subject.get("kind") == "ServiceAccount" and subject.get("namespace"):
            name = f"{subject['namespace']}/{name}"
        subjects.setdefault(subject.get("kind") or "", []).append(name)
    listed = [", ".join(subjects[kind]) for kind in ("User", "Group", "ServiceAccount")]
    return [
        _name(binding),
        f"{role.get('kind') or ''}/{role.get('name') or ''}",
        _age(binding, now),
        *listed,
    ]


def _print_storage_class(storage: Doc, now: Instant) -> list[Any]:
    annotations = (storage.get("metadata") or {}).get("annotations") or {}
    is_default = annotations.get("storageclass.kubernetes.io/is-default-class") == "true"
    return [
        f"{_name(storage)} (default)" if is_default else _name(storage),
        storage.get("provisioner") or "",
        storage.get("reclaimPolicy") or "Delete",
        storage.get("volumeBindingMode") or "Immediate",
        bool(storage.get("allowVolumeExpansion")),
        _age(storage, now),
    ]


def _print_priority_class(priority: Doc, now: Instant) -> list[Any]:
    return [
        _name(priority),
        priority.get("value") or 0,
        bool(priority.get("globalDefault")),
        _age(priority, now),
        priority.get("preemptionPolicy") or "",
    ]


def _print_quota(doc: Doc, now: Instant) -> list[Any]:
    status = doc.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    told: dict[bool, list[str]] = {False: [], True: []}
    for name in sorted(hard):
        told[name.startswith("limits.")].append(f"{name}: {used.get(name, '0')}/{hard[name]}")
    return [_name(doc), ", ".join(told[False]), ", ".join(told[True]), _age(doc, now)]


_PRINTERS: Final[Mapping[str, _Print]] = {
    "admissionregistration.k8s.io/v1/mutatingwebhookconfigurations": _print_webhooks,
    "admissionregistration.k8s.io/v1/validatingadmissionpolicies": _print_admission_policy,
    "admissionregistration.k8s.io/v1/validatingadmissionpolicybindings": _print_admission_policy_binding,
    "admissionregistration.k8s.io/v1/validatingwebhookconfigurations": _print_webhooks,
    "apiextensions.k8s.io/v1/customresourcedefinitions": _print_name_and_creation,
    "apps/v1/controllerrevisions": _print_controller_revision,
    "apps/v1/daemonsets": _print_daemon_set,
    "apps/v1/deployments": _print_deployment,
    "apps/v1/replicasets": _print_replica_set,
    "apps/v1/statefulsets": _print_stateful_set,
    "batch/v1/cronjobs": _print_cron_job,
    "batch/v1/jobs": _print_job,
    "coordination.k8s.io/v1/leases": _print_lease,
    "discovery.k8s.io/v1/endpointslices": _print_endpoint_slice,
    "events.k8s.io/v1/events": _print_event,
    "autoscaling/v2/horizontalpodautoscalers": _print_autoscaler,
    "policy/v1/poddisruptionbudgets": _print_budget,
    "rbac.authorization.k8s.io/v1/clusterrolebindings": _print_role_binding,
    "rbac.authorization.k8s.io/v1/clusterroles": _print_name_and_creation,
    "rbac.authorization.k8s.io/v1/rolebindings": _print_role_binding,
    "rbac.authorization.k8s.io/v1/roles": _print_name_and_creation,
    "scheduling.k8s.io/v1/priorityclasses": _print_priority_class,
    "storage.k8s.io/v1/storageclasses": _print_storage_class,
    "v1/configmaps": _print_config_map,
    "v1/endpoints": _print_endpoints,
    "v1/events": _print_event,
    "v1/namespaces": _print_namespace,
    "v1/nodes": _print_node,
    "v1/persistentvolumeclaims": _print_claim,
    "v1/resourcequotas": _print_quota,
    "v1/persistentvolumes": _print_volume,
    "v1/pods": _print_pod,
    "v1/podtemplates": _print_pod_template,
    "v1/secrets": _print_secret,
    "v1/serviceaccounts": _print_service_account,
    "v1/services": _print_service,
}
