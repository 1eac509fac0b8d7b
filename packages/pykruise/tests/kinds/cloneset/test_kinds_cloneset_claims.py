"""Claims of a CloneSet's pods in its plans: created, taken over, deleted, handed over, cleaned up."""

from typing import Any

import pytest

from pykruise.kinds.cloneset.plan import plan_cloneset
from pykruise.kube.documents import Document
from pykruise.kube.resources import CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS, PODS
from pykruise.plans.phases import MOST_AT_ONCE
from pykruise.pods.view import keys
from pykruise.pods.workload.claims import hash_templates
from pykruise.pods.workload.selector_guard import record_of
from pykruise.runtime.actions import Create, Delete, Patch
from pykruise.runtime.plan import Plan
from support.cloneset_builder import (
    UID,
    CloneSetBuilder,
    claim_template,
    cloneset,
    revision,
    template,
)
from support.plan_views import (
    created,
    created_claims,
    deleted,
    deleted_claims,
    handed_over,
    leaving_claims,
    left,
    short,
    steps_named,
)


def plan_of(builder: CloneSetBuilder) -> Plan:
    return plan_cloneset(builder.snapshot())


def ids(plan: Plan) -> list[str]:
    """Ids of the pods to be created."""
    return [pod["metadata"]["labels"][keys.INSTANCE_ID_LABEL] for pod in created(plan)]


def revision_write(plan: Plan) -> Any:
    (action,) = [step.action for step in plan.steps if step.action.resource == CONTROLLER_REVISIONS]
    return action


# A new pod


def test_a_new_pod_gets_its_claims_before_it_is_created() -> None:
    """cloneset 6.6: creating pods, 4"""
    # given
    builder = cloneset(2, pods=0).with_templates("data", "logs")
    # when
    (stage,) = plan_of(builder).stages
    # then
    for chain in stage.chains:
        *claims, pod = [step.action for step in chain.steps]
        assert isinstance(pod, Create)
        assert pod.resource == PODS
        result = pod.body["metadata"]["labels"][keys.INSTANCE_ID_LABEL]
        assert [(claim.resource, claim.key.name) for claim in claims] == [
            (PERSISTENT_VOLUME_CLAIMS, f"data-web-{result}"),
            (PERSISTENT_VOLUME_CLAIMS, f"logs-web-{result}"),
        ]
        assert chain.subject == pod.key.name


def test_claims_are_the_clonesets_and_carry_template_selector_and_id_labels() -> None:
    """cloneset 6.7"""
    # given
    builder = cloneset(1, pods=0).with_templates("data")
    builder.spec["volumeClaimTemplates"][0]["metadata"]["labels"] = {"app": "other", "tier": "db"}
    # when
    step, pod = steps_named(plan_of(builder), "create pods")
    # then
    assert isinstance(step.action, Create)
    assert isinstance(pod.action, Create)
    (text,) = ids(plan_of(builder))
    metadata = step.action.body["metadata"]
    assert metadata["labels"] == {"app": "web", "tier": "db", keys.INSTANCE_ID_LABEL: text}
    assert metadata["ownerReferences"] == pod.action.body["metadata"]["ownerReferences"]
    assert metadata["ownerReferences"][0]["uid"] == UID


def test_a_pod_mounts_its_own_claims_and_keeps_its_other_volumes() -> None:
    """cloneset 6.7: the claim takes the place of a volume of the same name"""
    # given
    scratch = {"name": "scratch", "emptyDir": {}}
    builder = cloneset(2, pods=0).with_templates("data")
    builder.with_spec(template=template(volumes=[{"name": "data", "emptyDir": {}}, scratch]))
    # when
    pods = created(plan_of(builder))
    # then
    for pod in pods:
        claim = f"data-{pod['metadata']['name']}"
        assert pod["spec"]["volumes"] == [
            {"name": "data", "persistentVolumeClaim": {"claimName": claim}},
            scratch,
        ]


