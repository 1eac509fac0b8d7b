"""Feature gates: the features of OpenKruise that are enabled, with OpenKruise's names and defaults.

values of --feature-gates, environment ──▶ parse() ──▶ Gates ──▶ settings of kinds, controllers, webhooks

Pure. The table in this module contains OpenKruise's gates. A kind can add its own gates (`Kind.own_gates`). The values
of several flags are read as one list: a gate that is set by its name takes precedence over AllAlpha and AllBeta, in any
order. If a gate depends on another gate, it is switched off (or on) afterwards, and `Gates.notes` reports this.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from pykruise.kinds import list_kinds
from pykruise.kube.values.near_misses import format_hint
from pykruise.plans.kind import Kind
from pykruise.pods.settings import Gate, Maturity

GATES: Mapping[str, Gate] = {
    "PodWebhook": Gate(True, "beta", "webhooks review new pods"),
    "KruiseDaemon": Gate(True, "beta", "enables the kinds that need the node agent"),
    "DaemonWatchingPod": Gate(True, "beta", "the node agent reports metadata of containers"),
    "WorkloadSpread": Gate(True, "beta", "enables WorkloadSpread"),
    "PodUnavailableBudgetDeleteGate": Gate(True, "beta", "budgets protect pods from deletion and eviction"),
    "PodUnavailableBudgetUpdateGate": Gate(False, "alpha", "budgets limit in-place updates"),
    "InPlaceUpdateEnvFromMetadata": Gate(
        True, "beta", "a container restarts when a label or annotation in its environment changes"
    ),
    "StatefulSetAutoDeletePVC": Gate(
        True, "beta", "deletes claims according to the retention policy of the StatefulSet"
    ),
    "PodProbeMarkerGate": Gate(True, "beta", "enables PodProbeMarker and NodePodProbe"),
    "PodIndexLabel": Gate(True, "beta", "adds the label pod-index to pods of a StatefulSet"),
    "ResourcesDeletionProtection": Gate(False, "beta", "protects objects from deletion"),
    "ResourceDistributionGate": Gate(False, "beta", "enables ResourceDistribution"),
    "CloneSetShortHash": Gate(
        False, "alpha", "the revision label of a CloneSet's pods contains only the hash"
    ),
    "KruisePodReadinessGate": Gate(False, "alpha", "adds the readiness gate KruisePodReady to all pods"),
    "PreDownloadImageForInPlaceUpdate": Gate(
        False, "alpha", "pulls images before an in-place update of a CloneSet or StatefulSet"
    ),
    "PreDownloadImageForDaemonSetUpdate": Gate(
        False, "alpha", "pulls images before an update of a DaemonSet"
    ),
    "CloneSetPartitionRollback": Gate(False, "alpha", "a higher partition rolls updated pods back"),
    "TemplateNoDefaults": Gate(False, "alpha", "stores templates without defaults; do not turn it off"),
    "SidecarSetPatchPodMetadataDefaultsAllowed": Gate(
        False, "alpha", "SidecarSets may patch any annotation of pods"
    ),
    "SidecarTerminator": Gate(False, "alpha", "ends the sidecars of finished jobs"),
    "CloneSetEventHandlerOptimization": Gate(
        False, "alpha", "fewer pod events trigger a reconcile of CloneSets"
    ),
    "PreparingUpdateAsUpdate": Gate(
        False, "alpha", "when a CloneSet is scaled, its pods in PreparingUpdate count as updated"
    ),
    "ImagePullJobGate": Gate(False, "alpha", "enables ImagePullJob and ImageListPullJob"),
    "DeletionProtectionForCRDCascadingGate": Gate(False, "alpha", "protects CRDs with objects from deletion"),
    "EnhancedLivenessProbe": Gate(False, "alpha", "moves liveness probes to an annotation of the pod"),
    "RecreatePodWhenChangeVCTInCloneSetGate": Gate(
        False, "alpha", "recreates a CloneSet's pods when volumeClaimTemplates change"
    ),
    "StatefulSetStartOrdinal": Gate(False, "alpha", "enables spec.ordinals.start of StatefulSets"),
    "EnableExternalCerts": Gate(False, "alpha", "another program provides the webhook certificates"),
    "StatefulSetAutoResizePVCGate": Gate(
        False, "alpha", "resizes claims when volumeClaimTemplates request more storage"
    ),
    "ForceDeleteTimeoutExpectationGate": Gate(
        False, "alpha", "no effect: pykruise has no expectations that time out"
    ),
    "InPlaceWorkloadVerticalScaling": Gate(
        False,
        "alpha",
        "resizes cpu and memory in place; default: on with Kubernetes 1.35 and later",
        by_server=True,
    ),
    "EnablePodProbeMarkerOnServerless": Gate(
        False, "alpha", "probes pods on virtual nodes through annotations of the pods"
    ),
    "EnableSortSidecarContainerByName": Gate(False, "alpha", "sorts injected containers by name"),
    "InPlacePodVerticalScaling": Gate(False, "alpha", "budgets treat RESIZE as a separate operation"),
    "DefaultHostNetworkHostPortsInPodTemplates": Gate(
        False, "alpha", "sets hostPort in templates with hostNetwork"
    ),
    "DaemonSetPruneIneligibleNodes": Gate(
        False, "alpha", "pods on ineligible nodes do not count against maxUnavailable"
    ),
}
"""OpenKruise's gates, by their exact names."""

