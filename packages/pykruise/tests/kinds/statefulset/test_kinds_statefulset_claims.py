"""Claims: created, owned, kept and grown; numbers are the specification's cases."""

from typing import Any

import pytest

from pykruise.kinds.statefulset.kind import KIND
from pykruise.kinds.statefulset.snapshot import STATEFUL_SET_VIEWS, StatefulSetSettings
from pykruise.kube.clock import format_time
from pykruise.kube.ids import Key
from pykruise.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from pykruise.plans.views import CLAIM_VIEWS
from pykruise.pods.workload.claims import ClaimView
from pykruise.runtime.actions import Create, Delete
from pykruise.runtime.wakes import Later
from support.statefulset_builder import (
    NAMESPACE,
    NOW,
    UID,
    StatefulSetBuilder,
    claim_template,
    created,
    created_claims,
    created_pods,
    deleted,
    left,
    patches,
    statefulset,
    waiting,
)
from support.wakes import Woken

SET_REFERENCE = {
    "apiVersion": "apps.kruise.io/v1beta1",
    "kind": "StatefulSet",
    "name": "web",
    "uid": UID,
}


def pod_reference(name: str, uid: str = "") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid or f"uid-{name}"}


# ── creation ─────────────────────────────────────────────────────────────────


def test_claims_are_created_before_their_pod_with_labels_of_template_and_selector() -> None:
    # given
    labelled = claim_template("logs")
    labelled["metadata"] |= {"labels": {"tier": "db", "app": "other"}, "annotations": {"a": "1"}}
    builder = statefulset(1, pods=False).with_claims(claim_template(), labelled)
    # when
    (stage,) = builder.plan().stages
    (chain,) = stage.chains
    # then
    actions = [step.action for step in chain.steps]
    assert [action.resource for action in actions] == [PERSISTENT_VOLUME_CLAIMS] * 2 + [PODS]
    (data, logs, pod) = (action.body for action in actions if isinstance(action, Create))
    assert data["metadata"] == {"name": "data-web-0", "namespace": "shop", "labels": {"app": "web"}}
    assert logs["metadata"]["labels"] == {"tier": "db", "app": "web"}
    assert logs["metadata"]["annotations"] == {"a": "1"}
    assert pod["spec"]["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}},
        {"name": "logs", "persistentVolumeClaim": {"claimName": "logs-web-0"}},
    ]
    # and the claims share no labels, so that a change of one does not change another
    assert data["metadata"]["labels"] is not logs["metadata"]["labels"]
    # and a failure is a warning
    assert all(step.failed is not None and step.failed.warning for step in chain.steps)


def test_a_set_that_selects_by_expressions_alone_makes_claims_too() -> None:
    builder = statefulset(1, pods=False).with_claims(claim_template()).with_revisions()
    builder.with_spec(selector={"matchExpressions": [{"key": "app", "operator": "Exists"}]})
    assert created_claims(builder.plan()) == ["data-web-0"]


def test_a_claim_replaces_a_volume_of_its_name() -> None:
    builder = statefulset(1, pods=False).with_claims(claim_template())
    builder.spec["template"]["spec"]["volumes"] = [
        {"name": "data", "emptyDir": {}},
        {"name": "x", "emptyDir": {}},
    ]
    (pod,) = created_pods(builder.plan())
    assert [volume["name"] for volume in pod["spec"]["volumes"]] == ["data", "x"]
    assert "persistentVolumeClaim" in pod["spec"]["volumes"][0]


def test_an_existing_claim_is_used_unchanged() -> None:
    """statefulset case 51: under OnDelete only new claims have another size"""
    # given
    builder = statefulset(2, parallel=True).with_claims(claim_template())
    builder.spec["volumeClaimTemplates"] = [claim_template(size="2Gi")]
    plan = builder.with_spec(replicas=3).without(1).plan()
    # then
    assert created(plan) == [1, 2]
    assert created_claims(plan) == ["data-web-2"]
    claim = next(s.action.body for s in plan.steps if s.action.key.name == "data-web-2")  # type: ignore[union-attr]
    assert claim["spec"]["resources"]["requests"]["storage"] == "2Gi"
    assert PERSISTENT_VOLUME_CLAIMS not in {
        step.action.resource for step in plan.steps if not isinstance(step.action, Create)
    }


