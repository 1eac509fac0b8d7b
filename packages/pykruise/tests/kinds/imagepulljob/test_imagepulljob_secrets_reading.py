"""Reads of an ImagePullJob's secrets and of their copies: a content is read only where it may differ."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from pykruise.kinds.imagepulljob.kind import KIND
from pykruise.kinds.imagepulljob.plan import plan_imagepulljob
from pykruise.kinds.imagepulljob.secrets import MODE, REFERENCES, SOURCE_KEY
from pykruise.kinds.imagepulljob.snapshot import ImagePullJobSettings, ImagePullJobSnapshot
from pykruise.kube.documents import Document, encode
from pykruise.kube.errors import ErrorStatus, ForbiddenError, InternalError, KubeError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.plans.views import NAMESPACE_VIEWS, NODE_IMAGE_VIEWS, SECRET_VIEWS, NamespaceView
from pykruise.pods.images.pull_jobs import PullJobView
from pykruise.pods.view.secrets import CopyView, project_copy
from pykruise.runtime.actions import Patch
from pykruise.runtime.assemble import views_of
from pykruise.runtime.listed_objects import Listed
from pykruise.runtime.read import Memories, Mirror, Read
from pykruise.runtime.views import Views
from support.image_objects import NOW, at, job, node_image
from support.pull_job_plans import HELD
from support.snapshots import Seed, control_of, listed, read_of

HOME = "kruise-daemon-config"
IS_THERE = NamespaceView(name=HOME, uid="h", resource_version=1)
USES = job("job", pullSecrets=["s1"], metadata=HELD)


def secret(
    name: str, *, of: str = "", used_by: str = "", holds: str = "e30=", version: int = 1, **more: Any
) -> Document:
    """A secret of the job's namespace, or with `of` a copy of that secret in the shared namespace."""
    notes = {SOURCE_KEY: of, REFERENCES: used_by, MODE: "batch"} if of else {}
    return {
        "metadata": {
            "name": name,
            "namespace": HOME if of else "shop",
            "uid": f"uid-{name}",
            "resourceVersion": str(version),
            "annotations": notes,
        },
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": holds},
        **more,
    }


def seen_of(document: Document, **more: Any) -> CopyView:
    """The secret as a watch of metadata shows it."""
    return project_copy(encode({"metadata": {**document["metadata"], **more}}))


class Cluster:
    """Secrets, and the names of those that were read."""

    def __init__(self, *secrets: Document) -> None:
        self.secrets = {
            f"{secret['metadata']['namespace']}/{secret['metadata']['name']}": secret for secret in secrets
        }
        self.asked: list[str] = []
        self.error: KubeError | None = None
        self.meanwhile: Callable[[], None] = lambda: None
        self.memories = Memories()

    async def get(self, _resource: object, namespace: str, name: str) -> bytes:
        self.asked.append(name)
        self.meanwhile()
        if self.error is not None:
            raise self.error
        if f"{namespace}/{name}" not in self.secrets:
            raise NotFoundError(ErrorStatus(code=404, reason="NotFound"))
        return encode(self.secrets[f"{namespace}/{name}"])

    def read(
        self,
        pull_job: PullJobView = USES,
        *,
        home: NamespaceView | None = IS_THERE,
        namespace: str = "",
        views: Sequence[CopyView] | None = None,
    ) -> ImagePullJobSnapshot:
        """The job's snapshot. `views`: the cached secrets, if they differ from the stored ones."""
        copies = [seen_of(document) for document in self.secrets.values()] if views is None else views
        objects: dict[Any, Any] = {
            SECRET_VIEWS: copies,
            NAMESPACE_VIEWS: [home] if home is not None else [],
            NODE_IMAGE_VIEWS: [node_image("a")],
        }
        settings = ImagePullJobSettings(namespace=namespace)
        read = read_of(KIND, pull_job, objects, settings=settings, now=NOW, live=self, memories=self.memories)
        return snapshot_of(pull_job, read)


def snapshot_of(pull_job: PullJobView, read: Read[Any]) -> ImagePullJobSnapshot:
    snapshot: ImagePullJobSnapshot = asyncio.run(control_of(KIND).snapshot(pull_job, read))  # type: ignore[arg-type]
    return snapshot


def read_with(
    mirrors: Mapping[Views[Any], Mirror[Any]], pull_job: PullJobView, *, live: Any = None
) -> Read[Any]:
    """A Read of the job's snapshot from these caches."""
    return Read(
        mirrors,
        key=pull_job.key,
        uid=pull_job.uid,
        now=lambda: NOW,
        rng=Seed(1),
        settings=ImagePullJobSettings(),
        live=live,
    )


def read_again(snapshot: ImagePullJobSnapshot) -> list[str]:
    """Secrets whose copies the plan writes."""
    return [
        name
        for name, source in snapshot.sources.items()
        if source is not None and source.document is not None
    ]


