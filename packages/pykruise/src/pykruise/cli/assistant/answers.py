"""Arguments and answers of the tools. Clients receive JSON schemas of these types, with the docstrings as descriptions.

Every answer has `text`, the report that the command prints for people, and the same facts as fields with codes.
"""

from typing import Any

import msgspec


class ToolArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of a tool."""


class ToolAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of a tool."""

    text: str
    """The report for people."""


class ExplainArguments(ToolArguments, frozen=True, kw_only=True):
    """Objects to explain."""

    target: str
    """TYPE/NAME of one object, such as clonesets/web, or pod/web-4x2kl to see why a pod is not deleted, evicted or
    ready.
    """
    namespace: str = ""
    """Namespace of the objects; if empty, the namespace of the kubeconfig's context."""


class ExplainAnswer(ToolAnswer, frozen=True, kw_only=True):
    """State of one object and the reason why it waits."""

    cause: str
    """Code of the first reason why the object waits; empty if the object waits for nothing."""
    phase: str
    """Progressing, Healthy, Degraded, Paused, Failed or Completed."""
    needs_person: bool
    """Whether a person must act. Otherwise the object matches its spec, or the manager continues automatically."""
    explanation: dict[str, Any]
    """The document of `pykruise explain -o json`: headline, waits (code, words, pods, remedy), next, rollback_to."""


class OverviewArguments(ToolArguments, frozen=True, kw_only=True):
    """Objects to list."""

    namespace: str = ""
    """Namespace of the objects; if empty, the namespace of the kubeconfig's context."""
    all_namespaces: bool = False
    """Whether objects of all namespaces are listed."""
    selector: str = ""
    """Label selector, such as app=web."""
    only_needing_action: bool = False
    """Whether rows of objects that need no action are left out."""


class OverviewRow(msgspec.Struct, frozen=True, kw_only=True):
    """One object at a glance."""

    kind: str
    namespace: str
    name: str
    phase: str
    needs_person: bool
    cause: str
    """Code of the first reason why the object waits; empty if the object waits for nothing."""
    reason: str
    """The reason in words; without a reason, the progress."""
    remedy: str
    """Advice on how to end the wait; empty if nothing has to be done."""


class OverviewAnswer(ToolAnswer, frozen=True, kw_only=True):
    """Objects of every kind, those that need action first."""

    objects: list[OverviewRow]
    omitted: int = 0
    """Number of objects that are left out because there are too many."""
    hidden_kinds: list[str] = []
    """Kinds that are left out, because the user has no permission to list their objects."""


class PlanArguments(ToolArguments, frozen=True, kw_only=True):
    """A change: either `manifest`, or `target` with `changes`."""

    manifest: str = ""
    """YAML of the objects to apply."""
    target: str = ""
    """TYPE/NAME of a stored object that changes, such as clonesets/web."""
    changes: list[str] = []
    """Fields to set at the target: image=CONTAINER=IMAGE, replicas=N, partition=N, maxUnavailable=N, paused=true."""
    namespace: str = ""
    """Namespace of the objects; if empty, the namespace of the kubeconfig's context."""


class PlanAnswer(ToolAnswer, frozen=True, kw_only=True):
    """Consequences of a change that is not applied."""

    has_changes: bool
    is_refused: bool
    """Whether the API server or its webhooks would reject the change."""
    forecasts: list[dict[str, Any]]
    """One document per object, as `pykruise plan -o json` prints it."""


class SimulateArguments(ToolArguments, frozen=True, kw_only=True):
    """A rollout, job or schedule to simulate in virtual time, without a cluster."""

    manifest: str
    """YAML of the current workload, job or schedule."""
    changes: list[str] = []
    """YAML of the changed workload. Two entries are simulated separately, to compare their update strategies."""
    pods_ready_after: str = "2s"
    """Time that a pod takes to become ready: 10s, or 5s..30s."""
    fail_pod: str = "0%"
    """Share of new pods that never become ready, or of runs that fail: 3%."""
    drain: list[str] = []
    """Nodes to drain. Each entry names the time after the change at which the drain starts: node-1@60s."""
    nodes: int = 3
    """Number of nodes, named node-1 and so on; at most 100."""
    seed: int = 1
    """Seed of the random values. Another seed changes the delays and the pods that fail."""
    kubernetes: str = ""
    """Minor version of the simulated Kubernetes, such as 1.34; the newest one if empty."""
    runs_for: str = "30d"
    """Length of the simulation of a schedule."""


class SimulateAnswer(ToolAnswer, frozen=True, kw_only=True):
    """Course of a simulation."""

    is_complete: bool
    """Whether the rollout, job or schedule ended as requested."""
    simulation: Any
    """The document of `pykruise simulate -o json`."""


class HistoryArguments(ToolArguments, frozen=True, kw_only=True):
    """A workload with revisions."""

    target: str
    """TYPE/NAME, such as clonesets/web."""
    namespace: str = ""
    """Namespace of the workload; if empty, the namespace of the kubeconfig's context."""


class HistoryRow(msgspec.Struct, frozen=True, kw_only=True):
    """One revision."""

    number: int
    """Number for `kubectl kruise rollout undo --to-revision`."""
    name: str
    change_cause: str
    differences: list[str]
    """Changes compared with the previous revision. Each entry describes one field: `path: old → new`."""


class HistoryAnswer(ToolAnswer, frozen=True, kw_only=True):
    """Revisions of a workload, oldest first."""

    revisions: list[HistoryRow]


class EventsArguments(ToolArguments, frozen=True, kw_only=True):
    """An object whose events are read."""

    target: str
    """TYPE/NAME of any kind, such as clonesets/web or pod/web-4x2kl."""
    namespace: str = ""
    """Namespace of the object; if empty, the namespace of the kubeconfig's context."""


class EventRow(msgspec.Struct, frozen=True, kw_only=True):
    """One event."""

    type: str
    """Normal or Warning."""
    reason: str
    message: str
    count: int
    first: str
    last: str
    source: str
    code: str
    """The manager's code for a failed write; empty if the event has no code."""


class EventsAnswer(ToolAnswer, frozen=True, kw_only=True):
    """Events of one object, oldest first."""

    events: list[EventRow]
    omitted: int = 0
    """Number of older events that are left out because there are too many."""


class DoctorArguments(ToolArguments, frozen=True, kw_only=True):
    """An installation to examine."""

    manager_namespace: str = "kruise-system"
    """Namespace of the manager."""


class FindingRow(msgspec.Struct, frozen=True, kw_only=True):
    """One result of a check."""

    check: str
    level: str
    """ok, unknown, warning or fault."""
    what: str
    fix: str


class DoctorAnswer(ToolAnswer, frozen=True, kw_only=True):
    """Results of the checks of an installation."""

    faults: int
    findings: list[FindingRow]
