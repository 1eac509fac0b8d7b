"""Snapshots of a ResourceDistribution: the copies in the cluster, and what is remembered of them.

Caches contain only metadata, so a copy with an unknown content is read.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import pytest

from pykruise.kinds.resourcedistribution.kind import KIND
from pykruise.kinds.resourcedistribution.plan import READ_AGAIN_S, plan_distribution
from pykruise.kinds.resourcedistribution.snapshot import (
    DistributionSettings,
    DistributionSnapshot,
    KnownCopies,
    learn,
)
from pykruise.kinds.resourcedistribution.view import COPY_VIEWS, DISTRIBUTION_VIEWS
from pykruise.kube.documents import Document, encode
from pykruise.kube.errors import ErrorStatus, ForbiddenError, KubeError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.plans.purposes import Purpose
from pykruise.plans.views import NAMESPACE_VIEWS
from pykruise.runtime.assemble import views_of
from pykruise.runtime.execute import Failure
from pykruise.runtime.plan import Plan
from pykruise.runtime.read import Memories, Read
from support.snapshots import control_of, listed

NOW = 1_000.0
TOKEN: Document = {"token": "MQ=="}
REFUSED = ForbiddenError(ErrorStatus(code=403, message="no right to read it"))
GONE = NotFoundError(ErrorStatus(code=404, message="not found"))
NINE = tuple("abcdefghi")
"""More copies than are read one by one."""


def secret(namespace: str, *, version: int = 9, uid: str = "", owner: str = "d1", **fields: Any) -> Document:
    """A stored copy."""
    reference = {"kind": "ResourceDistribution", "name": "pull", "uid": owner, "controller": True}
    return {
        "kind": "Secret",
        "metadata": {
            "name": "pull",
            "namespace": namespace,
            "uid": uid or f"c-{namespace}",
            "resourceVersion": str(version),
            "ownerReferences": [{"apiVersion": "apps.kruise.io/v1beta1", **reference}],
        },
        "data": TOKEN,
        **fields,
    }


class World:
    """A distribution to all namespaces, with the contents of caches and of the API server, and the requests."""

    def __init__(self, *names: str, only: str = "") -> None:
        self.settings = DistributionSettings(namespace=only)
        self.stored: dict[str, Document | KubeError] = {name: secret(name) for name in names}
        self.list_error: KubeError | None = None
        self.expires_once = False
        self.meanwhile: Callable[[], None] = lambda: None
        self.asked: list[str] = []
        self.resource: Document = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pull"}}
        self.distribution: Document = {
            "metadata": {"name": "pull", "uid": "d1", "resourceVersion": "7", "generation": 3},
            "spec": {"resource": {**self.resource, "data": TOKEN}, "targets": {"allNamespaces": True}},
        }
        self.memories = Memories()
        self.mirrors = listed(views_of(control_of(KIND), self.settings), {})
        self.show(DISTRIBUTION_VIEWS, self.distribution)
        self.show_namespaces({name: f"n-{name}" for name in names})
        self.show_copies(*(secret(name) for name in names))

    def show(self, views: Any, *documents: Document) -> None:
        project = views.projector()
        self.mirrors |= listed([views], {views: [project(encode(document)) for document in documents]})

    def show_namespaces(self, uids: Mapping[str, str]) -> None:
        metadata = [{"name": name, "uid": uid, "resourceVersion": "1"} for name, uid in uids.items()]
        self.show(NAMESPACE_VIEWS, *({"metadata": item} for item in metadata))

    def show_copies(self, *documents: Document) -> None:
        """Let the caches show these copies, which have metadata only."""
        self.show(
            COPY_VIEWS["Secret"],
            *({"kind": "PartialObjectMetadata", "metadata": document["metadata"]} for document in documents),
        )

    def read(self) -> Read[DistributionSettings]:
        return Read(
            self.mirrors,
            key=Key("", "pull"),
            uid="d1",
            now=lambda: NOW,
            rng=random.Random(1),
            settings=self.settings,
            live=self,  # type: ignore[arg-type]
            memories=self.memories,
        )

    async def snapshot(self) -> DistributionSnapshot | None:
        view = DISTRIBUTION_VIEWS.projector()(encode(self.distribution))
        snapshot: DistributionSnapshot | None = await control_of(KIND).snapshot(view, self.read())
        return snapshot

    async def seen(self) -> DistributionSnapshot:
        snapshot = await self.snapshot()
        assert snapshot is not None
        return snapshot

    async def known(self) -> list[str]:
        """Namespaces whose copy is known to have the wanted content."""
        snapshot = await self.seen()
        return sorted(
            name for name, copy in snapshot.copies.items() if copy.content == snapshot.distribution.content
        )

    # ── as a client ──────────────────────────────────────────────────────────

    async def get(self, resource: Resource, namespace: str, name: str) -> bytes:
        self.asked.append(f"{resource.kind} {namespace}/{name}")
        self.meanwhile()
        result = self.stored.get(namespace, GONE)
        if isinstance(result, KubeError):
            raise result
        return encode(result)

    async def read_list(
        self, resource: Resource, namespace: str, on_page: Any, on_restart: Any, **how: Any
    ) -> str:
        self.asked.append(f"{resource.kind}s {namespace}/ {how['field_selector']}, {how['limit']} in a page")
        if self.list_error is not None:
            raise self.list_error
        items = [
            msgspec.Raw(encode({key: value for key, value in item.items() if key != "kind"}))
            for item in self.stored.values()
            if not isinstance(item, KubeError)
        ]
        if self.expires_once:
            await on_page([msgspec.Raw(encode(secret("gone-meanwhile")))])
            on_restart()
        await on_page(items)
        return "20"


# ── contents of copies ───────────────────────────────────────────────────────


async def test_unknown_copies_are_read_once_each() -> None:
    world = World("a", "b")
    assert await world.known() == ["a", "b"]
    assert await world.known() == ["a", "b"]
    assert world.asked == ["Secret a/pull", "Secret b/pull"]


async def test_resources_of_other_owners_are_not_read() -> None:
    world = World("a", "b")
    world.show_copies(secret("a"), secret("b", owner="another"))
    assert await world.known() == ["a"]
    assert world.asked == ["Secret a/pull"]


@pytest.mark.parametrize(
    ("then", "is_read_again"),
    [
        (secret("a", version=10), True),
        (secret("a", version=9, uid="made-again"), True),
        (secret("a", version=8), False),
    ],
    ids=["changed since", "another of that name", "the cache is behind"],
)
async def test_a_copy_is_read_again_when_the_cache_shows_another_than_was_read(
    then: Document, is_read_again: bool
) -> None:
    # given a copy that was read
    world = World("a")
    await world.known()
    world.asked.clear()
    # when
    world.stored["a"] = then if is_read_again else world.stored["a"]
    world.show_copies(then)
    # then
    assert await world.known() == ["a"]
    assert world.asked == ["Secret a/pull"] * is_read_again
    assert await world.known() == ["a"]
    assert world.asked == ["Secret a/pull"] * is_read_again


async def test_a_read_older_than_the_cache_does_not_count() -> None:
    world = World("a")
    world.meanwhile = lambda: world.show_copies(secret("a", version=10))
    assert await world.known() == []


async def test_the_answer_of_an_own_write_replaces_what_was_read_before() -> None:
    """A cache that has the answer to the write knows the content of the copy"""
    # given a copy that was read with another content
    world = World("a")
    world.stored["a"] = secret("a", data={"token": "Mg=="})
    assert await world.known() == []
    # when the cache has the answer to its update
    world.show(COPY_VIEWS["Secret"], secret("a", version=10))
    # then
    assert await world.known() == ["a"]
    assert world.asked == ["Secret a/pull"]
    assert world.read().find_memory(KnownCopies).read == {}, "it is not kept any longer"


async def test_the_content_of_a_deleted_copy_is_forgotten() -> None:
    world = World("a", "b")
    await world.known()
    world.show_copies(secret("b"))
    await world.known()
    assert list(world.read().find_memory(KnownCopies).read) == ["b"]


async def test_a_copy_deleted_before_it_is_read_is_not_a_failure() -> None:
    # given
    world = World("a")
    world.stored.clear()
    # when
    snapshot = await world.seen()
    # then the plan waits for the event, with a limit
    assert snapshot.unread == {}
    plan = plan_distribution(snapshot)
    assert (list(plan.steps), plan.requeue_after_s) == ([], READ_AGAIN_S)


async def test_an_unreadable_copy_is_reported_with_the_reason_and_read_again() -> None:
    # given
    world = World("a", "b")
    world.stored["a"] = REFUSED
    # when
    snapshot = await world.seen()
    # then
    assert snapshot.unread == {"a": str(REFUSED)}
    assert snapshot.copies["b"].content
    # when
    world.stored["a"] = secret("a")
    # then
    assert (await world.seen()).unread == {}
    assert world.asked.count("Secret b/pull") == 1


async def test_an_unreadable_copy_that_is_deleted_or_known_by_then_is_not_a_failure() -> None:
    for later in ([], [secret("a", version=10)]):
        world = World("a")
        world.stored["a"] = REFUSED
        world.meanwhile = lambda world=world, later=later: world.show(  # type: ignore[misc]
            COPY_VIEWS["Secret"], *later
        )
        assert (await world.seen()).unread == {}


@pytest.mark.parametrize("only", ["", "a"])
async def test_many_copies_are_read_by_one_list_of_their_name(only: str) -> None:
    # given nine own copies, and a copy of another distribution
    world = World(*NINE, "other", only=only)
    copies = [*(secret(name) for name in NINE), secret("other", owner="another")]
    world.stored = {copy["metadata"]["namespace"]: copy for copy in copies}
    world.show_copies(*copies)
    # then
    assert await world.known() == list(NINE)
    assert await world.known() == list(NINE)
    assert world.asked == [f"Secrets {only}/ metadata.name=pull, 50 in a page"]
    assert "other" not in world.read().find_memory(KnownCopies).read


async def test_eight_copies_are_read_one_by_one() -> None:
    world = World(*NINE[:8])
    assert await world.known() == list(NINE[:8])
    assert world.asked == [f"Secret {name}/pull" for name in NINE[:8]]


async def test_a_restarted_list_of_copies_has_only_its_second_result() -> None:
    world = World(*NINE)
    world.expires_once = True
    assert await world.known() == list(NINE)
    assert sorted(world.read().find_memory(KnownCopies).read) == list(NINE)


async def test_a_refused_list_is_reported_for_each_copy_to_be_read() -> None:
    world = World(*NINE)
    world.list_error = REFUSED
    assert (await world.seen()).unread == dict.fromkeys(NINE, str(REFUSED))


# ── namespaces of the manager ────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("metadata", "spec"),
    [({"deletionTimestamp": "2026-01-31T12:00:00Z"}, {}), ({}, {"resource": {"kind": "Deployment"}})],
    ids=["it goes", "its spec cannot be read"],
)
async def test_nothing_is_read_for_a_distribution_that_writes_nothing(
    metadata: Document, spec: Document
) -> None:
    world = World("a")
    world.distribution["metadata"] |= metadata
    world.distribution["spec"] |= spec
    snapshot = await world.seen()
    assert (snapshot.copies, world.asked) == ({}, [])
    assert not list(plan_distribution(snapshot).steps)


async def test_a_deleted_distribution_has_no_snapshot() -> None:
    world = World("a")
    world.meanwhile = lambda: world.show(DISTRIBUTION_VIEWS)
    assert await world.snapshot() is None


async def test_a_manager_of_one_namespace_writes_to_no_other() -> None:
    # given copies in namespaces that the manager does not manage, one of them no target
    world = World("a", "b", "c", only="b")
    world.distribution["spec"]["targets"]["excludedNamespaces"] = {"list": [{"name": "c"}]}
    world.show(DISTRIBUTION_VIEWS, world.distribution)
    world.show_copies(secret("a"), secret("c"))
    world.stored["a"] = secret("a", data={})
    # then
    plan = plan_distribution(await world.seen())
    assert [step.action.key.namespace for step in plan.steps] == ["b"]
    assert plan.status is not None
    assert plan.status["desired"] == 1


# ── failed writes ────────────────────────────────────────────────────────────


def failures(plan: Plan) -> Sequence[Failure]:
    """Failures of all writes of the plan."""
    return [
        Failure(Purpose.DISTRIBUTE, chain.subject, chain.steps[0], REFUSED)
        for stage in plan.stages
        for chain in stage.chains
    ]


async def refused(world: World) -> DistributionSnapshot:
    """The snapshot after every write of the current plan has failed."""
    snapshot = await world.seen()
    learn(world.read(), snapshot, failures(plan_distribution(snapshot)))
    return await world.seen()


async def three_refused() -> tuple[World, DistributionSnapshot]:
    """A namespace without a copy, one with a different copy, and one that should have none; all writes have failed."""
    world = World("a", "b", "c")
    world.distribution["spec"]["targets"]["excludedNamespaces"] = {"list": [{"name": "c"}]}
    world.show(DISTRIBUTION_VIEWS, world.distribution)
    world.show_copies(secret("b"), secret("c"))
    world.stored["b"] = secret("b", data={})
    return world, await refused(world)


async def test_a_failed_write_is_shown_by_the_condition_of_its_kind() -> None:
    _, snapshot = await three_refused()
    plan = plan_distribution(snapshot)
    assert plan.status is not None
    assert {
        condition["type"]: (condition["failedNamespaces"], condition["reason"])
        for condition in plan.status["conditions"]
        if condition["status"] == "True"
    } == {
        "CreateResourceFailed": (["a"], str(REFUSED)),
        "UpdateResourceFailed": (["b"], str(REFUSED)),
        "DeleteResourceFailed": (["c"], str(REFUSED)),
    }


async def test_a_failure_is_forgotten_when_the_write_succeeds() -> None:
    # given writes that failed
    world, snapshot = await three_refused()
    assert list(snapshot.failed) == ["a", "b", "c"]
    # when they succeed
    world.show(COPY_VIEWS["Secret"], secret("a"), secret("b", version=10))
    # then
    assert (await world.seen()).failed == {}


async def test_each_failure_of_a_namespace_is_tried_again_later_than_the_one_before() -> None:
    # given a copy that cannot be created
    world = World("a")
    world.show_copies()
    snapshot = await world.seen()
    plan = plan_distribution(snapshot)
    # when it fails again and again
    waits = []
    for _ in range(12):
        learn(world.read(), snapshot, failures(plan))
        waits.append((await world.seen()).failed["a"].retry_at - NOW)
    # then
    assert waits[:4] == [1, 2, 4, 8]
    assert waits[-1] == 300


async def test_another_kind_of_write_begins_with_the_shortest_wait() -> None:
    # given a copy whose creation has failed three times
    world = World("a")
    world.show_copies()
    plan = plan_distribution(await world.seen())
    for _ in range(3):
        learn(world.read(), await world.seen(), failures(plan))
    assert (await world.seen()).failed["a"].tries == 3
    # when the copy exists, and cannot be updated
    world.show_copies(secret("a"))
    world.stored["a"] = secret("a", data={})
    snapshot = await refused(world)
    # then
    assert (snapshot.failed["a"].tries, snapshot.failed["a"].retry_at) == (1, NOW + 1)


@pytest.mark.parametrize(
    "change",
    [
        lambda world: world.show_namespaces({}),
        lambda world: world.show_namespaces({"a": "made-again"}),
        lambda world: world.show(
            DISTRIBUTION_VIEWS,
            {**world.distribution, "metadata": {**world.distribution["metadata"], "generation": 4}},
        ),
    ],
    ids=["namespace gone", "another namespace of that name", "another spec"],
)
async def test_a_failure_is_forgotten_when_the_write_would_be_another_one(
    change: Callable[[World], None],
) -> None:
    world = World("a")
    world.show_copies()
    assert list((await refused(world)).failed) == ["a"]
    # when
    change(world)
    # then
    assert (await world.seen()).failed == {}
