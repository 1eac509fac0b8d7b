"""Claims are made, owned, kept and let grow; numbers are the specification's cases."""

from typing import Any

import pytest

from pykruise.kinds.statefulset.kind import KIND
from pykruise.kinds.statefulset.snapshot import STATEFUL_SET_VIEWS, Settings
from pykruise.kube.clock import format_time
from pykruise.kube.ids import Key
from pykruise.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from pykruise.plans.views import CLAIM_VIEWS
from pykruise.pods.claims import ClaimView
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
    template,
    updatable,
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


# ── making them ──────────────────────────────────────────────────────────────


def test_claims_come_before_their_pod_with_the_labels_of_template_and_selector() -> None:
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
    # and nothing is shared that a later change could leak through
    assert data["metadata"]["labels"] is not logs["metadata"]["labels"]


def test_a_claim_takes_the_place_of_a_volume_of_its_name() -> None:
    builder = statefulset(1, pods=False).with_claims(claim_template())
    builder.spec["template"]["spec"]["volumes"] = [
        {"name": "data", "emptyDir": {}},
        {"name": "x", "emptyDir": {}},
    ]
    (pod,) = created_pods(builder.plan())
    assert [volume["name"] for volume in pod["spec"]["volumes"]] == ["data", "x"]
    assert "persistentVolumeClaim" in pod["spec"]["volumes"][0]


def test_a_claim_that_is_there_is_used_as_it_is() -> None:
    """statefulset case 51: under OnDelete only claims that are made later have another size"""
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


def test_a_pod_waits_for_the_end_of_its_old_claim_and_others_do_not() -> None:
    # given
    builder = statefulset(3, parallel=True).with_claims(claim_template()).without(1, 2)
    builder.claims["data-web-1"]["metadata"]["deletionTimestamp"] = format_time(NOW)
    # when
    plan = builder.plan()
    # then
    assert created(plan) == [2]
    assert left(plan)[1] == "waits until its old claim data-web-1 is gone"
    assert waiting(plan) == "Claim"


def test_a_pending_pod_gets_its_lost_claim_again() -> None:
    """statefulset case 69"""
    # given
    builder = statefulset(2).with_claims(claim_template()).pending(1)
    del builder.claims["data-web-1"]
    assert created_claims(builder.plan()) == ["data-web-1"]
    # while the old one is still on its way out, nothing can be made
    builder.claim(claim_template(), "web-1", deletionTimestamp=format_time(NOW))
    plan = builder.plan()
    assert created_claims(plan) == []
    assert left(plan)[1] == "waits until its old claim data-web-1 is gone"


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
    """Whatever the owners were before."""
    # given a wanted and a surplus pod whose claims have owners of some earlier policy
    builder = statefulset(1).pod(1).with_claims(claim_template()).retaining(scaled=scaled, deleted=deleted_)
    for name in ("web-0", "web-1"):
        owners = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "foreign"}]
        owners += [SET_REFERENCE] if before in ("set", "both") else []
        owners += [pod_reference(name)] if before in ("pod", "both") else []
        builder.claims[f"data-{name}"]["metadata"]["ownerReferences"] = owners
    # when
    written = patches(builder.plan(), PERSISTENT_VOLUME_CLAIMS)
    # then
    assert owners_after(builder, written, "data-web-0") == slot
    assert owners_after(builder, written, "data-web-1") == surplus


def owners_after(builder: StatefulSetBuilder, written: dict[str, Any], name: str) -> set[str]:
    """Kinds of the owners besides foreign ones; statefulset case 68: those survive."""
    owners = {one["uid"]: one for one in builder.claims[name]["metadata"].get("ownerReferences", [])}
    for one in (written.get(name) or {"metadata": {"ownerReferences": []}})["metadata"]["ownerReferences"]:
        if one.get("$patch") == "delete":
            del owners[one["uid"]]
        else:
            assert "controller" not in one
            owners[one["uid"]] = one
    assert owners.pop("foreign", None) is not None
    return {one["kind"] for one in owners.values()}


def test_before_a_surplus_pod_goes_its_claims_are_made_to_go_with_it() -> None:
    """statefulset case 64"""
    builder = statefulset(2).pod(2).with_claims(claim_template()).retaining(scaled="Delete")
    (stage,) = builder.plan().stages
    (chain,) = stage.chains
    assert [type(step.action).__name__ for step in chain.steps] == ["Patch", "Delete"]


