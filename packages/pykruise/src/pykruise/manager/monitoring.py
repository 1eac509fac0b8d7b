"""Monitoring of pykruise with Prometheus and Grafana: alerts, a dashboard, scrape targets.

ALERTS ──▶ build_prometheus_rule() ──▶ PrometheusRule        PANELS ──▶ build_board()
    ──▶ a Grafana dashboard, in a ConfigMap
build_pod_monitor() ──▶ PodMonitor

Pure. Expressions use only metrics of metrics.py, state_metrics.py and webhook_metrics.py; a test finds each of them
in real scrapes. A manager reports the series of the objects that it reconciles: all objects, or, when managers share
the work, the objects of its slots. `max by` merges the series of two replicas while a slot or the leader changes.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from pykruise.kinds import list_all_shown
from pykruise.kube.documents import Document
from pykruise.plans.progress import Number
from pykruise.plans.shown import Shown
from pykruise.pods.reasons import DEADLINE_EXCEEDED
from pykruise.pods.workload.kstatus import STALLING

RUNBOOK: Final = "docs/monitoring.md#"
"""Path of a page in the repository. The page explains each alert in a section of its own; the section's name is the
alert's name in lower case.
"""


def runbook_of(alert: str, runbooks: str = "") -> dict[str, str]:
    """Return the annotation with the address of an alert's section. `runbooks`: URL of the page; without it, the
    annotation contains only the path.
    """
    anchor = alert.lower()
    if not runbooks:
        return {"runbook": f"{RUNBOOK}{anchor}"}
    return {"runbook_url": f"{runbooks.rstrip('#')}#{anchor}"}


_STALLING: Final = "|".join(sorted({*STALLING, DEADLINE_EXCEEDED}))


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """An alert. `for_s`: seconds for which the expression must have a result before the alert fires."""

    name: str
    expr: str
    for_s: int
    summary: str
    """Text with Prometheus' template syntax."""
    severity: str = "warning"
    needs_state: bool = False
    """Whether the alert uses series of `--state-metrics`."""