def test_a_claim_of_a_lost_pod_is_used_again_where_numbers_are_reserved() -> None:
    builder = statefulset(1, pods=False).with_spec(reserveOrdinals=[0, "2-3"], replicas=2)
    builder.pod(1, 4).with_claims(claim_template()).without(4)
    plan = builder.plan()
    assert (created(plan), created_claims(plan)) == ([4], [])


def test_a_pod_waits_for_the_end_of_its_old_claim_and_others_do_not() -> None:
    # given
    builder = statefulset(3, parallel=True).with_claims(claim_template()).without(1, 2)
    builder.claims["data-web-1"]["metadata"]["deletionTimestamp"] = format_time(NOW)
    # when
    plan = builder.plan()
    # then
    assert created(plan) == [2]
    assert left(plan)[1] == "waits until its old claim data-web-1 is deleted"
    assert waiting(plan) == "Claim"


def test_a_pending_pod_gets_its_lost_claim_again() -> None:
    """statefulset case 69"""
    # given
    builder = statefulset(2).with_claims(claim_template()).pending(1)
    del builder.claims["data-web-1"]
    assert created_claims(builder.plan()) == ["data-web-1"]
    # while the old claim terminates, no claim can be created
    builder.claim(claim_template(), "web-1", deletionTimestamp=format_time(NOW))
    plan = builder.plan()
    assert created_claims(plan) == []
    assert left(plan)[1] == "waits until its old claim data-web-1 is deleted"


# ── retention ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("scaled", "deleted_", "slot", "surplus"),
    [
        ("Retain", "Retain", set(), set()),
        ("Retain", "Delete", {"StatefulSet"}, {"StatefulSet"}),
        ("Delete", "Retain", set(), {"Pod"}),
        ("Delete", "Delete", {"StatefulSet"}, {"Pod"}),
    ],
)
@pytest.mark.parametrize("before", ["none", "set", "pod", "both"])
def test_claims_are_owned_by_the_objects_with_which_they_are_deleted(
    scaled: str, deleted_: str, slot: set[str], surplus: set[str], before: str
) -> None:
    """The previous owners do not matter."""
    # given a wanted and a surplus pod whose claims have the owners of an earlier policy
    builder = statefulset(1).pod(1).with_claims(claim_template()).retaining(scaled=scaled, deleted=deleted_)
    for name in ("web-0", "web-1"):
        owners = foreign_owners(name)
        owners += [SET_REFERENCE] if before in ("set", "both") else []
        owners += [pod_reference(name)] if before in ("pod", "both") else []
        builder.claims[f"data-{name}"]["metadata"]["ownerReferences"] = owners
    # when
    written = patches(builder.plan(), PERSISTENT_VOLUME_CLAIMS)
    # then
    assert owners_after(builder, written, "data-web-0") == slot
    assert owners_after(builder, written, "data-web-1") == surplus


def foreign_owners(pod: str) -> list[dict[str, Any]]:
    """An object with the name of the pod, and a pod of another name."""
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": pod, "uid": "foreign"},
        pod_reference("backup", "foreign pod"),
    ]


def owners_after(builder: StatefulSetBuilder, written: dict[str, Any], name: str) -> set[str]:
    """Kinds of the owners that are not foreign; statefulset case 68: foreign owners stay."""
    owners = {item["uid"]: item for item in builder.claims[name]["metadata"].get("ownerReferences", [])}
    for reference in (written.get(name) or {"metadata": {"ownerReferences": []}})["metadata"][
        "ownerReferences"
    ]:
        if reference.get("$patch") == "delete":
            del owners[reference["uid"]]
        else:
            assert "controller" not in reference
            owners[reference["uid"]] = reference
    assert owners.pop("foreign", None) is not None
    assert owners.pop("foreign pod", None) is not None
    return {owner["kind"] for owner in owners.values()}


