"""The table of all webhooks with their reviewers. Names and paths are OpenKruise's.

settings, ReviewContext ──▶ build_reviewers() ──▶ the sandbox (reviews in process)
                                        ──▶ server.py (responds by path)
                                        ──▶ configurations.py (registers them in API servers)

Each kind declares its reviews and its steps of pod admission in kind.py. Mutating reviews run in the order of the
table.
"""

import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import msgspec

from pykruise.admission.advice import add_advice
from pykruise.admission.feature_gates import guard_by_gates
from pykruise.admission.hub_version import convert_to_hub
from pykruise.admission.match_conditions import Announce, announce_selection
from pykruise.admission.pods.chain import (
    PodChain,
    PodKind,
    build_judging_review,
    build_mutating_review,
    build_pod_chain,
    condition_of,
    list_pod_kinds,
)
from pykruise.admission.privileged import forbid_privileged
from pykruise.admission.protection import SELECTOR as PROTECTED
from pykruise.admission.protection import Protection, add_protection
from pykruise.admission.readable import check_metadata
from pykruise.admission.settings import AdmissionSettings
from pykruise.kinds import list_conversions, list_kinds
from pykruise.kinds.gates import Gates
from pykruise.kube.admission import (
    NAMESPACE_NAME_LABEL,
    AdmissionAnswer,
    AdmissionRequest,
    ResourceRule,
    Reviewer,
    ReviewRule,
)
from pykruise.kube.control.offload import Aside, run_on_loop
from pykruise.kube.webhooks.reviews import LONG_REVIEW
from pykruise.plans.kind import Kind
from pykruise.plans.pod_steps import StepContext, StepReport
from pykruise.plans.review import Lookups, allow, run_beside_the_loop
from pykruise.plans.unreviewed_namespaces import EXCLUDED_LABEL, SYSTEM, list_excluded_names
from pykruise.pods.settings import build_settings


class ReviewContext(msgspec.Struct, frozen=True, kw_only=True):
    """Functions and objects that reviews use to read from the cluster and to report. By default nothing is read or
    reported.
    """

    kind_settings: Callable[[Kind], Any] | None = None
    """A function that returns the settings of a kind. If this field is None, the settings are computed from the gates.
    """
    lookups: Lookups = Lookups()
    """Reads of the cluster, the readers of kinds, and the clock. If a kind has no reader, its steps do not
    change pods.
    """
    protection: Protection | None = None
    """Deletion protection that reports its rejections. If this field is None, a protection is built from the settings;
    it cannot count objects of the cluster.
    """
    report: Callable[[str, StepReport], None] = lambda component, report: None
    """Called with the report of a step in the admission of pods, and with the component of this step."""
    announce: Announce | None = None
    """Awaited before admission allows a new object that selects pods, or a change of an object's selection of pods."""
    rng: random.Random | None = None
    """Random numbers: admission uses them to generate names of pods, to choose revisions of SidecarSets, and for
    backoffs.
    """
    aside: Aside | None = None
    """Runs reviews of large objects (LONG_REVIEW) outside the event loop."""
    most_waiting: int | None = None
    """Maximum number of reviews that wait for writes of one step at the same time; None if it is not limited."""


def build_reviewers(
    settings: AdmissionSettings | None = None,
    context: ReviewContext = ReviewContext(),  # noqa: B008 - frozen
    *,
    pods: PodChain | None = None,
) -> tuple[ReviewRule, ...]:
    """Return the webhooks that are active with these settings (by default with OpenKruise's settings). `pods`: the
    result of `steps_of_pods`; if it is None, this function calls `steps_of_pods`.
    """
    settings = settings or AdmissionSettings()
    of_kind = context.kind_settings or partial(_build_gated_settings, settings.gates)
    protection = context.protection or Protection(
        None, is_on=settings.deletion_protection, crd_cascading=settings.crd_cascading
    )
    aside = context.aside or Aside()
    served = [_Reviewed(kind, of_kind(kind), context.lookups, aside) for kind in list_kinds()]
    rules = [
        *_list_pod_rules(settings, pods or steps_of_pods(settings, context)),
        *(
            reviewed.build_mutating_rule(settings.gates)
            for reviewed in served
            if reviewed.kind.reviews.mutating is not None
        ),
        *_list_protection_rules(settings, protection),
        *(
            reviewed.build_validating_rule(settings, protection, context.announce)
            for reviewed in served
            if reviewed.kind.reviews.validating is not None or reviewed.kind.reviews.is_protected
        ),
    ]
    return tuple(_with_timeout(rule, settings) for rule in rules)


