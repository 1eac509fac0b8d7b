"""Feature gates: which parts of OpenKruise are switched on, under its own names and defaults.

texts of --feature-gates, environment ──▶ parse() ──▶ Gates ──▶ settings of kinds, controllers, webhooks

Pure. Gates that are OpenKruise's are in the table here; a kind may bring some of its own (`Kind.own_gates`).
All texts together are one request: what is set by name wins over AllAlpha and AllBeta wherever it stands.
Some gates need others; those that cannot work are switched off (or on) afterwards, and `Gates.notes` says so.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from pykruise.kinds import kinds
from pykruise.kube.values.near_misses import hint
from pykruise.pods.settings import Gate, Maturity

GATES: Mapping[str, Gate] = {
    "PodWebhook": Gate(True, "beta", "pods are admitted through the webhooks"),
    "KruiseDaemon": Gate(True, "beta", "kinds that need the daemon on the nodes"),
    "DaemonWatchingPod": Gate(True, "beta", "the daemon reports container metadata of its node's pods"),
    "WorkloadSpread": Gate(True, "beta", "WorkloadSpread"),
    "PodUnavailableBudgetDeleteGate": Gate(True, "beta", "budgets guard deletion and eviction"),
    "PodUnavailableBudgetUpdateGate": Gate(False, "alpha", "budgets guard updates in place"),
    "InPlaceUpdateEnvFromMetadata": Gate(True, "beta", "changed labels restart containers fed from them"),
    "StatefulSetAutoDeletePVC": Gate(True, "beta", "claims follow the retention policy of a StatefulSet"),
    "PodProbeMarkerGate": Gate(True, "beta", "PodProbeMarker and NodePodProbe"),
    "PodIndexLabel": Gate(True, "beta", "the pod-index label on pods of a StatefulSet"),
    "ResourcesDeletionProtection": Gate(False, "beta", "deletion protection"),
    "ResourceDistributionGate": Gate(False, "beta", "ResourceDistribution"),
    "CloneSetShortHash": Gate(False, "alpha", "CloneSet labels pods with the hash alone"),
    "KruisePodReadinessGate": Gate(False, "alpha", "the readiness gate KruisePodReady for all pods"),
    "PreDownloadImageForInPlaceUpdate": Gate(False, "alpha", "images are pulled ahead of an update"),
    "PreDownloadImageForDaemonSetUpdate": Gate(False, "alpha", "the same for DaemonSet"),
    "CloneSetPartitionRollback": Gate(False, "alpha", "a raised partition takes updated pods back"),
    "TemplateNoDefaults": Gate(False, "alpha", "templates are stored without defaults; never switch it off"),
    "SidecarSetPatchPodMetadataDefaultsAllowed": Gate(
        False, "alpha", "SidecarSet may patch any annotation of pods"
    ),
    "SidecarTerminator": Gate(False, "alpha", "sidecars of finished jobs are ended"),
    "CloneSetEventHandlerOptimization": Gate(False, "alpha", "pod updates wake CloneSets less often"),
    "PreparingUpdateAsUpdate": Gate(False, "alpha", "pods in PreparingUpdate count as updated while scaling"),
    "ImagePullJobGate": Gate(False, "alpha", "ImagePullJob and ImageListPullJob"),
    "DeletionProtectionForCRDCascadingGate": Gate(False, "alpha", "the protection Cascading for CRDs"),
    "EnhancedLivenessProbe": Gate(False, "alpha", "liveness probes are moved to an annotation"),
    "RecreatePodWhenChangeVCTInCloneSetGate": Gate(
        False, "alpha", "changed volumeClaimTemplates recreate pods of a CloneSet"
    ),
    "StatefulSetStartOrdinal": Gate(False, "alpha", "ordinals.start of a StatefulSet"),
    "EnableExternalCerts": Gate(False, "alpha", "certificates come from outside"),
    "StatefulSetAutoResizePVCGate": Gate(False, "alpha", "claims grow with their template"),
    "ForceDeleteTimeoutExpectationGate": Gate(False, "alpha", "no effect: there are no expectations here"),
    "InPlaceWorkloadVerticalScaling": Gate(
        False,
        "alpha",
        "cpu and memory change in place; not given: on Kubernetes 1.35 and later, where they can",
        by_server=True,
    ),
    "EnablePodProbeMarkerOnServerless": Gate(False, "alpha", "PodProbeMarker by annotations"),
    "EnableSortSidecarContainerByName": Gate(False, "alpha", "injected containers are sorted by name"),
    "InPlacePodVerticalScaling": Gate(False, "alpha", "a budget counts RESIZE as an operation of its own"),
    "DefaultHostNetworkHostPortsInPodTemplates": Gate(
        False, "alpha", "hostPort is filled in for templates with hostNetwork"
    ),
    "DaemonSetPruneIneligibleNodes": Gate(
        False, "alpha", "pods on nodes no longer eligible do not count for maxUnavailable"
    ),
}
"""OpenKruise's gates by their exact spelling."""

ALIASES: Mapping[str, str] = {
    "EnhancedLivenessProbeGate": "EnhancedLivenessProbe",
    "ForceDeleteTimeoutExpectationFeatureGate": "ForceDeleteTimeoutExpectationGate",
}
"""Spellings found in documentation."""

_META: Mapping[str, Maturity] = {"AllAlpha": "alpha", "AllBeta": "beta"}

_TRUE = frozenset(("1", "t", "T", "true", "TRUE", "True"))
_FALSE = frozenset(("0", "f", "F", "false", "FALSE", "False"))