def test_pods_have_no_volumes_and_nothing_else_is_written_without_templates() -> None:
    plan = plan_of(cloneset(2, pods=0))
    assert created_claims(plan) == []
    assert all("volumes" not in pod["spec"] for pod in created(plan))


def test_a_claim_that_cannot_be_created_is_a_failed_creation() -> None:
    """cloneset case 49: the pod follows its claim in the chain, so it is not created either"""
    claim, pod = steps_named(plan_of(cloneset(1, pods=0).with_templates("data")), "create pods")
    assert claim.failed is not None
    assert (claim.failed.reason, claim.failed.warning, claim.done) == ("FailedCreate", True, None)
    assert claim.failed.message == "failed to create a claim"
    assert pod.done is not None
    assert pod.done.reason == "SuccessfulCreate"


# With reuse


def test_the_successor_of_a_deleted_pod_gets_its_name_id_and_claim() -> None:
    """cloneset case 45"""
    # given
    builder = cloneset(3, pods=2).with_templates("data", reuse=True).claim("a", "b", "c")
    # when
    plan = plan_of(builder)
    # then
    (pod,) = created(plan)
    assert (pod["metadata"]["name"], ids(plan)) == ("web-c", ["c"])
    assert pod["spec"]["volumes"][0]["persistentVolumeClaim"] == {"claimName": "data-web-c"}
    assert created_claims(plan) == []


def test_while_the_last_pod_terminates_its_successor_waits() -> None:
    """cloneset 6.7: the name is in use, and a fresh id would leave the claim without a pod"""
    # given
    builder = cloneset(3).with_templates("data", reuse=True).claim("a", "b", "c").deleted("c")
    # when
    plan = plan_of(builder)
    # then
    assert created(plan) == []
    waiting = {pod: why for pod, why in left(plan).items() if why.startswith("terminates")}
    assert waiting == {"c": "terminates; after that, a new pod of the same name uses its claims"}
    assert not any(stage.purpose == "create pods" for stage in plan.stages)
    assert not deleted_claims(plan)
    assert not handed_over(plan)


def test_a_plan_that_creates_no_pod_is_not_requeued_immediately() -> None:
    # given more missing pods than one plan creates, whose predecessors all terminate
    names = [f"p{number:04}" for number in range(MOST_AT_ONCE + 1)]
    builder = cloneset(len(names), pods=0).add(*names).deleted(*names)
    plan = plan_of(builder.with_templates("data", reuse=True).claim(*names))
    # then
    assert created(plan) == []
    assert plan.requeue_after_s != 0


def test_pods_that_wait_for_no_claim_are_created_while_another_waits() -> None:
    # given one pod that terminates and two that are missing
    builder = cloneset(5, pods=3).with_templates("data", reuse=True).claim("a", "b", "c", "d").deleted("c")
    # when
    plan = plan_of(builder)
    # then one takes over the free claim, one gets a fresh id, and the third waits
    assert "d" in ids(plan)
    assert len(created(plan)) == 2
    assert "c" not in ids(plan)
    assert "c" in left(plan)


def test_a_finished_pod_keeps_its_id_and_its_successor_gets_a_fresh_one() -> None:
    """cloneset 6.7, cloneset case 43"""
    # given
    builder = cloneset(2).with_templates("data", reuse=True).claim("a", "b").phase("Failed", "b")
    # when
    plan = plan_of(builder)
    # then
    (text,) = ids(plan)
    assert text not in "ab"
    assert created_claims(plan) == [f"data-web-{text}"]
    assert not deleted_claims(plan)


def test_an_id_whose_name_another_pod_has_is_not_reused() -> None:
    # given a claim whose pod was released, or whose name another pod took
    builder = cloneset(1, pods=0).with_templates("data", reuse=True).claim("a").occupied_by_others("a")
    # then
    assert "a" not in ids(plan_of(builder))
    assert len(ids(plan_of(builder))) == 1
    # or a claim whose pod has no owner
    orphan = cloneset(1).with_templates("data", reuse=True).claim("a").orphaned("a")
    assert "a" not in ids(plan_of(orphan))
    assert len(ids(plan_of(orphan))) == 1