def test_claims_of_a_surplus_pod_get_their_owner_before_the_pod_is_deleted() -> None:
    """statefulset case 64"""
    builder = statefulset(2).pod(2).with_claims(claim_template()).retaining(scaled="Delete")
    (stage,) = builder.plan().stages
    (chain,) = stage.chains
    assert [type(step.action).__name__ for step in chain.steps] == ["Patch", "Delete"]


def test_claims_of_high_ordinals_are_kept_while_their_pods_are_desired() -> None:
    """statefulset case 65"""
    # given pods 1 and 6, with reserved ordinals below and between
    builder = statefulset(2, parallel=True).pod(6).with_claims(claim_template()).retaining(scaled="Delete")
    builder.with_spec(reserveOrdinals=[0, "2-5"])
    written = patches(builder.plan(), PERSISTENT_VOLUME_CLAIMS)
    assert set(written) == {"data-web-0"}


@pytest.mark.parametrize("phase", ["Running", "Failed"])
@pytest.mark.parametrize(
    ("parallel", "limit"),
    [(True, None), (True, {"maxUnavailable": 1}), (False, None)],
    ids=["Parallel", "scaleStrategy.maxUnavailable is used up", "OrderedReady"],
)
def test_claims_of_terminating_pods_are_kept_when_the_set_is_scaled_out_again(
    *, parallel: bool, limit: dict[str, int] | None, phase: str
) -> None:
    """statefulset case 100"""
    # given two surplus pods that terminate, whose claims are to be deleted with them, and a lower pod that is not ready
    builder = statefulset(2, parallel=parallel).pod(2, 3).with_claims(claim_template())
    builder.retaining(scaled="Delete", deleted="Delete").with_spec(scaleStrategy=limit)
    for name in ("web-0", "web-1"):
        builder.claims[f"data-{name}"]["metadata"]["ownerReferences"] = [SET_REFERENCE]
    for name in ("web-2", "web-3"):
        builder.claims[f"data-{name}"]["metadata"]["ownerReferences"] = [pod_reference(name)]
    builder.deleted(2, 3).not_ready(0)
    for ordinal in (2, 3):
        builder.pods[f"web-{ordinal}"]["status"]["phase"] = phase
    assert patches(builder.plan(), PERSISTENT_VOLUME_CLAIMS) == {}
    # when
    written = patches(builder.with_spec(replicas=4).plan(), PERSISTENT_VOLUME_CLAIMS)
    # then
    assert {name: body["metadata"]["ownerReferences"] for name, body in written.items()} == {
        f"data-web-{ordinal}": [{"$patch": "delete", "uid": f"uid-web-{ordinal}"}, SET_REFERENCE]
        for ordinal in (2, 3)
    }


def test_claims_of_a_finished_pod_that_is_desired_again_are_kept_when_it_is_replaced() -> None:
    # given a pod that was surplus, and that its hook held
    builder = statefulset(2).with_claims(claim_template()).retaining(scaled="Delete").phase("Failed", 1)
    builder.claims["data-web-1"]["metadata"]["ownerReferences"] = [pod_reference("web-1")]
    # when
    (chain,) = (chain for stage in builder.plan().stages for chain in stage.chains)
    # then the claim loses its owner before the pod is deleted
    assert [type(step.action).__name__ for step in chain.steps] == ["Patch", "Delete"]
    assert chain.steps[0].action.body["metadata"]["ownerReferences"] == [  # type: ignore[union-attr]
        {"$patch": "delete", "uid": "uid-web-1"}
    ]


def test_no_pod_is_created_while_its_claim_is_deleted_with_its_predecessor() -> None:
    """statefulset case 66"""
    # given
    builder = statefulset(3).with_claims(claim_template()).retaining(scaled="Delete").without(2)
    references = [*foreign_owners("web-2"), pod_reference("web-2", "an older pod")]
    builder.claims["data-web-2"]["metadata"]["ownerReferences"] = references
    # when
    plan = builder.plan()
    # then
    assert created(plan) == []
    assert waiting(plan) == "Claim"
    # and once the claim is deleted, pod and claim are created again
    del builder.claims["data-web-2"]
    plan = builder.plan()
    assert (created(plan), created_claims(plan)) == ([2], ["data-web-2"])


