"""Plans of a NodeImage, without a cluster."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from pykruise.kinds.nodeimage.kind import KIND
from pykruise.kinds.nodeimage.plan import plan_node_image
from pykruise.kinds.nodeimage.snapshot import NodeImageSettings, make_absent_view
from pykruise.kube.documents import encode
from pykruise.kube.errors import ErrorStatus, InternalError, KubeError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.plans.views import NODE_VIEWS, PULL_JOB_VIEWS, SECRET_VIEWS
from pykruise.pods.images.node_images import NodeImageView
from pykruise.pods.images.pull_jobs import IMAGE_PULL_JOBS, PullJobView
from pykruise.pods.reasons import Code
from pykruise.pods.view.nodes import NodeView
from pykruise.pods.view.secrets import CopyView
from pykruise.runtime.actions import Create, Delete, Patch
from pykruise.runtime.plan import Plan
from support.image_objects import NOW, at, entry, job, job_document, node, node_image, reference, said
from support.snapshots import control_of, read_of

PULL_SECRET = CopyView(namespace="shop", name="s1", uid="s", resource_version=1)


class Secrets:
    """An API server with these secrets, or with an error, and with these ImagePullJobs."""

    def __init__(
        self, *there: str, error: KubeError | None = None, jobs: Iterable[dict[str, Any]] = ()
    ) -> None:
        self._there = there
        self._error = error
        self._jobs = {job["metadata"]["name"]: job for job in jobs}
        self.asked: list[str] = []

    async def get(self, resource: object, _namespace: str, name: str) -> bytes:
        if resource == IMAGE_PULL_JOBS:
            if name not in self._jobs:
                raise NotFoundError(ErrorStatus(code=404, reason="NotFound"))
            return encode(self._jobs[name])
        self.asked.append(name)
        if self._error is not None:
            raise self._error
        if name not in self._there:
            raise NotFoundError(ErrorStatus(code=404, reason="NotFound"))
        return b"{}"


def planned(
    view: NodeImageView,
    *,
    on: NodeView | None = None,
    jobs: Iterable[PullJobView] | None = (),
    after_s: float = 0.0,
    namespace: str = "",
    secrets: Secrets | None = None,
    cached: Iterable[CopyView] = (),
    looks_at_secrets: bool = True,
) -> Plan:
    """The plan `after_s` seconds after NOW. `jobs=None`: ImagePullJobs are not served. `cached`: cached secrets."""
    objects: dict[Any, Any] = {NODE_VIEWS: [on] if on is not None else [], PULL_JOB_VIEWS: jobs}
    objects[SECRET_VIEWS] = cached
    settings = NodeImageSettings(namespace=namespace, looks_at_secrets=looks_at_secrets)
    read = read_of(KIND, view, objects, settings=settings, now=NOW + after_s, live=secrets or Secrets())
    snapshot = asyncio.run(control_of(KIND).snapshot(view, read))  # type: ignore[arg-type]
    return plan_node_image(snapshot)


def spec_patch(plan: Plan) -> dict[str, Any]:
    """The change of spec.images in the plan's only write."""
    (step,) = plan.steps
    assert isinstance(step.action, Patch)
    assert step.action.resource_version == "9"
    result: dict[str, Any] = step.action.body["spec"]["images"]
    return result


def status_of(plan: Plan) -> dict[str, Any]:
    """The status in the plan's only write."""
    (step,) = plan.steps
    assert isinstance(step.action, Patch)
    assert step.action.subresource == "status"
    status: dict[str, Any] = step.action.body["status"]
    return status


# ── the object ───────────────────────────────────────────────────────────────


def test_a_node_that_has_been_ready_for_the_delay_gets_one_with_its_labels() -> None:
    """images case 1"""
    (step,) = planned(make_absent_view(Key("", "n1")), on=node(ready_s=40, labels={"a": "b"})).steps
    assert isinstance(step.action, Create)
    assert step.action.body["spec"] == {}
    assert step.action.body["metadata"] == {"name": "n1", "labels": {"a": "b"}}


