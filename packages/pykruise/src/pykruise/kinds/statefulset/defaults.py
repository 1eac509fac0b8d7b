"""Defaults that admission writes into a StatefulSet (v1beta1).

document [+ the stored one] ──▶ add_defaults() ──▶ the document to store

Pure; the input documents are not changed. Same rules as OpenKruise's mutating webhook. A template gets defaults only
when the pod template is new or changed: otherwise an upgrade of this manager would roll out every pod again.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pykruise.kinds.statefulset.types import ClaimUpdateType, ManagementPolicy, Retention
from pykruise.kube.documents import Document, drop_nulls, is_same
from pykruise.pods.api import PodUpdatePolicy, UpdateType
from pykruise.pods.settings import OnGate
from pykruise.pods.template import defaults as template_defaults
from pykruise.pods.template.defaults import DefaultingSettings


class StatefulSetDefaultingSettings(DefaultingSettings, frozen=True, kw_only=True):
    """Feature gates that change defaulting."""

    auto_delete_claims: Annotated[bool, OnGate("StatefulSetAutoDeletePVC")] = True
    auto_resize_claims: Annotated[bool, OnGate("StatefulSetAutoResizePVCGate")] = False


def add_defaults(
    doc: Mapping[str, Any],
    *,
    old: Mapping[str, Any] | None = None,
    settings: StatefulSetDefaultingSettings,
) -> Document:
    """Return the document with defaults. `old` is the stored object on an update, None on creation."""
    spec: Document = {"replicas": 1, "revisionHistoryLimit": 10, **drop_nulls(doc.get("spec"))}
    spec["podManagementPolicy"] = spec.get("podManagementPolicy") or str(ManagementPolicy.ORDERED_READY)
    spec["updateStrategy"] = _fill_strategy_defaults(drop_nulls(spec.get("updateStrategy")))
    if settings.auto_delete_claims:
        policy = drop_nulls(spec.get("persistentVolumeClaimRetentionPolicy"))
        for field in ("whenDeleted", "whenScaled"):
            policy[field] = policy.get(field) or str(Retention.RETAIN)
        spec["persistentVolumeClaimRetentionPolicy"] = policy
    if settings.auto_resize_claims:
        strategy = drop_nulls(spec.get("volumeClaimUpdateStrategy"))
        strategy["type"] = strategy.get("type") or str(ClaimUpdateType.ON_DELETE)
        spec["volumeClaimUpdateStrategy"] = strategy
    if not settings.template_no_defaults:
        _fill_template_defaults(spec, (old or {}).get("spec") or {}, settings)
    return {**doc, "spec": spec}


def _fill_template_defaults(
    spec: Document, stored: Mapping[str, Any], settings: StatefulSetDefaultingSettings
) -> None:
    """Add defaults to the pod template, and to the claim templates only together with the pod template."""
    template = spec.get("template")
    if not isinstance(template, Mapping) or is_same(stored.get("template"), template):
        return
    spec["template"] = template_defaults.add_defaults(template, host_ports=settings.host_network_ports)
    if spec.get("volumeClaimTemplates"):
        claims = spec["volumeClaimTemplates"]
        spec["volumeClaimTemplates"] = [template_defaults.add_claim_defaults(claim) for claim in claims]


def _fill_strategy_defaults(strategy: Document) -> Document:
    """Add defaults to the update strategy; under OnDelete nothing is added."""
    strategy["type"] = strategy.get("type") or str(UpdateType.ROLLING_UPDATE)
    if strategy["type"] == UpdateType.ROLLING_UPDATE:
        block = drop_nulls(strategy.get("rollingUpdate"))
        block["podUpdatePolicy"] = block.get("podUpdatePolicy") or str(PodUpdatePolicy.RECREATE)
        block.setdefault("partition", 0)
        block.setdefault("maxUnavailable", 1)
        block.setdefault("minReadySeconds", 0)
        strategy["rollingUpdate"] = block
    return strategy
