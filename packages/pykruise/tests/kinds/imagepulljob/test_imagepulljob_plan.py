"""What is done for an ImagePullJob, as values."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from pykruise.kinds.imagepulljob.defaults import FINALIZER
from pykruise.kinds.imagepulljob.plan import plan_imagepulljob
from pykruise.kinds.imagepulljob.secrets import MODE, REFERENCES, SOURCE_KEY, Source
from pykruise.kinds.imagepulljob.snapshot import Settings, Snapshot
from pykruise.kube.ids import Key
from pykruise.plans.purposes import Purpose
from pykruise.pods.image_pull_jobs import PullJobView
from pykruise.pods.node_images import NodeImageView
from pykruise.pods.reasons import Code
from pykruise.pods.secrets import CopyView
from pykruise.runtime.actions import Create, Delete, Patch
from pykruise.runtime.plan import Plan
from support.image_objects import NOW, at, entry, job, node_image, said

HOME = "kruise-daemon-config"
HELD = {"finalizers": [FINALIZER]}


def held(name: str = "job", **fields: Any) -> PullJobView:
    """A job that has its finalizer."""
    return job(name, metadata=HELD, **fields)


def planned(
    one: PullJobView,
    *nodes: NodeImageView,
    after_s: float = 0.0,
    others: Sequence[PullJobView] = (),
    **more: Any,
) -> Plan:
    """The plan so long after NOW."""
    return plan_imagepulljob(
        Snapshot(
            job=one, nodes=nodes, others={other.uid: other for other in others}, now=NOW + after_s, **more
        )
    )


def asked(plan: Plan) -> dict[str, Any]:
    """By node: what the entry for nginx becomes."""
    found: dict[str, Any] = {}
    for stage in plan.stages:
        if stage.purpose is Purpose.ASK_NODES:
            for chain in stage.chains:
                (step,) = chain.steps
                assert isinstance(step.action, Patch)
                assert step.action.resource_version == "9"
                found[chain.subject] = step.action.body["spec"]["images"]["nginx"]
    return found


def the_entry(plan: Plan) -> dict[str, Any]:
    """Of a plan that asks one node for one tag."""
    (image,) = asked(plan).values()
    (tag,) = image["tags"]
    assert isinstance(tag, dict)
    return tag


def nodes(*names: str) -> list[NodeImageView]:
    """Nodes that are asked for nothing."""
    return [node_image(name) for name in names]


def done(name: str, wants: PullJobView, phase: str = "Succeeded") -> NodeImageView:
    """A node that has been asked, and is that far."""
    return node_image(name, entry(jobs=[wants]), statuses=[said(phase)])


# ── turns ────────────────────────────────────────────────────────────────────


def test_one_node_at_a_time_is_asked_where_nothing_else_is_said() -> None:
    """images case 21"""
    plan = planned(held(), *nodes("a", "b", "c"))
    assert set(asked(plan)) == {"a"}
    assert plan.skipped_nodes["b"].code is Code.PARALLELISM


def test_parallelism_0_asks_no_node() -> None:
    """images case 22"""
    plan = planned(held(parallelism=0), *nodes("a", "b"))
    assert not asked(plan)
    assert plan.status is not None
    assert (plan.status["desired"], plan.status["message"]) == (2, "job is running, progress 0.0%")
    assert plan.skipped_nodes["a"].code is Code.PAUSED


def test_parallelism_may_be_text_and_nodes_that_pull_count() -> None:
    """images case 23"""
    wants = held(parallelism="3")
    plan = planned(wants, done("a", wants, "Pulling"), *nodes("b", "c", "d"))
    assert set(asked(plan)) == {"b", "c"}
    assert plan.skipped_nodes["a"].code is Code.IMAGE_PULLING


@pytest.mark.parametrize("parallelism", ["30%", -1, "abc", "-2"])
def test_a_parallelism_that_is_none_touches_nothing(parallelism: object) -> None:
    """images case 23"""
    plan = planned(held(parallelism=parallelism), *nodes("a"))
    assert not plan.stages
    assert plan.waiting is not None
    assert plan.waiting.code is Code.INVALID_SPEC


def test_nodes_start_in_the_order_in_which_they_are_given() -> None:
    """images, lifted limit b: the order of the workload is not lost"""
    assert set(asked(planned(held(parallelism=2), *nodes("c", "a", "b")))) == {"c", "a"}


def test_a_name_that_is_no_node_does_not_count() -> None:
    """images case 24"""
    plan = planned(held(), *nodes("n1"), unknown_nodes=("ghost",))
    assert plan.status is not None
    assert plan.status["desired"] == 1
    assert plan.skipped_nodes["ghost"].code is Code.NO_NODE_IMAGE


# ── the end ──────────────────────────────────────────────────────────────────


def test_a_job_without_nodes_completes_at_once_unless_it_never_ends() -> None:
    """images case 25"""
    status = planned(held()).status
    assert status is not None
    assert (status["desired"], status["completionTime"]) == (0, at(0))
    never = planned(held(completionPolicy={"type": "Never"})).status
    assert never is not None
    assert "completionTime" not in never
    assert never["message"] == "job is running, no progress"


def test_a_job_is_over_when_every_node_is_done() -> None:
    """images case 35"""
    wants = held()
    status = planned(wants, done("a", wants), done("b", wants), done("c", wants, "Failed")).status
    assert status is not None
    assert (status["succeeded"], status["failed"], status["failedNodes"]) == (2, 1, ["c"])
    assert (status["completionTime"], status["message"]) == (at(0), "job has completed")


def test_after_the_deadline_each_node_that_is_not_done_has_failed_once() -> None:
    """images case 36, lifted limit d"""
    policy = {"type": "Always", "activeDeadlineSeconds": 50}
    wants = held(completionPolicy=policy, pullSecrets=["s"], status={"startTime": at(0)})
    world = (done("c", wants), done("b", wants, "Pulling"), *nodes("a"))
    early = planned(wants, *world, after_s=49)
    assert early.requeue_after_s == pytest.approx(1)
    late = planned(wants, *world, after_s=50)
    assert not asked(late)
    assert late.status is not None
    assert (late.status["succeeded"], late.status["failed"], late.status["failedNodes"]) == (1, 2, ["a", "b"])
    assert late.status["message"] == "job exceeds activeDeadlineSeconds"
    assert "active" not in late.status


def test_a_job_that_is_done_at_its_deadline_has_completed() -> None:
    policy = {"type": "Always", "activeDeadlineSeconds": 50}
    wants = held(completionPolicy=policy, status={"startTime": at(0)})
    status = planned(wants, done("a", wants), after_s=50).status
    assert status is not None
    assert status["message"] == "job has completed"


def test_a_completed_job_is_deleted_at_its_time_and_kept_without_one() -> None:
    """images case 37"""
    over = {"completionTime": at(0), "desired": 1}
    at_once = job(completionPolicy={"type": "Always", "ttlSecondsAfterFinished": 0}, status=over)
    (step,) = planned(at_once).steps
    assert isinstance(step.action, Delete)
    later = job(completionPolicy={"type": "Always", "ttlSecondsAfterFinished": 10}, status=over)
    assert planned(later, after_s=4).requeue_after_s == pytest.approx(6)
    assert planned(job(status=over), after_s=1e6) == Plan()


def test_a_job_that_is_over_takes_its_finalizer_off_and_does_nothing_else() -> None:
    """images case 38"""
    (step,) = planned(held(status={"completionTime": at(0)}), *nodes("a")).steps
    assert isinstance(step.action, Patch)
    assert step.action.body == {"metadata": {"finalizers": []}}


# ── what a node is asked ─────────────────────────────────────────────────────


def test_a_job_is_held_before_anything_is_asked_for_it() -> None:
    plan = planned(job(), *nodes("a"))
    assert [stage.purpose for stage in plan.stages] == [Purpose.HOLD_JOB, Purpose.ASK_NODES]


def test_a_new_entry_says_everything() -> None:
    wants = held(completionPolicy={"type": "Always", "ttlSecondsAfterFinished": 100})
    tag = the_entry(planned(wants, *nodes("a")))
    ttl = tag["pullPolicy"].pop("ttlSecondsAfterFinished")
    assert 400 <= ttl < 700
    assert tag["pullPolicy"] == {"timeoutSeconds": 600, "backoffLimit": 3}
    assert (tag["tag"], tag["createdAt"]) == ("1.9", at(0))
    assert [ref["uid"] for ref in tag["ownerReferences"]] == ["uid-job"]


@pytest.mark.parametrize(
    ("completion", "least", "most", "deadline"),
    [
        ({"type": "Always"}, 600 * 3 + 300, 600 * 3 + 600, None),
        ({"type": "Always", "activeDeadlineSeconds": 700}, 1000, 1300, 700),
        ({"type": "Never"}, 85_800, 87_000, 1800),
        ({"type": "Always", "ttlSecondsAfterFinished": 2**31 - 1}, 2**31 - 1, 2**31, None),
    ],
)
def test_how_long_an_entry_stays(
    completion: Mapping[str, Any], least: int, most: int, deadline: int | None
) -> None:
    policy = the_entry(planned(held(completionPolicy=completion), *nodes("a")))["pullPolicy"]
    assert least <= policy["ttlSecondsAfterFinished"] < most
    assert policy.get("activeDeadlineSeconds") == deadline


def test_slow_pulls_of_a_job_that_never_ends_are_not_cut() -> None:
    """images, pitfall 1"""
    wants = held(completionPolicy={"type": "Never"}, pullPolicy={"timeoutSeconds": 7200})
    assert the_entry(planned(wants, *nodes("a")))["pullPolicy"]["activeDeadlineSeconds"] == 7200


def test_a_second_job_raises_the_version_and_what_both_need_is_enough() -> None:
    """images case 39, lifted limit i"""
    first = job("first", pullPolicy={"timeoutSeconds": 900})
    policy = {"timeoutSeconds": 900, "backoffLimit": 1, "ttlSecondsAfterFinished": 9_000_000}
    world = node_image("a", entry(jobs=[first], policy=policy, version=4), statuses=[said(version=4)])
    tag = the_entry(planned(held("second"), world, others=[first], after_s=60))
    assert (tag["version"], tag["createdAt"]) == (5, at(60))
    assert [ref["name"] for ref in tag["ownerReferences"]] == ["first", "second"]
    assert tag["pullPolicy"] == {
        "timeoutSeconds": 900,
        "backoffLimit": 3,
        "ttlSecondsAfterFinished": 9_000_000,
    }


def test_the_job_that_takes_the_place_of_another_has_its_own_policy() -> None:
    """images, lifted limit i: gone, or of the same list"""
    policy = {"timeoutSeconds": 900, "ttlSecondsAfterFinished": 9_000_000}
    owners = {
        "ownerReferences": [{"uid": "list", "controller": True, "kind": "ImageListPullJob", "name": "l"}]
    }
    old = job("old", metadata=owners)
    new = job("new", metadata={**owners, **HELD})
    world = node_image("a", entry(jobs=[old], policy=policy))
    for others, left in (([], ["new"]), ([old], ["old", "new"])):
        tag = the_entry(planned(new, world, others=others))
        assert tag["pullPolicy"]["timeoutSeconds"] == 600
        assert [ref["name"] for ref in tag["ownerReferences"]] == left


def test_a_status_of_an_earlier_pull_is_no_answer() -> None:
    """images case 40"""
    world = node_image("a", statuses=[said(version=4)])
    assert the_entry(planned(held(), world))["version"] == 5


def test_an_answer_of_another_version_counts_as_pulling() -> None:
    """images case 16"""
    wants = held()
    world = node_image("a", entry(jobs=[wants], version=1), statuses=[said(version=0)])
    plan = planned(wants, world)
    assert plan.status is not None
    assert (plan.status["active"], plan.status.get("succeeded", 0)) == (1, 0)


def test_a_digest_is_asked_for_by_itself() -> None:
    """images case 64"""
    digest = "sha256:" + "a" * 64
    assert the_entry(planned(held(image=f"nginx:1.9@{digest}"), *nodes("a")))["tag"] == digest


def test_tags_stay_in_order_and_other_tags_as_they_are() -> None:
    world = node_image("a", entry("1.8"), entry("2.0"))
    (image,) = asked(planned(held(), world)).values()
    assert [tag["tag"] for tag in image["tags"]] == ["1.8", "1.9", "2.0"]


def test_the_sandbox_of_others_is_kept_beside_the_job_s_own() -> None:
    """images, lifted limit j"""
    spec = {"images": {"nginx": {"tags": [entry("1.8")], "sandboxConfig": {"labels": {"a": "1", "b": "1"}}}}}
    wants = held(sandboxConfig={"labels": {"b": "2"}})
    (image,) = asked(planned(wants, node_image("a", spec=spec))).values()
    assert image["sandboxConfig"] == {"labels": {"b": "2"}}  # a merge patch: `a` stays


# ── secrets ──────────────────────────────────────────────────────────────────


def source(name: str = "s1", *, read: bool = True) -> Source:
    """A secret of the job's namespace; `read`: its copy, if there is one, holds something else."""
    document = {
        "metadata": {"name": name, "labels": {"a": "b"}, "annotations": {"x": "y"}},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": "e30="},
    }
    return Source(key=Key("shop", name), content="new", document=document if read else None)


