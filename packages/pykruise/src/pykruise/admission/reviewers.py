"""Who reviews what: one table of all webhooks, by OpenKruise's names and paths.

settings + Counts ──▶ reviewers() ──▶ the sandbox (asks in process)
                                  ──▶ server.py (answers by path)
                                  ──▶ configurations.py (how API servers find them)

Kinds say in their kind.py what they review. Order within the table is the order in which mutating reviews run.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from pykruise.admission.advice import with_advice
from pykruise.admission.feature_gates import behind_gates
from pykruise.admission.hub_version import in_hub_version
from pykruise.admission.match_conditions import Announce, announced
from pykruise.admission.pods import chain
from pykruise.admission.pods.budget import OnPrevented
from pykruise.admission.pods.sidecars import Refused
from pykruise.admission.pods.steps import JudgingStep, PodStep
from pykruise.admission.protection import SELECTOR as PROTECTED
from pykruise.admission.protection import Counts, Protection, guarded
from pykruise.admission.readable import readable
from pykruise.admission.reviews import LONG_REVIEW
from pykruise.admission.settings import AdmissionSettings
from pykruise.kinds import conversions, kinds
from pykruise.kinds.gates import Gates
from pykruise.kinds.podunavailablebudget.spending import Budgeting
from pykruise.kinds.workloadspread.assignment import Spreading
from pykruise.kube.admission import (
    NAMESPACE_NAME_LABEL,
    AdmissionAnswer,
    AdmissionRequest,
    ResourceRule,
    Reviewer,
    ReviewRule,
)
from pykruise.kube.clock import Clock, system_clock
from pykruise.kube.control.offload import Aside, on_loop
from pykruise.plans.kind import Kind
from pykruise.plans.review import Lookups, allow, beside_the_loop
from pykruise.pods.settings import settings_from

__all__ = ["reviewers"]

_APPS: Final = "apps.kruise.io"
_POLICY: Final = "policy.kruise.io"


def reviewers(
    settings: AdmissionSettings | None = None,
    *,
    kind_settings: Callable[[Kind], Any] | None = None,
    counts: Counts | None = None,
    protection: Protection | None = None,
    lookups: Lookups = Lookups(),  # noqa: B008 - frozen
    on_refused: Refused = lambda refusal: None,
    clock: Clock = system_clock,
    spreading: Spreading | None = None,
    budgeting: Budgeting | None = None,
    on_prevented: OnPrevented = lambda prevented: None,
    announce: Announce | None = None,
    rng: random.Random | None = None,
    aside: Aside | None = None,
) -> tuple[ReviewRule, ...]:
    """The webhooks that are active under these settings; the default is OpenKruise's.

    `kind_settings` gives the settings of a kind; without it they follow from the gates alone. `counts` is what
    deletion protection reads; give `protection` instead to hear of its refusals. `lookups` is what kinds may ask of
    the cluster, with their readers. `spreading` puts pods into subsets; without it, or without a reader of
    SidecarSets, nothing is done to pods. `budgeting` asks and spends PodUnavailableBudgets; `on_prevented` hears
    of pods that one kept. `on_refused` hears of pods that were refused for want of sidecars.
    `announce` is awaited before an object is allowed that means other pods than the stored one. `rng` draws names of
    pods that need one early. `aside` runs long reviews of kinds. `clock`: theirs too, in place of that of `lookups`.
    """
    settings = settings or AdmissionSettings()
    of_kind = kind_settings or partial(_by_gates, settings.gates)
    protection = protection or Protection(
        counts, is_on=settings.deletion_protection, crd_cascading=settings.crd_cascading
    )
    if spreading is not None:
        lookups = msgspec.structs.replace(
            lookups, readers={"workloadspread": spreading.reader, **lookups.readers}
        )
    if clock is not system_clock:
        lookups = msgspec.structs.replace(lookups, clock=clock)
    if budgeting is not None:
        lookups = msgspec.structs.replace(
            lookups, readers={"podunavailablebudget": budgeting.reader, **lookups.readers}
        )
    changing = chain.changing_steps(
        settings,
        rng=rng or random.Random(),
        clock=clock,
        spreading=spreading,
        sidecars=lookups.readers.get("sidecarset"),
        budgeting=budgeting,
        states=lookups.readers.get("persistentpodstate"),
        markers=lookups.readers.get("podprobemarker"),
        on_refused=on_refused,
    )
    judging = chain.judging_steps(
        settings, spreading=spreading, budgeting=budgeting, on_prevented=on_prevented
    )
    aside = aside or Aside()
    served = [_Reviewed(kind, of_kind(kind), lookups, aside) for kind in kinds()]
    rules = [
        *_pods(settings, changing, judging),
        *(one.mutating(settings.gates) for one in served if one.kind.reviews.mutating is not None),
        *_protecting(settings, protection),
        *(
            one.validating(settings.gates, protection, announce)
            for one in served
            if one.kind.reviews.validating is not None or one.kind.reviews.is_protected
        ),
    ]
    return tuple(_timed(rule, settings) for rule in rules)


def _by_gates(gates: Gates, kind: Kind) -> Any:
    return settings_from(kind.settings, gates=gates.__getitem__)


# ── pods ─────────────────────────────────────────────────────────────────────


def _pods(
    settings: AdmissionSettings, changing: Sequence[PodStep], judging: Sequence[JudgingStep]
) -> list[ReviewRule]:
    if not settings.pod_webhook:
        return []
    rules = [
        ReviewRule(
            name="mpod.kb.io",
            path="/mutate-pod",
            reviewer=chain.mutating(changing),
            mutating=True,
            rules=(_writes("", "pods", "CREATE"),),
            namespace_selector=_pod_namespaces(settings),
            narrowed=partial(chain.condition_of, changing),
            needs=(_APPS, "SidecarSet"),
        )
    ]
    if judging:
        both: dict[str, Any] = {
            "path": "/validate-pod",
            "reviewer": chain.judging(judging),
            "mutating": False,
            "namespace_selector": _pod_namespaces(settings),
            "narrowed": partial(chain.condition_of, judging),
            "needs": (_POLICY, "PodUnavailableBudget"),
        }
        writes = (_writes("", "pods", "UPDATE", "DELETE"), _writes("", "pods/resize", "UPDATE"))
        rules.append(ReviewRule(name="vpod.kb.io", rules=writes, **both))
        evictions = (_writes("", "pods/eviction", "CREATE"),)
        rules.append(ReviewRule(name="vpodeviction.kb.io", rules=evictions, **both))
    return rules


def _pod_namespaces(settings: AdmissionSettings) -> Mapping[str, Any]:
    """Neither the manager's own, by label or by name, nor kube-system: what keeps the cluster up cannot wait."""
    expressions = [
        {"key": "control-plane", "operator": "NotIn", "values": ["openkruise"]},
        *_outside(settings)["matchExpressions"],
    ]
    return {"matchExpressions": expressions}