def list_installed_rules(settings: AdmissionSettings) -> tuple[ReviewRule, ...]:
    """Return the webhooks that an installation contains. The manager leaves inactive webhooks out of the live
    configurations, and adds them again when their gate is enabled.
    """
    return build_reviewers(msgspec.structs.replace(settings, deletion_protection=True))


def steps_of_pods(settings: AdmissionSettings, context: ReviewContext) -> PodChain:
    """Return the enabled steps of pod admission of all kinds."""
    of_kind = context.kind_settings or partial(_build_gated_settings, settings.gates)
    rng = context.rng or random.Random()

    def step_context(part: PodKind) -> StepContext:
        return StepContext(
            settings=of_kind(part.kind),
            reader=context.lookups.readers.get(part.kind.name),
            clock=context.lookups.clock,
            rng=rng,
            most_waiting=context.most_waiting,
            report=partial(context.report, part.steps.component),
        )

    return build_pod_chain(settings.gates.__getitem__, step_context)


def _build_gated_settings(gates: Gates, kind: Kind) -> Any:
    return build_settings(kind.settings, gates=gates.__getitem__)


# ── pods ─────────────────────────────────────────────────────────────────────


def _list_pod_rules(settings: AdmissionSettings, steps: PodChain) -> list[ReviewRule]:
    if not settings.pod_webhook:
        return []
    rules = [
        ReviewRule(
            name="mpod.kb.io",
            path="/mutate-pod",
            reviewer=build_mutating_review(steps.changing),
            mutating=True,
            rules=(_build_write_rule("", "pods", "CREATE"),),
            namespace_selector=_build_pod_namespace_selector(settings),
            narrowed=partial(condition_of, steps.changing),
            needs=_find_carrier("mutating"),
        )
    ]
    if steps.judging:
        both: dict[str, Any] = {
            "path": "/validate-pod",
            "reviewer": build_judging_review(steps.judging),
            "mutating": False,
            "namespace_selector": _build_pod_namespace_selector(settings),
            "narrowed": partial(condition_of, steps.judging),
            "needs": _find_carrier("validating"),
        }
        writes = (
            _build_write_rule("", "pods", "UPDATE", "DELETE"),
            _build_write_rule("", "pods/resize", "UPDATE"),
        )
        rules.append(ReviewRule(name="vpod.kb.io", rules=writes, **both))
        evictions = (_build_write_rule("", "pods/eviction", "CREATE"),)
        rules.append(ReviewRule(name="vpodeviction.kb.io", rules=evictions, **both))
    return rules


def _find_carrier(webhook: str) -> tuple[str, str] | None:
    """Return the group and kind whose CRD must be installed before this pod webhook is registered in API servers."""
    carriers = (kind.resource for kind, steps in list_pod_kinds() if steps.carries == webhook)
    return next(((resource.group, resource.kind) for resource in carriers), None)


def _build_pod_namespace_selector(settings: AdmissionSettings) -> Mapping[str, Any]:
    """Return a selector that excludes kube-system and the manager's namespace (by label and by name): the pods that the
    cluster needs must not depend on webhooks.
    """
    label, value = EXCLUDED_LABEL
    expressions = [
        {"key": label, "operator": "NotIn", "values": [value]},
        _exclude_names(*list_excluded_names(settings.namespace)),
    ]
    return {"matchExpressions": expressions}


def _exclude_names(*names: str) -> Mapping[str, Any]:
    return {"key": NAMESPACE_NAME_LABEL, "operator": "NotIn", "values": list(dict.fromkeys(names))}


# ── deletion protection of Kubernetes' own kinds ─────────────────────────────


def _list_protection_rules(settings: AdmissionSettings, protection: Protection) -> list[ReviewRule]:
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
            # As in OpenKruise's chart, the manager's own namespace is protected too.
            namespace_selector={"matchExpressions": [_exclude_names(SYSTEM)]},
            object_selector=PROTECTED,
        )
        for name, path, group, versions, plural in rows
    ]


# ── OpenKruise's kinds ───────────────────────────────────────────────────────


class _Around(NamedTuple):
    """Functions that reviewers use to look up objects, and to announce new objects that select pods and changes of a
    selection.
    """

    lookups: Lookups
    announce: Announce | None

    def leave_loop(self) -> "_Around":
        """Return the same functions, for reviewers that run outside the event loop."""
        announce = run_on_loop(self.announce) if self.announce is not None else None
        return _Around(run_beside_the_loop(self.lookups), announce)