def test_a_recently_ready_node_is_requeued_at_the_end_of_its_creation_delay() -> None:
    """images case 2"""
    plan = planned(make_absent_view(Key("", "n1")), on=node(ready_s=10))
    assert not plan.stages
    assert plan.requeue_after_s == pytest.approx(20)


def test_the_nodeimage_is_created_at_the_end_of_the_delay_and_not_earlier() -> None:
    (step,) = planned(make_absent_view(Key("", "n1")), on=node(ready_s=30)).steps
    assert isinstance(step.action, Create)
    assert step.action.body["metadata"] == {"name": "n1"}
    assert planned(make_absent_view(Key("", "n1")), on=node(ready_s=29.5)) == Plan(requeue_after_s=0.5)


@pytest.mark.parametrize(
    "other", [node(ready_s=None), node(labels={"type": "virtual-kubelet"}), node(is_deleting=True), None]
)
def test_other_nodes_get_no_nodeimage(other: NodeView | None) -> None:
    """images cases 3 and 4"""
    assert planned(make_absent_view(Key("", "n1")), on=other) == Plan()


def test_a_nodeimage_is_deleted_with_its_node_unless_it_is_a_fake() -> None:
    """images case 5"""
    (step,) = planned(node_image()).steps
    assert isinstance(step.action, Delete)
    assert not planned(node_image(labels={"apps.kruise.io/fake-nodeimage": "x"})).stages


def test_a_fake_nodeimage_keeps_its_labels_when_a_node_of_its_name_is_deleted() -> None:
    fake = node_image(labels={"apps.kruise.io/fake-nodeimage": "x"})
    assert not planned(fake, on=node(labels={"a": "b"}, is_deleting=True)).stages


@pytest.mark.parametrize("on", [None, node(labels={"a": "b"})])
def test_a_terminating_nodeimage_is_not_changed(on: NodeView | None) -> None:
    assert planned(node_image("n1", entry(), metadata={"deletionTimestamp": at(0)}), on=on) == Plan()


def test_whether_there_is_a_node_is_not_known_before_nodes_have_been_read() -> None:
    read = read_of(KIND, node_image(), {NODE_VIEWS: None}, settings=NodeImageSettings(), now=NOW)
    assert asyncio.run(control_of(KIND).snapshot(node_image(), read)) is None  # type: ignore[arg-type]


def test_the_labels_of_a_nodeimage_equal_those_of_its_node() -> None:
    """images case 6"""
    plan = planned(node_image(labels={"a": "1", "old": "x"}), on=node(labels={"a": "2", "new": "y"}))
    (step,) = plan.steps
    assert isinstance(step.action, Patch)
    assert step.action.body == {"metadata": {"labels": {"a": "2", "new": "y", "old": None}}}


# ── entries ──────────────────────────────────────────────────────────────────


def test_an_entry_is_removed_with_its_only_job_and_loses_one_of_two_references() -> None:
    """images case 12"""
    here, gone = job("here"), job("gone")
    assert spec_patch(planned(node_image("n1", entry(jobs=[gone])), on=node())) == {"nginx": None}
    (tag,) = spec_patch(planned(node_image("n1", entry(jobs=[gone, here])), on=node(), jobs=[here]))["nginx"][
        "tags"
    ]
    assert [ref["name"] for ref in tag["ownerReferences"]] == ["here"]


def test_a_recreated_job_does_not_keep_the_entry_of_its_predecessor() -> None:
    """images case 13"""
    view = node_image("n1", entry(jobs=[job(uid="old")]))
    assert spec_patch(planned(view, on=node(), jobs=[job(uid="new")])) == {"nginx": None}
    # and if both are named, the first reference is removed
    view = node_image("n1", entry(jobs=[job(uid="old"), job(uid="new")]))
    (tag,) = spec_patch(planned(view, on=node(), jobs=[job(uid="new")]))["nginx"]["tags"]
    assert [ref["uid"] for ref in tag["ownerReferences"]] == ["new"]


