"""Monitoring of pykruise with Prometheus and Grafana: alerts, a board, scrape targets.

ALERTS ──▶ prometheus_rule() ──▶ PrometheusRule        PANELS ──▶ board() ──▶ a Grafana board, in a ConfigMap
pod_monitor() ──▶ PodMonitor

Pure. Expressions name only metrics of metrics.py, state_metrics.py and webhook_metrics.py; a test looks each of them up
in real scrapes. Series of objects come from the manager that works: `max by` makes one of what two replicas show while
the leader changes.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from pykruise.kinds import all_shown
from pykruise.kube.documents import Document
from pykruise.plans.progress import Number
from pykruise.plans.shown import Shown
from pykruise.pods.reasons import DEADLINE_EXCEEDED
from pykruise.pods.workload.kstatus import STALLING

RUNBOOK: Final = "docs/monitoring.md#"
"""Followed by an alert's name in lower case: what it means, and what to do."""

_STALLING: Final = "|".join(sorted({*STALLING, DEADLINE_EXCEEDED}))


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """One alert. `for_s`: how long the expression has to have a result."""

    name: str
    expr: str
    for_s: int
    summary: str
    """Prometheus' template."""
    severity: str = "warning"
    needs_state: bool = False
    """Whether it asks for series of `--state-metrics`."""


def _of_workloads() -> Iterator[Alert]:
    """Series of each kind with rollouts."""
    counted = [shown for shown in all_shown() if shown.board == "rollouts" and shown.metrics is not None]
    for shown in counted:
        label, named, by, counts = _about(shown)
        if "status_observed_generation" in counts:
            yield Alert(
                name=f"Kruise{shown.kind}GenerationMismatch",
                expr=(
                    f"{by} (kruise_{label}_metadata_generation) !="
                    f" {by} (kruise_{label}_status_observed_generation)"
                ),
                for_s=900,
                summary=f"The last change of {named} has not been taken up.",
                needs_state=True,
            )
    for shown in counted:
        label, named, by, counts = _about(shown)
        if {"spec_replicas", "status_replicas_available"} <= set(counts):
            yield Alert(
                name=f"Kruise{shown.kind}ReplicasMismatch",
                expr=f"{by} (kruise_{label}_spec_replicas) > {by} (kruise_{label}_status_replicas_available)",
                for_s=900,
                summary=f"{named} has fewer pods available than it wants.",
                needs_state=True,
            )
        if "status_number_unavailable" in counts:
            yield Alert(
                name=f"Kruise{shown.kind}Unavailable",
                expr=f"{by} (kruise_{label}_status_number_unavailable) > 0",
                for_s=900,
                summary=f"Pods of {named} are not available on {{{{ $value }}}} nodes.",
                needs_state=True,
            )


def _about(shown: Shown) -> tuple[str, str, str, Mapping[str, Number]]:
    """Its label, what sentences call it, by what its series are one, and its series."""
    assert shown.metrics is not None
    label = shown.kind.lower()
    named = f"{shown.kind} {{{{ $labels.namespace }}}}/{{{{ $labels.{label} }}}}"
    return label, named, f"max by (namespace, {label})", shown.metrics.counts


_WAITING: Final = "max by (kind, namespace, name, cause) (pykruise_rollout_waiting"
_NAMED: Final = "{{ $labels.kind }} {{ $labels.namespace }}/{{ $labels.name }}"
_BUDGET: Final = "max by (namespace, podunavailablebudget) (kruise_podunavailablebudget_status"

