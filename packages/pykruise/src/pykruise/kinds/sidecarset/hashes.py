"""The two hashes of a SidecarSet, by which pods say which of its sidecars they have.

spec ──▶ typed_sidecar() of each sidecar ──▶ JSON as a typed Go client writes it ──▶ SHA-256 ──▶ Hashes

Pure. The text must be the same byte for byte as the original's: pods that another manager injected carry its
hash, and a hash that differs looks like an upgrade. What the types do not know does not count.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.documents import Document
from pykruise.kube.values.go_text import go_json
from pykruise.kube.values.hashing import safe_encode
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
    "Grpc": "port#! service?!",
    "Sleep": "seconds#!",
    "SecurityContext": "capabilities:Capabilities privileged* seLinuxOptions:SELinux windowsOptions:Windows"
    " runAsUser* runAsGroup* runAsNonRoot* readOnlyRootFilesystem* allowPrivilegeEscalation* procMount*"
    " seccompProfile:Profile appArmorProfile:Profile",
    "Capabilities": "add drop",
    "SELinux": "user role type level",
    "Windows": "gmsaCredentialSpecName* gmsaCredentialSpec* runAsUserName* hostProcess*",
    "Profile": "type! localhostProfile*",
}
"""Fields of the API's types in their declared order, `field[marks][:type]`. Marks: `!` always written (as an
empty text, with `#` as 0, with `?` as null, of a type as {}); `*` optional in itself, so an empty value counts;
`$` a quantity, or a map of quantities. The rest is left out when empty."""


class _Field(msgspec.Struct, frozen=True):
    name: str
    kind: str = ""
    is_always: bool = False
    is_pointer: bool = False
    is_quantity: bool = False
    empty: Any = ""


def _field(text: str) -> _Field:
    marked, _, kind = text.partition(":")
    name = marked.rstrip("!*#$?")
    empty: Any = {} if kind else 0 if "#" in marked else None if "?" in marked else ""
    return _Field(name, kind, "!" in marked, "*" in marked, "$" in marked, empty)


_FIELDS: Final = {kind: tuple(_field(text) for text in fields.split()) for kind, fields in _TABLE.items()}


def is_native(sidecar: Mapping[str, Any]) -> bool:
    """Whether an init container keeps running beside the regular ones."""
    return sidecar.get("restartPolicy") == "Always"


def typed_sidecar(sidecar: Mapping[str, Any]) -> Document:
    """A sidecar with the fields that the types know, in their order, as a typed Go client writes them."""
    return _typed(sidecar, "Sidecar")


def _typed(value: Mapping[str, Any], kind: str) -> Document:
    result: Document = {}
    for field in _FIELDS[kind]:
        item = _value(value.get(field.name), field)
        if item is not None:
            result[field.name] = item
        elif field.is_always:
            result[field.name] = field.empty
        elif field.name == "divisor":
            result[field.name] = "0"  # a quantity is never left out
    return result


def _value(item: Any, field: _Field) -> Any:
    """The value as it is written; None: it is left out, unless it always has to be there."""
    if item == [] or (item == {} and not field.kind):
        return None
    if field.is_quantity:
        return _quantities(item)
    if isinstance(item, list):
        return [
            _typed(element, field.kind) if field.kind and isinstance(element, Mapping) else element
            for element in item
        ]
    if field.kind and isinstance(item, Mapping):
        return _typed(item, field.kind)
    return None if not item and not field.is_pointer else item


def _quantities(item: Any) -> Any:
    if isinstance(item, Mapping):
        return {name: _quantity(item[name]) for name in sorted(item)}
    return _quantity(item)


def _quantity(value: Any) -> Any:
    try:
        return format_quantity(value)
    except ValueError:
        return value  # admission says what is wrong with it


def hashed_text(
    containers: Sequence[Mapping[str, Any]] | None, init_containers: Sequence[Mapping[str, Any]] | None
) -> str:
    """Text to hash. Init containers count, all of them, once one is a native sidecar."""
    doc: Document = {"containers": _list(containers)}
    if any(is_native(container) for container in init_containers or ()):
        doc["initContainers"] = _list(init_containers)
    return go_json(doc)


def _list(sidecars: Sequence[Mapping[str, Any]] | None) -> list[Document] | None:
    return None if sidecars is None else [typed_sidecar(sidecar) for sidecar in sidecars]


def hashes_of(spec: Mapping[str, Any]) -> Hashes:
    """The hashes of a SidecarSet's spec (or of what a revision restores)."""
    containers, init = spec.get("containers"), spec.get("initContainers")
    return Hashes(
        full=_encoded(hashed_text(containers, init)),
        without_image=_encoded(hashed_text(_without_image(containers), _without_image(init))),
    )


def _without_image(sidecars: Sequence[Mapping[str, Any]] | None) -> list[Document] | None:
    return None if sidecars is None else [{**sidecar, "image": ""} for sidecar in sidecars]


def _encoded(text: str) -> str:
    return safe_encode(hashlib.sha256(text.encode()).hexdigest())
