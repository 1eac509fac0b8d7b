"""The rows of built-in kinds, as `kubectl get` shows them.

an object, now ──▶ PRINTERS[its kind] ──▶ cells

Pure. Same rules as Kubernetes' printers.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pykruise.kube.clock import Instant
from pykruise.sandbox.apiserver.printing.cells import (
    NONE,
    UNKNOWN,
    UNSET,
    Doc,
    age_of,
    containers_of,
    format_labels,
    format_since,
    is_ending,
    join_with_more,
    name_of,
    spec_of,
    status_of,
)
from pykruise.sandbox.apiserver.printing.pod_rows import print_pod
from pykruise.sandbox.apiserver.printing.workload_rows import (
    print_controller_revision,
    print_cron_job,
    print_daemon_set,
    print_deployment,
    print_job,
    print_replica_set,
    print_stateful_set,
)

Print = Callable[[Doc, Instant], list[Any]]


def _print_node(node: Doc, now: Instant) -> list[Any]:
    status, info = status_of(node), status_of(node).get("nodeInfo") or {}
    ready = [each for each in status.get("conditions") or () if each.get("type") == "Ready"]
    words = [("Ready" if ready[-1].get("status") == "True" else "NotReady") if ready else "Unknown"]
    if spec_of(node).get("unschedulable"):
        words.append("SchedulingDisabled")
    return [
        name_of(node),
        ",".join(words),
        _format_roles(node),
        age_of(node, now),
        info.get("kubeletVersion") or "",
        _find_address(status, "InternalIP"),
        _find_address(status, "ExternalIP"),
        info.get("osImage") or UNKNOWN,
        info.get("kernelVersion") or UNKNOWN,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _format_roles(node: Doc) -> str:
    prefix, roles = "node-role.kubernetes.io/", set()
    for key, value in ((node.get("metadata") or {}).get("labels") or {}).items():
        if key.startswith(prefix) and len(key) > len(prefix):
            roles.add(key.removeprefix(prefix))
        elif key == "kubernetes.io/role" and value:
            roles.add(value)
    return ",".join(sorted(roles)) or NONE


def _find_address(status: Doc, kind: str) -> str:
    result = [each.get("address") for each in status.get("addresses") or () if each.get("type") == kind]
    return str(result[0]) if result else NONE


def _print_claim(claim: Doc, now: Instant) -> list[Any]:
    spec, status = spec_of(claim), status_of(claim)
    bound = bool(spec.get("volumeName"))
    return [
        name_of(claim),
        "Terminating" if is_ending(claim) else status.get("phase") or "",
        spec.get("volumeName") or "",
        (status.get("capacity") or {}).get("storage", "0") if bound else "",
        _format_access_modes(status.get("accessModes")) if bound else "",
        spec.get("storageClassName") or "",
        _format_or_unset(spec.get("volumeAttributesClassName")),
        age_of(claim, now),
        _format_or_unset(spec.get("volumeMode")),
    ]


def _print_volume(volume: Doc, now: Instant) -> list[Any]:
    spec, status = spec_of(volume), status_of(volume)
    claim = spec.get("claimRef")
    return [
        name_of(volume),
        (spec.get("capacity") or {}).get("storage", "0"),
        _format_access_modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy") or "",
        "Terminating" if is_ending(volume) else status.get("phase") or "",
        f"{claim.get('namespace') or ''}/{claim.get('name') or ''}" if claim else "",
        spec.get("storageClassName") or "",
        _format_or_unset(spec.get("volumeAttributesClassName")),
        status.get("reason") or "",
        age_of(volume, now),
        _format_or_unset(spec.get("volumeMode")),
    ]


_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _format_access_modes(modes: Sequence[str] | None) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in (modes or ()))


def _format_or_unset(value: Any) -> str:
    return UNSET if value is None else str(value)


def _print_service(service: Doc, now: Instant) -> list[Any]:
    spec = spec_of(service)
    ports = ",".join(_format_service_port(port) for port in spec.get("ports") or ())
    return [
        name_of(service),
        spec.get("type") or "",
        (spec.get("clusterIPs") or [NONE])[0],
        _format_external_ip(service),
        ports or NONE,
        age_of(service, now),
        format_labels(spec.get("selector")),
    ]


def _format_service_port(port: Doc) -> str:
    node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port', 0)}{node_port}/{port.get('protocol') or ''}"


def _format_external_ip(service: Doc) -> str:
    spec = spec_of(service)
    own = list(spec.get("externalIPs") or ())
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(own) or NONE
        case "LoadBalancer":
            points = (status_of(service).get("loadBalancer") or {}).get("ingress") or ()
            given = [point.get("ip") or point.get("hostname") or "" for point in points]
            return ",".join([*given, *own]) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName") or "")
    return UNKNOWN


def _print_event(event: Doc, now: Instant) -> list[Any]:
    """Print an event of either group; their fields differ only in name."""
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
        format_since(last, now),
        event.get("type") or "",
        event.get("reason") or "",
        f"{kind}/{about['name']}" if about.get("name") else kind,
        about.get("fieldPath") or "",
        ", ".join(part for part in (component or "", instance or "") if part),
        str(event.get("message") or event.get("note") or "").strip(),
        format_since(first, now),
        count,
        name_of(event),
    ]


def _print_namespace(namespace: Doc, now: Instant) -> list[Any]:
    return [name_of(namespace), status_of(namespace).get("phase") or "", age_of(namespace, now)]


def _print_config_map(config: Doc, now: Instant) -> list[Any]:
    size = len(config.get("data") or {}) + len(config.get("binaryData") or {})
    return [name_of(config), size, age_of(config, now)]


def _print_secret(secret: Doc, now: Instant) -> list[Any]:
    return [name_of(secret), secret.get("type") or "", len(secret.get("data") or {}), age_of(secret, now)]


def _print_service_account(account: Doc, now: Instant) -> list[Any]:
    return [name_of(account), len(account.get("secrets") or ()), age_of(account, now)]


def _print_endpoints(endpoints: Doc, now: Instant) -> list[Any]:
    shown: list[str] = []
    for subset in endpoints.get("subsets") or ():
        addresses = [_add_brackets(address.get("ip") or "") for address in subset.get("addresses") or ()]
        ports = subset.get("ports") or ()
        for port in ports:
            shown += [f"{address}:{port.get('port')}" for address in addresses]
        if not ports:
            shown += [address.strip("[]") for address in addresses]
    text = join_with_more(shown) if shown else "" if endpoints.get("subsets") else NONE
    return [name_of(endpoints), text, age_of(endpoints, now)]


def _add_brackets(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _print_pod_template(template: Doc, now: Instant) -> list[Any]:
    inner = template.get("template") or {}
    labels = (inner.get("metadata") or {}).get("labels")
    return [name_of(template), *containers_of(inner.get("spec") or {}), format_labels(labels)]


def _print_lease(lease: Doc, now: Instant) -> list[Any]:
    return [name_of(lease), spec_of(lease).get("holderIdentity") or "", age_of(lease, now)]


def _print_endpoint_slice(endpoints: Doc, now: Instant) -> list[Any]:
    ports = [str(port.get("port") or port.get("name") or "*") for port in endpoints.get("ports") or ()]
    addresses = [
        address for each in endpoints.get("endpoints") or () for address in each.get("addresses") or ()
    ]
    kind = endpoints.get("addressType") or ""
    return [
        name_of(endpoints),
        kind,
        join_with_more(ports),
        join_with_more(addresses),
        age_of(endpoints, now),
    ]


def _print_budget(budget: Doc, now: Instant) -> list[Any]:
    spec = spec_of(budget)
    limits = [
        "N/A" if spec.get(field) is None else str(spec[field]) for field in ("minAvailable", "maxUnavailable")
    ]
    return [name_of(budget), *limits, status_of(budget).get("disruptionsAllowed") or 0, age_of(budget, now)]


def _print_autoscaler(autoscaler: Doc, now: Instant) -> list[Any]:
    spec, status = spec_of(autoscaler), status_of(autoscaler)
    target = spec.get("scaleTargetRef") or {}
    metrics, current = spec.get("metrics") or [], status.get("currentMetrics") or []
    known = [*current, *({} for _ in metrics)]
    shown = [_format_metric(value, at_present) for value, at_present in zip(metrics, known, strict=False)]
    more = f" + {len(shown) - _METRICS} more..." if len(shown) > _METRICS else ""
    return [
        name_of(autoscaler),
        f"{target.get('kind')}/{target.get('name')}",
        ", ".join(shown[:_METRICS]) + more if shown else "<none>",
        str(spec.get("minReplicas", 1)),
        spec.get("maxReplicas") or 0,
        status.get("currentReplicas") or 0,
        age_of(autoscaler, now),
    ]


_METRICS: Final = 2
"""Number of metrics that an autoscaler's row shows."""


