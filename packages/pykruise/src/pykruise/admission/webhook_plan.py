"""Plan for webhook certificates, webhook configurations and conversion stanzas. Pure.

stored certificates + Waits     ──▶ plan_certificates()   ──▶ renewed or not, served immediately or not
ObservedWebhooks + WebhookTarget + Waits ──▶ plan_configurations() ──▶ ConfigurationPlan: patches, problems,
time of the next plan

webhook_sync.py observes, plans and writes. Between two reconciles it keeps only `Waits`: facts, and the time since
which each has been true. Three decisions need a fact that has not changed for a while:

- Entries are unchanged for CONFIRM_S: the configuration is written a second time (see `add_confirmation`).
- A new CA could not be written to API servers for HOLD_S: the server uses its certificate nevertheless.
- **Match conditions.** API servers send reviews of the pods that stored objects select, and of all pods while the
  selectors change ("all pods" means those that could be selected, and excludes updates if no kind reviews updates):
  1. Conditions that differ from those of the stored objects are immediately widened to all pods.
  2. They are narrowed when the configuration was unchanged for `quiet_s`, the same conditions were due all that time,
     and a list from the API server confirms them.
  A change of selectors is admitted only after conditions were removed: match_conditions.py.

Only durations within one process are measured; no clocks are compared.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.admission.certificates import CertificateFacts, Certificates, judge, shares_authority
from pykruise.admission.configurations import (
    CONFIGURATIONS,
    Endpoint,
    WebhookConfigurationError,
    add_confirmation,
    build_desired_conversion,
    build_desired_webhooks,
    list_mismatches,
    read_current_conditions,
)
from pykruise.admission.match_conditions import (
    list_due_conditions,
    list_widest_conditions,
    replace_conditions,
)
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
"""Seconds that webhook configurations are unchanged before the second write: longer than the caches of API servers
lag.
"""

HOLD_S: Final = 300.0
"""Maximum seconds that a new CA waits while it cannot be written to API servers."""

QUIET_S: Final = 120.0
"""Seconds without changes before conditions are narrowed. Longer than API servers' request timeout (60 s by default),
within which they store reviewed objects: nothing is narrowed between the review and the write.
"""


# ── observations ─────────────────────────────────────────────────────────────


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
    """Return a CRD's view. The view of another project's CRD contains no conversion. Raises msgspec.DecodeError."""
    meta, spec = project_metadata(raw), _decode_crd(raw).spec
    return CrdView(
        **msgspec.structs.asdict(meta),
        group=spec.group,
        kind=spec.names.kind,
        versions=len(spec.versions),
        conversion=spec.conversion if spec.group in GROUPS else None,
    )


class WebhookTarget(msgspec.Struct, frozen=True, kw_only=True):
    """Served paths and their address; the same in every reconcile."""

    rules: Mapping[str, ReviewRule]
    """Rules by path, for every served path."""
    converted: frozenset[tuple[str, str]]
    """Group and kind of the objects that this program converts."""
    endpoint: Endpoint
    is_managed: bool
    """Whether this program manages the certificates. False: they are external, and configurations are only compared."""
    quiet_s: float = QUIET_S


class ObservedWebhooks(msgspec.Struct, frozen=True, kw_only=True):
    """Observations of one reconcile."""

    at: float
    """Time of the event loop in seconds."""
    bundle: bytes
    """The CA certificates that API servers must trust."""
    configurations: Mapping[str, Document | None]
    """Configurations by name; None: it does not exist."""
    crds: Sequence[CrdView]
    selectors: Interests | None
    """Selectors from caches, perhaps slightly stale; None: not read yet."""
    listed_selectors: Interests | None = None
    """Selectors from the API server, where a plan needs them (`needs_selectors`)."""


# ── waits ────────────────────────────────────────────────────────────────────

Waits = Mapping[str, tuple[object, float]]
"""Waits by subject: the fact that must hold for a while, and the time since which it holds (seconds of the event
loop).
"""


class _Waiting:
    """The waits of one plan. The plan starts with those of the previous plan. A wait ends if the plan does not call
    `has_held` for it.
    """

    def __init__(self, before: Waits, *, at: float) -> None:
        self._before = before
        self._at = at
        self.facts: dict[str, tuple[object, float]] = {}
        self.again_s: float | None = None
        """Seconds until the first wait ends; None: there is no wait."""

    def has_held(self, subject: str, fact: object, *, for_s: float) -> bool:
        """Whether the fact has held for `for_s` seconds. If so, its wait begins again, because the write may change
        nothing.
        """
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
    """Reason for a renewal: new certificates are created and stored before anything else. Empty: no renewal."""
    serves_at_once: bool = False
    """Whether the server uses them before API servers have their CA."""
    waits: Waits = {}


class Examined(msgspec.Struct, frozen=True):
    """Certificates and the facts about them."""

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
    """Plan the renewal and use of certificates. `renew_before_s`: a pair that expires sooner is renewed; None: this
    program renews no pair. `at`: time of the event loop in seconds.
    """
    if stored is None:
        return CertificatePlan(renew_because="no certificates are stored")
    if renew_before_s is not None:
        problem = judge(stored.facts, now=now, lasting_s=renew_before_s)
        if problem:
            return CertificatePlan(renew_because=problem, waits=waits)
    if served is None:
        return CertificatePlan(serves_at_once=True)
    if stored.certificates == served.certificates:
        return CertificatePlan()
    waiting = _Waiting(waits, at=at)
    # The server switches if clients of the served CA also trust the stored one, or if waiting longer does not help.
    serves_at_once = (
        waiting.has_held("authority", stored.certificates.authority, for_s=HOLD_S)
        or bool(judge(served.facts, now=now, lasting_s=0.0))
        or not shares_authority(stored.facts, served.facts)
        or shares_authority(served.facts, stored.facts)
    )
    return CertificatePlan(serves_at_once=serves_at_once, waits=waiting.facts)


# ── configurations and CRDs ──────────────────────────────────────────────────


class PlannedPatch(msgspec.Struct, frozen=True, kw_only=True):
    """A write: the smallest JSON patch, and the resourceVersion that it was planned for."""

    resource: Resource
    name: str
    version: str
    operations: tuple[Document, ...]
    because: str

    @property
    def body(self) -> list[Document]:
        """The operations after the test of the resourceVersion."""
        return [{"op": "test", "path": "/metadata/resourceVersion", "value": self.version}, *self.operations]


class ConfigurationPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Planned changes of webhook configurations and CRDs."""

    patches: tuple[PlannedPatch, ...] = ()
    problems: tuple[str, ...] = ()
    """Problems that only a person can correct; the patches are written nevertheless."""
    again_s: float | None = None
    """Seconds until the next plan may differ although nothing changed; None: never."""
    needs_selectors: bool = False
    """Whether conditions can be narrowed if `ObservedWebhooks.listed_selectors` confirms them; without the list they
    stay wide.
    """
    waits: Waits = {}


