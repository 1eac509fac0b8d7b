"""The two hashes of a SidecarSet. Each pod records the hashes of its sidecars.

spec ──▶ to_typed_sidecar() of each sidecar ──▶ JSON in the form of a typed Go client ──▶ SHA-256 ──▶ Hashes

Pure. The hashed text must have the same bytes as OpenKruise's: pods may record a hash that OpenKruise computed, and a
different hash would cause an upgrade. Fields that the types do not know are left out.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.documents import Document
from pykruise.kube.values.go_text import encode_go_json
from pykruise.kube.values.hashing import encode_safely
from pykruise.kube.values.quantities import format_quantity


class Hashes(msgspec.Struct, frozen=True):
    """Hashes of a SidecarSet's sidecars, with and without their images."""

    full: str = ""
    without_image: str = ""


_TABLE: Final[Mapping[str, str]] = {
    "Sidecar": "name! image command args workingDir ports:Port envFrom:EnvFrom env:Env resources!:Resources"
    " resizePolicy:ResizePolicy restartPolicy* volumeMounts:Mount volumeDevices:Device livenessProbe:Probe"
    " readinessProbe:Probe startupProbe:Probe lifecycle:Lifecycle terminationMessagePath"
    " terminationMessagePolicy imagePullPolicy securityContext:SecurityContext stdin stdinOnce tty"
    " podInjectPolicy upgradeStrategy!:UpgradeStrategy shareVolumePolicy!:SharePolicy"
    " shareVolumeDevicePolicy:SharePolicy transferEnv:TransferEnv resourcesPolicy:ResourcesPolicy",
    "UpgradeStrategy": "upgradeType hotUpgradeEmptyImage",
    "SharePolicy": "type",
    "TransferEnv": "sourceContainerName sourceContainerNameFrom:TransferSource envName envNames",
    "TransferSource": "fieldRef:FieldRef",
    "ResourcesPolicy": "targetContainersMode! targetContainersNameRegex resourcesExpr!:ResourcesExpr",
    "ResourcesExpr": "limits:Amounts requests:Amounts",
    "Amounts": "cpu memory",
    "Port": "name hostPort containerPort#! protocol hostIP",
    "EnvFrom": "prefix configMapRef:NamedRef secretRef:NamedRef",
    "NamedRef": "name optional*",
    "Env": "name! value valueFrom:EnvSource",
    "EnvSource": "fieldRef:FieldRef resourceFieldRef:ResourceRef configMapKeyRef:KeyRef secretKeyRef:KeyRef"
    " fileKeyRef:FileKeyRef",
    "FieldRef": "apiVersion fieldPath!",
    "ResourceRef": "containerName resource! divisor$",
    "KeyRef": "name key! optional*",
    "FileKeyRef": "volumeName! path! key! optional*",
    "Resources": "limits$ requests$ claims:Claim",
    "Claim": "name! request",
    "ResizePolicy": "resourceName! restartPolicy!",
    "Mount": "name! readOnly recursiveReadOnly* mountPath! subPath mountPropagation* subPathExpr",
    "Device": "name! devicePath!",
    "Probe": "exec:Exec httpGet:HttpGet tcpSocket:TcpSocket grpc:Grpc initialDelaySeconds timeoutSeconds"
    " periodSeconds successThreshold failureThreshold terminationGracePeriodSeconds*",
    "Lifecycle": "postStart:Handler preStop:Handler stopSignal*",
    "Handler": "exec:Exec httpGet:HttpGet tcpSocket:TcpSocket sleep:Sleep",
    "Exec": "command",
    "HttpGet": "path port#! host scheme httpHeaders:Header",
    "Header": "name! value!",
    "TcpSocket": "port#! host",
    "Grpc": "port#! service*?!",
    "Sleep": "seconds#!",
    "SecurityContext": "capabilities:Capabilities privileged* seLinuxOptions:SELinux windowsOptions:Windows"
    " runAsUser* runAsGroup* runAsNonRoot* readOnlyRootFilesystem* allowPrivilegeEscalation* procMount*"
    " seccompProfile:Profile appArmorProfile:Profile",
    "Capabilities": "add drop",
    "SELinux": "user role type level",
    "Windows": "gmsaCredentialSpecName* gmsaCredentialSpec* runAsUserName* hostProcess*",
    "Profile": "type! localhostProfile*",
}
"""Fields of the API's types in their declared order, `field[marks][:type]`. A field with `!` is always written: an
absent field becomes "", with `#` 0, with `?` null, and with a type {}. A field with `*` is a pointer in Go, so an empty
value is written too. A field with `$` is a quantity or a map of quantities. Other fields are left out when they are
empty.
"""