ALIASES: Mapping[str, str] = {
    "EnhancedLivenessProbeGate": "EnhancedLivenessProbe",
    "ForceDeleteTimeoutExpectationFeatureGate": "ForceDeleteTimeoutExpectationGate",
}
"""Other names of gates that appear in documentation → the exact name."""

_META: Mapping[str, Maturity] = {"AllAlpha": "alpha", "AllBeta": "beta"}

_TRUE = frozenset(("1", "t", "T", "true", "TRUE", "True"))
_FALSE = frozenset(("0", "f", "F", "false", "FALSE", "False"))

CUSTOM_RESOURCES = "CUSTOM_RESOURCE_ENABLE"
"""Older environment variable: a comma-separated list of kinds. A list without SidecarSet switches the pod
webhook off.
"""


class _Rule(msgspec.Struct, frozen=True):
    """Dependency of gates: if any gate of `when` is `while_is`, the gates of `then` become `becomes`."""

    when: tuple[str, ...]
    while_is: bool
    then: tuple[str, ...]
    becomes: bool


_RULES = (
    _Rule(
        ("PodWebhook",),
        False,
        (
            "KruisePodReadinessGate",
            "PodUnavailableBudgetDeleteGate",
            "PodUnavailableBudgetUpdateGate",
            "WorkloadSpread",
            "SidecarSetPatchPodMetadataDefaultsAllowed",
            "EnhancedLivenessProbe",
            "EnablePodProbeMarkerOnServerless",
        ),
        False,
    ),
    _Rule(
        ("KruiseDaemon",),
        False,
        (
            "PreDownloadImageForInPlaceUpdate",
            "DaemonWatchingPod",
            "InPlaceUpdateEnvFromMetadata",
            "PreDownloadImageForDaemonSetUpdate",
            "PodProbeMarkerGate",
            "SidecarTerminator",
            "ImagePullJobGate",
            "EnhancedLivenessProbe",
        ),
        False,
    ),
    _Rule(
        ("PreDownloadImageForInPlaceUpdate", "PreDownloadImageForDaemonSetUpdate"),
        True,
        ("ImagePullJobGate",),
        True,
    ),
    _Rule(("ResourcesDeletionProtection",), False, ("DeletionProtectionForCRDCascadingGate",), False),
)
"""The rules. Each is applied once, in this order."""


def list_all_gates() -> Mapping[str, Gate]:
    """Return all gates by their exact names: OpenKruise's gates, and the gates that kinds add."""
    return {**GATES, **{name: gate for kind in list_kinds() for name, gate in kind.own_gates.items()}}


class GateError(ValueError):
    """An invalid value of --feature-gates. The message names the problem and the accepted values."""