def test_a_job_that_another_manager_has_named_before_the_cache_shows_it_keeps_its_entry() -> None:
    view = node_image("n1", entry(jobs=[job("new")]))
    plan = planned(view, on=node(), secrets=Secrets(jobs=[job_document("new")]))
    assert (plan.stages, plan.requeue_after_s) == ((), 3.0)
    # a job that is for another image by now does not keep it
    other = Secrets(jobs=[job_document("new", image="nginx:2")])
    assert spec_patch(planned(view, on=node(), secrets=other)) == {"nginx": None}


def test_owners_that_are_not_jobs_are_kept() -> None:
    """images case 14"""
    other = {"apiVersion": "example.com/v1", "kind": "Puller", "namespace": "x", "name": "y", "uid": "z"}
    assert not planned(node_image("n1", entry(ownerReferences=[other])), on=node()).stages


def other_owner(name: str) -> dict[str, Any]:
    """An owner of another kind, with the name of a job."""
    return {**reference(job(name)), "apiVersion": "example.com/v1", "kind": "Puller", "uid": "z"}


def test_an_owner_of_another_kind_is_not_mistaken_for_the_job_of_its_name() -> None:
    # given a deleted job, and a job that continues
    wants = job("on", image="nginx:2")
    owners = [reference(job("gone")), other_owner("gone")]
    view = node_image("n1", entry(ownerReferences=owners), entry("2", jobs=[wants]))
    # then
    tags = spec_patch(planned(view, on=node(), jobs=[wants]))["nginx"]["tags"]
    assert tags[0]["ownerReferences"] == [other_owner("gone")]
    # and
    view = node_image(
        "n1", entry(ownerReferences=[other_owner("on")]), entry("2", jobs=[wants]), statuses=[said()]
    )
    tags = spec_patch(planned(view, on=node(), jobs=[wants], after_s=301))["nginx"]["tags"]
    assert [tag["tag"] for tag in tags] == ["2"]


@pytest.mark.parametrize(("namespace", "jobs"), [("other", ()), ("", None)])
def test_jobs_that_cannot_be_looked_up_are_kept(namespace: str, jobs: tuple[()] | None) -> None:
    view = node_image("n1", entry(jobs=[job()]))
    assert not planned(view, on=node(), jobs=jobs, namespace=namespace).stages
    # but they do not keep the entry beyond its time to live
    view = node_image("n1", entry(jobs=[job()]), statuses=[said()])
    assert spec_patch(planned(view, on=node(), jobs=jobs, namespace=namespace, after_s=300)) == {
        "nginx": None
    }


def test_a_job_that_is_for_another_image_now_wants_the_entry_no_more() -> None:
    changed = job(image="nginx:1.10")
    assert spec_patch(planned(node_image("n1", entry(jobs=[changed])), on=node(), jobs=[changed])) == {
        "nginx": None
    }


def test_an_entry_without_a_creation_time_is_removed() -> None:
    view = node_image("n1", entry("a"), entry("b", createdAt=None))
    (tag,) = spec_patch(planned(view, on=node()))["nginx"]["tags"]
    assert tag["tag"] == "a"


def test_a_manual_entry_is_removed_after_its_ttl() -> None:
    """images case 15"""
    view = node_image("n1", entry(ttl=300), statuses=[said()])
    assert spec_patch(planned(view, on=node(), after_s=300)) == {"nginx": None}
    early = planned(view, on=node(), after_s=299)
    assert not early.stages
    assert early.requeue_after_s == 3.0


def test_the_requeue_is_for_the_entry_that_expires_first() -> None:
    view = node_image("n1", entry("a", ttl=500), entry("b", ttl=300), statuses=[said(tag="a"), said(tag="b")])
    assert planned(view, on=node(), after_s=10).requeue_after_s == pytest.approx(290)