class _Field(msgspec.Struct, frozen=True):
    name: str
    kind: str = ""
    is_always: bool = False
    is_pointer: bool = False
    is_quantity: bool = False
    empty: Any = ""


def _parse_field(text: str) -> _Field:
    marked, _, kind = text.partition(":")
    name = marked.rstrip("!*#$?")
    empty: Any = {} if kind else 0 if "#" in marked else None if "?" in marked else ""
    return _Field(name, kind, "!" in marked, "*" in marked, "$" in marked, empty)


_FIELDS: Final = {
    kind: tuple(_parse_field(text) for text in fields.split()) for kind, fields in _TABLE.items()
}


def is_native(sidecar: Mapping[str, Any]) -> bool:
    """Whether an init container is a native sidecar, which keeps running beside the regular containers."""
    return sidecar.get("restartPolicy") == "Always"


def to_typed_sidecar(sidecar: Mapping[str, Any]) -> Document:
    """A sidecar in the form of a typed Go client: only fields of the API's types, in their order."""
    return _to_typed(sidecar, "Sidecar")


def _to_typed(value: Mapping[str, Any], kind: str) -> Document:
    result: Document = {}
    for field in _FIELDS[kind]:
        item = _to_typed_value(value.get(field.name), field)
        if item is not None:
            result[field.name] = item
        elif field.is_always:
            result[field.name] = field.empty
        elif field.name == "divisor":
            result[field.name] = "0"  # a quantity is never left out
    return result


def _to_typed_value(item: Any, field: _Field) -> Any:
    """The value in Go's form; None: the field is left out unless it must always be written."""
    if item == [] or (item == {} and not field.kind):
        return None
    if field.is_quantity:
        return _format_quantities(item)
    if isinstance(item, list):
        return [
            _to_typed(element, field.kind) if field.kind and isinstance(element, Mapping) else element
            for element in item
        ]
    if field.kind and isinstance(item, Mapping):
        return _to_typed(item, field.kind)
    return None if not item and not field.is_pointer else item


def _format_quantities(item: Any) -> Any:
    if isinstance(item, Mapping):
        return {name: _format_quantity(item[name]) for name in sorted(item)}
    return _format_quantity(item)


def _format_quantity(value: Any) -> Any:
    try:
        return format_quantity(value)
    except ValueError:
        return value  # admission reports the error


def build_hashed_text(
    containers: Sequence[Mapping[str, Any]] | None, init_containers: Sequence[Mapping[str, Any]] | None
) -> str:
    """Text from which the hash is computed. If one init container is a native sidecar, the text contains all init
    containers.
    """
    doc: Document = {"containers": _to_typed_list(containers)}
    if any(is_native(container) for container in init_containers or ()):
        doc["initContainers"] = _to_typed_list(init_containers)
    return encode_go_json(doc)


def _to_typed_list(sidecars: Sequence[Mapping[str, Any]] | None) -> list[Document] | None:
    return None if sidecars is None else [to_typed_sidecar(sidecar) for sidecar in sidecars]


def hashes_of(spec: Mapping[str, Any]) -> Hashes:
    """Hashes of a SidecarSet's spec, or of the fields that a revision restores."""
    containers, init = spec.get("containers"), spec.get("initContainers")
    return Hashes(
        full=_encode_hash(build_hashed_text(containers, init)),
        without_image=_encode_hash(build_hashed_text(_clear_images(containers), _clear_images(init))),
    )


def _clear_images(sidecars: Sequence[Mapping[str, Any]] | None) -> list[Document] | None:
    return None if sidecars is None else [{**sidecar, "image": ""} for sidecar in sidecars]


def _encode_hash(text: str) -> str:
    return encode_safely(hashlib.sha256(text.encode()).hexdigest())