def _format_metric(metric: Doc, current: Doc) -> str:
    """Format the current value of a metric and its target."""
    kind = metric.get("type") or ""
    field = kind[:1].lower() + kind[1:]
    source, result = metric.get(field) or {}, (current.get(field) or {}).get("current") or {}
    target = source.get("target") or {}
    is_resource = kind in ("Resource", "ContainerResource")
    before = f"{source.get('name')}: " if is_resource else ""
    if target.get("averageValue") is not None:
        after = " (avg)" if kind in ("Object", "External") else ""
        return f"{before}{result.get('averageValue', UNKNOWN)}/{target['averageValue']}{after}"
    if not is_resource:
        return f"{result.get('value', UNKNOWN)}/{target.get('value')}"
    share, wanted = result.get("averageUtilization"), target.get("averageUtilization")
    now_is = UNKNOWN if share is None else f"{share}%"
    return f"{before}{now_is}/{'<auto>' if wanted is None else f'{wanted}%'}"


def _print_webhooks(configuration: Doc, now: Instant) -> list[Any]:
    return [name_of(configuration), len(configuration.get("webhooks") or ()), age_of(configuration, now)]


def _print_admission_policy(policy: Doc, now: Instant) -> list[Any]:
    spec = policy.get("spec") or {}
    kind = spec.get("paramKind")
    shown = f"{kind.get('apiVersion')}/{kind.get('kind')}" if kind else "<unset>"
    return [name_of(policy), len(spec.get("validations") or ()), shown, age_of(policy, now)]