ALERTS: Final[Sequence[Alert]] = (
    Alert(
        name="KruiseNoLeader",
        expr="absent(kruise_manager_is_leader == 1)",
        for_s=120,
        summary="No manager works: nothing is created, updated or repaired.",
        severity="critical",
    ),
    Alert(
        name="KruiseSlotWithoutHolder",
        expr="max by (slot) (pykruise_slot_held) == 0",
        for_s=60,
        summary="No manager works on the objects of slot {{ $labels.slot }}.",
        severity="critical",
    ),
    Alert(
        name="KruiseRolloutStalled",
        expr=f'{_WAITING}{{cause=~"{_STALLING}"}}) == 1',
        for_s=60,
        summary=f"{_NAMED} cannot continue without help: {{{{ $labels.cause }}}}.",
        needs_state=True,
    ),
    Alert(
        name="KruiseRolloutStuck",
        expr=f"{_WAITING}) == 1",
        for_s=1800,
        summary=f"{_NAMED} waits for the same thing for 30 minutes: {{{{ $labels.cause }}}}.",
        needs_state=True,
    ),
    *_of_workloads(),
    Alert(
        name="KruisePodUnavailableBudgetAtZero",
        expr=f"{_BUDGET}_unavailable_allowed) == 0 and {_BUDGET}_total_replicas) > 0",
        for_s=1800,
        summary="PodUnavailableBudget {{ $labels.namespace }}/{{ $labels.podunavailablebudget }}"
        " lets no pod go: drains and updates wait.",
        needs_state=True,
    ),
    Alert(
        name="KruiseReconcileErrors",
        expr="sum by (controller) (rate(controller_runtime_reconcile_errors_total[10m])) > 0.1",
        for_s=900,
        summary="{{ $labels.controller }} fails again and again.",
    ),
    Alert(
        name="KruiseMissingRights",
        expr="sum by (method, resource) (increase(pykruise_missing_rights_total[15m])) > 0",
        for_s=0,
        summary="The manager may not {{ $labels.method }} {{ $labels.resource }}.",
    ),
    Alert(
        name="KruiseWebhookErrors",
        expr='sum by (webhook) (rate(controller_runtime_webhook_requests_total{code=~"5.."}[5m])) > 0',
        for_s=300,
        summary="Reviews by {{ $labels.webhook }} fail.",
        severity="critical",
    ),
    Alert(
        name="KruiseWatchDown",
        expr="min by (resource) (pykruise_cache_connected) == 0",
        for_s=300,
        summary="A manager has not followed {{ $labels.resource }} for 5 minutes.",
    ),
    Alert(
        name="KruiseCacheLag",
        expr="max by (resource) (pykruise_cache_lag_seconds) > 30",
        for_s=300,
        summary="Own writes of {{ $labels.resource }} are seen only after {{ $value }} s.",
    ),
)


def _duration(seconds: int) -> str:
    return f"{seconds // 60}m" if seconds % 60 == 0 else f"{seconds}s"


def prometheus_rule(*, namespace: str) -> Document:
    """All alerts, for the Prometheus operator."""
    rules = [
        {
            "alert": alert.name,
            "expr": alert.expr,
            **({"for": _duration(alert.for_s)} if alert.for_s else {}),
            "labels": {"severity": alert.severity},
            "annotations": {"summary": alert.summary, "runbook": f"{RUNBOOK}{alert.name.lower()}"},
        }
        for alert in ALERTS
    ]
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "kruise-manager", "namespace": namespace},
        "spec": {"groups": [{"name": "kruise", "rules": rules}]},
    }


def pod_monitor(*, namespace: str, has_state: bool) -> Document:
    """Where the Prometheus operator scrapes. `has_state`: the manager runs with --state-metrics."""
    paths = ["/metrics", *(["/state-metrics"] if has_state else [])]
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": {"name": "kruise-manager", "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"control-plane": "controller-manager"}},
            "podMetricsEndpoints": [
                # Labels of a series (namespace) go before those of the target.
                {"port": "metrics", "path": path, **({"honorLabels": True} if path != "/metrics" else {})}
                for path in paths
            ],
        },
    }


# ── the board ────────────────────────────────────────────────────────────────


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """One panel: a title, and an expression with the legend of its series for each line."""

    title: str
    lines: Sequence[tuple[str, str]]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8


_QUANTILE: Final = "histogram_quantile({q}, sum by (le, {by}) (rate({name}_bucket[$__rate_interval])))"


def _quantiles(name: str, by: str) -> list[tuple[str, str]]:
    return [(_QUANTILE.format(q=q, by=by, name=name), f"{{{{{by}}}}} p{100 * q:.0f}") for q in (0.5, 0.95)]


_RATE: Final = "[$__rate_interval]"

