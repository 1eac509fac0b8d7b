"""Who reviews what: one table of all webhooks, by OpenKruise's names and paths.

settings + Counts ──▶ reviewers() ──▶ the sandbox (asks in process)
                                  ──▶ server.py (answers by path)
                                  ──▶ configurations.py (what an API server is told)

A kind adds its rows here; it reviews its hub version (hub.py). Order within the table is the order in which
mutating reviews run.
"""

import random
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from pykruise.admission.gated import behind, behind_one_of
from pykruise.admission.hub import in_hub_version
from pykruise.admission.narrowing import Announce, announced
from pykruise.admission.pods import chain
from pykruise.admission.pods.sidecars import Refused
from pykruise.admission.pods.steps import PodStep
from pykruise.admission.protection import SELECTOR as PROTECTED
from pykruise.admission.protection import Counts, Protection, guarded
from pykruise.admission.readable import readable
from pykruise.admission.settings import AdmissionSettings
from pykruise.kinds import conversions
from pykruise.kinds.cloneset.admission import mutating as mutating_cloneset
from pykruise.kinds.cloneset.admission import validate_cloneset
from pykruise.kinds.cloneset.v1alpha1_rules import PodLookup, spoke_rules
from pykruise.kinds.daemonset.admission import mutate_daemonset, validate_daemonset
from pykruise.kinds.gates import Gates
from pykruise.kinds.podunavailablebudget import admission as podunavailablebudget
from pykruise.kinds.resourcedistribution import admission as resourcedistribution
from pykruise.kinds.sidecarset.admission import mutate_sidecarset
from pykruise.kinds.sidecarset.admission import validating as validating_sidecarset
from pykruise.kinds.sidecarset.facts import SidecarReader
from pykruise.kinds.statefulset.admission import mutating as mutating_statefulset
from pykruise.kinds.statefulset.admission import validating as validating_statefulset
from pykruise.kinds.statefulset.claim_rules import ClassLookup
from pykruise.kinds.statefulset.defaults import DefaultingSettings as StatefulSetDefaulting
from pykruise.kinds.workloadspread.admission import validating as validating_workloadspread
from pykruise.kinds.workloadspread.assignment import Spreading
from pykruise.kube.admission import (
    ALLOWED,
    NAMESPACE_NAME_LABEL,
    AdmissionAnswer,
    AdmissionRequest,
    ResourceRule,
    Reviewer,
    ReviewRule,
    SpokeRules,
)
from pykruise.kube.clock import Clock, system_clock

__all__ = ["reviewers"]

_APPS: Final = "apps.kruise.io"
_POLICY: Final = "policy.kruise.io"
_VERSIONS: Final = ("v1alpha1", "v1beta1")


def reviewers(
    settings: AdmissionSettings | None = None,
    *,
    counts: Counts | None = None,
    protection: Protection | None = None,
    pods: PodLookup | None = None,
    sidecars: SidecarReader | None = None,
    on_refused: Refused = lambda refusal: None,
    clock: Clock = system_clock,
    trial: resourcedistribution.Trial | None = None,
    classes: ClassLookup | None = None,
    spreading: Spreading | None = None,
    announce: Announce | None = None,
    rng: random.Random | None = None,
) -> tuple[ReviewRule, ...]:
    """The webhooks that are active under these settings; the default is OpenKruise's.

    `counts` is what deletion protection reads; give `protection` instead to hear of its refusals. `pods`
    looks up pods that a CloneSet of v1alpha1 is to delete, `classes` storage classes of claims that are to
    grow. `trial` asks an API server whether a Secret or a ConfigMap could be created (ResourceDistribution).
    `spreading` puts pods into subsets, `sidecars` reads SidecarSets; without them nothing is done to pods.
    `on_refused` hears of pods that were refused for want of sidecars. `announce` is awaited before a SidecarSet
    or a WorkloadSpread is allowed that means other pods than the stored one. `rng` draws names of pods that need
    one early.
    """
    settings = settings or AdmissionSettings()
    protection = protection or Protection(
        counts, is_on=settings.deletion_protection, crd_cascading=settings.crd_cascading
    )
    rules = [
        *_pods(
            settings,
            chain.changing_steps(
                settings,
                rng=rng or random.Random(),
                clock=clock,
                spreading=spreading,
                sidecars=sidecars,
                on_refused=on_refused,
            ),
            spreading,
        ),
        _mutating("cloneset", mutating_cloneset(settings.defaulting)),
        _mutating("daemonset", mutate_daemonset),
        _mutating("sidecarset", mutate_sidecarset),
        _mutating("statefulset", mutating_statefulset(_statefulset_defaulting(settings))),
        *_protecting(settings, protection),
        _validating(
            "cloneset",
            guarded(protection, validate_cloneset),
            "CREATE",
            "UPDATE",
            "DELETE",
            spoke=spoke_rules(pods, resources_in_place=settings.resources_in_place),
        ),
        _validating("daemonset", validate_daemonset, "CREATE", "UPDATE"),
        _validating(
            "sidecarset",
            announced(
                validating_sidecarset(sidecars, allows_any_annotation=settings.any_pod_annotation),
                announce,
                "selector",
                "namespaceSelector",
            ),
            "CREATE",
            "UPDATE",
            side_effects="NoneOnDryRun",
        ),
        _validating(
            "statefulset",
            guarded(
                protection,
                validating_statefulset(resizes_claims=settings.auto_resize_claims, classes=classes),
            ),
            "CREATE",
            "UPDATE",
            "DELETE",
        ),
        _validating(
            "workloadspread",
            behind(
                settings.gates,
                "WorkloadSpread",
                reviewer=announced(
                    validating_workloadspread(spreading.reader if spreading is not None else None), announce
                ),
            ),
            "CREATE",
            "UPDATE",
            side_effects="NoneOnDryRun",
        ),
        # Their own rules come with their kinds; until then nobody needs to be asked but about deletions.
        _validating("uniteddeployment", guarded(protection, _allow), "DELETE"),
        *_gated(settings.gates, resourcedistribution.validating(trial)),
    ]
    return tuple(_timed(rule, settings) for rule in rules)


