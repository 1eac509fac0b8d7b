"""Who reviews what: one table of all webhooks, by OpenKruise's names and paths.

settings + Counts ──▶ reviewers() ──▶ the sandbox (asks in process)
                                  ──▶ server.py (answers by path)
                                  ──▶ configurations.py (what an API server is told)

A kind adds its rows here; it reviews its hub version (hub.py). Order within the table is the order in which
mutating reviews run.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.admission.hub import in_hub_version
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
from pykruise.kinds.sidecarset.admission import mutate_sidecarset
from pykruise.kinds.sidecarset.admission import validating as validating_sidecarset
from pykruise.kinds.sidecarset.facts import SidecarReader
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
    rng: random.Random | None = None,
) -> tuple[ReviewRule, ...]:
    """The webhooks that are active under these settings; the default is OpenKruise's.

    `counts` is what deletion protection reads; give `protection` instead to hear of its refusals. `pods`
    looks up pods that a CloneSet of v1alpha1 is to delete. `sidecars` reads SidecarSets; without it no pod gets
    sidecars. `on_refused` hears of pods that were refused for want of them. `rng` draws names of pods that need
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
                sidecars=sidecars,
                on_refused=on_refused,
            ),
        ),
        _mutating("cloneset", mutating_cloneset(settings.defaulting)),
        _mutating("daemonset", mutate_daemonset),
        _mutating("sidecarset", mutate_sidecarset),
        *_protecting(settings, protection),
        _validating(
            "cloneset",
            guarded(protection, validate_cloneset),
            "CREATE",
            "UPDATE",
            "DELETE",
            spoke=spoke_rules(pods),
        ),
        _validating("daemonset", validate_daemonset, "CREATE", "UPDATE"),
        _validating(
            "sidecarset",
            validating_sidecarset(sidecars, allows_any_annotation=settings.any_pod_annotation),
            "CREATE",
            "UPDATE",
        ),
        # Their own rules come with their kinds; until then nobody needs to be asked but about deletions.
        _validating("statefulset", guarded(protection, _allow), "DELETE"),
        _validating("uniteddeployment", guarded(protection, _allow), "DELETE"),
    ]
    return tuple(_timed(rule, settings) for rule in rules)


# ── pods ─────────────────────────────────────────────────────────────────────


def _pods(settings: AdmissionSettings, changing: Sequence[PodStep]) -> list[ReviewRule]:
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
            conditions=chain.condition_of(changing),
        )
    ]
    judging = chain.judging_steps(settings)
    if judging:
        both: dict[str, Any] = {
            "path": "/validate-pod",
            "reviewer": chain.judging(judging),
            "mutating": False,
            "namespace_selector": _pod_namespaces(settings),
            "conditions": chain.condition_of(judging),
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
    kind: str, reviewer: Reviewer, *operations: str, spoke: SpokeRules | None = None
) -> ReviewRule:
    return ReviewRule(
        name=f"v{kind}.kb.io",
        path=f"/validate-apps-kruise-io-{kind}",
        aliases=(f"/validate-apps-kruise-io-v1alpha1-{kind}",),
        reviewer=readable(in_hub_version(reviewer, conversions(), spoke=spoke)),
        mutating=False,
        rules=(_writes(_APPS, f"{kind}s", *operations, versions=_VERSIONS),),
    )


async def _allow(_: AdmissionRequest) -> AdmissionAnswer:
    return ALLOWED


def _writes(group: str, resource: str, *operations: str, versions: tuple[str, ...] = ("v1",)) -> ResourceRule:
    return ResourceRule(groups=(group,), versions=versions, resources=(resource,), operations=operations)


def _timed(rule: ReviewRule, settings: AdmissionSettings) -> ReviewRule:
    return msgspec.structs.replace(rule, timeout_s=settings.timeout_s)