def test_only_the_claim_that_is_missing_is_created() -> None:
    """cloneset case 50"""
    # given
    builder = cloneset(1, pods=0).with_templates("data", "logs", reuse=True).claim("a")
    # when
    plan = plan_of(builder)
    # then
    assert ids(plan) == ["a"]
    assert created_claims(plan) == ["logs-web-a"]


def test_a_claim_whose_pod_could_not_be_created_is_taken_by_the_next_try() -> None:
    """cloneset case 49"""
    # given the objects that exist after a failed creation of a pod
    builder = cloneset(1, pods=0).with_templates("data", reuse=True)
    (failed,) = ids(plan_of(builder))
    builder.claim(failed)
    builder.seed += 1
    # when
    again = plan_of(builder)
    # then
    assert (ids(again), created_claims(again)) == ([failed], [])


def test_a_claim_that_is_being_deleted_is_not_reused() -> None:
    """cloneset case 51"""
    # given
    builder = cloneset(1, pods=0).with_templates("data", reuse=True).claim("a", deleting=True)
    # then
    (text,) = ids(plan_of(builder))
    assert text != "a"
    assert created_claims(plan_of(builder)) == [f"data-web-{text}"]


def test_leftover_claims_are_reused_by_as_many_pods_as_are_created() -> None:
    builder = cloneset(1, pods=0).with_templates("data", reuse=True).claim("d", "c", "b")
    plan = plan_of(builder)
    assert ids(plan) == ["b"]
    assert not deleted_claims(plan)


# Pods that the CloneSet deletes


@pytest.mark.parametrize("reuse", [True, False])
def test_scale_in_deletes_the_claims_after_their_pod(reuse: bool) -> None:
    """cloneset 6.6: delete attempt"""
    # given claims that are not in the order of their names
    builder = cloneset(1, pods=2, max_unavailable=2).with_templates("data", "logs", reuse=reuse)
    builder.claim("a", "b", of="logs").claim("a", "b").not_ready("b")
    # when
    (stage,) = plan_of(builder).stages
    # then
    (chain,) = stage.chains
    actions = [step.action for step in chain.steps if isinstance(step.action, Delete)]
    assert len(chain.steps) == 3 + 2 * reuse  # with reuse, each claim is marked first
    assert [(str(action.resource), action.key.name) for action in actions] == [
        ("pods", "web-b"),
        ("persistentvolumeclaims", "data-web-b"),
        ("persistentvolumeclaims", "logs-web-b"),
    ]
    assert [getattr(action, "uid", "") for action in actions[1:]] == ["uid-data-web-b", "uid-logs-web-b"]
    failures = {step.failed.reason for step in chain.steps[-3:] if step.failed is not None}
    assert failures == {"FailedDelete"}


def test_a_pod_specified_for_deletion_deletes_its_claim_although_claims_are_reused() -> None:
    """cloneset 6.7"""
    builder = (
        cloneset(3, max_unavailable=1).with_templates("data", reuse=True).claim("a", "b", "c").marked("b")
    )
    plan = plan_of(builder)
    assert (deleted(plan), deleted_claims(plan)) == ({"b"}, {"data-web-b"})


def test_a_recreate_update_deletes_the_old_claims_although_claims_are_reused() -> None:
    """cloneset case 48"""
    # given
    builder = cloneset(3, old=3, max_unavailable=1).with_templates("data", reuse=True).claim("a", "b", "c")
    # when
    plan = plan_of(builder)
    # then
    (gone,) = deleted(plan)
    assert deleted_claims(plan) == {f"data-web-{gone}"}
    # and the only event is about the pod
    events = [note.reason for step in plan.steps for note in step.notes_when_done]
    assert events == ["SuccessfulDelete", "SuccessfulUpdatePodReCreate"]


