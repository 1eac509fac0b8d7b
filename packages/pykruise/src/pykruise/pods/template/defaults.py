"""Defaults of pod templates, which OpenKruise's workloads write into new or changed templates.

template ──▶ add_defaults() ──▶ the template with all defaults

Pure: the input template is not changed. Never use this on a template that did not change: a default that a later
version adds would look like a new revision and roll out to every pod.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec

from pykruise.kube.documents import Document, drop_nulls
from pykruise.kube.values.quantities import Quantity, round_up_to_milli
from pykruise.pods.settings import OnGate


class DefaultingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Feature gates that change defaults."""

    template_no_defaults: Annotated[bool, OnGate("TemplateNoDefaults")] = False
    """Whether templates are stored without defaults."""
    host_network_ports: Annotated[bool, OnGate("DefaultHostNetworkHostPortsInPodTemplates")] = False
    """Whether hostPort is set in templates with hostNetwork."""


FILE_MODE = 0o644
TOKEN_SECONDS = 3600
USUAL_GRACE_S: Final = 30
"""Default of terminationGracePeriodSeconds."""

_POD: Mapping[str, Any] = {
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "schedulerName": "default-scheduler",
    "securityContext": {},
    "terminationGracePeriodSeconds": USUAL_GRACE_S,
}
_PROBE: Mapping[str, Any] = {
    "failureThreshold": 3,
    "periodSeconds": 10,
    "successThreshold": 1,
    "timeoutSeconds": 1,
}
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_VOLUMES_OF_1_8: Mapping[str, Mapping[str, Any]] = {
    "azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"},
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}
"""Defaults of volume sources that OpenKruise 1.8 writes into templates, and 1.9 does not. The API server writes them
into every pod.
"""


def pull_policy_of_image(image: str) -> str:
    """Kubernetes' rule: Always for the tag `latest`, also next to a digest, and for a name without tag and digest;
    otherwise IfNotPresent.
    """
    name, _, digest = image.rpartition("/")[2].partition("@")
    tag = name.partition(":")[2] or ("" if digest else "latest")
    return "Always" if tag == "latest" else "IfNotPresent"


def add_defaults(
    template: Mapping[str, Any],
    *,
    pull_policy: Callable[[str], str] = lambda image: "Always",
    host_ports: bool = False,
) -> Document:
    """Return the template with its defaults. `pull_policy`: image of a regular container → its imagePullPolicy.

    `host_ports`: container ports of pods with hostNetwork get an equal hostPort.
    """
    defaults: Document = dict(template)
    spec: Document = {**_POD, **_drop_empty(template.get("spec") or {})}
    on_host = host_ports and spec.get("hostNetwork") is True
    for field, policy in (("containers", pull_policy), ("initContainers", pull_policy_of_image)):
        if spec.get(field):
            spec[field] = [
                _fill_container_defaults(item, pull_policy=policy, on_host=on_host) for item in spec[field]
            ]
    if spec.get("ephemeralContainers"):
        spec["ephemeralContainers"] = [
            _fill_contents_defaults(container, on_host=False) for container in spec["ephemeralContainers"]
        ]
    if spec.get("volumes"):
        spec["volumes"] = [_fill_volume_defaults(volume) for volume in spec["volumes"]]
    defaults["spec"] = spec
    return defaults


def add_defaults_of_1_8(template: Mapping[str, Any]) -> Document:
    """Return the template with its defaults, and with the defaults that only OpenKruise 1.8 writes."""
    defaults = add_defaults(template)
    if volumes := defaults["spec"].get("volumes"):
        defaults["spec"]["volumes"] = [_fill_source_of_1_8(volume) for volume in volumes]
    return defaults


def add_container_defaults(container: Mapping[str, Any], *, probes: Sequence[str] = _PROBES) -> Document:
    """A single container with its defaults; only probes that the container has get defaults."""
    return _fill_container_defaults(container, pull_policy=pull_policy_of_image, on_host=False, probes=probes)


def add_volume_defaults(volume: Mapping[str, Any]) -> Document:
    """A volume with its defaults. A volume without a source becomes an emptyDir."""
    return _fill_volume_defaults(volume)


def add_claim_defaults(claim: Mapping[str, Any]) -> Document:
    """A volumeClaimTemplate with its defaults."""
    defaults: Document = dict(claim)
    defaults["status"] = {"phase": "Pending", **(defaults.get("status") or {})}
    if spec := defaults.get("spec"):
        defaults["spec"] = {**spec, **_round_resources(spec)}
    return defaults


def _drop_empty(values: Mapping[str, Any]) -> Document:
    return {field: value for field, value in values.items() if value is not None and value != ""}