def test_claims_of_high_ordinals_are_kept_while_their_pods_are_wanted() -> None:
    """statefulset case 65"""
    # given pods 1 and 6, and freed ones below and between
    builder = statefulset(2, parallel=True).pod(6).with_claims(claim_template()).retaining(scaled="Delete")
    builder.with_spec(reserveOrdinals=[0, "2-5"])
    written = patches(builder.plan(), PERSISTENT_VOLUME_CLAIMS)
    assert set(written) == {"data-web-0"}


def test_a_pod_is_not_made_on_a_claim_that_goes_with_its_predecessor() -> None:
    """statefulset case 66"""
    # given
    builder = statefulset(3).with_claims(claim_template()).retaining(scaled="Delete").without(2)
    references = [pod_reference("web-2", "an older pod")]
    builder.claims["data-web-2"]["metadata"]["ownerReferences"] = references
    # when
    plan = builder.plan()
    # then
    assert created(plan) == []
    assert waiting(plan) == "Claim"
    # and once it is gone, pod and claim are made anew
    del builder.claims["data-web-2"]
    plan = builder.plan()
    assert (created(plan), created_claims(plan)) == ([2], ["data-web-2"])


def test_a_claim_that_is_retained_again_is_saved_before_its_next_pod_comes() -> None:
    """Otherwise garbage collection would take it away under the pod."""
    # given a claim that was to go with the last pod, and a policy that retains now
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


def test_new_claims_are_created_with_their_owner() -> None:
    builder = statefulset(1, pods=False).with_claims(claim_template()).retaining(deleted="Delete")
    body = next(iter(builder.plan().steps)).action.body  # type: ignore[union-attr]
    assert body["metadata"]["ownerReferences"] == [SET_REFERENCE]


def test_without_the_gate_the_policy_is_ignored() -> None:
    builder = statefulset(2).pod(2).with_claims(claim_template()).retaining(scaled="Delete", deleted="Delete")
    plan = builder.with_settings(auto_delete_claims=False).plan()
    assert patches(plan, PERSISTENT_VOLUME_CLAIMS) == {}
    assert deleted(plan) == [2]


def test_no_claim_is_ever_deleted_by_the_set_itself() -> None:
    builder = statefulset(0, parallel=True).pod(0, 1).with_claims(claim_template()).retaining(scaled="Delete")
    assert {step.action.resource for step in builder.plan().steps if isinstance(step.action, Delete)} == {
        PODS
    }


@pytest.mark.parametrize("is_there", [False, True], ids=["missing", "Pending"])
def test_the_other_claims_of_a_pod_are_made_while_an_old_one_is_on_its_way_out(is_there: bool) -> None:
    # given
    builder = statefulset(1).with_claims(claim_template(), claim_template("logs"))
    builder = builder.pending(0) if is_there else builder.without(0)
    builder.claims["data-web-0"]["metadata"]["deletionTimestamp"] = format_time(NOW)
    plan = builder.plan()
    assert plan.stages == ()
    assert left(plan) == {0: "waits until its old claim data-web-0 is gone"}
    # when the other one is not there either
    del builder.claims["logs-web-0"]
    plan = builder.plan()
    # then
    assert (created_claims(plan), created(plan)) == (["logs-web-0"], [])
    # and once the old one is gone, only the pod is waited for, if it is there
    del builder.claims["data-web-0"]
    plan = builder.plan()
    assert (created_claims(plan), created(plan)) == (["data-web-0", "logs-web-0"], [] if is_there else [0])
    assert left(plan) == ({0: "is not ready; the others wait for it"} if is_there else {})


# ── growing ──────────────────────────────────────────────────────────────────

FAST = {"storageClassName": "fast"}


def growing(replicas: int = 3, *, expandable: bool | None = True, **fields: Any) -> StatefulSetBuilder:
    """Claims of 1Gi, a template of 2Gi."""
    builder = statefulset(replicas, **fields).with_claims(claim_template(**FAST))
    builder.spec["volumeClaimTemplates"] = [claim_template(size="2Gi", **FAST)]
    return builder.growing(expandable=expandable)


def grown(plan: Any) -> list[str]:
    return [name for name, body in patches(plan, PERSISTENT_VOLUME_CLAIMS).items() if "spec" in body]


def capacity(builder: StatefulSetBuilder, name: str, size: str, *, asked: str = "2Gi") -> None:
    builder.claims[name]["spec"]["resources"]["requests"]["storage"] = asked
    builder.claims[name]["status"]["capacity"]["storage"] = size


def ready_claims(builder: StatefulSetBuilder) -> int:
    status = builder.plan().status
    assert status is not None
    found: int = status["volumeClaims"][0]["compatibleReadyReplicas"]
    return found