def test_a_pod_without_an_instance_id_deletes_no_claims() -> None:
    """cloneset 6.6: never match on an empty id"""
    # given a claim and a pod that have both lost their id
    builder = cloneset(0, pods=1).with_templates("data", reuse=True).claim("a", labels={})
    builder.pods["a"]["metadata"]["labels"].pop(keys.INSTANCE_ID_LABEL)
    builder.not_ready("a")
    # then
    plan = plan_of(builder)
    assert (deleted(plan), deleted_claims(plan)) == ({"a"}, set())


def test_claims_that_are_being_deleted_are_not_deleted_again() -> None:
    builder = cloneset(0, pods=1).with_templates("data").claim("a", deleting=True).not_ready("a")
    plan = plan_of(builder)
    assert (deleted(plan), deleted_claims(plan)) == ({"a"}, set())


@pytest.mark.parametrize("reuse", [True, False])
@pytest.mark.parametrize("state", ["Normal", "PreparingDelete"])
def test_a_pod_that_its_hook_holds_keeps_its_claims(state: str, reuse: bool) -> None:
    """cloneset 6.6, cloneset case 40"""
    builder = cloneset(0, pods=1).with_templates("data", reuse=reuse).claim("a").with_hook("preDelete")
    builder.with_finalizer("example.com/hook", "a").in_state(state, "a")
    plan = plan_of(builder)
    assert (deleted(plan), deleted_claims(plan), leaving_claims(plan)) == (set(), set(), {})


def test_a_released_pod_takes_its_claims_with_it() -> None:
    """A claim that stays could be deleted under its pod, or could give its id to a pod whose name is in use."""
    # given a pod that no longer matches
    builder = cloneset(2).with_templates("data", reuse=True).claim("a", "b").labelled({"app": "other"}, "b")
    # when
    claim, pod = steps_named(plan_of(builder), "release pods")
    # then the claim changes hands before the pod leaves
    assert isinstance(claim.action, Patch)
    assert (claim.action.key.name, pod.action.key.name) == ("data-web-b", "web-b")
    assert handed_over(plan_of(builder)) == {"data-web-b": "b"}
    assert "b" not in ids(plan_of(builder))


def test_a_released_pod_hands_over_no_claim_without_an_id_or_in_deletion() -> None:
    builder = cloneset(2).with_templates("data", reuse=True).claim("b", deleting=True)
    assert handed_over(plan_of(builder.labelled({"app": "other"}, "b"))) == {}
    builder = cloneset(2).with_templates("data", reuse=True).claim("b", labels={})
    builder.labelled({"app": "other"}, "b").pods["b"]["metadata"]["labels"].pop(keys.INSTANCE_ID_LABEL, None)
    assert handed_over(plan_of(builder)) == {}


# Without reuse


def test_a_claim_is_deleted_with_a_pod_that_a_user_deleted() -> None:
    """cloneset case 46"""
    # given
    builder = cloneset(3).with_templates("data").claim("a", "b", "c").deleted("b")
    # when
    plan = plan_of(builder)
    # then
    (step,) = steps_named(plan, "clean up claims")
    assert isinstance(step.action, Patch)
    body: Document = step.action.body
    assert body["metadata"]["ownerReferences"][0] == {"$patch": "delete", "uid": UID}
    assert (
        body["metadata"]["ownerReferences"][1] | {"kind": "Pod", "uid": "uid-b", "controller": True}
        == (body["metadata"]["ownerReferences"][1])
    )
    assert step.action.uid == "uid-data-web-b"
    assert step.failed is not None
    assert (step.failed.reason, step.failed.warning) == ("FailedUpdate", True)
    # and the new pod has a new id and a claim of its own
    (text,) = ids(plan)
    assert text not in "abc"
    assert created_claims(plan) == [f"data-web-{text}"]