def plan_configurations(
    observed: ObservedWebhooks, target: WebhookTarget, *, waits: Waits, futile: Sequence[PlannedPatch] = ()
) -> ConfigurationPlan:
    """Plan the patches. `futile`: patches that changed nothing. They are not planned again while the object stays the
    same.
    """
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
    """A ConfigurationPlan under construction."""

    def __init__(
        self,
        observed: ObservedWebhooks,
        target: WebhookTarget,
        waiting: _Waiting,
        futile: Sequence[PlannedPatch],
    ) -> None:
        self.waiting = waiting
        self.patches: list[PlannedPatch] = []
        self.problems: list[str] = []
        self.needs_selectors = False
        self._observed = observed
        self._target = target
        self._futile = futile
        # A webhook for a kind is added once the kind is installed. Same rule as OpenKruise, which checks only at its
        # start; here the order of installation does not matter.
        known = {(crd.group, crd.kind) for crd in observed.crds if crd.versions}
        self._rules = {
            path: rule for path, rule in target.rules.items() if rule.needs is None or rule.needs in known
        }

    def plan_webhooks(self, resource: Resource, name: str) -> None:
        """Plan one webhook configuration."""
        live = self._observed.configurations.get(name)
        if live is None:
            self.problems.append(f"{resource}: {name} does not exist; apply what `pykruise install` prints")
        elif not self._target.is_managed:
            self.problems += (f"{resource}: {problem}" for problem in self._external_problems(live))
        else:
            try:
                rules, because = self._with_conditions(name, live)
                wanted = build_desired_webhooks(
                    live, rules, endpoint=self._target.endpoint, bundle=self._observed.bundle
                )
            except WebhookConfigurationError as error:
                self.problems.append(f"{resource}: {error}")
                return
            if not self._plan_patch(resource, live, wanted, because=because):
                self._plan_confirmation(resource, live)

    def plan_conversion(self, crd: CrdView) -> None:
        """Plan the conversion stanza of one of our CRDs."""
        wanted = build_desired_conversion(
            crd.conversion, endpoint=self._target.endpoint, bundle=self._observed.bundle
        )
        if wanted is None or crd.conversion is None:
            return
        if self._target.is_managed:
            live = {"metadata": {"name": crd.name, "resourceVersion": str(crd.resource_version)}}
            self._plan_patch(
                CUSTOM_RESOURCE_DEFINITIONS,
                {**live, "spec": {"conversion": crd.conversion}},
                {**live, "spec": {"conversion": wanted}},
                because="this manager converts objects of this kind",
            )
            return
        config = (crd.conversion.get("webhook") or {}).get("clientConfig") or {}
        if config.get("caBundle") != wanted["webhook"]["clientConfig"].get("caBundle"):
            self.problems.append(
                f"{crd.name}: the caBundle of spec.conversion differs from the external CA bundle"
            )

    def _external_problems(self, live: Document) -> list[str]:
        problems = []
        if wrong := list_mismatches(live, self._target.rules, bundle=self._observed.bundle):
            problems.append(f"the caBundle of {', '.join(wrong)} does not match the external caBundle")
        if any(read_current_conditions(live).values()):
            # A previous manager left the condition. Nothing updates it now, so new objects would get no reviews.
            problems.append(
                f"no manager updates the match condition {CONDITION} now: delete this condition, not the configuration"
            )
        return problems

    def _with_conditions(self, name: str, live: Document) -> tuple[Mapping[str, ReviewRule], str]:
        """Return the rules with the conditions that the configuration should have now, and the reason for the write."""
        current, usual = read_current_conditions(live), "API servers must send reviews to this manager"
        selectors = self._observed.selectors
        if selectors is None:
            # Keep the conditions: no object that selects pods can be created without a review.
            return replace_conditions(self._rules, current), usual
        narrowable = {path: self._rules[path] for path in current if path in self._rules}
        due, widest = list_due_conditions(narrowable, selectors), list_widest_conditions(narrowable)
        if due == {path: current[path] for path in due}:
            return replace_conditions(self._rules, due), usual
        fact = (live["metadata"]["resourceVersion"], due)
        if self.waiting.has_held(f"conditions of {name}", fact, for_s=self._target.quiet_s):
            listed = self._observed.listed_selectors
            self.needs_selectors = self.needs_selectors or listed is None
            if listed is not None and list_due_conditions(narrowable, listed) == due:
                return replace_conditions(
                    self._rules, due
                ), "API servers should send reviews of selected pods only"
        is_wider = any(current[path] not in ((), conditions) for path, conditions in widest.items())
        because = (
            "API servers should send reviews of every pod until the selectors are stable"
            if is_wider
            else usual
        )
        return replace_conditions(self._rules, widest), because

    def _plan_confirmation(self, resource: Resource, live: Document) -> None:
        """Plan the second write of a configuration that has been unchanged for a while, unless it is done."""
        wanted, metadata = add_confirmation(live), live["metadata"]
        if wanted is not None and self.waiting.has_held(
            f"entries of {metadata['name']}", metadata["resourceVersion"], for_s=CONFIRM_S
        ):
            self._plan_patch(
                resource,
                live,
                wanted,
                because="the configuration is written again, because API servers can miss the first write",
            )

    def _plan_patch(self, resource: Resource, live: Document, wanted: Document, *, because: str) -> bool:
        """Plan the difference. Returns False if there is none, or if it is futile."""
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