def _of_workloads() -> Iterator[Alert]:
    """Yield the alerts of each kind with rollouts."""
    counted = [item for item in list_all_shown() if item.board == "rollouts" and item.metrics is not None]
    for shown in counted:
        label, named, by, counts = _describe_series(shown)
        if "status_observed_generation" in counts:
            yield Alert(
                name=f"Kruise{shown.kind}GenerationMismatch",
                expr=(
                    f"{by} (kruise_{label}_metadata_generation) !="
                    f" {by} (kruise_{label}_status_observed_generation)"
                ),
                for_s=900,
                summary=f"The manager has not processed the last change of {named}.",
                needs_state=True,
            )
    for shown in counted:
        label, named, by, counts = _describe_series(shown)
        if {"spec_replicas", "status_replicas_available"} <= set(counts):
            yield Alert(
                name=f"Kruise{shown.kind}ReplicasMismatch",
                expr=f"{by} (kruise_{label}_spec_replicas) > {by} (kruise_{label}_status_replicas_available)",
                for_s=900,
                summary=f"{named} has fewer available pods than replicas.",
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


def _describe_series(shown: Shown) -> tuple[str, str, str, Mapping[str, Number]]:
    """Return the kind's label, its name in sentences, the aggregation of its series, and its counts."""
    assert shown.metrics is not None
    label = shown.kind.lower()
    named = f"{shown.kind} {{{{ $labels.namespace }}}}/{{{{ $labels.{label} }}}}"
    return label, named, f"max by (namespace, {label})", shown.metrics.counts


_PHASE: Final = "max by (kind, namespace, name) (pykruise_phase"
_JOBS: Final = "|".join(sorted(item.kind for item in list_all_shown() if item.board == "jobs"))
_CRON: Final = "max by (namespace, advancedcronjob) (kruise_advancedcronjob_next_schedule_time)"
_WAITING: Final = "max by (kind, namespace, name, cause) (pykruise_rollout_waiting"
_NAMED: Final = "{{ $labels.kind }} {{ $labels.namespace }}/{{ $labels.name }}"
_BUDGET: Final = "max by (namespace, podunavailablebudget) (kruise_podunavailablebudget_status"

ALERTS: Final[Sequence[Alert]] = (
    Alert(
        name="KruiseNoLeader",
        expr="absent(kruise_manager_is_leader == 1)",
        for_s=120,
        summary="No manager runs controllers: nothing is created, updated or repaired.",
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
        summary=f"{_NAMED} has been waiting for the same reason for 30 minutes: {{{{ $labels.cause }}}}.",
        needs_state=True,
    ),
    *_of_workloads(),
    Alert(
        name="KruiseJobFailed",
        expr=f'{_PHASE}{{phase="Failed"}}) == 1',
        for_s=60,
        summary=f"{_NAMED} has failed.",
        needs_state=True,
    ),
    Alert(
        name="KruiseJobDegraded",
        expr=f'{_PHASE}{{kind=~"{_JOBS}",phase="Degraded"}}) == 1',
        for_s=900,
        summary=f"{_NAMED} continues, but some of its pods, nodes or images have failed.",
        needs_state=True,
    ),
    Alert(
        name="KruiseScheduleMissed",
        expr=f"time() - {_CRON} > 300",
        for_s=600,
        summary="AdvancedCronJob {{ $labels.namespace }}/{{ $labels.advancedcronjob }} has missed the run that was due"
        " {{ $value }} s ago.",
        needs_state=True,
    ),
    Alert(
        name="KruisePodUnavailableBudgetAtZero",
        expr=f"{_BUDGET}_unavailable_allowed) == 0 and {_BUDGET}_total_replicas) > 0",
        for_s=1800,
        summary="PodUnavailableBudget {{ $labels.namespace }}/{{ $labels.podunavailablebudget }}"
        " allows no disruption: drains and updates wait.",
        needs_state=True,
    ),
    Alert(
        name="KruiseReconcileErrors",
        expr="sum by (controller) (rate(controller_runtime_reconcile_errors_total[10m])) > 0.1",
        for_s=900,
        summary="The controller {{ $labels.controller }} fails repeatedly.",
    ),
    Alert(
        name="KruiseMissingRights",
        expr="sum by (method, resource) (increase(pykruise_missing_rights_total[15m])) > 0",
        for_s=0,
        summary="The manager has no permission to {{ $labels.method }} {{ $labels.resource }}.",
    ),
    Alert(
        name="KruiseWebhookErrors",
        expr='sum by (webhook) (rate(pykruise_webhook_reviews_total{code=~"5.."}[5m])) > 0',
        for_s=300,
        summary="Admission reviews by {{ $labels.webhook }} fail.",
        severity="critical",
    ),
    Alert(
        name="KruiseWatchDown",
        expr="min by (resource) (pykruise_cache_connected) == 0",
        for_s=300,
        summary="A manager has had no watch of {{ $labels.resource }} for 5 minutes.",
    ),
    Alert(
        name="KruiseCacheLag",
        expr="max by (resource) (pykruise_cache_lag_seconds) > 30",
        for_s=300,
        summary="The watch delivers the manager's own writes of {{ $labels.resource }} only after {{ $value }} s.",
    ),
)


def _format_duration(seconds: int) -> str:
    return f"{seconds // 60}m" if seconds % 60 == 0 else f"{seconds}s"


def build_prometheus_rule(*, namespace: str, runbooks: str = "") -> Document:
    """Return all alerts for the Prometheus operator. `runbooks`: address of docs/monitoring.md in a browser."""
    rules = [
        {
            "alert": alert.name,
            "expr": alert.expr,
            **({"for": _format_duration(alert.for_s)} if alert.for_s else {}),
            "labels": {"severity": alert.severity},
            "annotations": {"summary": alert.summary, **runbook_of(alert.name, runbooks)},
        }
        for alert in ALERTS
    ]
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "kruise-manager", "namespace": namespace},
        "spec": {"groups": [{"name": "kruise", "rules": rules}]},
    }


def build_pod_monitor(*, namespace: str, has_state: bool) -> Document:
    """Return the scrape targets for the Prometheus operator. `has_state`: the manager runs with --state-metrics."""
    paths = ["/metrics", *(["/state-metrics"] if has_state else [])]
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": {"name": "kruise-manager", "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"control-plane": "controller-manager"}},
            "podMetricsEndpoints": [
                # Labels of a series (namespace) override the labels of the target.
                {"port": "metrics", "path": path, **({"honorLabels": True} if path != "/metrics" else {})}
                for path in paths
            ],
        },
    }