PANELS: Final[Sequence[Panel]] = (
    Panel(
        title="Rollouts that wait, by cause",
        lines=[("sum by (kind, cause) (pykruise_rollout_waiting)", "{{kind}}: {{cause}}")],
    ),
    Panel(
        title="What waits",
        lines=[("max by (kind, namespace, name, cause) (pykruise_rollout_waiting)", "")],
        kind="table",
        width=16,
    ),
    Panel(
        title="How long rollouts take",
        lines=_quantiles("pykruise_rollout_duration_seconds", "kind"),
        unit="s",
    ),
    Panel(
        title="Rollouts that ended in an hour",
        lines=[
            (
                "sum by (kind, result) (increase(pykruise_rollout_duration_seconds_count[1h]))",
                "{{kind}} {{result}}",
            )
        ],
    ),
    Panel(
        title="CloneSets: pods wanted, available, updated",
        lines=[
            ("sum(max by (namespace, cloneset) (kruise_cloneset_spec_replicas))", "wanted"),
            ("sum(max by (namespace, cloneset) (kruise_cloneset_status_replicas_available))", "available"),
            ("sum(max by (namespace, cloneset) (kruise_cloneset_status_replicas_updated))", "updated"),
        ],
    ),
    Panel(
        title="StatefulSets: pods wanted, available, updated",
        lines=[
            ("sum(max by (namespace, statefulset) (kruise_statefulset_spec_replicas))", "wanted"),
            (
                "sum(max by (namespace, statefulset) (kruise_statefulset_status_replicas_available))",
                "available",
            ),
            ("sum(max by (namespace, statefulset) (kruise_statefulset_status_replicas_updated))", "updated"),
        ],
    ),
    Panel(
        title="DaemonSets: nodes without an available pod",
        lines=[
            (
                "max by (namespace, daemonset) (kruise_daemonset_status_number_unavailable)",
                "{{namespace}}/{{daemonset}}",
            )
        ],
    ),
    Panel(
        title="PodUnavailableBudgets: pods that may go",
        lines=[
            (
                "max by (namespace, podunavailablebudget) (kruise_podunavailablebudget_status_unavailable_allowed)",
                "{{namespace}}/{{podunavailablebudget}}",
            )
        ],
    ),
    Panel(
        title="Reconciles per second",
        lines=[(f"sum by (controller) (rate(controller_runtime_reconcile_total{_RATE}))", "{{controller}}")],
    ),
    Panel(
        title="Failed turns a second",
        lines=[
            (
                f"sum by (controller) (rate(controller_runtime_reconcile_errors_total{_RATE}))",
                "{{controller}}",
            )
        ],
    ),
    Panel(title="Queue depth", lines=[("sum by (name) (workqueue_depth)", "{{name}}")]),
    Panel(
        title="Requests a second, by answer",
        lines=[(f"sum by (code) (rate(rest_client_requests_total{_RATE}))", "{{code}}")],
    ),
    Panel(
        title="Reviews", lines=_quantiles("controller_runtime_webhook_latency_seconds", "webhook"), unit="s"
    ),
    Panel(
        title="Cache lag",
        lines=[("max by (resource) (pykruise_cache_lag_seconds)", "{{resource}}")],
        unit="s",
    ),
    Panel(title="Leader", lines=[("kruise_manager_is_leader", "{{pod}}")]),
    Panel(
        title="Memory",
        lines=[('process_resident_memory_bytes{container="manager"}', "{{pod}}")],
        unit="bytes",
    ),
    Panel(
        title="CPU",
        lines=[(f'rate(process_cpu_seconds_total{{container="manager"}}{_RATE})', "{{pod}}")],
        unit="cores",
    ),
)

_COLUMNS: Final = 24
_HEIGHT: Final = 8


def board() -> Document:
    """The board as Grafana imports it."""
    panels: list[Document] = []
    x = y = 0
    for number, panel in enumerate(PANELS, start=1):
        if x + panel.width > _COLUMNS:
            x, y = 0, y + _HEIGHT
        panels.append(_panel(panel, number, x=x, y=y))
        x += panel.width
    return {
        "uid": "kruise",
        "title": "Kruise",
        "tags": ["kubernetes", "kruise"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}
            ]
        },
        "panels": panels,
    }


def _panel(panel: Panel, number: int, *, x: int, y: int) -> Document:
    is_table = panel.kind == "table"
    targets = [
        {
            "refId": chr(ord("A") + place),
            "expr": expr,
            "legendFormat": legend,
            **({"format": "table", "instant": True} if is_table else {}),
        }
        for place, (expr, legend) in enumerate(panel.lines)
    ]
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "gridPos": {"x": x, "y": y, "w": panel.width, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "options": {} if is_table else {"legend": {"displayMode": "list", "placement": "bottom"}},
        "targets": targets,
    }


def board_config_map(*, namespace: str) -> Document:
    """The board where Grafana's sidecar finds it."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "kruise-grafana-dashboard",
            "namespace": namespace,
            "labels": {"grafana_dashboard": "1"},
        },
        "data": {"kruise.json": json.dumps(board(), indent=1, sort_keys=True) + "\n"},
    }