def test_a_claim_of_a_missing_pod_is_deleted() -> None:
    """cloneset case 47"""
    # given
    builder = cloneset(2).with_templates("data").claim("a", "b", "gone")
    # when
    plan = plan_of(builder)
    # then
    (step,) = steps_named(plan, "clean up claims")
    assert isinstance(step.action, Delete)
    assert step.action.key.name == "data-web-gone"
    assert step.failed is not None
    assert step.failed.reason == "FailedDelete"
    assert created(plan) == []


def test_claims_of_active_pods_and_terminating_claims_are_kept() -> None:
    builder = cloneset(2).with_templates("data").claim("a", "b").claim("gone", deleting=True)
    plan = plan_of(builder)
    assert (deleted_claims(plan), handed_over(plan)) == (set(), {})


def test_no_new_pod_gets_the_id_of_a_claim_that_is_being_cleaned_up() -> None:
    # given the id that the next pod would draw
    builder = cloneset(1, pods=0).with_templates("data")
    (drawn,) = ids(plan_of(builder))
    # when a leftover claim has it
    plan = plan_of(builder.claim(drawn))
    # then
    assert ids(plan) != [drawn]
    assert deleted_claims(plan) == {f"data-web-{drawn}"}


def test_claims_are_cleaned_up_after_the_templates_were_removed() -> None:
    assert deleted_claims(plan_of(cloneset(1).claim("gone"))) == {"data-web-gone"}


def test_a_terminating_cloneset_leaves_its_claims_to_the_garbage_collector() -> None:
    """cloneset case 91"""
    builder = cloneset(1).with_templates("data").claim("a", "gone").deleted("a").terminating()
    assert plan_of(builder).stages == ()


# A pod and its claims cannot be deleted in one write


def leaves_with(uid: str) -> dict[str, Any]:
    return {"annotations": {keys.LEAVES_WITH_ANNOTATION: uid}}


def test_a_claim_to_delete_is_marked_before_its_pod_when_claims_are_reused() -> None:
    """Otherwise a manager that continues after a crash could give the old data to a successor"""
    # given a pod too many, and claims that a successor would take over
    builder = cloneset(1, pods=2).with_templates("data", reuse=True).claim("a", "b").not_ready("a")
    # when
    (chain,) = plan_of(builder).stages[0].chains
    # then
    actions = [(type(step.action).__name__, step.action.resource.kind) for step in chain.steps]
    claim = "PersistentVolumeClaim"
    assert actions == [("Patch", claim), ("Delete", "Pod"), ("Delete", claim)]
    assert leaving_claims(plan_of(builder)) == {"data-web-a": "uid-a"}


def test_claims_are_not_marked_without_reuse() -> None:
    builder = cloneset(1, pods=2).with_templates("data").claim("a", "b").not_ready("a")
    assert leaving_claims(plan_of(builder)) == {}
    assert deleted_claims(plan_of(builder)) == {"data-web-a"}


def test_a_claim_whose_pod_was_deleted_with_it_follows_and_its_id_is_not_used_again() -> None:
    # given a manager that died after it had deleted pod a
    builder = cloneset(2, pods=0).add("b").with_templates("data", reuse=True)
    builder.claim("a", **leaves_with("uid-a")).claim("b")
    # when
    plan = plan_of(builder)
    # then
    assert deleted_claims(plan) == {"data-web-a"}
    (pod,) = created(plan)
    assert pod["metadata"]["name"] != "web-a"


def test_a_claim_is_deleted_also_while_its_pod_terminates() -> None:
    builder = cloneset(2).with_templates("data", reuse=True).deleted("a")
    builder.claim("a", **leaves_with("uid-a")).claim("b")
    plan = plan_of(builder)
    assert deleted_claims(plan) == {"data-web-a"}
    assert len(created(plan)) == 1