@pytest.mark.parametrize(
    ("stored", "status"),
    [
        (entry(pullPolicy=None), said()),
        (entry(pullPolicy=None), said("Pulling")),
        (entry(policy={"ttlSecondsAfterFinished": None}), said()),
        (entry(), said(ended_s=None, completionTime="some day")),
        (entry(createdAt="some day"), said("Pulling", version=5)),
        (entry(), said("Pulling")),
        (entry(ttl=10**6, policy={"activeDeadlineSeconds": 5}), said()),
    ],
)
def test_an_entry_without_a_time_at_which_something_happens_stays(
    stored: dict[str, Any], status: dict[str, Any]
) -> None:
    """also an entry that was stored without admission, or with an unreadable time"""
    assert not planned(node_image("n1", stored, statuses=[status]), on=node(), after_s=10_000).stages


def test_unsorted_tags_are_sorted() -> None:
    """images, 6.1 step 5"""
    plan = planned(node_image("n1", entry("b"), entry("a")), on=node())
    assert [tag["tag"] for tag in spec_patch(plan)["nginx"]["tags"]] == ["a", "b"]


@pytest.mark.parametrize(
    ("view", "because"),
    [
        (
            node_image("n1", entry("a"), entry("b", createdAt=None)),
            "the entry of nginx:b has no createdAt",
        ),
        (node_image("n1", entry(jobs=[job("gone")])), "its jobs no longer request nginx:1.9"),
        (node_image("n1", entry(jobs=[job("gone"), job("here")])), "a job no longer requests nginx:1.9"),
        (
            node_image("n1", entry(ttl=0), statuses=[said()]),
            "ttlSecondsAfterFinished has passed since nginx:1.9 was pulled",
        ),
        (node_image(spec={"images": {"nginx": {"tags": []}}}), "no job requests image nginx"),
        (
            node_image("n1", entry(), secrets=[{"namespace": "shop", "name": "gone"}]),
            "a pull secret was removed",
        ),
        (node_image("n1", entry("b"), entry("a")), "its tags are sorted"),
        (node_image("n1", entry(), labels={"a": "b"}), "the labels of the node changed"),
    ],
)
def test_a_change_of_entries_has_its_reason(view: NodeImageView, because: str) -> None:
    (step,) = planned(view, on=node(), jobs=[job("here")]).steps
    assert step.because == because


def test_the_result_of_an_older_version_does_not_end_the_entry() -> None:
    """images case 16"""
    view = node_image("n1", entry(version=1), statuses=[said(version=0)])
    plan = planned(view, on=node(), after_s=301)
    assert not plan.stages
    assert plan.skipped["nginx:1.9"].code is Code.NO_AGENT


def test_an_entry_stays_beyond_its_time_to_live_while_a_job_wants_it() -> None:
    """images, lifted limit c: a long job does not pull twice on its first nodes"""
    running = job(status={"desired": 2})
    over = job(status={"desired": 2, "completionTime": at(0)})
    never = job(completionPolicy={"type": "Never"})
    view = node_image("n1", entry(jobs=[running]), statuses=[said()])
    assert not planned(view, on=node(), jobs=[running], after_s=10_000).stages
    for other in (over, never):
        assert spec_patch(planned(view, on=node(), jobs=[other], after_s=10_000)) == {"nginx": None}


# ── secrets ──────────────────────────────────────────────────────────────────

LEGACY = {"namespace": "shop", "name": "legacy"}
BATCH = {"namespace": "kruise-daemon-config", "name": "batch", "mode": "batch"}


def test_a_deleted_secret_is_removed_from_the_entry_unless_it_is_a_copy() -> None:
    """images cases 19 and 65"""
    view = node_image("n1", entry(), secrets=[LEGACY, BATCH])
    assert spec_patch(planned(view, on=node()))["nginx"]["pullSecrets"] == [BATCH]
    assert not planned(view, on=node(), secrets=Secrets("legacy")).stages


def test_a_removed_secret_that_a_person_listed_is_reported() -> None:
    view = node_image("n1", entry(), secrets=[LEGACY])
    (note,) = planned(view, on=node()).notes
    assert note.reason == "PullSecretMissing"
    assert "there is no secret legacy in namespace" in note.message


