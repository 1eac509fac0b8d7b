"""Plan for webhook certificates, webhook configurations and conversion stanzas. Pure.

stored certificates + Waits     ──▶ plan_certificates()   ──▶ renewed or not, served at once or not
Observed + WebhookTarget + Waits ──▶ plan_configurations() ──▶ ConfigurationPlan: patches, problems, when to look again

webhook_sync.py observes, plans, writes. Between two passes it keeps only `Waits`: since when a fact holds. Three
decisions need one that has held for a while, unchanged:

- Entries have stood for CONFIRM_S: the configuration is written once more (see `with_confirmation`).
- A new authority cannot be written to API servers for HOLD_S: it is served with all the same.
- **Match conditions.** API servers ask about the pods that stored objects select, and about all pods while these
  change ("all": those that could be selected; of updates, which no kind reviews, it is none):
  1. Conditions that are not exactly those of what is stored are widened to that at once.
  2. They are written when the configuration has stood unchanged for `quiet_s`, all that time with the same ones due,
     and a list by the API server itself says so too.
  A change of selectors is admitted only after conditions were removed: match_conditions.py.

Only durations of one process are measured; no clocks are compared.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.admission.certificates import CertificateFacts, Certificates, judge, shares_authority
from pykruise.admission.configurations import (
    CONFIGURATIONS,
    Endpoint,
    WebhookConfigurationError,
    current_conditions,
    desired_conversion,
    desired_webhooks,
    mismatches,
    with_confirmation,
)
from pykruise.admission.match_conditions import conditions_due, widest_conditions, with_conditions
from pykruise.admission.pods.chain import CONDITION
from pykruise.kinds import GROUPS
from pykruise.kube.admission import ReviewRule
from pykruise.kube.cache.metadata_view import MetadataView, project_metadata
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.kube.patches import diff_json
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from pykruise.kube.values.cel import Interests

CONFIRM_S: Final = 5.0
"""How long webhook configurations stand before they are written a second time: longer than API servers lag behind."""

HOLD_S: Final = 300.0
"""How long a new authority waits at most while API servers cannot be given it."""

QUIET_S: Final = 120.0
"""How long nothing changes before conditions are narrowed. Above API servers' request timeout (60 s unless set
otherwise), within which they store what was reviewed: nothing is narrowed between the two."""


# ── what is observed ─────────────────────────────────────────────────────────


class CrdView(MetadataView, frozen=True, kw_only=True):
    """Fields of a CRD that the plan needs."""

    group: str
    kind: str
    versions: int
    conversion: Mapping[str, Any] | None


class _Names(msgspec.Struct):
    kind: str = ""


class _Spec(msgspec.Struct):
    group: str = ""
    names: _Names = msgspec.field(default_factory=_Names)
    versions: list[msgspec.Raw] = []
    conversion: dict[str, Any] | None = None


class _Crd(msgspec.Struct):
    spec: _Spec


_decode_crd = msgspec.json.Decoder(_Crd).decode


def project_crd(raw: bytes | msgspec.Raw) -> CrdView:
    """A CRD's view; of foreign ones nothing of the conversion is kept. Raises msgspec.DecodeError."""
    meta, spec = project_metadata(raw), _decode_crd(raw).spec
    return CrdView(
        **msgspec.structs.asdict(meta),
        group=spec.group,
        kind=spec.names.kind,
        versions=len(spec.versions),
        conversion=spec.conversion if spec.group in GROUPS else None,
    )


class WebhookTarget(msgspec.Struct, frozen=True, kw_only=True):
    """Served paths and their address; the same in every pass."""

    rules: Mapping[str, ReviewRule]
    """Rules by path, for every served path."""
    converted: frozenset[tuple[str, str]]
    """Group and kind of what is converted here."""
    endpoint: Endpoint
    is_managed: bool
    """False: certificates come from elsewhere, and configurations are only compared."""
    quiet_s: float = QUIET_S


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """Observations of one pass."""

    at: float
    """Seconds of the event loop."""
    bundle: bytes
    """The authority that API servers have to believe."""
    configurations: Mapping[str, Document | None]
    """Configurations by name; None: missing."""
    crds: Sequence[CrdView]
    selectors: Interests | None
    """Selectors from caches, perhaps a moment old; None: not read yet."""
    listed_selectors: Interests | None = None
    """Selectors from the API server, where a plan needs them (`needs_selectors`)."""


# ── waiting ──────────────────────────────────────────────────────────────────

Waits = Mapping[str, tuple[object, float]]
"""Waits by subject: the fact that must hold for a while, and the time since which it holds (seconds of the event loop).
"""