# ── copies that are checked ──────────────────────────────────────────────────


def test_no_secret_is_read_for_a_job_without_pull_secrets() -> None:
    """and the shared namespace need not exist"""
    cluster = Cluster(secret("s1-1", of="shop/s1"))
    snapshot = cluster.read(job(), home=None)
    assert (snapshot.copies, dict(snapshot.sources), snapshot.has_shared_namespace) == ([], {}, True)
    assert cluster.asked == []


def test_planning_a_job_without_secrets_needs_no_right_to_read_secrets() -> None:
    forbidden = ForbiddenError(ErrorStatus(code=403, reason="Forbidden"))
    mirrors = listed(
        views_of(control_of(KIND), ImagePullJobSettings()), {NODE_IMAGE_VIEWS: [node_image("a")]}
    )
    mirrors[SECRET_VIEWS] = Listed(SECRET_VIEWS, (), error=forbidden)
    mirrors[NAMESPACE_VIEWS] = Listed(NAMESPACE_VIEWS, (), error=forbidden)
    snapshot = snapshot_of(job(), read_with(mirrors, job()))
    assert [node.name for node in snapshot.nodes] == ["a"]


def test_copies_are_listed_by_name_without_other_secrets_of_their_namespace() -> None:
    plain = secret("plain")
    plain["metadata"]["namespace"] = HOME
    cluster = Cluster(secret("s1-b", of="shop/s1"), plain, secret("s1-a", of="shop/s1"), secret("s1"))
    assert [copy.name for copy in cluster.read().copies] == ["s1-a", "s1-b"]


@pytest.mark.parametrize(
    ("home", "namespace", "problem"),
    [
        (IS_THERE, "", ""),
        (IS_THERE, HOME, ""),
        (IS_THERE, "shop", "is not watched by this manager, which watches only shop"),
        (None, "", "does not exist"),
        (NamespaceView(name=HOME, uid="h", resource_version=1, is_deleting=True), "", "is being deleted"),
    ],
)
def test_secrets_are_read_only_where_their_copies_can_be_created(
    home: NamespaceView | None, namespace: str, problem: str
) -> None:
    """images case 48"""
    cluster = Cluster(secret("s1"))
    snapshot = cluster.read(home=home, namespace=namespace)
    assert snapshot.has_shared_namespace is not bool(problem)
    assert snapshot.home_problem == problem or not problem
    assert list(snapshot.sources) == cluster.asked == ([] if problem else ["s1"])


def test_the_copies_of_a_finished_job_are_listed_but_not_read() -> None:
    cluster = Cluster(secret("s1"), secret("s1-1", of="shop/s1"))
    over = job(pullSecrets=["s1"], status={"completionTime": at(0)})
    snapshot = cluster.read(over)
    assert [copy.name for copy in snapshot.copies] == ["s1-1"]
    assert snapshot.has_shared_namespace
    assert (dict(snapshot.sources), cluster.asked) == ({}, [])


def test_secrets_of_a_job_in_the_shared_namespace_need_no_copies() -> None:
    """images case 46"""
    cluster = Cluster(secret("s1-1", of="shop/s1"))
    snapshot = cluster.read(job(namespace=HOME, pullSecrets=["s1"]), home=None)
    assert {name: source.key if source else None for name, source in snapshot.sources.items()} == {
        "s1": Key(HOME, "s1")
    }
    assert (snapshot.copies, snapshot.has_shared_namespace, cluster.asked) == ([], True, [])


# ── contents of copies ───────────────────────────────────────────────────────


def test_a_secret_without_a_copy_is_read_and_one_that_does_not_exist_is_missing() -> None:
    """images cases 41 and 45"""
    cluster = Cluster(secret("s1"))
    snapshot = cluster.read(job(pullSecrets=["s1", "gone"]))
    assert read_again(snapshot) == ["s1"]
    assert snapshot.sources["gone"] is None
    assert cluster.asked == ["s1"]


def test_a_copy_that_holds_the_same_is_not_written_and_both_are_read_once() -> None:
    # given
    cluster = Cluster(secret("s1", immutable=True), secret("s1-1", of="shop/s1"))
    # then
    assert read_again(cluster.read()) == []
    assert sorted(cluster.asked) == ["s1", "s1-1"]
    assert read_again(cluster.read()) == []
    assert len(cluster.asked) == 2
    assert cluster.read().sources["s1"] is not None


