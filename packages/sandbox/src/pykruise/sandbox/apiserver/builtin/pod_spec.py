"""Defaults of the API server for a pod's spec and a pod template.

    a decoded spec ──▶ fill_pod_spec()       (pods and templates)
    a decoded pod  ──▶ fill_pod()            (the above, and the defaults that only pods get: requests from limits, …)
    a new pod      ──▶ add_default_tolerations()   (added by built-in admission)

Every function changes its document, is idempotent, and keeps values that are set.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from pykruise.kube.documents import Document
from pykruise.kube.schemas.releases import Release
from pykruise.kube.values.quantities import Quantity

CONTAINER_LISTS: Final = ("initContainers", "containers", "ephemeralContainers")


def containers_of(spec: Mapping[str, Any], *lists: str) -> Iterator[Document]:
    """Yield the containers in the named lists of a pod spec; without names, the init and the regular containers."""
    for name in lists or ("initContainers", "containers"):
        yield from spec.get(name) or ()


def fill_pod(pod: Document, release: Release) -> None:
    """Fill the defaults that a pod has in this release."""
    spec = pod.setdefault("spec", {})
    for container in containers_of(spec):
        _fill_requests_from_limits(container)
    if not release.is_at_least("1.33") and release.has("InPlacePodVerticalScaling"):
        for container in containers_of(spec, "containers"):
            _fill_resize_policy(container)
    spec.setdefault("enableServiceLinks", True)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1
    if spec.get("hostNetwork"):
        for container in containers_of(spec):
            for port in container.get("ports") or ():
                if not port.get("hostPort") and port.get("containerPort"):
                    port["hostPort"] = port["containerPort"]
    fill_pod_spec(spec)


def fill_pod_spec(spec: Document) -> None:
    """Fill the defaults of a pod spec, in a pod or in a template."""
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("schedulerName", "default-scheduler")
    if spec.get("serviceAccountName"):
        # Both spellings of the same field are written, because very old clients read the old one.
        spec["serviceAccount"] = spec["serviceAccountName"]
    elif spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"]
    for volume in spec.get("volumes") or ():
        _fill_volume(volume)
    for container in containers_of(spec, *CONTAINER_LISTS):
        _fill_container(container)


def fill_claim_spec(spec: Document) -> None:
    """Fill the defaults of a PersistentVolumeClaim's spec, in a claim or in a template."""
    spec.setdefault("volumeMode", "Filesystem")


# --- containers ---


def _fill_container(container: Document) -> None:
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = _pull_policy(container.get("image", ""))
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for variable in container.get("env") or ():
        _fill_field_ref((variable.get("valueFrom") or {}).get("fieldRef"))
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(name) is not None:
            _fill_probe(container[name])
    for handler in (container.get("lifecycle") or {}).values():
        if isinstance(handler, dict):
            _fill_http_get(handler.get("httpGet"))


def _pull_policy(image: str) -> str:
    """Return Always for an image with the tag `latest`, or with neither tag nor digest; else return IfNotPresent."""
    name, _, digest = image.rpartition("/")[2].partition("@")
    tag = name.partition(":")[2] or ("" if digest else "latest")
    return "Always" if tag == "latest" else "IfNotPresent"


def _fill_probe(probe: Document) -> None:
    for field, value in _PROBE_DEFAULTS.items():
        if not probe.get(field):
            probe[field] = value
    _fill_http_get(probe.get("httpGet"))
    if probe.get("grpc") is not None:
        probe["grpc"]["service"] = probe["grpc"].get("service") or ""


_PROBE_DEFAULTS: Final = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
}


def _fill_http_get(action: Document | None) -> None:
    if action is not None:
        if not action.get("path"):
            action["path"] = "/"
        if not action.get("scheme"):
            action["scheme"] = "HTTP"


def _fill_field_ref(reference: Document | None) -> None:
    if reference is not None:
        reference.setdefault("apiVersion", "v1")


def _fill_requests_from_limits(container: Document) -> None:
    resources = container.setdefault("resources", {})
    if resources.get("limits"):
        resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}


def _fill_resize_policy(container: Document) -> None:
    """Give a resize policy to each requested resource, as Kubernetes did before 1.33."""
    requests = (container.get("resources") or {}).get("requests") or {}
    policies = container.get("resizePolicy") or []
    known = {policy.get("resourceName") for policy in policies}
    for resource in ("cpu", "memory"):
        if resource in requests and resource not in known:
            policies = [*policies, {"resourceName": resource, "restartPolicy": "NotRequired"}]
    if policies:
        container["resizePolicy"] = policies


