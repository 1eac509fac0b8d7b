"""Plans for the secrets of an ImagePullJob, without a cluster."""

from typing import Any

import pytest

from pykruise.kinds.imagepulljob.secrets import MODE, REFERENCES, SOURCE_KEY, SOURCE_UID, Source
from pykruise.kube.ids import Key
from pykruise.plans.purposes import Purpose
from pykruise.pods.reasons import Code
from pykruise.pods.view.secrets import CopyView
from pykruise.runtime.actions import Create, Delete, Patch
from pykruise.runtime.plan import Plan
from support.image_objects import at, entry, job, node_image
from support.pull_job_plans import HELD, asked, done, held, nodes, planned

HOME = "kruise-daemon-config"


LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def source(name: str = "s1", *, read: bool = True) -> Source:
    """A secret of the job's namespace; `read`: its content was read, because its copy may differ."""
    document = {
        "metadata": {
            "name": name,
            "uid": "u-1",
            "labels": {"a": "b"},
            "annotations": {"x": "y", LAST_APPLIED: "{}"},
        },
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


def test_a_secret_is_copied_with_its_source_before_a_node_pulls() -> None:
    """images case 41"""
    plan = planned(held(pullSecrets=["s1"]), *nodes("a"), sources={"s1": source()})
    (made,) = secret_writes(plan)
    assert isinstance(made, Create)
    meta = made.body["metadata"]
    assert meta["name"].startswith("s1-")
    assert len(meta["name"]) == len("s1-") + 6
    assert meta["annotations"] == {"x": "y", SOURCE_KEY: "shop/s1", REFERENCES: "shop/job", MODE: "batch"}
    assert meta["labels"] == {"a": "b", SOURCE_UID: "u-1"}
    assert (made.body["type"], made.body["data"]) == (
        "kubernetes.io/dockerconfigjson",
        {".dockerconfigjson": "e30="},
    )
    assert [stage.purpose for stage in plan.stages] == [Purpose.COPY_SECRETS, Purpose.ASK_NODES]
    (image,) = asked(plan).values()
    assert image["pullSecrets"] == [{"namespace": HOME, "name": meta["name"], "mode": "batch"}]


BARE = Source(key=Key("shop", "s1"), content="new", document={"metadata": {"name": "s1"}})


def test_a_secret_without_type_and_data_is_copied_with_defaults() -> None:
    (made,) = secret_writes(planned(held(pullSecrets=["s1"]), *nodes("a"), sources={"s1": BARE}))
    assert (made.body["type"], made.body["data"]) == ("Opaque", {})
    assert made.body["metadata"]["labels"] == {SOURCE_UID: ""}


def test_a_name_of_another_copy_is_not_reused() -> None:
    # given
    plan = planned(held(pullSecrets=["s1"]), *nodes("a"), sources={"s1": source()})
    (made,) = secret_writes(plan)
    # when
    taken = copy(made.key.name, of="elsewhere/s1")
    plan = planned(held(pullSecrets=["s1"]), *nodes("a"), sources={"s1": source()}, copies=[taken])
    # then
    (other,) = secret_writes(plan)
    assert other.key.name != made.key.name


def test_secret_copies_of_other_jobs_are_kept() -> None:
    others = [copy("other-1", of="shop/other", used_by="shop/other"), copy("s1-1", of="away/s1")]
    wants = held(pullSecrets=["s1"])
    plan = planned(wants, *nodes("a"), sources={"s1": source()}, copies=others)
    assert [type(write) for write in secret_writes(plan)] == [Create]
    over = held(pullSecrets=["s1"], status={"completionTime": at(0)})
    assert not secret_writes(planned(over, copies=others))


def test_the_name_of_a_copy_follows_from_its_source() -> None:
    """Two managers, or a manager that was killed, do not create two copies."""
    names = {
        secret_writes(planned(held(literal, pullSecrets=["s1"]), *nodes("a"), sources={"s1": source()}))[
            0
        ].key
        for literal in ("a", "b")
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


def test_a_finished_job_releases_its_secret_copy_and_the_last_job_deletes_it() -> None:
    """images case 43"""
    over = held(pullSecrets=["s1"], status={"completionTime": at(-10)})
    (write,) = secret_writes(planned(over, copies=[copy(used_by="shop/job,shop/job2")]))
    assert isinstance(write, Patch)
    assert write.body == {"metadata": {"annotations": {REFERENCES: "shop/job2"}}}
    (write,) = secret_writes(planned(over, copies=[copy(used_by="shop/job")]))
    assert isinstance(write, Delete)
    assert write.resource_version == "3"  # another job may have begun to use it
    assert not secret_writes(planned(over, copies=[copy(used_by="shop/job", is_deleting=True)]))


def test_copies_stay_for_ten_seconds_after_the_end_unless_the_job_is_deleted() -> None:
    """A client that reads the copies once a second can see them."""
    # given a job that ended three seconds ago, whose copies are due in seven seconds, or in one
    copies = [copy(used_by="shop/job")]
    over = held(pullSecrets=["s1"], status={"completionTime": at(-3)})
    # then
    plan = planned(over, copies=copies)
    assert (plan.stages, plan.requeue_after_s) == ((), 7)
    brief = {"type": "Always", "ttlSecondsAfterFinished": 4}
    assert (
        planned(
            held(pullSecrets=["s1"], completionPolicy=brief, status=over.stored_status), copies=copies
        ).requeue_after_s
        == 1
    )
    # and a job without copies, or a deleted job, does not wait
    assert len(list(planned(over).steps)) == 1
    going = job(
        metadata={**HELD, "deletionTimestamp": at(0)}, pullSecrets=["s1"], status={"completionTime": at(-3)}
    )
    assert len(list(planned(going, copies=copies).steps)) == 2


def test_a_copy_follows_its_source() -> None:
    """images case 44"""
    plan = planned(
        held(pullSecrets=["s1"]), *nodes("a"), sources={"s1": source()}, copies=[copy(used_by="shop/job")]
    )
    (write,) = secret_writes(plan)
    assert isinstance(write, Patch)
    assert write.body == [
        {"op": "test", "path": "/type", "value": "kubernetes.io/dockerconfigjson"},
        {"op": "add", "path": "/data", "value": {".dockerconfigjson": "e30="}},
    ]
    assert write.resource_version == "3"


def test_the_first_seen_change_of_a_source_adds_the_job_to_the_copy() -> None:
    plan = planned(
        held(pullSecrets=["s1"]), *nodes("a"), sources={"s1": BARE}, copies=[copy(used_by="shop/first")]
    )
    (write,) = secret_writes(plan)
    path = "/metadata/annotations/imagepulljobs.kruise.io~1references"
    assert write.body == [
        {"op": "test", "path": "/type", "value": "Opaque"},
        {"op": "add", "path": "/data", "value": {}},
        {"op": "add", "path": path, "value": "shop/first,shop/job"},
    ]


def test_a_job_continues_without_a_missing_secret() -> None:
    """images case 45"""
    plan = planned(
        held(pullSecrets=["gone", "s1"]), *nodes("a"), sources={"gone": None, "s1": source(read=True)}
    )
    assert [type(write) for write in secret_writes(plan)] == [Create]
    assert set(asked(plan)) == {"a"}
    assert [(note.reason, note.warning) for note in plan.notes] == [("PullSecretMissing", True)]
    assert "secret gone " in plan.notes[0].message


def test_secrets_of_a_job_in_the_shared_namespace_are_named_without_a_copy() -> None:
    """images case 46"""
    own = held(namespace=HOME, pullSecrets=["s1"])
    plan = planned(own, *nodes("a"), sources={"s1": Source(key=Key(HOME, "s1"), content="")})
    assert not secret_writes(plan)
    (image,) = asked(plan).values()
    assert image["pullSecrets"] == [{"namespace": HOME, "name": "s1"}]


@pytest.mark.parametrize(
    ("used_by", "chosen"),
    [(("", "shop/job"), "s1-b"), (("", ""), "s1-a"), (("shop/job", "shop/job"), "s1-a")],
)
def test_the_first_secret_copy_that_the_job_uses_is_chosen_else_the_first(
    used_by: tuple[str, str], chosen: str
) -> None:
    """images case 47"""
    copies = [copy(name, used_by=jobs, mode="") for name, jobs in zip(("s1-a", "s1-b"), used_by, strict=True)]
    plan = planned(held(pullSecrets=["s1"]), *nodes("a"), sources={"s1": source(read=False)}, copies=copies)
    (image,) = asked(plan).values()
    assert image["pullSecrets"] == [{"namespace": HOME, "name": chosen}]


def test_no_node_pulls_without_the_shared_namespace() -> None:
    """images case 48"""
    plan = planned(held(pullSecrets=["s1"]), *nodes("a"), has_shared_namespace=False)
    assert not plan.stages
    assert plan.requeue_after_s is not None
    assert plan.waiting is not None
    assert plan.waiting.code is Code.NO_NAMESPACE
    assert [note.warning for note in plan.notes] == [True]


def test_a_job_can_be_deleted_without_the_shared_namespace() -> None:
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
    assert not secret_writes(plan)


NAMED = {"namespace": HOME, "name": "s1-abcdef", "mode": "batch"}


def test_a_never_ending_job_adds_new_secrets_to_all_its_entries() -> None:
    """The entries pull again some day."""
    wants = held(pullSecrets=["s1"], completionPolicy={"type": "Never"}, parallelism=0)
    plan = planned(
        wants,
        done("a", wants),
        node_image("b", entry("1.8")),
        sources={"s1": source(read=False)},
        copies=[copy(used_by="shop/job")],
    )
    assert asked(plan) == {"a": {"pullSecrets": [NAMED]}}


def test_secrets_of_others_stay_and_no_secret_is_listed_twice() -> None:
    # given
    other = {"namespace": "shop", "name": "other"}
    wants = held(pullSecrets=["s1"])
    secrets: dict[str, Any] = {
        "sources": {"s1": source(read=False)},
        "copies": [copy(used_by="shop/job")],
    }
    # then
    (image,) = asked(planned(wants, node_image("a", entry("1.8"), secrets=[other]), **secrets)).values()
    assert image["pullSecrets"] == [other, NAMED]
    # and
    pulling = node_image("a", entry(jobs=[wants]), secrets=[other, NAMED])
    assert asked(planned(wants, pulling, **secrets)) == {}


def test_unreadable_job_references_of_a_copy_are_ignored() -> None:
    odd = copy(used_by="x,,/y,z/,shop/job,a/b/c")
    (write,) = secret_writes(
        planned(held(pullSecrets=["s1"], status={"completionTime": at(-10)}), copies=[odd])
    )
    assert isinstance(write, Delete)