def test_claims_grow_pod_by_pod_from_the_highest_and_no_pod_is_restarted() -> None:
    """statefulset case 70"""
    # given
    builder = growing()
    plan = builder.plan()
    assert grown(plan) == ["data-web-2"]
    body = patches(plan, PERSISTENT_VOLUME_CLAIMS)["data-web-2"]
    assert body["metadata"]["annotations"] == {"apps.kruise.io/owned-by-asts": "web"}
    assert body["spec"]["resources"] == {"requests": {"storage": "2Gi"}}
    assert ready_claims(builder) == 0
    # while it grows, the next one waits
    capacity(builder, "data-web-2", "1Gi")
    plan = builder.plan()
    assert plan.stages == ()
    assert waiting(plan) == "ClaimsGrow"
    # and then it is its turn
    for number, following in ((2, ["data-web-1"]), (1, ["data-web-0"]), (0, [])):
        capacity(builder, f"data-web-{number}", "2Gi")
        plan = builder.plan()
        assert grown(plan) == following
        assert deleted(plan) == []
        assert ready_claims(builder) == 3 - number
    assert waiting(plan) == ""


@pytest.mark.parametrize("expandable", [None, False])
def test_a_class_whose_volumes_cannot_grow_stops_the_pass_and_is_named(expandable: bool | None) -> None:
    """statefulset case 71"""
    plan = growing(expandable=expandable).all_old().plan()
    assert plan.stages == ()
    assert {note.reason for note in plan.notes} == {"FailedUpdatePVC"}
    assert "allowVolumeExpansion" in plan.status["conditions"][0]["message"]  # type: ignore[index]
    assert waiting(plan) == "CannotUpdate"


def test_claims_never_shrink_and_a_larger_one_will_do() -> None:
    """statefulset case 72"""
    builder = statefulset(3).with_claims(claim_template(size="2Gi")).growing()
    builder.spec["volumeClaimTemplates"] = [claim_template(size="1Gi")]
    plan = builder.plan()
    assert plan.stages == ()
    assert plan.status["volumeClaims"][0]["compatibleReadyReplicas"] == 3  # type: ignore[index]
    # and a later one is smaller
    plan = builder.with_spec(replicas=4).plan()
    claim = next(iter(plan.steps)).action.body  # type: ignore[union-attr]
    assert claim["spec"]["resources"]["requests"]["storage"] == "1Gi"


def test_after_a_rollback_claims_grow_without_a_restart() -> None:
    """statefulset case 73"""
    # given P2 updated with its claim under partition 2, then the image taken back and the partition lowered
    builder = growing(partition=0)
    capacity(builder, "data-web-2", "2Gi")
    builder.old_template = template("nginx:2")
    builder.old(2)
    # then P2 goes back first
    assert deleted(builder.plan()) == [2]
    # and then the claims of P1 and P0 grow, their pods being of the right revision
    builder.pod(2)
    plan = builder.plan()
    assert (grown(plan), deleted(plan)) == (["data-web-1"], [])


def test_a_claim_of_another_shape_stops_the_pass_and_is_named() -> None:
    """statefulset case 75"""
    builder = growing(parallel=True).all_old()
    builder.claims["data-web-2"]["spec"]["accessModes"] = ["ReadWriteMany"]
    # given another pod whose claims could grow, were it not for the first one
    plan = builder.with_rolling(maxUnavailable=2).plan()
    assert plan.stages == ()
    (note,) = plan.notes
    assert (note.reason, note.warning) == ("FailedUpdatePVC", True)
    assert "data-web-2" in note.message


def test_a_pod_is_updated_once_its_claims_have_grown() -> None:
    # given another image too
    builder = growing(2, podUpdatePolicy="ReCreate").all_old()
    plan = builder.plan()
    assert (grown(plan), deleted(plan)) == (["data-web-1"], [])
    capacity(builder, "data-web-1", "1Gi")
    plan = builder.plan()
    assert plan.stages == ()
    assert left(plan)[1] == "waits until its claims have grown"
    # and the next one's turn comes, as far as maxUnavailable goes
    assert grown(builder.with_rolling(maxUnavailable=2).plan()) == ["data-web-0"]
    capacity(builder, "data-web-1", "2Gi")
    assert deleted(builder.plan()) == [1]


def test_in_order_claims_of_a_pod_that_has_ended_or_terminates_grow_once_its_successor_is_there() -> None:
    assert grown(growing(1).phase("Failed", 0).plan()) == []
    assert grown(growing(1).state("Updating", 0).deleted(0).plan()) == []


def test_claims_grow_side_by_side_within_the_budget() -> None:
    assert grown(growing(parallel=True, maxUnavailable=2).plan()) == ["data-web-2", "data-web-1"]


