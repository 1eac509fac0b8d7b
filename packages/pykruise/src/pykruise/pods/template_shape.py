"""Whether embedded templates have the shape that their types in Kubernetes give them.

workload document ──▶ shape_problem() ──▶ the first place whose type is wrong, or nothing

Pure. A CRD keeps templates as they are (`x-kubernetes-preserve-unknown-fields`), so an API server passes on
`containers: 3`. Readers of a template (defaults, validation) may rely on what is checked here: every field
they touch, and no other. A null is an absent field.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

__all__ = ["shape_problem"]

Amount = str | int | float | None


class _Camel(msgspec.Struct, rename="camel"):
    """Fields that are not named here may hold anything."""


class _Meta(_Camel):
    name: str | None = None
    generate_name: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Port(_Camel):
    name: str | None = None
    container_port: int | None = None
    host_port: int | None = None
    protocol: str | None = None


class _FieldSource(_Camel):
    field_ref: dict[str, Any] | None = None


class _Env(_Camel):
    name: str | None = None
    value: str | None = None
    value_from: _FieldSource | None = None


class _Mount(_Camel):
    name: str | None = None
    mount_path: str | None = None


class _Resources(_Camel):
    limits: dict[str, Amount] | None = None
    requests: dict[str, Amount] | None = None


class _Handler(_Camel):
    http_get: dict[str, Any] | None = None


class _Lifecycle(_Camel):
    post_start: _Handler | None = None
    pre_stop: _Handler | None = None


class _Container(_Camel):
    name: str | None = None
    image: str | None = None
    image_pull_policy: str | None = None
    termination_message_policy: str | None = None
    ports: list[_Port] | None = None
    env: list[_Env] | None = None
    volume_mounts: list[_Mount] | None = None
    resources: _Resources | None = None
    liveness_probe: _Handler | None = None
    readiness_probe: _Handler | None = None
    startup_probe: _Handler | None = None
    lifecycle: _Lifecycle | None = None


class _DownwardApi(_Camel):
    items: list[_FieldSource] | None = None


class _Projection(_Camel):
    service_account_token: dict[str, Any] | None = None
    downward_api: _DownwardApi | None = msgspec.field(default=None, name="downwardAPI")


class _Projected(_Camel):
    sources: list[_Projection] | None = None


class _Volume(_Camel):
    name: str | None = None
    host_path: dict[str, Any] | None = None
    secret: dict[str, Any] | None = None
    config_map: dict[str, Any] | None = None
    downward_api: _DownwardApi | None = msgspec.field(default=None, name="downwardAPI")
    projected: _Projected | None = None


class _ReadinessGate(_Camel):
    condition_type: str | None = None


class _PodSpec(_Camel):
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    ephemeral_containers: list[_Container] | None = None
    volumes: list[_Volume] | None = None
    readiness_gates: list[_ReadinessGate] | None = None
    restart_policy: str | None = None
    host_network: bool | None = None
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None


class _Template(_Camel):
    metadata: _Meta | None = None
    spec: _PodSpec | None = None


class _ClaimSpec(_Camel):
    access_modes: list[str] | None = None
    resources: _Resources | None = None


class _Claim(_Camel):
    metadata: _Meta | None = None
    spec: _ClaimSpec | None = None
    status: dict[str, Any] | None = None


class _Spec(_Camel):
    template: _Template | None = None
    volume_claim_templates: list[_Claim] | None = None


class _Workload(_Camel):
    metadata: _Meta | None = None
    spec: _Spec | None = None


def shape_problem(workload: Mapping[str, Any]) -> str:
    """Where `metadata`, `spec.template` or `spec.volumeClaimTemplates` have the wrong type; empty: nowhere.

    `spec.template.spec.containers[0].env: Expected `array`, got `str``. Other fields of the spec are the
    kind's own.
    """
    try:
        msgspec.convert(workload, _Workload)
    except msgspec.ValidationError as error:
        text, _, place = str(error).rpartition(" - at `$")
        return f"{place.strip('`').lstrip('.')}: {text}" if text else str(error)
    return ""