CUSTOM_RESOURCES = "CUSTOM_RESOURCE_ENABLE"
"""An old switch in the environment: a comma list of kinds; without SidecarSet in it pods are not admitted."""


class _Rule(msgspec.Struct, frozen=True):
    """While any of `when` is `while_is`, `then` become `becomes`."""

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
"""Applied in this order, once."""


def all_gates() -> Mapping[str, Gate]:
    """Every gate by its exact spelling: OpenKruise's, and those that kinds bring along."""
    return {**GATES, **{name: gate for kind in kinds() for name, gate in kind.own_gates.items()}}


class GateError(ValueError):
    """A text of gates that cannot be meant; the message says what, and what would be accepted."""


class Gates(msgspec.Struct, frozen=True):
    """Enabled features. `Gates()` is OpenKruise's default.

    `differing` holds what differs from the defaults after all rules; use `parse` to make one of a text, or
    `Gates.of(CloneSetShortHash=True)` in code.
    """

    differing: Mapping[str, bool] = {}
    notes: tuple[str, ...] = ()
    """Notes for a person: gates whose value differs from the requested one, and odd spellings."""
    kept_off: frozenset[str] = frozenset()
    """Gates that would be on where the API server can (`Gate.by_server`), and that are asked to be off."""

    @classmethod
    def of(cls, **wanted: bool) -> "Gates":
        """The defaults with these changes, and what follows from them."""
        return parse([",".join(f"{name}={str(on).lower()}" for name, on in wanted.items())])

    def __getitem__(self, name: str) -> bool:
        """Whether a gate is on. Raises KeyError for a name that is no gate."""
        if (wanted := self.differing.get(name)) is not None:
            return wanted
        gate = GATES.get(name) or all_gates()[name]
        return gate.default

    def is_left_to_server(self, name: str) -> bool:
        """Whether the API server decides, because the gate is one of those and is not asked for."""
        return all_gates()[name].by_server and name not in self.differing and name not in self.kept_off

    def __iter__(self) -> Iterator[tuple[str, bool]]:
        """All gates with their state, in the table's order."""
        return ((name, self[name]) for name in all_gates())

    def __str__(self) -> str:
        """`A=true,B=false`: what differs from the defaults; `parse` reads it back."""
        given = {**self.differing, **dict.fromkeys(sorted(self.kept_off), False)}
        return ",".join(f"{name}={str(on).lower()}" for name, on in given.items())


def parse(texts: Iterable[str] = (), *, environ: Mapping[str, str] | None = None) -> Gates:
    """The gates that `A=true,B=false` texts mean together; none: the defaults.

    `environ` is looked at for CUSTOM_RESOURCE_ENABLE only (None: not at all). Raises GateError for a gate that
    is not known, a value that is no boolean, and a gate that is asked to be both on and off.
    Rule: Kubernetes' feature gates; dependencies as OpenKruise has them.
    """
    asked: dict[str, bool] = {}
    notes: list[str] = []
    texts = [text for text in texts if text]
    known = all_gates() if texts else GATES  # who asks for nothing does not wait for all kinds to be loaded
    for name, value in _items(texts, known):
        if name in ALIASES:
            notes.append(f"gate {name} is spelled {ALIASES[name]}")
            name = ALIASES[name]
        if asked.setdefault(name, value) != value:
            raise GateError(f"gate {name} is asked to be both on and off; set it once")
    states = _defaults(known, environ or {})
    for meta, stage in _META.items():
        if meta in asked:
            states |= {name: asked[meta] for name, gate in known.items() if gate.stage == stage}
    states |= {name: on for name, on in asked.items() if name not in _META}
    for rule in _RULES:
        notes += _apply(rule, states, asked)
    differing = {name: on for name, on in states.items() if on != known[name].default}
    kept_off = frozenset(
        name for name, on in asked.items() if not on and name in known and known[name].by_server
    )
    return Gates({name: differing[name] for name in known if name in differing}, tuple(notes), kept_off)


def _defaults(known: Mapping[str, Gate], environ: Mapping[str, str]) -> dict[str, bool]:
    states = {name: gate.default for name, gate in known.items()}
    enabled = environ.get(CUSTOM_RESOURCES, "").strip()
    if enabled and "SidecarSet" not in [kind.strip() for kind in enabled.split(",")]:
        states["PodWebhook"] = False
    return states


def _items(texts: Iterable[str], gates: Mapping[str, Gate]) -> Iterator[tuple[str, bool]]:
    for text in texts:
        for item in text.split(","):
            if not item.strip():
                continue
            name, _, value = (part.strip() for part in item.partition("="))
            if name not in gates and name not in ALIASES and name not in _META:
                known = (*_META, *sorted(gates))
                others = f"; known are: {', '.join(known)}"
                meant = hint(name, known, otherwise=others)
                raise GateError(f"gate {name or item.strip()!r} is not known{meant}")
            if value not in _TRUE | _FALSE:
                raise GateError(f"gate {name}: {value!r} is not a boolean; write {name}=true or {name}=false")
            yield name, value in _TRUE


def _apply(rule: _Rule, states: dict[str, bool], asked: Mapping[str, bool]) -> Iterator[str]:
    cause = next((name for name in rule.when if states[name] == rule.while_is), None)
    for name in rule.then if cause is not None else ():
        if states[name] == rule.becomes:
            continue
        states[name] = rule.becomes
        if name in asked:
            yield f"gate {name} is {_word(rule.becomes)} because {cause} is {_word(rule.while_is)}"


def _word(on: bool) -> str:
    return "on" if on else "off"