def copy(
    name: str = "s1-abcdef", *, of: str = "shop/s1", used_by: str = "", mode: str = "batch", **more: Any
) -> CopyView:
    """A copy in the shared namespace."""
    notes = {SOURCE_KEY: of, REFERENCES: used_by, **({MODE: mode} if mode else {})}
    return CopyView(
        namespace=HOME, name=name, uid=f"uid-{name}", resource_version=3, annotations=notes, **more
    )


def secret_writes(plan: Plan) -> list[Any]:
    """Writes to secrets."""
    return [step.action for step in plan.steps if step.action.resource.plural == "secrets"]


def test_a_secret_is_copied_and_says_its_source_before_a_node_is_asked() -> None:
    """images case 41"""
    plan = planned(held(pullSecrets=["s1"]), *nodes("a"), sources={"s1": source()})
    (made,) = secret_writes(plan)
    assert isinstance(made, Create)
    meta = made.body["metadata"]
    assert meta["name"].startswith("s1-")
    assert len(meta["name"]) == len("s1-") + 6
    assert meta["annotations"] == {"x": "y", SOURCE_KEY: "shop/s1", REFERENCES: "shop/job", MODE: "batch"}
    assert (made.body["type"], made.body["data"]) == (
        "kubernetes.io/dockerconfigjson",
        {".dockerconfigjson": "e30="},
    )
    assert [stage.purpose for stage in plan.stages] == [Purpose.COPY_SECRETS, Purpose.ASK_NODES]
    (image,) = asked(plan).values()
    assert image["pullSecrets"] == [{"namespace": HOME, "name": meta["name"], "mode": "batch"}]