def test_a_pod_is_created_on_a_claim_with_other_owners() -> None:
    """statefulset case 68"""
    builder = statefulset(3).with_claims(claim_template()).retaining(scaled="Delete").without(2)
    builder.claims["data-web-2"]["metadata"]["ownerReferences"] = foreign_owners("web-2")
    assert created(builder.plan()) == [2]


def test_a_claim_that_is_retained_again_is_released_before_its_next_pod() -> None:
    """Otherwise garbage collection would delete the claim under the pod."""
    # given a claim that would be deleted with the last pod, and a policy that retains it now
    builder = statefulset(3).with_claims(claim_template()).retaining().without(2)
    references = [pod_reference("web-2", "an older pod")]
    builder.claims["data-web-2"]["metadata"]["ownerReferences"] = references
    # when
    (stage,) = builder.plan().stages
    (chain,) = stage.chains
    # then
    assert [type(step.action).__name__ for step in chain.steps] == ["Patch", "Create"]
    assert chain.steps[0].action.body["metadata"]["ownerReferences"] == [  # type: ignore[union-attr]
        {"$patch": "delete", "uid": "an older pod"}
    ]


def test_claims_that_are_retained_again_lose_the_set_as_owner() -> None:
    """statefulset case 67"""
    builder = statefulset(3).with_claims(claim_template()).retaining()
    for claim in builder.claims.values():
        claim["metadata"]["ownerReferences"] = [SET_REFERENCE]
    written = patches(builder.plan(), PERSISTENT_VOLUME_CLAIMS)
    assert {name: body["metadata"]["ownerReferences"] for name, body in written.items()} == {
        f"data-web-{number}": [{"$patch": "delete", "uid": UID}] for number in range(3)
    }
    steps = list(builder.plan().steps)
    policy = "persistentVolumeClaimRetentionPolicy"
    assert {step.because for step in steps} == {f"{policy}: it stays when its pod or the set is deleted"}
    assert all(step.failed is not None and step.failed.warning for step in steps)
    # and claims that should be deleted with the set get it as owner, once
    builder.retaining(deleted="Delete")
    assert builder.plan().stages == ()
    del builder.claims["data-web-2"]["metadata"]["ownerReferences"]
    (step,) = builder.plan().steps
    assert step.action.key.name == "data-web-2"
    assert step.because == f"{policy}: it is deleted with StatefulSet web"


def test_a_terminating_claim_is_not_retained_for_the_next_pod() -> None:
    builder = statefulset(1).with_claims(claim_template()).retaining().without(0)
    builder.claims["data-web-0"]["metadata"] |= {
        "ownerReferences": [SET_REFERENCE],
        "deletionTimestamp": format_time(NOW),
    }
    assert builder.plan().stages == ()


def test_a_claim_of_a_pending_pod_gets_its_owners_once_while_another_is_created() -> None:
    builder = statefulset(1).with_claims(claim_template(), claim_template("logs")).retaining().pending(0)
    builder.claims["data-web-0"]["metadata"]["ownerReferences"] = [SET_REFERENCE]
    del builder.claims["logs-web-0"]
    assert sorted(step.action.key.name for step in builder.plan().steps) == ["data-web-0", "logs-web-0"]


@pytest.mark.parametrize(("scaled", "deleted_"), [("Archive", "Delete"), ("Delete", "Archive")])
def test_a_policy_that_is_not_known_retains(scaled: str, deleted_: str) -> None:
    builder = statefulset(1).pod(1).with_claims(claim_template()).retaining(scaled=scaled, deleted=deleted_)
    assert patches(builder.plan(), PERSISTENT_VOLUME_CLAIMS) == {}


def test_new_claims_are_created_with_their_owner() -> None:
    builder = statefulset(1, pods=False).with_claims(claim_template()).retaining(deleted="Delete")
    body = next(iter(builder.plan().steps)).action.body  # type: ignore[union-attr]
    assert body["metadata"]["ownerReferences"] == [SET_REFERENCE]