def _fill_container_defaults(
    container: Mapping[str, Any],
    *,
    pull_policy: Callable[[str], str],
    on_host: bool,
    probes: Sequence[str] = _PROBES,
) -> Document:
    defaults = {
        "imagePullPolicy": pull_policy(container.get("image") or ""),
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    return {**defaults, **_fill_contents_defaults(_drop_empty(container), on_host=on_host, probes=probes)}


def _fill_contents_defaults(
    container: Mapping[str, Any], *, on_host: bool, probes: Sequence[str] = _PROBES
) -> Document:
    """Set the defaults that ephemeral containers receive too."""
    contents: Document = {**container, **_round_resources(container)}
    if contents.get("ports"):
        contents["ports"] = [_fill_port_defaults(port, on_host=on_host) for port in contents["ports"]]
    if contents.get("env"):
        contents["env"] = [_fill_env_defaults(entry) for entry in contents["env"]]
    for field in probes:
        if contents.get(field) is not None:
            contents[field] = _fill_probe_defaults(contents[field])
    if contents.get("lifecycle"):
        contents["lifecycle"] = {
            turn: _fill_handler_defaults(handler)
            if isinstance(handler, Mapping)
            else handler  # stopSignal is a string
            for turn, handler in contents["lifecycle"].items()
        }
    return contents


def _fill_probe_defaults(probe: Mapping[str, Any]) -> Document:
    """Set the defaults of a probe. For its numbers, 0 is an absent value."""
    given = {field: value for field, value in probe.items() if value or field not in _PROBE}
    return {**_PROBE, **_fill_handler_defaults(given)}


def _fill_port_defaults(port: Mapping[str, Any], *, on_host: bool) -> Document:
    result: Document = {"protocol": "TCP", **_drop_empty(port)}
    if on_host and not result.get("hostPort"):
        result["hostPort"] = result.get("containerPort")
    return result


def _fill_env_defaults(entry: Mapping[str, Any]) -> Document:
    source = entry.get("valueFrom")
    return {**entry, "valueFrom": _fill_field_source_defaults(source)} if source else dict(entry)


def _fill_field_source_defaults(source: Mapping[str, Any]) -> Document:
    reference = source.get("fieldRef")
    if not reference:
        return dict(source)
    return {**source, "fieldRef": {"apiVersion": "v1", **_drop_empty(reference)}}


def _fill_handler_defaults(handler: Mapping[str, Any]) -> Document:
    request = handler.get("httpGet")
    if not request:
        return dict(handler)
    return {**handler, "httpGet": {"path": "/", "scheme": "HTTP", **_drop_empty(request)}}


def _round_resources(holder: Mapping[str, Any]) -> Document:
    """`resources` with quantities finer than 1m rounded up; empty when there are none."""
    resources = holder.get("resources")
    if not resources:
        return {}
    rounded = {
        field: {name: _round_up(amount) for name, amount in amounts.items()} if amounts else amounts
        for field, amounts in resources.items()
        if field in ("limits", "requests")
    }
    return {"resources": {**resources, **rounded}}


def _round_up(amount: Any) -> Any:
    try:
        return round_up_to_milli(amount) if Quantity.parse(amount).nano % 10**6 else amount
    except ValueError:
        return amount  # validation reports the error


def _fill_volume_defaults(volume: Mapping[str, Any]) -> Document:
    result = _drop_empty(volume)
    if not any(field != "name" for field in result):
        return {**result, "emptyDir": {}}
    if (path := result.get("hostPath")) is not None:
        result["hostPath"] = {"type": "", **drop_nulls(path)}
    for field in ("secret", "configMap", "downwardAPI", "projected"):
        if result.get(field) is not None:
            result[field] = {"defaultMode": FILE_MODE, **drop_nulls(result[field])}
    if result.get("downwardAPI"):
        result["downwardAPI"] = _fill_items_defaults(result["downwardAPI"])
    if result.get("projected"):
        sources = [_fill_projection_defaults(source) for source in result["projected"].get("sources") or ()]
        result["projected"] = {**result["projected"], "sources": sources}
    return result


def _fill_source_of_1_8(volume: Mapping[str, Any]) -> Document:
    sources = {
        source: {**defaults, **_drop_empty(volume[source])}
        for source, defaults in _VOLUMES_OF_1_8.items()
        if volume.get(source) is not None
    }
    return {**volume, **sources}


def _fill_projection_defaults(source: Mapping[str, Any]) -> Document:
    projection: Document = dict(source)
    if token := projection.get("serviceAccountToken"):
        projection["serviceAccountToken"] = {"expirationSeconds": TOKEN_SECONDS, **drop_nulls(token)}
    if projection.get("downwardAPI"):
        projection["downwardAPI"] = _fill_items_defaults(projection["downwardAPI"])
    return projection


def _fill_items_defaults(holder: Mapping[str, Any]) -> Document:
    if not holder.get("items"):
        return dict(holder)
    return {**holder, "items": [_fill_field_source_defaults(item) for item in holder["items"]]}