def test_the_name_of_a_copy_follows_from_its_source() -> None:
    """Two managers, or one that was killed, do not make two."""
    names = {
        secret_writes(planned(held(one, pullSecrets=["s1"]), *nodes("a"), sources={"s1": source()}))[0].key
        for one in ("a", "b")
    }
    assert len(names) == 1


def test_a_second_job_shares_the_copy() -> None:
    """images case 42"""
    plan = planned(
        held("job2", pullSecrets=["s1"]),
        *nodes("a"),
        sources={"s1": source(read=False)},
        copies=[copy(used_by="shop/job")],
    )
    (write,) = secret_writes(plan)
    assert isinstance(write, Patch)
    assert write.resource_version == "3"
    assert write.body == {"metadata": {"annotations": {REFERENCES: "shop/job,shop/job2"}}}


def test_a_job_that_is_over_lets_go_and_the_last_one_deletes() -> None:
    """images case 43"""
    over = held(pullSecrets=["s1"], status={"completionTime": at(0)})
    (write,) = secret_writes(planned(over, copies=[copy(used_by="shop/job,shop/job2")]))
    assert isinstance(write, Patch)
    assert write.body == {"metadata": {"annotations": {REFERENCES: "shop/job2"}}}
    (write,) = secret_writes(planned(over, copies=[copy(used_by="shop/job")]))
    assert isinstance(write, Delete)
    assert not secret_writes(planned(over, copies=[copy(used_by="shop/job", is_deleting=True)]))