def _outside(settings: AdmissionSettings) -> Mapping[str, Any]:
    names = list(dict.fromkeys(["kube-system", settings.namespace]))
    return {"matchExpressions": [{"key": NAMESPACE_NAME_LABEL, "operator": "NotIn", "values": names}]}


# ── deletion protection of what Kubernetes brings along ──────────────────────


def _protecting(settings: AdmissionSettings, protection: Protection) -> list[ReviewRule]:
    apps = ("deployment", "replicaset", "statefulset")
    rows: list[tuple[str, str, str, tuple[str, ...], str]]
    rows = [(f"builtin{kind}", f"/validate-apps-{kind}", "apps", ("v1",), f"{kind}s") for kind in apps]
    rows += [
        (
            "customresourcedefinition",
            "/validate-customresourcedefinition",
            "apiextensions.k8s.io",
            ("v1", "v1beta1"),
            "customresourcedefinitions",
        ),
        ("namespace", "/validate-namespace", "", ("v1",), "namespaces"),
    ]
    if settings.deletion_protection:
        rows += [
            ("service", "/validate-service", "", ("v1",), "services"),
            ("ingress", "/validate-ingress", "networking.k8s.io", ("v1", "v1beta1"), "ingresses"),
        ]
    return [
        ReviewRule(
            name=f"v{name}.kb.io",
            path=path,
            reviewer=protection.review,
            mutating=False,
            rules=(
                ResourceRule(groups=(group,), versions=versions, resources=(plural,), operations=("DELETE",)),
            ),
            failure_policy=settings.protection_failure_policy,
            namespace_selector=_outside(settings),
            object_selector=PROTECTED,
        )
        for name, path, group, versions, plural in rows
    ]