class _Waiting:
    """The waits of one plan, from those of the plan before. One that is not asked for is over."""

    def __init__(self, before: Waits, *, at: float) -> None:
        self._before = before
        self._at = at
        self.facts: dict[str, tuple[object, float]] = {}
        self.again_s: float | None = None
        """Until the first of them is over; None: there is none."""

    def has_held(self, subject: str, fact: object, *, for_s: float) -> bool:
        """Whether the fact has been the same for so long; its wait then begins anew, if that changes nothing."""
        known, since = self._before.get(subject, (None, self._at))
        if known != fact:
            since = self._at
        is_over = self._at >= since + for_s
        if is_over:
            since = self._at
        self.facts[subject] = (fact, since)
        left_s = since + for_s - self._at
        self.again_s = left_s if self.again_s is None else min(self.again_s, left_s)
        return is_over


# ── certificates ─────────────────────────────────────────────────────────────


class CertificatePlan(msgspec.Struct, frozen=True, kw_only=True):
    """Planned changes of certificates."""

    renew_because: str = ""
    """Not empty: new ones are made and stored, before anything else."""
    serves_at_once: bool = False
    """Serve with them before API servers were given their authority."""
    waits: Waits = {}


class Examined(msgspec.Struct, frozen=True):
    """Certificates, and what is to be known of them."""

    certificates: Certificates
    facts: CertificateFacts


def plan_certificates(
    stored: Examined | None,
    served: Examined | None,
    *,
    renew_before_s: float | None,
    now: Instant,
    at: float,
    waits: Waits,
) -> CertificatePlan:
    """`renew_before_s`: a pair that expires sooner is renewed; None: never here. `at`: seconds of the event loop."""
    if stored is None:
        return CertificatePlan(renew_because="there are none")
    if renew_before_s is not None:
        problem = judge(stored.facts, now=now, lasting_s=renew_before_s)
        if problem:
            return CertificatePlan(renew_because=problem, waits=waits)
    if served is None:
        return CertificatePlan(serves_at_once=True)
    if stored.certificates == served.certificates:
        return CertificatePlan()
    waiting = _Waiting(waits, at=at)
    # All who believe one believe the other, or there is nothing to lose.
    serves_at_once = (
        waiting.has_held("authority", stored.certificates.authority, for_s=HOLD_S)
        or bool(judge(served.facts, now=now, lasting_s=0.0))
        or not shares_authority(stored.facts, served.facts)
        or shares_authority(served.facts, stored.facts)
    )
    return CertificatePlan(serves_at_once=serves_at_once, waits=waiting.facts)


# ── configurations and CRDs ──────────────────────────────────────────────────


class PlannedPatch(msgspec.Struct, frozen=True, kw_only=True):
    """One write: the narrowest JSON patch, and the version that it was planned for."""

    resource: Resource
    name: str
    version: str
    operations: tuple[Document, ...]
    because: str

    @property
    def body(self) -> list[Document]:
        """The operations behind their precondition."""
        return [{"op": "test", "path": "/metadata/resourceVersion", "value": self.version}, *self.operations]


class ConfigurationPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Planned changes of webhook configurations and CRDs."""

    patches: tuple[PlannedPatch, ...] = ()
    problems: tuple[str, ...] = ()
    """Problems that only a person can correct; patches are written nevertheless."""
    again_s: float | None = None
    """Until another plan may say something else although nothing changed; None: never."""
    needs_selectors: bool = False
    """Conditions may be narrowed if `Observed.listed_selectors` says so too; without them they stay wide."""
    waits: Waits = {}


def plan_configurations(
    observed: Observed, target: WebhookTarget, *, waits: Waits, futile: Sequence[PlannedPatch] = ()
) -> ConfigurationPlan:
    """`futile`: patches that changed nothing. They are not planned again, as long as the object stays the same."""
    draft = _Draft(observed, target, _Waiting(waits, at=observed.at), futile)
    for resource, name in CONFIGURATIONS:
        draft.plan_webhooks(resource, name)
    for crd in observed.crds:
        if crd.versions and (crd.group, crd.kind) in target.converted:
            draft.plan_conversion(crd)
    return ConfigurationPlan(
        patches=tuple(draft.patches),
        problems=tuple(draft.problems),
        again_s=draft.waiting.again_s,
        needs_selectors=draft.needs_selectors,
        waits=draft.waiting.facts,
    )


class _Draft:
    """A ConfigurationPlan in the making."""

    def __init__(
        self, observed: Observed, target: WebhookTarget, waiting: _Waiting, futile: Sequence[PlannedPatch]
    ) -> None:
        self.waiting = waiting
        self.patches: list[PlannedPatch] = []
        self.problems: list[str] = []
        self.needs_selectors = False
        self._observed = observed
        self._target = target
        self._futile = futile
        # A webhook about a kind that is not installed comes with it. Rule: OpenKruise's, which looks once at its
        # start; here it does not matter what is installed first.
        known = {(crd.group, crd.kind) for crd in observed.crds if crd.versions}
        self._rules = {
            path: rule for path, rule in target.rules.items() if rule.needs is None or rule.needs in known
        }

    def plan_webhooks(self, resource: Resource, name: str) -> None:
        """One webhook configuration."""
        live = self._observed.configurations.get(name)
        if live is None:
            self.problems.append(f"{resource}: {name} is not there; apply what `pykruise install` prints")
        elif not self._target.is_managed:
            self.problems += (f"{resource}: {problem}" for problem in self._external_problems(live))
        else:
            try:
                rules, because = self._with_conditions(name, live)
                wanted = desired_webhooks(
                    live, rules, endpoint=self._target.endpoint, bundle=self._observed.bundle
                )
            except WebhookConfigurationError as error:
                self.problems.append(f"{resource}: {error}")
                return
            if not self._patch(resource, live, wanted, because=because):
                self._plan_confirmation(resource, live)

    def plan_conversion(self, crd: CrdView) -> None:
        """The conversion stanza of one of our CRDs."""
        wanted = desired_conversion(
            crd.conversion, endpoint=self._target.endpoint, bundle=self._observed.bundle
        )
        if wanted is None or crd.conversion is None:
            return
        if self._target.is_managed:
            live = {"metadata": {"name": crd.name, "resourceVersion": str(crd.resource_version)}}
            self._patch(
                CUSTOM_RESOURCE_DEFINITIONS,
                {**live, "spec": {"conversion": crd.conversion}},
                {**live, "spec": {"conversion": wanted}},
                because="its conversion is served here",
            )
            return
        config = (crd.conversion.get("webhook") or {}).get("clientConfig") or {}
        if config.get("caBundle") != wanted["webhook"]["clientConfig"].get("caBundle"):
            self.problems.append(f"{crd.name}: its conversion does not match the external caBundle")

    def _external_problems(self, live: Document) -> list[str]:
        problems = []
        if wrong := mismatches(live, self._target.rules, bundle=self._observed.bundle):
            problems.append(f"{', '.join(wrong)}: does not match the external caBundle")
        if any(current_conditions(live).values()):
            # Left by a manager that kept it; nothing keeps it now, and new objects would be missed.
            problems.append(f"its match condition {CONDITION} has no keeper now: delete it")
        return problems

    def _with_conditions(self, name: str, live: Document) -> tuple[Mapping[str, ReviewRule], str]:
        """The rules with the conditions that the configuration should have now, and why these."""
        current, usual = current_conditions(live), "its entries point here"
        selectors = self._observed.selectors
        if selectors is None:
            # As it was left: no object that selects pods can be created without a review.
            return with_conditions(self._rules, current), usual
        narrowable = {path: self._rules[path] for path in current if path in self._rules}
        due, widest = conditions_due(narrowable, selectors), widest_conditions(narrowable)
        if due == {path: current[path] for path in due}:
            return with_conditions(self._rules, due), usual
        fact = (live["metadata"]["resourceVersion"], due)
        if self.waiting.has_held(f"conditions of {name}", fact, for_s=self._target.quiet_s):
            listed = self._observed.listed_selectors
            self.needs_selectors = self.needs_selectors or listed is None
            if listed is not None and conditions_due(narrowable, listed) == due:
                return with_conditions(self._rules, due), "API servers ask only about pods that are selected"
        is_wider = any(current[path] not in ((), conditions) for path, conditions in widest.items())
        because = "API servers ask about every pod while selectors change" if is_wider else usual
        return with_conditions(self._rules, widest), because

    def _plan_confirmation(self, resource: Resource, live: Document) -> None:
        """Write a configuration that has stood for a moment once more, unless that was done."""
        wanted, metadata = with_confirmation(live), live["metadata"]
        if wanted is not None and self.waiting.has_held(
            f"entries of {metadata['name']}", metadata["resourceVersion"], for_s=CONFIRM_S
        ):
            self._patch(resource, live, wanted, because="written once more, for API servers that missed it")

    def _patch(self, resource: Resource, live: Document, wanted: Document, *, because: str) -> bool:
        """Plan the difference; False: there is none, or it is futile."""
        metadata, operations = live["metadata"], tuple(diff_json(live, wanted))
        name, version = metadata["name"], metadata["resourceVersion"]
        if not operations or any(
            (patch.name, patch.operations) == (name, operations) for patch in self._futile
        ):
            return False
        self.patches.append(
            PlannedPatch(
                resource=resource, name=name, version=version, operations=operations, because=because
            )
        )
        return True
