"""ResourceDistributions at work: copies come, follow, are repaired and go; what belongs to others stays.

Cases are those of the specification of admission, section 11.
"""

from collections.abc import Callable

import pytest

from pykruise.cli.explain import read_and_explain
from pykruise.cli.insight.explanation_text import format_explanation
from pykruise.kinds.resourcedistribution.kind import KIND
from pykruise.kinds.resourcedistribution.plan import FROM_ANNOTATION, HASH_ANNOTATION
from pykruise.kinds.resourcedistribution.types import RESOURCE_DISTRIBUTIONS
from pykruise.kube.client.metered import MeteredTransport
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CONFIG_MAPS, NAMESPACES, SECRETS, Resource
from support.distributions import DISTRIBUTING, Distribution, encoded, secret
from support.faults import (
    Answer,
    DropAnswer,
    FaultyTransport,
    GoneAfter,
    conflict,
    patches,
    posts,
    watches,
)
from support.scenario import Stage


async def distributed(stage: Stage, *shorts: str) -> Distribution:
    """A distribution that has its copies in these namespaces."""
    distribution = Distribution(stage)
    for short in shorts:
        await distribution.add_namespace(short)
    await stage.start_manager(settings=DISTRIBUTING)
    await distribution.create()
    await distribution.until_counted(desired=len(shorts), succeeded=len(shorts))
    return distribution