class Gates(msgspec.Struct, frozen=True):
    """The state of all gates. `Gates()` has OpenKruise's defaults.

    `differing` contains the gates that differ from the defaults after all rules were applied. Use `parse` to read a
    flag, or `Gates.of(CloneSetShortHash=True)` in code.
    """

    differing: Mapping[str, bool] = {}
    notes: tuple[str, ...] = ()
    """Messages for a person: about gates whose value differs from the requested value, and about other names of
    gates.
    """
    kept_off: frozenset[str] = frozenset()
    """Gates that were set to off, and would otherwise be on if the API server supports the feature
    (`Gate.by_server`).
    """

    @classmethod
    def of(cls, **wanted: bool) -> "Gates":
        """Return the defaults with these changes, after all rules were applied."""
        return parse([",".join(f"{name}={str(on).lower()}" for name, on in wanted.items())])

    def __getitem__(self, name: str) -> bool:
        """Whether a gate is on. Raises KeyError for an unknown name."""
        if (wanted := self.differing.get(name)) is not None:
            return wanted
        gate = GATES.get(name) or list_all_gates()[name]
        return gate.default

    def is_left_to_server(self, name: str) -> bool:
        """Whether the gate is not set, and is on if the API server supports the feature (`Gate.by_server`)."""
        return list_all_gates()[name].by_server and name not in self.differing and name not in self.kept_off

    def list_closed(self, kind: Kind) -> list[str]:
        """Return the gates that must be turned on so that the kind is enabled, with the gates on which these depend;
        empty if the kind is enabled.
        """
        if kind.is_enabled(self.__getitem__):
            return []
        wanted = [*kind.gates, *kind.any_gate[:1]]
        masters = [
            name
            for rule in _RULES
            if not rule.while_is and set(rule.then) & set(wanted)
            for name in rule.when
        ]
        return [name for name in dict.fromkeys((*masters, *wanted)) if not self[name]]

    def turn_on(self, names: Iterable[str]) -> str:
        """Return the value of --feature-gates that turns these gates on and keeps all other gates as they are."""
        given = {
            **self.differing,
            **dict.fromkeys(sorted(self.kept_off), False),
            **dict.fromkeys(names, True),
        }
        return ",".join(f"{name}={str(on).lower()}" for name, on in given.items())

    def __iter__(self) -> Iterator[tuple[str, bool]]:
        """Yield all gates with their state, in the order of the table."""
        return ((name, self[name]) for name in list_all_gates())

    def __str__(self) -> str:
        """Format the gates that differ from the defaults as `A=true,B=false`. `parse` reads this format."""
        given = {**self.differing, **dict.fromkeys(sorted(self.kept_off), False)}
        return ",".join(f"{name}={str(on).lower()}" for name, on in given.items())


def parse(texts: Iterable[str] = (), *, environ: Mapping[str, str] | None = None) -> Gates:
    """Parse values such as `A=true,B=false` as one list. Without values, return the defaults.

    Only CUSTOM_RESOURCE_ENABLE is read from `environ`; nothing is read if it is None. Raises GateError for an unknown
    gate, a value that is not a boolean, and a gate that is set both on and off. The rules for flags are those of
    Kubernetes, the dependencies between gates those of OpenKruise.
    """
    asked: dict[str, bool] = {}
    notes: list[str] = []
    texts = [text for text in texts if text]
    known = list_all_gates() if texts else GATES  # without values, the kinds do not have to be loaded
    for name, value in _parse_items(texts, known):
        if name in ALIASES:
            notes.append(f"gate {name} is another name of {ALIASES[name]}; write {ALIASES[name]}")
            name = ALIASES[name]
        if asked.setdefault(name, value) != value:
            raise GateError(f"gate {name} is set both on and off; set it once")
    states = _read_defaults(known, environ or {})
    for meta, stage in _META.items():
        if meta in asked:
            states |= {name: asked[meta] for name, gate in known.items() if gate.stage == stage}
    states |= {name: on for name, on in asked.items() if name not in _META}
    for rule in _RULES:
        notes += _apply_rule(rule, states, asked)
    differing = {name: on for name, on in states.items() if on != known[name].default}
    kept_off = frozenset(
        name for name, on in asked.items() if not on and name in known and known[name].by_server
    )
    return Gates({name: differing[name] for name in known if name in differing}, tuple(notes), kept_off)


def _read_defaults(known: Mapping[str, Gate], environ: Mapping[str, str]) -> dict[str, bool]:
    states = {name: gate.default for name, gate in known.items()}
    enabled = environ.get(CUSTOM_RESOURCES, "").strip()
    if enabled and "SidecarSet" not in [kind.strip() for kind in enabled.split(",")]:
        states["PodWebhook"] = False
    return states


def _parse_items(texts: Iterable[str], gates: Mapping[str, Gate]) -> Iterator[tuple[str, bool]]:
    for text in texts:
        for item in text.split(","):
            if not item.strip():
                continue
            name, _, value = (part.strip() for part in item.partition("="))
            if name not in gates and name not in ALIASES and name not in _META:
                known = (*_META, *sorted(gates))
                others = f"; known are: {', '.join(known)}"
                meant = format_hint(name, known, otherwise=others)
                raise GateError(f"gate {name or item.strip()!r} is not known{meant}")
            if value not in _TRUE | _FALSE:
                raise GateError(f"gate {name}: {value!r} is not a boolean; write {name}=true or {name}=false")
            yield name, value in _TRUE


def _apply_rule(rule: _Rule, states: dict[str, bool], asked: Mapping[str, bool]) -> Iterator[str]:
    cause = next((name for name in rule.when if states[name] == rule.while_is), None)
    for name in rule.then if cause is not None else ():
        if states[name] == rule.becomes:
            continue
        states[name] = rule.becomes
        if name in asked:
            yield f"gate {name} is {_to_word(rule.becomes)} because {cause} is {_to_word(rule.while_is)}"


def _to_word(on: bool) -> str:
    return "on" if on else "off"