def test_a_claim_that_terminates_already_is_not_deleted_again_with_its_pod() -> None:
    builder = cloneset(1, pods=0).add("b").with_templates("data", reuse=True).claim("b")
    builder.claim("a", deleting=True, **leaves_with("uid-a"))
    assert deleted_claims(plan_of(builder)) == set()


def test_a_claim_without_an_id_is_kept_where_claims_are_not_reused() -> None:
    """cloneset case 51"""
    builder = cloneset(1).with_templates("data").claim("x", labels={})
    plan = plan_of(builder)
    assert (deleted_claims(plan), handed_over(plan)) == (set(), {})


def test_a_claim_stays_when_the_deletion_of_its_pod_did_not_happen() -> None:
    # given a deletion that did not take place, and is no longer needed
    builder = cloneset(1).with_templates("data", reuse=True).claim("a", **leaves_with("uid-a"))
    # then
    assert leaving_claims(plan_of(builder)) == {"data-web-a": None}
    assert deleted_claims(plan_of(builder)) == set()


def test_a_retried_deletion_marks_its_claim_only_once() -> None:
    builder = cloneset(0, pods=1).with_templates("data", reuse=True).claim("a", **leaves_with("uid-a"))
    plan = plan_of(builder)
    assert leaving_claims(plan) == {}
    assert deleted_claims(plan) == {"data-web-a"}
    assert deleted(plan) == {"a"}


# Revisions


def test_a_new_revision_records_the_hash_of_the_templates() -> None:
    """cloneset 6.3"""
    # given
    builder = cloneset(1).with_templates("data").with_revisions(revision(template("nginx:0"), 1))
    # when
    write = revision_write(plan_of(builder))
    # then
    assert write.body["metadata"]["annotations"][keys.CLAIM_TEMPLATES_HASH_ANNOTATION] == hash_templates(
        [claim_template("data")]
    )


def test_the_hash_exists_and_is_empty_without_templates() -> None:
    builder = cloneset(1).with_revisions(revision(template("nginx:0"), 1))
    annotations = revision_write(plan_of(builder)).body["metadata"]["annotations"]
    assert annotations[keys.CLAIM_TEMPLATES_HASH_ANNOTATION] == ""


def test_a_change_of_the_templates_alone_changes_neither_revision_nor_pods() -> None:
    """cloneset case 56"""
    # given a revision that was stored without templates
    plan = plan_of(cloneset(2).with_templates("data").claim("a", "b"))
    # then
    assert plan.stages == ()


def test_pods_with_claims_of_former_templates_report_that_and_one_without_an_id_does_not() -> None:
    # given a claim and a pod that have both lost their id
    builder = cloneset(2).with_templates("data").claim("a").claim("b", labels={})
    del builder.pods["b"]["metadata"]["labels"][keys.INSTANCE_ID_LABEL]
    # then
    claims = left(plan_of(builder))
    assert claims.keys() == {"a"}
    assert claims["a"].startswith("keeps its claims: ")


def test_an_older_revision_that_is_wanted_again_gets_the_hash_of_now() -> None:
    """cloneset case 58, without any annotations"""
    # given
    wanted, other = template("nginx:1"), template("nginx:2")
    stored = [revision(wanted, 1, annotations=None), revision(other, 2)]
    builder = cloneset(1).with_templates("data").claim("a").with_revisions(*stored)
    # when
    write = revision_write(plan_of(builder))
    # then
    assert isinstance(write, Patch)
    assert write.body == {
        "revision": 3,
        "metadata": {
            "annotations": {
                keys.CLAIM_TEMPLATES_HASH_ANNOTATION: hash_templates([claim_template("data")]),
                **record_of(builder.spec["selector"]),
            }
        },
    }