# ── the dashboard ────────────────────────────────────────────────────────────


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """A panel: a title, and for each line an expression and the legend of its series."""

    title: str
    about: str
    """Meaning of the panel and its bad values, which Grafana shows as the panel's description."""
    lines: Sequence[tuple[str, str]]
    unit: str = "short"
    kind: str = "timeseries"
    """timeseries, table or stat."""
    width: int = 8
    bad_above: float | None = None
    """Value from which on a stat is red; None: a stat is always green."""


class BoardRow(msgspec.Struct, frozen=True, kw_only=True):
    """A heading with the panels below it."""

    title: str
    panels: Sequence[Panel]


_QUANTILE: Final = "histogram_quantile({q}, sum by (le, {by}) (rate({name}_bucket[$__rate_interval])))"


def _build_quantile_queries(name: str, by: str) -> list[tuple[str, str]]:
    return [(_QUANTILE.format(q=q, by=by, name=name), f"{{{{{by}}}}} p{100 * q:.0f}") for q in (0.5, 0.95)]


_RATE: Final = "[$__rate_interval]"
_CHOSEN: Final = 'namespace=~"$namespace",kind=~"$kind",name=~"$name"'
"""Label matchers for the variables at the top of the dashboard."""
_SPACE: Final = 'namespace=~"$namespace"'


def _in_phase(phase: str) -> str:
    return f'count(max by (kind, namespace, name) (pykruise_phase{{{_CHOSEN},phase="{phase}"}}) == 1) or vector(0)'


def _build_replica_queries(kind: str) -> list[tuple[str, str]]:
    """Return queries for the wanted, available and updated pods of a kind."""
    by = f"max by (namespace, {kind})"
    chosen = f'{{{_SPACE},{kind}=~"$name"}}'
    return [
        (f"sum({by} (kruise_{kind}_{series}{chosen}))", word)
        for series, word in (
            ("spec_replicas", "wanted"),
            ("status_replicas_available", "available"),
            ("status_replicas_updated", "updated"),
        )
    ]


