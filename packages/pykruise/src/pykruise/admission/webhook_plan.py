"""Plan for webhook certificates, webhook configurations, and `spec.conversion` of CRDs. Pure.

stored certificates + Waits     ──▶ plan_certificates()   ──▶ whether to renew them, and whether to use them now
ObservedWebhooks + WebhookTarget + Waits ──▶ plan_configurations() ──▶ ConfigurationPlan: patches, problems,
time of the next plan

webhook_sync.py observes, plans and writes. Between two reconciles it remembers only `Waits`: facts, and since when each
of them has been true. Three decisions need a fact that has been true for some time:

- The entries have been unchanged for CONFIRM_S: the configuration is written a second time (see `add_confirmation`).
- A new CA could not be written to API servers for HOLD_S: the server uses its certificate nevertheless.
- **Match conditions.** API servers send reviews of the pods that stored objects select, and of all pods while the
  selectors change ("all pods" are those that objects could select; updates of pods are left out if no kind reviews
  updates):
  1. If the conditions differ from the conditions for the stored objects, they are immediately widened to all pods.
  2. They are narrowed after the configuration and the conditions for the stored objects were unchanged for `quiet_s`,
     if a list from the API server confirms these conditions.
  An object that changes selectors is admitted only after the conditions were removed (match_conditions.py).

Times are measured only within one process, so clocks of different machines are never compared.
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
"""Seconds for which a webhook configuration must be unchanged before the second write. Caches of API servers are never
out of date for that long.
"""

HOLD_S: Final = 300.0
"""Maximum number of seconds that the server waits before it uses a new CA that cannot be written to API servers."""

QUIET_S: Final = 120.0
"""Seconds without changes before conditions are narrowed. This is longer than the request timeout of API servers (60 s
by default): so conditions are not narrowed between the review of an object and the time at which it is stored.
"""


# ── observations ─────────────────────────────────────────────────────────────


class CrdView(MetadataView, frozen=True, kw_only=True):
    """The fields of a CRD that the plan needs."""

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
    """Return the view of a CRD. If the CRD is not ours, the view contains no conversion. Raises msgspec.DecodeError."""
    meta, spec = project_metadata(raw), _decode_crd(raw).spec
    return CrdView(
        **msgspec.structs.asdict(meta),
        group=spec.group,
        kind=spec.names.kind,
        versions=len(spec.versions),
        conversion=spec.conversion if spec.group in GROUPS else None,
    )


class WebhookTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The served paths and the address of the server. They are the same in every reconcile."""

    rules: Mapping[str, ReviewRule]
    """Served path → rule."""
    converted: frozenset[tuple[str, str]]
    """Group and kind of each resource whose objects this program converts."""
    endpoint: Endpoint
    is_managed: bool
    """Whether this program manages the certificates. If they are external, configurations are only compared, not
    written.
    """
    installed: Sequence[ReviewRule] = ()
    """Rules whose entries the installer writes: those of `rules`, and those of features that are off now."""
    quiet_s: float = QUIET_S


class ObservedWebhooks(msgspec.Struct, frozen=True, kw_only=True):
    """Observed state of webhook configurations and CRDs, for one reconcile."""

    at: float
    """Time of the event loop in seconds."""
    bundle: bytes
    """The CA certificates that API servers must trust."""
    configurations: Mapping[str, Document | None]
    """Name of each webhook configuration → the object; None if it does not exist."""
    crds: Sequence[CrdView]
    selectors: Interests | None
    """Selectors from caches, possibly out of date; None if the caches are not synced yet."""
    listed_selectors: Interests | None = None
    """Selectors from the API server. They are read only if a plan needs them (`needs_selectors`)."""


# ── waits ────────────────────────────────────────────────────────────────────

Waits = Mapping[str, tuple[object, float]]
"""Subject → a fact that must be true for some time, and since when it has been true (seconds of the event loop's
clock).
"""