async def test_selected_namespaces_get_a_copy_with_its_owner(stage: Stage) -> None:
    """admission case 48: a namespace in the resource has no effect"""
    distribution = Distribution(stage)
    await distribution.add_namespace("a")
    await distribution.add_namespace("other", labels={})
    await stage.start_manager(settings=DISTRIBUTING)
    # when
    made = await distribution.create(secret(distribution.name, namespace="foo", labels={"app": "x"}))
    # then
    status = await distribution.until_counted(desired=1, succeeded=1)
    copy = await distribution.copy("a")
    assert copy is not None
    assert (copy["data"], copy["metadata"]["labels"]) == ({"token": encoded("1")}, {"app": "x"})
    assert copy["metadata"]["annotations"][FROM_ANNOTATION] == distribution.name
    assert len(copy["metadata"]["annotations"][HASH_ANNOTATION]) == 64
    assert copy["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "apps.kruise.io/v1beta1",
            "kind": "ResourceDistribution",
            "name": distribution.name,
            "uid": made["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert await distribution.copy("other") is None
    assert [(condition["status"], condition["reason"]) for condition in status["conditions"]] == [
        ("False", "Succeeded")
    ] * 6


async def test_copies_follow_the_resource(stage: Stage) -> None:
    distribution = await distributed(stage, "a", "b")
    # when
    await distribution.change({"resource": {"data": {"token": encoded("2"), "more": encoded("x")}}})
    await distribution.until_counted(desired=2, succeeded=2)
    # then a key that is removed from the resource is removed from copies too
    assert [await distribution.token(short) for short in "ab"] == ["2", "2"]
    await distribution.change({"resource": {"data": {"more": None}}})
    await distribution.until_counted(desired=2, succeeded=2)
    copy = await distribution.copy("a")
    assert copy is not None
    assert copy["data"] == {"token": encoded("2")}


async def test_a_new_namespace_gets_its_copy_immediately(stage: Stage) -> None:
    distribution = await distributed(stage, "a")
    await distribution.add_namespace("new")
    await distribution.until_counted(desired=2, succeeded=2)
    assert await distribution.token("new") == "1"


async def test_config_maps_are_distributed_to_named_namespaces(stage: Stage) -> None:
    """admission case 50: a namespace that does not exist yet counts, and gets its copy when it is created"""
    distribution = Distribution(stage, kind=CONFIG_MAPS)
    await distribution.add_namespace("a", labels={})
    await stage.start_manager(settings=DISTRIBUTING)
    names = [{"name": distribution.namespace(short)} for short in ("a", "late")]
    resource = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": distribution.name},
        "data": {"k": "v"},
        "binaryData": {"b": encoded("x")},
    }
    # when
    await distribution.create(resource, includedNamespaces={"list": names})
    # then
    await distribution.until_counted(desired=2, succeeded=1, failed=1)
    assert await distribution.failed("NamespaceNotExists") == [distribution.namespace("late")]
    # when it comes
    await distribution.add_namespace("late", labels={})
    await distribution.until_counted(desired=2, succeeded=2)
    copy = await distribution.copy("late")
    assert copy is not None
    assert (copy["data"], copy["binaryData"]) == ({"k": "v"}, {"b": encoded("x")})


@pytest.mark.parametrize(
    ("kind", "written", "data"),
    [
        (CONFIG_MAPS, {"binaryData": {"b": "eHh4\neHh4\n"}, "immutable": True}, {"b": encoded("xxxxxx")}),
        (SECRETS, {"stringData": {"token": "1", "empty": None}}, {"token": encoded("1"), "empty": ""}),
    ],
    ids=["binary data on several lines", "null in stringData"],
)
async def test_a_copy_whose_contents_are_stored_in_another_way_is_complete(
    stage: Stage, kind: Resource, written: Document, data: Document
) -> None:
    distribution = Distribution(stage, kind=kind)
    await distribution.add_namespace("a")
    await stage.start_manager(settings=DISTRIBUTING)
    resource = {"apiVersion": "v1", "kind": kind.kind, "metadata": {"name": distribution.name}, **written}
    # when
    await distribution.create(resource)
    # then
    await distribution.until_counted(desired=1, succeeded=1)
    copy = await distribution.copy("a")
    assert copy is not None
    assert (copy.get("binaryData") or copy.get("data")) == data


async def test_a_resource_of_another_owner_is_kept_until_it_is_deleted(stage: Stage) -> None:
    """admission case 49"""
    distribution = Distribution(stage)
    for short in ("a", "b"):
        await distribution.add_namespace(short)
    theirs = distribution.namespace("a")
    await stage.client.create(SECRETS, theirs, secret(distribution.name, "theirs"))
    await stage.start_manager(settings=DISTRIBUTING)
    # when
    await distribution.create()
    # then
    await distribution.until_counted(desired=2, succeeded=1, failed=1)
    assert await distribution.failed("ConflictOccurred") == [theirs]
    assert await distribution.token("a") == "theirs"
    # when it goes, the copy comes without anything else
    await stage.client.delete(SECRETS, theirs, distribution.name)
    await distribution.until_counted(desired=2, succeeded=2)
    assert await distribution.token("a") == "1"


async def test_a_manually_changed_copy_is_repaired_and_keeps_its_labels(stage: Stage) -> None:
    """admission case 52"""
    distribution = await distributed(stage, "a")
    patch = {"metadata": {"labels": {"mine": "yes"}}, "data": {"token": encoded("wrong"), "x": encoded("y")}}
    await stage.client.patch(
        SECRETS, distribution.namespace("a"), distribution.name, patch, patch_type=PatchType.MERGE
    )

    async def is_repaired() -> bool:
        copy = await distribution.copy("a")
        assert copy is not None
        return copy["data"] == {"token": encoded("1")} and copy["metadata"]["labels"] == {"mine": "yes"}

    await stage.until(is_repaired, what="the copy is as it should be")


async def test_a_manually_emptied_copy_is_filled_again(stage: Stage) -> None:
    """A patch that only replaces fields would not restore `data`, which the copy no longer has."""
    it = await distributed(stage, "a")
    # when
    await stage.client.patch(SECRETS, it.namespace("a"), it.name, {"data": None}, patch_type=PatchType.MERGE)

    # then
    async def is_filled() -> bool:
        return "data" in (await it.copy("a") or {}) and await it.token("a") == "1"

    await stage.until(is_filled, what="the copy is filled again")


async def test_a_manually_deleted_copy_is_recreated(stage: Stage) -> None:
    """admission case 53"""
    distribution = await distributed(stage, "a")
    await stage.client.delete(SECRETS, distribution.namespace("a"), distribution.name)
    await stage.until(lambda: distribution.copy("a"), what="there is a copy again")


async def test_a_namespace_that_is_no_longer_a_target_loses_its_copy(stage: Stage) -> None:
    """admission cases 54 and 55"""
    distribution = await distributed(stage, "a", "b", "c")
    # when one loses its label, and another one is excluded
    await stage.client.patch(
        NAMESPACES,
        "",
        distribution.namespace("a"),
        {"metadata": {"labels": {"team": None}}},
        patch_type=PatchType.MERGE,
    )
    names = [{"name": distribution.namespace("b")}]
    await distribution.change({"targets": {"excludedNamespaces": {"list": names}}})
    # then
    await distribution.until_counted(desired=1, succeeded=1)

    async def are_gone() -> bool:
        return [await distribution.token(short) for short in "abc"] == [None, None, "1"]

    await stage.until(are_gone, what="two copies are gone")


async def test_the_system_gets_nothing(stage: Stage) -> None:
    """admission case 51"""
    distribution = Distribution(stage)
    await stage.start_manager(settings=DISTRIBUTING)
    await distribution.create(includedNamespaces={"list": [{"name": "kube-system"}, {"name": "kube-public"}]})
    await distribution.until_counted(desired=0, succeeded=0)


@pytest.mark.all_controllers
async def test_copies_are_deleted_with_their_distribution(stage: Stage) -> None:
    """admission case 56"""
    distribution = await distributed(stage, "a")
    await stage.client.delete(RESOURCE_DISTRIBUTIONS, "", distribution.name)

    async def is_gone() -> bool:
        return await distribution.copy("a") is None

    await stage.until(is_gone, what="the copy is collected")


async def test_a_manager_that_is_new_takes_copies_over_without_a_write(stage: Stage) -> None:
    """Take-over of copies whose owner reference has the older version, with OpenKruise's hash of their content."""
    distribution = Distribution(stage)
    names = [await distribution.add_namespace(f"n{number:02}") for number in range(12)]
    made = await distribution.create()
    reference = {
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "ResourceDistribution",
        "name": distribution.name,
        "uid": made["metadata"]["uid"],
        "controller": True,
    }
    for name in names:
        await stage.client.create(SECRETS, name, secret(distribution.name, ownerReferences=[reference]))
    before = {name: (await distribution.copy(name.rpartition("-")[2]) or {}) for name in names}
    # when
    await stage.start_manager(settings=DISTRIBUTING)
    await distribution.until_counted(desired=12, succeeded=12)
    # then
    after = {name: (await distribution.copy(name.rpartition("-")[2]) or {}) for name in names}
    assert after == before


async def test_nothing_is_distributed_without_the_gate(stage: Stage) -> None:
    distribution = Distribution(stage)
    await distribution.add_namespace("a")
    manager = await stage.start_manager()
    await distribution.create()
    await manager.wait_synced()
    assert await distribution.copy("a") is None
    assert not {"secrets", "resourcedistributions.apps.kruise.io"} & set(manager.read_stats().caches)


async def test_a_namespace_that_refuses_its_copy_keeps_no_other_waiting(stage: Stage) -> None:
    """8.3 steps 3 and 6: it is reported, and tried again later and later"""
    distribution = Distribution(stage)
    names = [await distribution.add_namespace(short) for short in "abc"]
    faulty = FaultyTransport(stage.manager_transport())
    faulty.on(posts(f"/namespaces/{names[0]}/secrets"), *[Answer(403)] * 4)
    metered = MeteredTransport(faulty)
    await stage.start_manager(metered, settings=DISTRIBUTING)
    # when
    await distribution.create()
    # then
    await distribution.until_counted(desired=3, succeeded=2, failed=1)
    assert await distribution.failed("CreateResourceFailed") == [names[0]]
    # when it is allowed
    await distribution.until_counted(desired=3, succeeded=3)
    assert metered.requests["POST secrets"] == 5 + 2


Prepare = Callable[[FaultyTransport], None]

FAULTS: dict[str, Prepare] = {
    "answers about new copies are lost": lambda faulty: faulty.on(
        posts("/secrets"), DropAnswer(), DropAnswer()
    ),
    "new copies meet errors": lambda faulty: faulty.on(
        posts("/secrets"), Answer(500), Answer(503), Answer(429)
    ),
    "answers about changed copies are lost": lambda faulty: faulty.on(patches("/secrets/"), DropAnswer()),
    "copies are changed by others": lambda faulty: faulty.on(patches("/secrets/"), conflict(), conflict()),
    "watches of secrets expire": lambda faulty: faulty.on(watches("/secrets"), GoneAfter(1), GoneAfter(2)),
    "watches of namespaces expire": lambda faulty: faulty.on(
        watches("/namespaces"), GoneAfter(1), GoneAfter(2)
    ),
    "the status meets a conflict": lambda faulty: faulty.on(patches("/status"), conflict(), Answer(500)),
}


@pytest.mark.few_on_real(3)
@pytest.mark.parametrize("prepare", FAULTS.values(), ids=FAULTS)
async def test_faults_delay_copies_and_do_not_change_them(stage: Stage, prepare: Prepare) -> None:
    # given
    distribution = Distribution(stage)
    for short in "abcd":
        await distribution.add_namespace(short)
    faulty = FaultyTransport(stage.manager_transport())
    prepare(faulty)
    await stage.start_manager(faulty, settings=DISTRIBUTING)
    # when
    await distribution.create()
    await distribution.until_counted(desired=4, succeeded=4)
    await distribution.change({"resource": {"data": {"token": encoded("2")}}})
    await distribution.add_namespace("e")
    # then
    await distribution.until_counted(desired=5, succeeded=5)
    assert [await distribution.token(short) for short in "abcde"] == ["2"] * 5


async def test_a_manager_killed_midway_is_followed_by_one_that_finishes(stage: Stage) -> None:
    distribution = Distribution(stage)
    for number in range(20):
        await distribution.add_namespace(f"n{number}")
    metered = MeteredTransport(stage.manager_transport())
    await stage.start_manager(metered, settings=DISTRIBUTING)
    await distribution.create()
    await stage.until(lambda: metered.requests["POST secrets"] > 3)
    # when
    await stage.kill_manager()
    await stage.start_manager(settings=DISTRIBUTING)
    # then
    await distribution.until_counted(desired=20, succeeded=20)


async def test_explain_reports_where_copies_are_missing_and_why(stage: Stage) -> None:
    """The command decides from one list of metadata, and reads own copies as the manager does"""
    distribution = Distribution(stage)
    for short in ("a", "b"):
        await distribution.add_namespace(short)
    theirs = distribution.namespace("a")
    await stage.client.create(SECRETS, theirs, secret(distribution.name, "theirs"))
    await stage.start_manager(settings=DISTRIBUTING)
    await distribution.create()
    await distribution.until_counted(desired=2, succeeded=1, failed=1)
    # when
    explanation = await read_and_explain(
        stage.client, Key("", distribution.name), now=stage.clock(), kind=KIND, settings=DISTRIBUTING
    )
    # then
    said = format_explanation(explanation, now=stage.clock())
    assert f"Secret {theirs}/{distribution.name} exists, and this distribution did not create it" in said
    assert "if nothing needs it, or create it again with another name" in said