@pytest.mark.parametrize(
    "changed",
    [
        secret("s1", holds="e319", version=2),
        {**secret("s1", holds="e319"), "metadata": {**secret("s1")["metadata"], "uid": "another"}},
    ],
)
def test_a_secret_that_changes_is_read_again_until_its_copy_holds_the_same(changed: Document) -> None:
    """images case 44"""
    # given
    cluster = Cluster(secret("s1"), secret("s1-1", of="shop/s1"))
    cluster.read()
    # when
    cluster.secrets["shop/s1"] = changed
    cluster.asked.clear()
    # then
    assert [read_again(cluster.read()), read_again(cluster.read())] == [["s1"], ["s1"]]
    assert cluster.asked == ["s1", "s1"]
    # and
    cluster.secrets[f"{HOME}/s1-1"] = secret("s1-1", of="shop/s1", holds="e319", version=2)
    cluster.asked.clear()
    assert [read_again(cluster.read()), read_again(cluster.read())] == [[], []]
    assert cluster.asked == ["s1-1"]


@pytest.mark.parametrize(
    "changed",
    [
        secret("s1-1", of="shop/s1", holds="e319", version=2),
        {
            **secret("s1-1", of="shop/s1", holds="e319"),
            "metadata": {**secret("s1-1", of="shop/s1")["metadata"], "uid": "another"},
        },
    ],
)
def test_a_copy_that_someone_changes_is_written_again(changed: Document) -> None:
    cluster = Cluster(secret("s1"), secret("s1-1", of="shop/s1"))
    cluster.read()
    cluster.secrets[f"{HOME}/s1-1"] = changed
    assert read_again(cluster.read()) == ["s1"]


def test_a_copy_is_not_read_when_the_answer_of_its_write_is_known() -> None:
    copied = secret("s1-1", of="shop/s1")
    cluster = Cluster(secret("s1"), copied)
    written = project_copy(encode({"kind": "Secret", **copied}))
    assert read_again(cluster.read(views=[seen_of(secret("s1")), written])) == []
    assert cluster.asked == ["s1"]


def test_the_copy_that_the_job_uses_is_compared_with_its_source() -> None:
    """images case 47"""
    # given
    cluster = Cluster(
        secret("s1", holds="e319"),
        secret("s1-a", of="shop/s1", holds="e319"),
        secret("s1-b", of="shop/s1", used_by="shop/job"),
    )
    # when
    plan = plan_imagepulljob(cluster.read())
    # then
    written = [step.action for step in plan.steps if step.action.resource.plural == "secrets"]
    assert [action.key.name for action in written] == ["s1-b"]


def test_a_terminating_copy_does_not_count() -> None:
    cluster = Cluster(secret("s1"), secret("s1-1", of="shop/s1"))
    views = [
        seen_of(secret("s1")),
        seen_of(secret("s1-1", of="shop/s1"), deletionTimestamp=at(0)),
    ]
    assert read_again(cluster.read(views=views)) == ["s1"]
    assert cluster.asked == ["s1"]


@pytest.mark.parametrize(("gone", "again"), [("shop/s1", []), (f"{HOME}/s1-1", ["s1"])])
def test_a_secret_may_be_deleted_while_it_is_read(gone: str, again: list[str]) -> None:
    cluster = Cluster(secret("s1"), secret("s1-1", of="shop/s1"))
    views = [seen_of(document) for document in cluster.secrets.values()]
    del cluster.secrets[gone]
    snapshot = cluster.read(views=views)
    assert read_again(snapshot) == again
    assert (snapshot.sources["s1"] is None) is (gone == "shop/s1")


def test_a_secret_that_cannot_be_read_stops_the_job() -> None:
    """images, 6.3 step 6: otherwise nodes would pull without the secret"""
    cluster = Cluster(secret("s1"))
    cluster.error = InternalError(ErrorStatus(code=500, reason="InternalError"))
    with pytest.raises(InternalError):
        cluster.read()


def test_a_reference_that_another_job_adds_while_secrets_are_read_is_kept() -> None:
    # given
    cluster = Cluster(secret("s1"), secret("s1-1", of="shop/s1", used_by="shop/first"))
    objects: dict[Any, Any] = {
        SECRET_VIEWS: [seen_of(document) for document in cluster.secrets.values()],
        NAMESPACE_VIEWS: [IS_THERE],
        NODE_IMAGE_VIEWS: [node_image("a")],
    }
    mirrors = listed(views_of(control_of(KIND), ImagePullJobSettings()), objects)
    read = read_with(mirrors, USES, live=cluster)
    later = secret("s1-1", of="shop/s1", used_by="shop/first,shop/second", version=2)

    def meanwhile() -> None:
        mirrors[SECRET_VIEWS] = Listed(SECRET_VIEWS, [seen_of(secret("s1")), seen_of(later)])

    cluster.meanwhile = meanwhile
    # when
    plan = plan_imagepulljob(snapshot_of(USES, read))
    # then
    (write,) = [step.action for step in plan.steps if step.action.resource.plural == "secrets"]
    assert isinstance(write, Patch)
    assert write.resource_version == "2"
    assert write.body == {"metadata": {"annotations": {REFERENCES: "shop/first,shop/job,shop/second"}}}