def test_the_policy_is_ignored_without_the_gate() -> None:
    builder = statefulset(2).pod(2).with_claims(claim_template()).retaining(scaled="Delete", deleted="Delete")
    plan = builder.with_settings(auto_delete_claims=False).plan()
    assert patches(plan, PERSISTENT_VOLUME_CLAIMS) == {}
    assert deleted(plan) == [2]
    # and the owners of a claim stay
    builder.claims["data-web-0"]["metadata"]["ownerReferences"] = [SET_REFERENCE]
    assert patches(builder.plan(), PERSISTENT_VOLUME_CLAIMS) == {}
    # and new claims have no owner
    (claim, _) = (step.action.body for step in builder.with_spec(replicas=4).plan().steps)  # type: ignore[union-attr]
    assert "ownerReferences" not in claim["metadata"]


def test_no_claim_is_ever_deleted_by_the_set_itself() -> None:
    builder = statefulset(0, parallel=True).pod(0, 1).with_claims(claim_template()).retaining(scaled="Delete")
    assert {step.action.resource for step in builder.plan().steps if isinstance(step.action, Delete)} == {
        PODS
    }


@pytest.mark.parametrize("is_there", [False, True], ids=["missing", "Pending"])
def test_the_other_claims_of_a_pod_are_created_while_an_old_one_is_terminating(is_there: bool) -> None:
    # given
    builder = statefulset(1).with_claims(claim_template(), claim_template("logs"))
    builder = builder.pending(0) if is_there else builder.without(0)
    builder.claims["data-web-0"]["metadata"]["deletionTimestamp"] = format_time(NOW)
    plan = builder.plan()
    assert plan.stages == ()
    assert left(plan) == {0: "waits until its old claim data-web-0 is deleted"}
    # when the other claim is missing too
    del builder.claims["logs-web-0"]
    plan = builder.plan()
    # then
    assert (created_claims(plan), created(plan)) == (["logs-web-0"], [])
    # and once the old claim is deleted, only an existing pod is waited for
    del builder.claims["data-web-0"]
    plan = builder.plan()
    assert (created_claims(plan), created(plan)) == (["data-web-0", "logs-web-0"], [] if is_there else [0])
    assert left(plan) == ({0: "is not ready; the other pods wait for it"} if is_there else {})


# ── events that wake the set ─────────────────────────────────────────────────


def woken_by(old: ClaimView | None, new: ClaimView | None, *, at_once: bool = True) -> list[Key]:
    woken = Woken(KIND, {STATEFUL_SET_VIEWS: [statefulset(3).view()]}, settings=StatefulSetSettings())
    result = woken.keys(CLAIM_VIEWS, old, new)
    later = [item.key for item in result if isinstance(item, Later)]
    return [item for item in result if isinstance(item, Key)] if at_once else later


def claim_view(name: str = "data-web-1", **fields: Any) -> ClaimView:
    return ClaimView(namespace=NAMESPACE, name=name, uid="u", resource_version=1, **fields)


def test_a_claim_of_another_size_is_in_the_status_a_little_later() -> None:
    # given a claim whose volume is bound late, so that the start of no pod reports it
    pending, bound = claim_view(requested=1), claim_view(requested=1, capacity=1)
    # then
    assert woken_by(pending, bound, at_once=False) == [statefulset(3).view().key]
    assert woken_by(pending, bound) == []
    assert woken_by(bound, bound, at_once=False) == []


@pytest.mark.parametrize(("grown_by", "wakes"), [("", False), ("web", True), ("other", False)])
def test_a_changed_claim_enqueues_the_statefulset_that_expands_it(grown_by: str, wakes: bool) -> None:
    """statefulset case 87"""
    view = claim_view(grown_by=grown_by)
    assert bool(woken_by(view, view)) is wakes


def test_a_deleted_claim_enqueues_the_set_whose_pod_may_wait_for_it() -> None:
    assert woken_by(claim_view(), None) == [Key(NAMESPACE, "web")]
    assert woken_by(claim_view("data-other-1"), None) == []
    assert woken_by(None, claim_view()) == []