def test_a_copy_follows_its_source() -> None:
    """images case 44"""
    plan = planned(
        held(pullSecrets=["s1"]), *nodes("a"), sources={"s1": source()}, copies=[copy(used_by="shop/job")]
    )
    (write,) = secret_writes(plan)
    assert isinstance(write, Patch)
    assert {"op": "add", "path": "/data", "value": {".dockerconfigjson": "e30="}} in write.body


def test_a_job_goes_on_without_a_secret_that_is_missing() -> None:
    """images case 45"""
    plan = planned(held(pullSecrets=["gone"]), *nodes("a"), sources={"gone": None})
    assert not secret_writes(plan)
    assert set(asked(plan)) == {"a"}
    assert [note.reason for note in plan.notes] == ["PullSecretMissing"]


def test_secrets_of_a_job_in_the_shared_namespace_are_named_as_they_are() -> None:
    """images case 46"""
    own = held(namespace=HOME, pullSecrets=["s1"])
    plan = planned(own, *nodes("a"), sources={"s1": Source(key=Key(HOME, "s1"), content="")})
    assert not secret_writes(plan)
    (image,) = asked(plan).values()
    assert image["pullSecrets"] == [{"namespace": HOME, "name": "s1"}]


@pytest.mark.parametrize(("used_by", "chosen"), [("shop/job", "s1-b"), ("", "s1-a")])
def test_of_two_copies_the_one_that_the_job_uses_is_taken_else_the_first(used_by: str, chosen: str) -> None:
    """images case 47"""
    copies = [copy("s1-a", mode=""), copy("s1-b", used_by=used_by, mode="")]
    plan = planned(held(pullSecrets=["s1"]), *nodes("a"), sources={"s1": source(read=False)}, copies=copies)
    (image,) = asked(plan).values()
    assert image["pullSecrets"] == [{"namespace": HOME, "name": chosen}]