# --- volumes ---


def _fill_volume(volume: Document) -> None:
    sources = [field for field in volume if field != "name"]
    if not sources:
        volume["emptyDir"] = {}
    for source in sources:
        fill = _VOLUME_DEFAULTS.get(source)
        if fill:
            fill(volume[source])


def _make_default_setter(**defaults: Any) -> Callable[[Document], None]:
    def fill(source: Document) -> None:
        for field, value in defaults.items():
            source.setdefault(field, value)

    return fill


def _fill_downward(source: Document) -> None:
    for item in source.get("items") or ():
        _fill_field_ref(item.get("fieldRef"))


def _fill_downward_volume(source: Document) -> None:
    source.setdefault("defaultMode", 0o644)
    _fill_downward(source)


def _fill_projected(source: Document) -> None:
    source.setdefault("defaultMode", 0o644)
    for each in source.get("sources") or ():
        _fill_downward(each.get("downwardAPI") or {})
        if each.get("serviceAccountToken") is not None:
            each["serviceAccountToken"].setdefault("expirationSeconds", 3600)


def _fill_ephemeral(source: Document) -> None:
    if source.get("volumeClaimTemplate"):
        fill_claim_spec(source["volumeClaimTemplate"].setdefault("spec", {}))


def _fill_image(source: Document) -> None:
    source.setdefault("pullPolicy", _pull_policy(source.get("reference", "")))


_VOLUME_DEFAULTS: Final[Mapping[str, Callable[[Document], None]]] = {
    "azureDisk": _make_default_setter(cachingMode="ReadWrite", fsType="ext4", readOnly=False, kind="Shared"),
    "configMap": _make_default_setter(defaultMode=0o644),
    "downwardAPI": _fill_downward_volume,
    "ephemeral": _fill_ephemeral,
    "hostPath": _make_default_setter(type=""),
    "image": _fill_image,
    "iscsi": _make_default_setter(iscsiInterface="default"),
    "projected": _fill_projected,
    "rbd": _make_default_setter(pool="rbd", user="admin", keyring="/etc/ceph/keyring"),
    "scaleIO": _make_default_setter(storageMode="ThinProvisioned", fsType="xfs"),
    "secret": _make_default_setter(defaultMode=0o644),
}


# --- admission ---

_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_NOT_READY: Final = "node.kubernetes.io/not-ready"
_UNREACHABLE: Final = "node.kubernetes.io/unreachable"


def add_default_tolerations(spec: Document) -> None:
    """Add tolerations of 300 s for the taints `not-ready` and `unreachable`, unless the pod already tolerates them."""
    tolerations = spec.get("tolerations") or []
    for key in (_NOT_READY, _UNREACHABLE):
        if not any(_tolerates(toleration, key) for toleration in tolerations):
            addition = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            tolerations = [*tolerations, addition]
    spec["tolerations"] = tolerations


def _tolerates(toleration: Mapping[str, Any], key: str) -> bool:
    return toleration.get("key", "") in ("", key) and toleration.get("effect", "") in ("", "NoExecute")


# --- quality of service ---


def compute_qos_class(spec: Mapping[str, Any]) -> str:
    """Return Guaranteed, Burstable or BestEffort. This is the rule of Kubernetes: if the pod itself has requests or
    limits, they decide; otherwise the requests and limits of all containers decide.
    """
    requests: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    guaranteed = True
    own = spec.get("resources") or {}
    is_whole = bool(own.get("requests") or own.get("limits"))
    for holder in [spec] if is_whole else containers_of(spec, "containers", "initContainers"):
        resources = holder.get("resources") or {}
        _add_resources(requests, resources.get("requests"))
        limited = _add_resources(limits, resources.get("limits"))
        guaranteed = guaranteed and limited == {"cpu", "memory"}
    if not requests and not limits:
        return "BestEffort"
    same = guaranteed and requests.keys() == limits.keys()
    return "Guaranteed" if same and all(requests[name] == limits[name] for name in limits) else "Burstable"


@lru_cache(maxsize=1_024)  # cached, because most pods have the same few quantities
def _parse_nano(text: str) -> int:
    return Quantity.parse(text).nano


def _add_resources(total: dict[str, Any], resources: Mapping[str, Any] | None) -> set[str]:
    counted = set()
    for name, text in (resources or {}).items():
        if name in ("cpu", "memory") and (amount := _parse_nano(text)) > 0:
            total[name] = total.get(name, 0) + amount
            counted.add(name)
    return counted