def test_the_last_secret_takes_the_field_with_it() -> None:
    view = node_image("n1", entry(), secrets=[LEGACY])
    assert spec_patch(planned(view, on=node()))["nginx"] == {"pullSecrets": None}


def test_a_copy_is_not_read_and_stays_beside_the_same_secret_named_manually() -> None:
    # given
    images = {
        "nginx": {"tags": [entry()], "pullSecrets": [LEGACY]},
        "redis": {"tags": [entry()], "pullSecrets": [BATCH, {**LEGACY, "mode": "batch"}]},
    }
    secrets = Secrets()
    # then
    assert set(spec_patch(planned(node_image(spec={"images": images}), on=node(), secrets=secrets))) == {
        "nginx"
    }
    assert secrets.asked == ["legacy"]


def test_a_secret_that_cannot_be_read_is_kept() -> None:
    """images case 20"""
    broken = Secrets(error=InternalError(ErrorStatus(code=500, reason="InternalError")))
    view = node_image("n1", entry(), secrets=[LEGACY])
    assert not planned(view, on=node(), secrets=broken).stages
    assert not planned(view, on=node(), looks_at_secrets=False).stages


# ── the status ───────────────────────────────────────────────────────────────


def test_an_agent_that_never_answers_is_reported_after_ten_minutes() -> None:
    """images case 17"""
    wants = job()
    view = node_image("n1", entry(jobs=[wants]))
    assert planned(view, on=node(), jobs=[wants], after_s=590).requeue_after_s == pytest.approx(10)
    plan = planned(view, on=node(), jobs=[wants], after_s=600)
    status = status_of(plan)
    (tag,) = status["imageStatuses"]["nginx"]["tags"]
    assert (tag["phase"], tag["completionTime"], status["failed"]) == ("Failed", at(600), 1)
    assert "not responded" in tag["message"]
    assert {
        (note.reason, note.about.resource.kind if note.about else "NodeImage") for note in plan.notes
    } == {
        ("PullImageFailed", "NodeImage"),
        ("PullImageFailed", "ImagePullJob"),
    }
    assert all(note.warning for note in plan.notes)


@pytest.mark.parametrize("owners", [{}, {"ownerReferences": [other_owner("x")]}])
def test_an_entry_that_no_job_wants_is_reported_on_the_nodeimage_alone(owners: dict[str, Any]) -> None:
    (note,) = planned(node_image("n1", entry(**owners)), on=node(), after_s=600).notes
    assert note.about is None


def test_a_result_of_an_older_version_is_replaced_by_a_failure_without_an_answer() -> None:
    earlier = said(version=0, startTime=at(-50), imageID="nginx@sha256:x")
    plan = planned(node_image("n1", entry(version=1), statuses=[earlier]), on=node(), after_s=600)
    (tag,) = status_of(plan)["imageStatuses"]["nginx"]["tags"]
    assert (tag["phase"], tag["version"]) == ("Failed", 1)
    assert "startTime" not in tag
    assert "imageID" not in tag


def test_a_pull_that_does_not_end_is_reported_ten_minutes_after_the_deadline() -> None:
    """images case 18"""
    wants = job()
    view = node_image(
        "n1", entry(jobs=[wants], policy={"activeDeadlineSeconds": 50}), statuses=[said("Pulling")]
    )
    assert not planned(view, on=node(), jobs=[wants], after_s=649).stages
    (tag,) = status_of(planned(view, on=node(), jobs=[wants], after_s=650))["imageStatuses"]["nginx"]["tags"]
    assert tag["message"] == "pulling exceeds the activeDeadlineSeconds"


def test_the_start_time_of_a_pull_is_kept_when_it_times_out() -> None:
    view = node_image(
        "n1", entry(policy={"activeDeadlineSeconds": 50}), statuses=[said("Pulling", startTime=at(5))]
    )
    (tag,) = status_of(planned(view, on=node(), after_s=650))["imageStatuses"]["nginx"]["tags"]
    assert (tag["phase"], tag["startTime"]) == ("Failed", at(5))