ROWS: Final[Sequence[BoardRow]] = (
    BoardRow(
        title="Now",
        panels=(
            Panel(
                title="Needs action",
                about="Objects that need an action by a person. `pykruise explain all -A` names the action.",
                lines=[(_in_phase("Degraded"), "")],
                kind="stat",
                width=4,
                bad_above=1,
            ),
            Panel(
                title="Failed",
                about="Jobs and requests that have ended without success.",
                lines=[(_in_phase("Failed"), "")],
                kind="stat",
                width=4,
                bad_above=1,
            ),
            Panel(
                title="Progressing",
                about="Objects that continue automatically.",
                lines=[(_in_phase("Progressing"), "")],
                kind="stat",
                width=4,
            ),
            Panel(
                title="Healthy",
                about="Objects whose state matches their spec.",
                lines=[(_in_phase("Healthy"), "")],
                kind="stat",
                width=4,
            ),
            Panel(
                title="Managers that lead",
                about="Should be 1, also with several shards. At 0, nothing is created, updated or repaired.",
                lines=[("sum(kruise_manager_is_leader)", "")],
                kind="stat",
                width=4,
            ),
            Panel(
                title="Reconcile errors per second",
                about="Failures of all controllers. The manager's log names each object and write.",
                lines=[(f"sum(rate(controller_runtime_reconcile_errors_total{_RATE}))", "")],
                kind="stat",
                width=4,
                bad_above=0.1,
            ),
        ),
    ),
    BoardRow(
        title="Rollouts",
        panels=(
            Panel(
                title="Waiting objects",
                about="Each object whose state does not match its spec, with the cause (docs/reasons.md).",
                lines=[
                    (f"max by (kind, namespace, name, cause) (pykruise_rollout_waiting{{{_CHOSEN}}})", "")
                ],
                kind="table",
                width=16,
            ),
            Panel(
                title="Waiting objects by cause",
                about="Number of waiting objects by cause.",
                lines=[
                    (f"sum by (kind, cause) (pykruise_rollout_waiting{{{_CHOSEN}}})", "{{kind}}: {{cause}}")
                ],
            ),
            Panel(
                title="Rollout duration",
                about="Time from a change of the spec until the rollout is complete, stopped, stalled or superseded.",
                lines=_build_quantile_queries("pykruise_rollout_duration_seconds", "kind"),
                unit="s",
            ),
            Panel(
                title="Rollouts completed per hour",
                about="Number of rollouts by result.",
                lines=[
                    (
                        "sum by (kind, result) (increase(pykruise_rollout_duration_seconds_count[1h]))",
                        "{{kind}} {{result}}",
                    )
                ],
            ),
            Panel(
                title="CloneSet pods",
                about="Wanted, available and updated pods. If available stays below wanted: see the waiting objects.",
                lines=_build_replica_queries("cloneset"),
            ),
            Panel(
                title="StatefulSet pods",
                about="Wanted, available and updated pods of Advanced StatefulSets.",
                lines=_build_replica_queries("statefulset"),
            ),
            Panel(
                title="DaemonSet nodes without an available pod",
                about=(
                    "Look for the cause if the number is above maxUnavailable during a rollout, or above 0 at any "
                    "other time."
                ),
                lines=[
                    (
                        "max by (namespace, daemonset)"
                        f' (kruise_daemonset_status_number_unavailable{{{_SPACE},daemonset=~"$name"}})',
                        "{{namespace}}/{{daemonset}}",
                    )
                ],
            ),
            Panel(
                title="Disruptions allowed by PodUnavailableBudgets",
                about="At 0, drains, deletions and updates of the pods wait.",
                lines=[
                    (
                        "max by (namespace, podunavailablebudget)"
                        f" (kruise_podunavailablebudget_status_unavailable_allowed{{{_SPACE}}})",
                        "{{namespace}}/{{podunavailablebudget}}",
                    )
                ],
            ),
        ),
    ),
    BoardRow(
        title="Jobs",
        panels=(
            Panel(
                title="Failed and degraded jobs",
                about="Jobs, image pulls and requests that have failed completely or partly.",
                lines=[
                    (
                        "max by (kind, namespace, name, phase)"
                        f' (pykruise_phase{{{_CHOSEN},kind=~"{_JOBS}",phase=~"Failed|Degraded"}}) == 1',
                        "",
                    )
                ],
                kind="table",
                width=12,
            ),
            Panel(
                title="Seconds until the next run",
                about=(
                    "Time until the next run of each AdvancedCronJob that is not paused. Below 0: the run is due. "
                    "Below 0 for a long time: the run was missed."
                ),
                lines=[
                    (
                        "max by (namespace, advancedcronjob)"
                        f" (kruise_advancedcronjob_next_schedule_time{{{_SPACE}}}) - time()",
                        "{{namespace}}/{{advancedcronjob}}",
                    )
                ],
                unit="s",
                width=12,
            ),
        ),
    ),
    BoardRow(
        title="Manager",
        panels=(
            Panel(
                title="Reconciles per second",
                about="Number of reconciles of all controllers.",
                lines=[
                    (
                        f"sum by (controller) (rate(controller_runtime_reconcile_total{_RATE}))",
                        "{{controller}}",
                    )
                ],
            ),
            Panel(
                title="Reconcile errors per second",
                about="By controller.",
                lines=[
                    (
                        f"sum by (controller) (rate(controller_runtime_reconcile_errors_total{_RATE}))",
                        "{{controller}}",
                    )
                ],
            ),
            Panel(
                title="Queue depth",
                about="Objects that wait for a controller. The depth should return to 0 after each burst.",
                lines=[("sum by (name) (workqueue_depth)", "{{name}}")],
            ),
            Panel(
                title="API requests per second, by status code",
                about="429 and 5xx: the API server is overloaded. 403: the manager lacks a permission.",
                lines=[(f"sum by (code) (rate(rest_client_requests_total{_RATE}))", "{{code}}")],
            ),
            Panel(
                title="Webhook latency",
                about="Duration of admission reviews. API servers wait for them.",
                lines=_build_quantile_queries("controller_runtime_webhook_latency_seconds", "webhook"),
                unit="s",
            ),
            Panel(
                title="Cache lag",
                about="Time from a write until the watch shows it.",
                lines=[("max by (resource) (pykruise_cache_lag_seconds)", "{{resource}}")],
                unit="s",
            ),
            Panel(
                title="Leader",
                about="1 for the manager that leads.",
                lines=[("kruise_manager_is_leader", "{{pod}}")],
            ),
            Panel(
                title="Memory",
                about="Memory of each manager's process.",
                lines=[('process_resident_memory_bytes{container="manager"}', "{{pod}}")],
                unit="bytes",
            ),
            Panel(
                title="CPU",
                about="Cores that each manager's process uses.",
                lines=[(f'rate(process_cpu_seconds_total{{container="manager"}}{_RATE})', "{{pod}}")],
                unit="cores",
            ),
        ),
    ),
)

