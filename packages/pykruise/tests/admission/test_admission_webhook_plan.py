"""Plans for certificates and configurations, from observations and from the time since they are true."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec
import orjson
import pytest

from pykruise.admission.certificate_work import examine, renew_certificates
from pykruise.admission.certificates import DAY_S, YEAR_S, Certificates
from pykruise.admission.configurations import MUTATING_NAME, VALIDATING_NAME, Endpoint, build_configurations
from pykruise.admission.pods.chain import CONDITION
from pykruise.admission.reviewers import build_reviewers
from pykruise.admission.webhook_plan import (
    CONFIRM_S,
    HOLD_S,
    QUIET_S,
    CertificatePlan,
    ConfigurationPlan,
    CrdView,
    Examined,
    ObservedWebhooks,
    PlannedPatch,
    Waits,
    WebhookTarget,
    plan_certificates,
    plan_configurations,
)
from pykruise.kinds import list_conversions
from pykruise.kube.documents import Document
from pykruise.kube.patches import apply_json_patch
from pykruise.kube.schemas.crds import build_webhook_conversion
from pykruise.kube.values.cel import Interests, LabelSelection
from pykruise.kube.values.selectors import parse_selector
from pykruise.kube.webhooks.reviews import index_rules_by_path

HOST = "kruise-webhook-service.kruise-system.svc"
NOW = 1_700_000_000.0
ALL = tuple(rule for rule in build_reviewers() if rule.path in ("/mutate-pod", "/validate-pod"))
NONE: Interests = {"SidecarSet": (), "WorkloadSpread": (), "PodUnavailableBudget": ()}
WEB: Interests = {
    "SidecarSet": [LabelSelection(selector=parse_selector({"matchLabels": {"app": "web"}}))],
    "WorkloadSpread": (),
    "PodUnavailableBudget": (),
}
TARGET = WebhookTarget(
    rules=index_rules_by_path(ALL),
    converted=frozenset(list_conversions()),
    endpoint=Endpoint(),
    is_managed=True,
)
NEEDED = [
    CrdView(name=kind, uid=kind, resource_version=1, group=group, kind=kind, versions=1, conversion=None)
    for group, kind in {rule.needs for rule in ALL if rule.needs is not None}
]


# ── certificates ─────────────────────────────────────────────────────────────


@lru_cache
def certificates(name: str) -> Certificates:
    """`old`; `pair`: another pair by its authority; `new`: another authority, with the old one in the bundle."""
    if name == "old":
        return renew_certificates(None, host=HOST, now=NOW)
    old = certificates("old")
    if name == "pair":
        return renew_certificates(old, host=HOST, now=NOW)
    if name == "new":
        return renew_certificates(msgspec.structs.replace(old, authority_key=b""), host=HOST, now=NOW)
    return renew_certificates(None, host=HOST, now=NOW)


def examined(name: str) -> Examined:
    return Examined(certificates(name), examine(certificates(name), host=HOST))


def planned_certificates(
    stored: str, served: str, *, now: float = NOW, at: float = 0.0, waits: Waits | None = None
) -> CertificatePlan:
    return plan_certificates(
        examined(stored) if stored else None,
        examined(served) if served else None,
        renew_before_s=180 * DAY_S,
        now=now,
        at=at,
        waits=waits or {},
    )


@pytest.mark.parametrize(
    ("stored", "served", "now", "renewed_because", "at_once"),
    [
        ("", "", NOW, "no certificates are stored", False),
        ("old", "", NOW, "", True),
        ("old", "old", NOW, "", False),
        ("pair", "old", NOW, "", True),  # the same authority
        ("new", "old", NOW, "", False),  # API servers trust only the old one yet
        ("foreign", "old", NOW, "", True),  # no client trusts both the stored and the served certificate
        ("old", "old", NOW + 9.6 * YEAR_S, "the certificate expires", False),
    ],
)
def test_certificates_are_renewed_and_served_by_what_is_stored(
    stored: str, served: str, now: float, renewed_because: str, at_once: bool
) -> None:
    """admission cases 7 to 11"""
    plan = planned_certificates(stored, served, now=now)
    assert plan.renew_because.startswith(renewed_because)
    assert bool(plan.renew_because) == bool(renewed_because)
    assert plan.serves_at_once is at_once


def test_certificates_that_cannot_be_stored_are_served_after_the_hold_time() -> None:
    plan = planned_certificates("new", "old")
    for at in (10.0, HOLD_S - 1.0):
        plan = planned_certificates("new", "old", at=at, waits=plan.waits)
        assert not plan.serves_at_once
    assert planned_certificates("new", "old", at=HOLD_S, waits=plan.waits).serves_at_once


# ── configurations ───────────────────────────────────────────────────────────


class Cluster:
    """Two configurations, changed by the plans."""

    def __init__(self) -> None:
        self.docs: dict[str, Document | None] = {}
        for number, doc in enumerate(build_configurations(ALL, Endpoint()), 1):
            doc["metadata"]["resourceVersion"] = str(number)
            self.docs[doc["metadata"]["name"]] = doc
        self.version = 10
        self.waits: Waits = {}
        self.futile: list[PlannedPatch] = []

    def plan(
        self,
        at: float,
        selectors: Interests | None = NONE,
        *,
        listed: Interests | None = None,
        crds: Sequence[CrdView] = NEEDED,
        target: WebhookTarget = TARGET,
    ) -> ConfigurationPlan:
        observed = ObservedWebhooks(
            at=at,
            bundle=b"bundle",
            configurations=self.docs,
            crds=crds,
            selectors=selectors,
            listed_selectors=listed,
        )
        return plan_configurations(observed, target, waits=self.waits, futile=self.futile)

    def step(self, at: float, selectors: Interests | None = NONE, **options: Any) -> list[str]:
        """Plan and write. Returns the writes with their reasons."""
        plan = self.plan(at, selectors, **options)
        self.waits = plan.waits
        for patch in plan.patches:
            live = self.docs[patch.name]
            assert live is not None
            self.version += 1
            changed = apply_json_patch(live, patch.body)
            metadata = {**changed["metadata"], "resourceVersion": str(self.version)}
            self.docs[patch.name] = {**changed, "metadata": metadata}
        return [f"{patch.name}: {patch.because}" for patch in plan.patches]

    def settle(self, at: float, selectors: Interests = NONE) -> float:
        """Plan and write until nothing is left to do. Returns the time."""
        for _ in range(20):
            self.step(at, selectors, listed=selectors)
            again_s = self.plan(at, selectors).again_s
            if again_s is None:
                return at
            at += again_s
        raise AssertionError("it does not settle")

    def expression(self) -> str:
        live = self.docs[MUTATING_NAME]
        assert live is not None
        conditions = live["webhooks"][0].get("matchConditions") or [{"expression": ""}]
        return str(conditions[0]["expression"])


def test_a_plan_can_be_printed_and_changes_nothing() -> None:
    cluster = Cluster()
    before = orjson.dumps(cluster.docs)
    first, second = cluster.plan(0.0), cluster.plan(0.0)
    assert orjson.dumps(cluster.docs) == before
    assert repr(first) == repr(second)
    assert "caBundle" in repr(first.patches)


def test_entries_are_written_then_once_more_then_never() -> None:
    cluster = Cluster()
    assert len(cluster.step(0.0)) == 2
    assert cluster.step(0.1) == []
    assert cluster.step(0.1 + CONFIRM_S - 1) == []
    assert all("is written again, because API servers" in text for text in cluster.step(0.1 + CONFIRM_S))
    assert cluster.step(20.0) == []


@pytest.mark.parametrize(
    ("listed", "conditions"), [(NONE, True), (WEB, False), (None, False)], ids=["same", "other", "unread"]
)
def test_conditions_are_narrowed_after_a_quiet_time_if_the_api_server_confirms(
    listed: Interests | None, conditions: bool
) -> None:
    # given entries that were written twice, and a wait that began then
    cluster = Cluster()
    for at in (0.0, 0.1, 0.1 + CONFIRM_S, 6.0):
        cluster.step(at)
    assert not cluster.plan(6.0 + QUIET_S - 1).needs_selectors
    assert cluster.plan(6.0 + QUIET_S).needs_selectors
    # when
    cluster.step(6.0 + QUIET_S, listed=listed)
    # then
    assert bool(cluster.expression()) is conditions


def test_a_write_by_another_replica_restarts_the_quiet_time() -> None:
    cluster = Cluster()
    for at in (0.0, 0.1, 0.1 + CONFIRM_S, 6.0):
        cluster.step(at)
    # when a review was recorded in the meantime
    live = cluster.docs[MUTATING_NAME]
    assert live is not None
    live["metadata"]["resourceVersion"] = "99"
    cluster.step(6.0 + QUIET_S, listed=NONE)
    # then
    assert cluster.expression() == ""


def test_match_conditions_that_miss_a_stored_object_are_removed_immediately() -> None:
    cluster = Cluster()
    at = cluster.settle(0.0)
    assert "apps.kruise.io/" in cluster.expression()
    # when a SidecarSet appears without a review, for example restored from a backup
    written = cluster.step(at + 1, WEB)
    # then
    assert (
        f"{MUTATING_NAME}: API servers should send reviews of every pod until the selectors are stable"
        in written
    )
    assert cluster.expression() == ""
    # and later the conditions select its pods
    cluster.settle(at + 2, WEB)
    assert '["web"]' in cluster.expression()


def test_unknown_selections_keep_the_conditions_unchanged() -> None:
    cluster = Cluster()
    at = cluster.settle(0.0)
    assert cluster.step(at + 1, None) == []


def test_a_patch_that_changed_nothing_is_not_planned_again() -> None:
    """An API server older than match conditions drops them"""
    cluster = Cluster()
    for at in (0.0, 0.1, 0.1 + CONFIRM_S, 6.0):
        cluster.step(at)
    plan = cluster.plan(6.0 + QUIET_S, listed=NONE)
    [patch] = [patch for patch in plan.patches if patch.name == MUTATING_NAME]
    # when
    cluster.futile.append(patch)
    cluster.waits = plan.waits
    # then it is not planned, and the next attempt is as far away again
    later = cluster.plan(6.0 + 2 * QUIET_S, listed=NONE)
    assert MUTATING_NAME not in {patch.name for patch in later.patches}
    assert plan.again_s == later.again_s == QUIET_S


def test_a_missing_or_unreadable_configuration_does_not_stop_the_other() -> None:
    cluster = Cluster()
    cluster.docs[MUTATING_NAME] = None
    plan = cluster.plan(0.0)
    assert [patch.name for patch in plan.patches] == [VALIDATING_NAME]
    assert f"{MUTATING_NAME} does not exist; apply what `pykruise install` prints" in plan.problems[0]


def test_external_certificates_are_only_compared_with_the_configurations() -> None:
    external = msgspec.structs.replace(TARGET, is_managed=False)
    cluster = Cluster()
    plan = cluster.plan(0.0, target=external)
    assert plan.patches == ()
    assert all("does not match the external caBundle" in problem for problem in plan.problems)
    # and a condition that a manager left behind is an error
    cluster.settle(0.0)
    assert any(
        f"match condition {CONDITION}" in problem for problem in cluster.plan(0.0, target=external).problems
    )


@pytest.mark.parametrize(
    ("group", "kind", "strategy", "paths"),
    [
        ("apps.kruise.io", "CloneSet", "Webhook", ["/spec/conversion/webhook/clientConfig/caBundle"]),
        ("apps.kruise.io", "CloneSet", "None", []),
        ("example.com", "Game", "Webhook", []),
    ],
)
def test_only_our_crds_that_are_converted_by_webhook_are_patched(
    group: str, kind: str, strategy: str, paths: list[str]
) -> None:
    """admission cases 13 and 14"""
    conversion = build_webhook_conversion(service=("kruise-system", "kruise-webhook-service"))
    crd = CrdView(
        name="x",
        uid="x",
        resource_version=7,
        group=group,
        kind=kind,
        versions=2,
        conversion=conversion if strategy == "Webhook" else {"strategy": strategy},
    )
    plan = Cluster().plan(0.0, crds=[crd])
    patches = [patch for patch in plan.patches if patch.name == "x"]
    assert [op["path"] for patch in patches for op in patch.operations] == paths
    assert [patch.version for patch in patches] == ["7"] * len(patches)