class _Reviewed:
    """The webhooks of one kind. Objects are converted to the hub version before they are reviewed."""

    def __init__(self, kind: Kind, settings: Any, lookups: Lookups, aside: Aside) -> None:
        self.kind = kind
        self._settings = settings
        self._lookups = lookups
        self._aside = aside
        selects = kind.pods.selects if kind.pods is not None else None
        self._selection = selects if selects is not None and selects.announces is not None else None
        conversion = kind.conversion
        self._versions = (conversion.spoke, conversion.hub) if conversion else (kind.resource.version,)

    def build_mutating_rule(self, gates: Gates) -> ReviewRule:
        """Return the rule of the mutating webhook, for creations and updates."""
        reviews = self.kind.reviews
        make = reviews.mutating
        assert make is not None

        def reviewer(around: _Around) -> Reviewer:
            result = make(self._settings, around.lookups)
            # While a gate is off, only one webhook of the kind rejects objects.
            return guard_by_gates(self.kind, gates, result) if reviews.validating is None else result

        return self._build_rule(reviewer, "CREATE", "UPDATE", mutating=True)

    def build_validating_rule(
        self, settings: AdmissionSettings, protection: Protection, announce: Announce | None
    ) -> ReviewRule:
        """Return the rule of the validating webhook: for creations and updates if the kind has a validating review, and
        for deletions if the kind has deletion protection. A selection is announced only if the gates enable the kind's
        steps of pod admission.
        """
        reviews, steps = self.kind.reviews, self.kind.pods
        takes_part = steps is not None and PodKind(self.kind, steps).is_on(settings.gates.__getitem__)
        make = reviews.validating
        operations = ("CREATE", "UPDATE") if make is not None else ()

        def reviewer(around: _Around) -> Reviewer:
            result: Reviewer = make(self._settings, around.lookups) if make is not None else allow
            if not settings.allow_privileged:
                result = forbid_privileged(result)
            result = add_advice(result, self.kind, self._settings)
            if self._selection is not None:
                heard = around.announce if takes_part else None
                result = announce_selection(result, heard, self._selection)
            result = guard_by_gates(self.kind, settings.gates, result)
            return add_protection(protection, result) if reviews.is_protected else result

        if reviews.is_protected:
            operations = (*operations, "DELETE")
        rule = self._build_rule(reviewer, *operations, mutating=False, announce=announce)
        side_effects = "None" if self._selection is None else "NoneOnDryRun"
        return msgspec.structs.replace(rule, name=reviews.webhook or rule.name, side_effects=side_effects)

    def _build_rule(
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
            return check_metadata(convert_to_hub(reviewer(around), list_conversions(), spoke=rules))

        around = _Around(self._lookups, announce)
        paths = (f"{stem}-{name}", f"{stem}-v1alpha1-{name}")
        path, alias = reversed(paths) if self.kind.reviews.has_versioned_path else paths
        return ReviewRule(
            name=f"{verb[0]}{name}.kb.io",
            path=path,
            aliases=(alias,),
            reviewer=_run_long_aside(
                of_all_versions(around), of_all_versions(around.leave_loop()), self._aside
            ),
            mutating=mutating,
            rules=(_build_write_rule(resource.group, resource.plural, *operations, versions=self._versions),),
        )


def _run_long_aside(reviewer: Reviewer, beside: Reviewer, aside: Aside) -> Reviewer:
    """Return a reviewer that calls `reviewer`. For creations and updates whose request has at least LONG_REVIEW bytes,
    it runs `beside` outside the event loop instead.
    """

    async def review(request: AdmissionRequest) -> AdmissionAnswer:
        if request.size < LONG_REVIEW or request.operation not in ("CREATE", "UPDATE"):
            return await reviewer(request)

        async def asked() -> AdmissionAnswer:
            return await beside(request)

        return await aside.drive(asked())

    return review


def _build_write_rule(
    group: str, resource: str, *operations: str, versions: tuple[str, ...] = ("v1",)
) -> ResourceRule:
    return ResourceRule(groups=(group,), versions=versions, resources=(resource,), operations=operations)


def _with_timeout(rule: ReviewRule, settings: AdmissionSettings) -> ReviewRule:
    return msgspec.structs.replace(rule, timeout_s=settings.timeout_s)