PANELS: Final[Sequence[Panel]] = tuple(panel for row in ROWS for panel in row.panels)

VARIABLES: Final = (
    ("namespace", "Namespace", "label_values(pykruise_phase, namespace)"),
    ("kind", "Kind", 'label_values(pykruise_phase{namespace=~"$namespace"}, kind)'),
    ("name", "Name", 'label_values(pykruise_phase{namespace=~"$namespace",kind=~"$kind"}, name)'),
)
"""Name, label and query of each variable at the top of the dashboard; all values are selected by default."""

_COLUMNS: Final = 24
_HEIGHT: Final = 8
_HEIGHT_OF: Final = {"stat": 4}
_DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


def build_board() -> Document:
    """Return the dashboard as Grafana imports it."""
    panels: list[Document] = []
    y = 0
    for row in ROWS:
        heading = {"x": 0, "y": y, "w": _COLUMNS, "h": 1}
        panels.append(
            {"id": len(panels) + 1, "type": "row", "title": row.title, "gridPos": heading, "panels": []}
        )
        x, y, height = 0, y + 1, 0
        for panel in row.panels:
            if x + panel.width > _COLUMNS:
                x, y = 0, y + height
            height = _HEIGHT_OF.get(panel.kind, _HEIGHT)
            panels.append(_build_panel(panel, len(panels) + 1, x=x, y=y, height=height))
            x += panel.width
        y += height
    return {
        "uid": "kruise",
        "title": "OpenKruise workloads",
        "description": "Rollouts, jobs and pykruise's manager. Panels about the state of objects need --state-metrics.",
        "tags": ["kubernetes", "kruise"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"},
                *map(_build_variable, VARIABLES),
            ]
        },
        "panels": panels,
    }


def _build_variable(item: tuple[str, str, str]) -> Document:
    name, label, query = item
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": _DATASOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "refresh": 2,  # when the time range changes
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }


def _build_panel(item: Panel, number: int, *, x: int, y: int, height: int) -> Document:
    is_instant = item.kind in ("table", "stat")
    targets = [
        {
            "refId": chr(ord("A") + place),
            "datasource": _DATASOURCE,
            "expr": expr,
            "legendFormat": legend,
            **({"instant": True} if is_instant else {}),
            **({"format": "table"} if item.kind == "table" else {}),
        }
        for place, (expr, legend) in enumerate(item.lines)
    ]
    return {
        "id": number,
        "type": item.kind,
        "title": item.title,
        "description": item.about,
        "datasource": _DATASOURCE,
        "gridPos": {"x": x, "y": y, "w": item.width, "h": height},
        "fieldConfig": {"defaults": {"unit": item.unit, **_build_colour_options(item)}, "overrides": []},
        "options": _OPTIONS[item.kind],
        "targets": targets,
    }


def _build_colour_options(item: Panel) -> Document:
    if item.kind != "stat":
        return {}
    bad = [{"color": "red", "value": item.bad_above}] if item.bad_above is not None else []
    return {
        "color": {"mode": "thresholds"},
        "thresholds": {"mode": "absolute", "steps": [{"color": "green", "value": None}, *bad]},
    }


_OPTIONS: Final[Mapping[str, Document]] = {
    "timeseries": {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "table": {"showHeader": True, "cellHeight": "sm"},
    "stat": {
        "colorMode": "background",
        "graphMode": "none",
        "justifyMode": "auto",
        "textMode": "value",
        "orientation": "auto",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
    },
}


def build_board_config_map(*, namespace: str) -> Document:
    """Return a ConfigMap with the dashboard, which Grafana's sidecar finds."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "kruise-grafana-dashboard",
            "namespace": namespace,
            "labels": {"grafana_dashboard": "1"},
        },
        "data": {"kruise.json": json.dumps(build_board(), indent=1, sort_keys=True) + "\n"},
    }