def test_pods_of_either_revision_get_claims_of_the_live_templates() -> None:
    """cloneset 6.3: the templates apply to pods created from now on, of any revision"""
    # given a canary with pods of both revisions missing, and templates that changed
    builder = cloneset(4, pods=2, old=1, partition=2).with_templates("data").claim("a", "b")
    builder.spec["volumeClaimTemplates"] = [claim_template("data", size="9Gi")]
    # when
    steps = steps_named(plan_of(builder), "create pods")
    # then
    bodies = [step.action.body for step in steps if isinstance(step.action, Create)]
    claims = [body for body in bodies if body["kind"] == "PersistentVolumeClaim"]
    pods = [body for body in bodies if body["kind"] == "Pod"]
    assert len({pod["metadata"]["labels"][keys.REVISION_LABEL] for pod in pods}) == 2
    assert [claim["spec"]["resources"]["requests"]["storage"] for claim in claims] == ["9Gi", "9Gi"]
    assert {short(pod["metadata"]["name"]) for pod in pods} == {
        claim["metadata"]["labels"][keys.INSTANCE_ID_LABEL] for claim in claims
    }


# Effects on other decisions


def test_claims_have_only_their_id_without_labels_in_the_selector() -> None:
    builder = cloneset(1, pods=0).with_templates("data")
    builder.with_spec(selector={"matchExpressions": [{"key": "app", "operator": "Exists"}]})
    claim, pod = steps_named(plan_of(builder), "create pods")
    assert isinstance(claim.action, Create)
    assert isinstance(pod.action, Create)
    result = pod.action.body["metadata"]["labels"][keys.INSTANCE_ID_LABEL]
    assert claim.action.body["metadata"]["labels"] == {keys.INSTANCE_ID_LABEL: result}


def test_all_that_fails_of_claims_is_a_warning() -> None:
    """Writes that mark, delete and hand over a claim"""
    scaled_in = cloneset(1, pods=2).with_templates("data", reuse=True).claim("a", "b").not_ready("a")
    released = cloneset(1).with_templates("data").claim("a").labelled({"app": "other"}, "a")
    claims = [
        step
        for builder in (scaled_in, released)
        for step in plan_of(builder).steps
        if step.action.resource == PERSISTENT_VOLUME_CLAIMS and not isinstance(step.action, Create)
    ]
    assert [(step.failed.reason, step.failed.warning) for step in claims if step.failed] == [
        ("FailedUpdate", True),
        ("FailedDelete", True),
        ("FailedUpdate", True),
    ]


def test_a_terminating_claim_is_not_unmarked() -> None:
    builder = cloneset(1).with_templates("data", reuse=True)
    builder.claim("a", deleting=True, **leaves_with("uid-a"))
    assert leaving_claims(plan_of(builder)) == {}


@pytest.mark.parametrize("reuse", [True, False])
def test_claims_are_cleaned_up_in_the_order_of_their_names(reuse: bool) -> None:
    builder = cloneset(0).with_templates("data", reuse=reuse)
    builder.claim("c", "a", "b", **leaves_with("uid-gone"))
    (stage,) = plan_of(builder).stages
    assert [chain.subject for chain in stage.chains] == ["data-web-a", "data-web-b", "data-web-c"]


@pytest.mark.parametrize(
    "annotations",
    [{}, {keys.CLAIM_TEMPLATES_HASH_ANNOTATION: hash_templates([claim_template("data")])}],
    ids=["an older manager stored it", "they are the same"],
)
def test_pods_report_nothing_while_a_change_of_claim_templates_is_unknown(
    annotations: dict[str, str],
) -> None:
    builder = cloneset(1).with_templates("data").claim("a")
    builder.with_revisions(revision(builder.spec["template"], 2, annotations=annotations))
    assert left(plan_of(builder)) == {}


def test_a_pod_with_a_write_does_not_report_that_it_keeps_its_claims() -> None:
    """One pod is brought into service, one is recreated, and one only waits."""
    builder = cloneset(3, old=1, max_unavailable=2).with_templates("data").claim("a", "b", "c")
    builder.fresh("b")
    plan = plan_of(builder)
    assert deleted(plan) == {"a"}
    assert left(plan).keys() == {"c"}