def _print_admission_policy_binding(binding: Doc, now: Instant) -> list[Any]:
    spec = binding.get("spec") or {}
    return [
        name_of(binding),
        spec.get("policyName") or "",
        _format_param_ref(spec.get("paramRef")),
        age_of(binding, now),
    ]


def _format_param_ref(ref: Doc | None) -> str:
    if ref and ref.get("name"):
        return f"{ref.get('namespace') or '*'}/{ref['name']}"
    if not ref or ref.get("selector") is None:
        return "<unset>"
    # Same text as Go prints for the struct.
    selector = ref["selector"]
    labels = selector.get("matchLabels") or {}
    inner = "".join(f"{key}: {labels[key]}," for key in sorted(labels))
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{expression.get('key')},Operator:{expression.get('operator')},"
        f"Values:[{' '.join(expression.get('values') or ())}],}},"
        for expression in selector.get("matchExpressions") or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{inner}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )


def _print_name_and_creation(doc: Doc, now: Instant) -> list[Any]:
    return [name_of(doc), (doc.get("metadata") or {}).get("creationTimestamp")]


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
        name_of(binding),
        f"{role.get('kind') or ''}/{role.get('name') or ''}",
        age_of(binding, now),
        *listed,
    ]


def _print_storage_class(storage: Doc, now: Instant) -> list[Any]:
    annotations = (storage.get("metadata") or {}).get("annotations") or {}
    is_default = annotations.get("storageclass.kubernetes.io/is-default-class") == "true"
    return [
        f"{name_of(storage)} (default)" if is_default else name_of(storage),
        storage.get("provisioner") or "",
        storage.get("reclaimPolicy") or "Delete",
        storage.get("volumeBindingMode") or "Immediate",
        bool(storage.get("allowVolumeExpansion")),
        age_of(storage, now),
    ]


def _print_priority_class(priority: Doc, now: Instant) -> list[Any]:
    return [
        name_of(priority),
        priority.get("value") or 0,
        bool(priority.get("globalDefault")),
        age_of(priority, now),
        priority.get("preemptionPolicy") or "",
    ]


def _print_runtime_class(runtime: Doc, now: Instant) -> list[Any]:
    return [name_of(runtime), runtime.get("handler") or "", age_of(runtime, now)]


def _print_quota(doc: Doc, now: Instant) -> list[Any]:
    status = doc.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    parts: dict[bool, list[str]] = {False: [], True: []}
    for name in sorted(hard):
        parts[name.startswith("limits.")].append(f"{name}: {used.get(name, '0')}/{hard[name]}")
    return [name_of(doc), ", ".join(parts[False]), ", ".join(parts[True]), age_of(doc, now)]


PRINTERS: Final[Mapping[str, Print]] = {
    "admissionregistration.k8s.io/v1/mutatingwebhookconfigurations": _print_webhooks,
    "admissionregistration.k8s.io/v1/validatingadmissionpolicies": _print_admission_policy,
    "admissionregistration.k8s.io/v1/validatingadmissionpolicybindings": _print_admission_policy_binding,
    "admissionregistration.k8s.io/v1/validatingwebhookconfigurations": _print_webhooks,
    "apiextensions.k8s.io/v1/customresourcedefinitions": _print_name_and_creation,
    "apps/v1/controllerrevisions": print_controller_revision,
    "apps/v1/daemonsets": print_daemon_set,
    "apps/v1/deployments": print_deployment,
    "apps/v1/replicasets": print_replica_set,
    "apps/v1/statefulsets": print_stateful_set,
    "batch/v1/cronjobs": print_cron_job,
    "batch/v1/jobs": print_job,
    "coordination.k8s.io/v1/leases": _print_lease,
    "discovery.k8s.io/v1/endpointslices": _print_endpoint_slice,
    "events.k8s.io/v1/events": _print_event,
    "autoscaling/v2/horizontalpodautoscalers": _print_autoscaler,
    "node.k8s.io/v1/runtimeclasses": _print_runtime_class,
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
    "v1/pods": print_pod,
    "v1/podtemplates": _print_pod_template,
    "v1/secrets": _print_secret,
    "v1/serviceaccounts": _print_service_account,
    "v1/services": _print_service,
}