class _Waiting:
    """The waits of one plan. They continue the waits of the previous plan. A wait is dropped if the plan does not call
    `has_held` for it.
    """

    def __init__(self, before: Waits, *, at: float) -> None:
        self._before = before
        self._at = at
        self.facts: dict[str, tuple[object, float]] = {}
        self.again_s: float | None = None
        """Seconds until the first wait ends; None if there is no wait."""

    def has_held(self, subject: str, fact: object, *, for_s: float) -> bool:
        """Whether the fact has been true for `for_s` seconds. If so, the wait starts again, because the write that
        follows possibly changes nothing.
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
    """Reason why new certificates must be created and stored first; empty if no renewal is needed."""
    serves_at_once: bool = False
    """Whether the server uses the stored certificates now, even if API servers do not have their CA yet."""
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
    """Plan the renewal and use of certificates. `renew_before_s`: a pair that expires within this time is renewed; None
    if this program must not renew it. `at`: time of the event loop's clock in seconds.
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
    # The server uses the stored pair now if clients that trust the served CA also trust the stored CA, or if a longer
    # wait would not help.
    serves_at_once = (
        waiting.has_held("authority", stored.certificates.authority, for_s=HOLD_S)
        or bool(judge(served.facts, now=now, lasting_s=0.0))
        or not shares_authority(stored.facts, served.facts)
        or shares_authority(served.facts, stored.facts)
    )
    return CertificatePlan(serves_at_once=serves_at_once, waits=waiting.facts)


# ── configurations and CRDs ──────────────────────────────────────────────────


class PlannedPatch(msgspec.Struct, frozen=True, kw_only=True):
    """A write: the smallest JSON patch, and the resourceVersion of the object for which it was planned."""

    resource: Resource
    name: str
    version: str
    operations: tuple[Document, ...]
    because: str

    @property
    def body(self) -> list[Document]:
        """The body of the patch: a test of the resourceVersion, and then the operations."""
        return [{"op": "test", "path": "/metadata/resourceVersion", "value": self.version}, *self.operations]


class ConfigurationPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Planned changes of webhook configurations and CRDs."""

    patches: tuple[PlannedPatch, ...] = ()
    problems: tuple[str, ...] = ()
    """Problems that a person must correct. They do not prevent the patches."""
    again_s: float | None = None
    """Seconds until a new plan is needed even if nothing changes; None if it is not needed."""
    needs_selectors: bool = False
    """Whether conditions can be narrowed if `ObservedWebhooks.listed_selectors` confirms them. This plan does not
    narrow them, because it had no such list.
    """
    waits: Waits = {}


def plan_configurations(
    observed: ObservedWebhooks, target: WebhookTarget, *, waits: Waits, futile: Sequence[PlannedPatch] = ()
) -> ConfigurationPlan:
    """Plan the patches. `futile`: earlier patches that the API server accepted but that changed nothing. They are not
    planned again.
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
        # The webhook for a kind is registered when the CRD of the kind is installed. OpenKruise has the same rule, but
        # checks it only at its start; here, the CRD can be installed later.
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
            self.problems += (f"{resource}: {problem}" for problem in self._list_external_problems(live))
        else:
            try:
                rules, because = self._with_conditions(name, live)
                wanted = build_desired_webhooks(
                    live,
                    rules,
                    endpoint=self._target.endpoint,
                    bundle=self._observed.bundle,
                    installed=self._target.installed,
                )
            except WebhookConfigurationError as error:
                self.problems.append(f"{resource}: {error}")
                return
            if not self._plan_patch(resource, live, wanted, because=because):
                self._plan_confirmation(resource, live)

    def plan_conversion(self, crd: CrdView) -> None:
        """Plan `spec.conversion` of one of our CRDs."""
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

    def _list_external_problems(self, live: Document) -> list[str]:
        problems = []
        if wrong := list_mismatches(live, self._target.rules, bundle=self._observed.bundle):
            problems.append(f"the caBundle of {', '.join(wrong)} does not match the external caBundle")
        if any(read_current_conditions(live).values()):
            # A previous manager wrote the condition, and no manager updates it now. So pods that new objects select
            # would not be reviewed.
            problems.append(
                f"no manager updates the match condition {CONDITION} now: delete this condition, not the configuration"
            )
        return problems

    def _with_conditions(self, name: str, live: Document) -> tuple[Mapping[str, ReviewRule], str]:
        """Return the rules with the conditions that the configuration should have now, and the reason for a write."""
        current, usual = read_current_conditions(live), "API servers must send reviews to this manager"
        selectors = self._observed.selectors
        if selectors is None:
            # Keep the conditions: before an object selects other pods, its review removes them.
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
        """Plan the second write of a configuration after it was unchanged for some time, unless it was written
        before.
        """
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
        """Plan a patch with the difference. Return False if there is no difference, or if the patch would be futile."""
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