def _statefulset_defaulting(settings: AdmissionSettings) -> StatefulSetDefaulting:
    return StatefulSetDefaulting(
        template_no_defaults=settings.defaulting.template_no_defaults,
        host_network_ports=settings.defaulting.host_network_ports,
        auto_delete_claims=settings.auto_delete_claims,
        auto_resize_claims=settings.auto_resize_claims,
    )


# ── pods ─────────────────────────────────────────────────────────────────────


def _pods(
    settings: AdmissionSettings, changing: Sequence[PodStep], spreading: Spreading | None
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
    judging = chain.judging_steps(settings, spreading=spreading)
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


def _gated(gates: Gates, validate_resourcedistribution: Reviewer) -> list[ReviewRule]:
    """Kinds that their feature gates refuse. A kind that comes puts its own reviewer in the place of `_allow`."""
    image_jobs = behind(gates, "KruiseDaemon", "ImagePullJobGate", reviewer=_allow)
    writes = ("CREATE", "UPDATE")
    budgets = behind_one_of(
        gates,
        "PodUnavailableBudgetDeleteGate",
        "PodUnavailableBudgetUpdateGate",
        feature="PodUnavailableBudget",
        reviewer=_allow,
    )
    return [
        _mutating("containerrecreaterequest", behind(gates, "KruiseDaemon", reviewer=_allow)),
        _validating("nodeimage", behind(gates, "KruiseDaemon", reviewer=_allow), *writes),
        _validating("imagepulljob", image_jobs, *writes, name="vimagepulljob-v1beta1.kb.io"),
        _validating("imagelistpulljob", image_jobs, *writes, name="vimagelistpulljob-v1beta1.kb.io"),
        _validating(
            "podprobemarker",
            behind(gates, "PodProbeMarkerGate", "KruiseDaemon", reviewer=_allow),
            *writes,
            versions=("v1alpha1",),
        ),
        _validating(
            "resourcedistribution",
            behind(gates, "ResourceDistributionGate", reviewer=validate_resourcedistribution),
            *writes,
            spoke=resourcedistribution.SPOKE_RULES,
        ),
        _validating(
            "podunavailablebudget",
            budgets,
            *writes,
            group=_POLICY,
            spoke=podunavailablebudget.SPOKE_RULES,
        ),
    ]


def _mutating(kind: str, reviewer: Reviewer) -> ReviewRule:
    return ReviewRule(
        name=f"m{kind}.kb.io",
        path=f"/mutate-apps-kruise-io-{kind}",
        aliases=(f"/mutate-apps-kruise-io-v1alpha1-{kind}",),
        reviewer=readable(in_hub_version(reviewer, conversions())),
        mutating=True,
        rules=(_writes(_APPS, f"{kind}s", "CREATE", "UPDATE", versions=_VERSIONS),),
    )


def _validating(
    kind: str,
    reviewer: Reviewer,
    *operations: str,
    spoke: SpokeRules | None = None,
    group: str = _APPS,
    versions: tuple[str, ...] = _VERSIONS,
    name: str = "",
    side_effects: str = "None",
) -> ReviewRule:
    stem = f"/validate-{group.replace('.', '-')}"
    return ReviewRule(
        name=name or f"v{kind}.kb.io",
        path=f"{stem}-{kind}",
        aliases=(f"{stem}-v1alpha1-{kind}",),
        reviewer=readable(in_hub_version(reviewer, conversions(), spoke=spoke)),
        mutating=False,
        rules=(_writes(group, f"{kind}s", *operations, versions=versions),),
        side_effects=side_effects,
    )


async def _allow(_: AdmissionRequest) -> AdmissionAnswer:
    return ALLOWED


def _writes(group: str, resource: str, *operations: str, versions: tuple[str, ...] = ("v1",)) -> ResourceRule:
    return ResourceRule(groups=(group,), versions=versions, resources=(resource,), operations=operations)


def _timed(rule: ReviewRule, settings: AdmissionSettings) -> ReviewRule:
    return msgspec.structs.replace(rule, timeout_s=settings.timeout_s)