def test_a_file_system_that_does_not_grow_under_the_pod_gets_a_new_pod() -> None:
    # given a claim whose volume has grown, and whose file system waits for the pod's start
    builder = growing(3, parallel=True, maxUnavailable=2)
    wait_for_start(builder, "data-web-2", since_s=100)
    wait_for_start(builder, "data-web-1", since_s=50)
    # then it gets its time
    plan = builder.plan()
    assert (deleted(plan), plan.requeue_after_s) == ([], 200)
    assert left(plan) == dict.fromkeys((1, 2), "waits until the file system of its claims has grown")
    # and then the pod is recreated, though it is of the right revision, and the other waits on
    plan = builder.at(200).plan()
    assert (deleted(plan), plan.requeue_after_s) == ([2], 50)
    assert deleted(builder.at(250).plan()) == [2, 1]
    # and an old one need not wait for its time
    assert deleted(builder.at(0).all_old().plan()) == [2, 1]


def wait_for_start(builder: StatefulSetBuilder, claim: str, *, since_s: float) -> None:
    """The volume has grown since so long, its file system has not."""
    capacity(builder, claim, "1Gi")
    since = format_time(NOW - since_s)
    pending = {"type": "FileSystemResizePending", "status": "True", "lastTransitionTime": since}
    builder.claims[claim]["status"]["conditions"] = [pending]


def test_without_the_gate_or_the_strategy_claims_stay_as_they_are() -> None:
    """statefulset case 51"""
    assert growing().with_settings(auto_resize_claims=False).plan().stages == ()
    builder = growing().with_spec(volumeClaimUpdateStrategy={"type": "OnDelete"})
    assert builder.plan().stages == ()
    # and no pod waits for them
    wait_for_start(builder, "data-web-2", since_s=1000)
    assert builder.plan().stages == ()
    capacity(builder, "data-web-2", "1Gi")
    del builder.claims["data-web-2"]["status"]["conditions"]
    assert deleted(builder.all_old().plan()) == [2]
    capacity(builder, "data-web-2", "2Gi")
    capacity(builder, "data-web-1", "1Gi")
    assert deleted(builder.plan()) == [2]


def test_claims_that_are_not_there_or_on_their_way_out_are_passed_over() -> None:
    builder = growing(2, parallel=True, maxUnavailable=2)
    del builder.claims["data-web-0"]
    builder.claims["data-web-1"]["metadata"]["deletionTimestamp"] = format_time(NOW)
    assert grown(builder.plan()) == []


def test_in_place_updates_wait_for_their_claims_too() -> None:
    builder = updatable(2).with_claims(claim_template(**FAST)).all_old()
    builder.spec["volumeClaimTemplates"] = [claim_template(size="2Gi", **FAST)]
    plan = builder.growing().plan()
    assert grown(plan) == ["data-web-1"]
    assert patches(plan) == {}


# ── what wakes the set ───────────────────────────────────────────────────────


def woken_by(old: ClaimView | None, new: ClaimView | None, *, at_once: bool = True) -> list[Key]:
    woken = Woken(KIND, {STATEFUL_SET_VIEWS: [statefulset(3).view()]}, settings=Settings())
    found = woken.keys(CLAIM_VIEWS, old, new)
    later = [one.key for one in found if isinstance(one, Later)]
    return [one for one in found if isinstance(one, Key)] if at_once else later


def claim_view(name: str = "data-web-1", **fields: Any) -> ClaimView:
    return ClaimView(namespace=NAMESPACE, name=name, uid="u", resource_version=1, **fields)


def test_a_claim_of_another_size_is_in_the_status_a_little_later() -> None:
    # given a claim whose volume came late, so that no pod's start reports it
    pending, bound = claim_view(requested=1), claim_view(requested=1, capacity=1)
    # then
    assert woken_by(pending, bound, at_once=False) == [statefulset(3).view().key]
    assert woken_by(pending, bound) == []
    assert woken_by(bound, bound, at_once=False) == []


@pytest.mark.parametrize(("grown_by", "wakes"), [("", False), ("web", True), ("other", False)])
def test_a_claim_that_changes_wakes_the_set_that_let_it_grow(grown_by: str, wakes: bool) -> None:
    """statefulset case 87"""
    view = claim_view(grown_by=grown_by)
    assert bool(woken_by(view, view)) is wakes


def test_a_claim_that_is_gone_wakes_the_set_whose_pod_may_wait_for_that() -> None:
    assert woken_by(claim_view(), None) == [Key(NAMESPACE, "web")]
    assert woken_by(claim_view("data-other-1"), None) == []
    assert woken_by(None, claim_view()) == []