# ── OpenKruise's kinds ───────────────────────────────────────────────────────


class _Around(NamedTuple):
    """What reviewers ask, and whom they tell."""

    lookups: Lookups
    announce: Announce | None

    def beside_the_loop(self) -> "_Around":
        """For reviewers that run there."""
        announce = on_loop(self.announce) if self.announce is not None else None
        return _Around(beside_the_loop(self.lookups), announce)


class _Reviewed:
    """The webhooks of one kind. Kinds review their hub version, whichever a write comes in."""

    def __init__(self, kind: Kind, settings: Any, lookups: Lookups, aside: Aside) -> None:
        self.kind = kind
        self._settings = settings
        self._lookups = lookups
        self._aside = aside
        conversion = kind.conversion
        self._versions = (conversion.spoke, conversion.hub) if conversion else (kind.resource.version,)

    def mutating(self, gates: Gates) -> ReviewRule:
        """Of creations and updates."""
        reviews = self.kind.reviews
        make = reviews.mutating
        assert make is not None

        def reviewer(around: _Around) -> Reviewer:
            found = make(self._settings, around.lookups)
            # Where a kind is refused, one of its webhooks does it.
            return behind_gates(self.kind, gates, found) if reviews.validating is None else found

        return self._rule(reviewer, "CREATE", "UPDATE", mutating=True)

    def validating(self, gates: Gates, protection: Protection, announce: Announce | None) -> ReviewRule:
        """Of creations and updates, where there is something to judge, and of protected deletions."""
        reviews = self.kind.reviews
        make = reviews.validating
        operations = ("CREATE", "UPDATE") if make is not None else ()

        def reviewer(around: _Around) -> Reviewer:
            found: Reviewer = make(self._settings, around.lookups) if make is not None else allow
            found = with_advice(found, self.kind, self._settings)
            if reviews.announces is not None:
                found = announced(found, around.announce, *reviews.announces)
            found = behind_gates(self.kind, gates, found)
            return guarded(protection, found) if reviews.is_protected else found

        if reviews.is_protected:
            operations = (*operations, "DELETE")
        rule = self._rule(reviewer, *operations, mutating=False, announce=announce)
        side_effects = "None" if reviews.announces is None else "NoneOnDryRun"
        return msgspec.structs.replace(rule, name=reviews.webhook or rule.name, side_effects=side_effects)

    def _rule(
        self,
        reviewer: Callable[[_Around], Reviewer],
        *operations: str,
        mutating: bool,
        announce: Announce | None = None,
    ) -> ReviewRule:
        resource, verb = self.kind.resource, "mutate" if mutating else "validate"
        stem, name = f"/{verb}-{resource.group.replace('.', '-')}", resource.kind.lower()
        spoke = None if mutating else self.kind.reviews.spoke

        def of_all_versions(around: _Around) -> Reviewer:
            rules = spoke(self._settings, around.lookups) if spoke is not None else None
            return readable(in_hub_version(reviewer(around), conversions(), spoke=rules))

        around = _Around(self._lookups, announce)
        return ReviewRule(
            name=f"{verb[0]}{name}.kb.io",
            path=f"{stem}-{name}",
            aliases=(f"{stem}-v1alpha1-{name}",),
            reviewer=_long_aside(
                of_all_versions(around), of_all_versions(around.beside_the_loop()), self._aside
            ),
            mutating=mutating,
            rules=(_writes(resource.group, resource.plural, *operations, versions=self._versions),),
        )


def _long_aside(reviewer: Reviewer, beside: Reviewer, aside: Aside) -> Reviewer:
    """The reviewer, for long creations and updates that which may run beside the event loop."""

    async def review(request: AdmissionRequest) -> AdmissionAnswer:
        if request.size < LONG_REVIEW or request.operation not in ("CREATE", "UPDATE"):
            return await reviewer(request)

        async def asked() -> AdmissionAnswer:
            return await beside(request)

        return await aside.drive(asked())

    return review


def _writes(group: str, resource: str, *operations: str, versions: tuple[str, ...] = ("v1",)) -> ResourceRule:
    return ResourceRule(groups=(group,), versions=versions, resources=(resource,), operations=operations)


def _timed(rule: ReviewRule, settings: AdmissionSettings) -> ReviewRule:
    return msgspec.structs.replace(rule, timeout_s=settings.timeout_s)