def test_a_status_that_is_written_counts_all_entries_and_has_them_in_order() -> None:
    view = node_image(
        "n1", entry("a"), entry("b", ttl=10**6), statuses=[said(tag="b")], status={"desired": 0}
    )
    status = status_of(planned(view, on=node(), after_s=600))
    assert [tag["tag"] for tag in status["imageStatuses"]["nginx"]["tags"]] == ["a", "b"]
    assert (status["desired"], status["succeeded"], status["failed"]) == (2, 1, 1)


def test_the_last_status_takes_the_field_with_it() -> None:
    view = node_image(statuses=[said()], status={"desired": 1, "succeeded": 1})
    assert status_of(planned(view, on=node())) == {"desired": 0, "succeeded": None, "imageStatuses": None}


def test_the_status_of_removed_entries_is_removed_and_the_first_sync_status_stays() -> None:
    """images, lifted limit h"""
    first = {"syncAt": at(0), "status": "Succeeded"}
    view = node_image(
        "n1", entry("b"), statuses=[said(tag="a"), said(tag="b")], status={"firstSyncStatus": first}
    )
    status = status_of(planned(view, on=node()))
    assert [tag["tag"] for tag in status["imageStatuses"]["nginx"]["tags"]] == ["b"]
    assert "firstSyncStatus" not in status  # it is unchanged


def test_an_unreadable_nodeimage_is_not_changed() -> None:
    plan = planned(node_image(spec={"images": {"x": {"tags": [{"tag": 5}]}}}), on=node())
    assert not plan.stages
    assert plan.waiting is not None
    assert plan.waiting.message.startswith("spec.images")
    assert [note.warning for note in plan.notes] == [True]


ASKED = f"the pull was requested at {at(0)}; the agent has not answered yet"


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ([], (Code.IMAGE_PULLING, f"{ASKED} (requested by shop/job)")),
        ([said("Pulling")], (Code.IMAGE_PULLING, "Pulling (requested by shop/job)")),
        ([said()], None),
        (
            [said("Failed")],
            (
                Code.IMAGE_PULL,
                "image nginx:1.9 cannot be pulled: the agent reported no reason (requested by shop/job)",
            ),
        ),
        (
            [said("Failed", message="no such image")],
            (Code.IMAGE_PULL, "image nginx:1.9 cannot be pulled: no such image (requested by shop/job)"),
        ),
    ],
)
def test_a_missing_image_of_a_node_has_a_reason(
    status: list[dict[str, Any]], reason: tuple[Code, str] | None
) -> None:
    wants = job()
    plan = planned(node_image("n1", entry(jobs=[wants]), statuses=status), on=node(), jobs=[wants])
    result = {image: (why.code, why.message) for image, why in plan.skipped.items()}
    assert result == ({"nginx:1.9": reason} if reason else {})


@pytest.mark.parametrize(("cached", "is_named"), [([], True), ([PULL_SECRET], False)])
def test_a_missing_pull_secret_is_found_in_the_cache(cached: list[CopyView], is_named: bool) -> None:
    # given a failed image of a job with a pull secret
    wants, secrets = job(pullSecrets=["s1"]), Secrets()
    view = node_image("n1", entry(jobs=[wants]), statuses=[said("Failed", message="denied")])
    # when
    plan = planned(view, on=node(), jobs=[wants], secrets=secrets, cached=cached)
    # then
    assert ("s1" in plan.skipped["nginx:1.9"].remedy) is is_named
    assert not secrets.asked


def test_the_reason_of_an_entry_without_jobs_names_no_job() -> None:
    assert planned(node_image("n1", entry()), on=node()).skipped["nginx:1.9"].message == ASKED


def test_owner_references_of_an_entry_are_read_as_stored() -> None:
    view = node_image("n1", entry(jobs=[job("a")]))
    (tag_spec,) = [tag for _, tag in view.entries]
    assert tag_spec.owner_references is not None
    assert tag_spec.owner_references[0].uid == reference(job("a"))["uid"]