def test_without_the_shared_namespace_no_node_is_asked() -> None:
    """images case 48"""
    plan = planned(held(pullSecrets=["s1"]), *nodes("a"), has_shared_namespace=False)
    assert not plan.stages
    assert plan.requeue_after_s is not None
    assert plan.waiting is not None
    assert plan.waiting.code is Code.NO_NAMESPACE


def test_without_the_shared_namespace_a_job_can_be_deleted() -> None:
    """images, lifted limit e"""
    going = job(metadata={**HELD, "deletionTimestamp": at(0)}, pullSecrets=["s1"])
    (step,) = planned(going, has_shared_namespace=False, copies=[copy(used_by="shop/job")]).steps
    assert isinstance(step.action, Patch)
    assert step.action.body == {"metadata": {"finalizers": []}}


def test_a_secret_that_is_new_is_named_to_nodes_that_pull_and_the_version_stays() -> None:
    """images case 49"""
    wants = held(pullSecrets=["s1"])
    plan = planned(
        wants,
        done("a", wants, "Pulling"),
        done("b", wants),
        sources={"s1": source(read=False)},
        copies=[copy(used_by="shop/job")],
    )
    assert asked(plan) == {"a": {"pullSecrets": [{"namespace": HOME, "name": "s1-abcdef", "mode": "batch"}]}}
    assert plan.status is not None
    assert (plan.status["active"], plan.status["succeeded"]) == (1, 1)


def test_references_that_cannot_be_read_are_none() -> None:
    odd = copy(used_by="x,,/y,z/,shop/job,a/b/c")
    (write,) = secret_writes(
        planned(held(pullSecrets=["s1"], status={"completionTime": at(0)}), copies=[odd])
    )
    assert isinstance(write, Delete)


def test_the_time_to_live_of_the_flag_is_added() -> None:
    plan = plan_imagepulljob(
        Snapshot(job=held(), nodes=nodes("a"), now=NOW, settings=Settings(default_ttl_s=100_000))
    )
    assert the_entry(plan)["pullPolicy"]["ttlSecondsAfterFinished"] >= 100_000


def test_a_spec_that_cannot_be_read_touches_nothing() -> None:
    plan = planned(msgspec.structs.replace(held(), spec=None, problem="spec.image: no"), *nodes("a"))
    assert not plan.stages
    assert plan.waiting is not None
    assert plan.waiting.message == "spec.image: no"
