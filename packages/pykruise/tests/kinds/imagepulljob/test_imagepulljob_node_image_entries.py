"""The entries of an ImagePullJob in NodeImages, without a cluster."""

from collections.abc import Mapping
from typing import Any

import pytest

from pykruise.kinds.imagepulljob.defaults import FINALIZER
from pykruise.kinds.imagepulljob.snapshot import ImagePullJobSettings
from pykruise.plans.purposes import Purpose
from pykruise.runtime.actions import Patch
from support.image_objects import at, entry, job, node_image, said
from support.pull_job_plans import HELD, asked, held, nodes, planned, the_entry


def test_a_job_gets_its_finalizer_before_nodes_get_entries() -> None:
    plan = planned(job(metadata={"finalizers": ["mine"]}), *nodes("a"))
    assert [stage.purpose for stage in plan.stages] == [Purpose.HOLD_JOB, Purpose.ASK_NODES]
    hold = next(iter(plan.steps)).action
    assert isinstance(hold, Patch)
    assert hold.body == {"metadata": {"finalizers": ["mine", FINALIZER]}}
    assert hold.resource_version == "7"


def test_entries_of_nodes_are_written_independently_of_each_other() -> None:
    assert [stage.is_independent for stage in planned(held(), *nodes("a")).stages] == [True]


def test_a_new_entry_has_all_fields() -> None:
    wants = held(completionPolicy={"type": "Always", "ttlSecondsAfterFinished": 100})
    tag = the_entry(planned(wants, *nodes("a")))
    ttl = tag["pullPolicy"].pop("ttlSecondsAfterFinished")
    assert 400 <= ttl < 700
    assert tag["pullPolicy"] == {"timeoutSeconds": 600, "backoffLimit": 3}
    assert (tag["tag"], tag["createdAt"]) == ("1.9", at(0))
    assert [ref["uid"] for ref in tag["ownerReferences"]] == ["uid-job"]
    assert tag.get("version", 0) == 0


def test_a_job_without_secrets_adds_no_secrets() -> None:
    (image,) = asked(planned(held(), *nodes("a"))).values()
    assert set(image) == {"tags"}


@pytest.mark.parametrize(
    ("given", "timeout_s", "retries"),
    [
        (None, 600, 3),
        ({}, 600, 3),
        ({"timeoutSeconds": 5}, 5, 3),
        ({"backoffLimit": 7}, 600, 7),
        ({"backoffLimit": 0}, 600, 0),
    ],
)
def test_missing_limits_of_a_job_are_the_defaults(given: object, timeout_s: int, retries: int) -> None:
    """images, 2.3"""
    policy = the_entry(planned(held(pullPolicy=given), *nodes("a")))["pullPolicy"]
    assert (policy["timeoutSeconds"], policy["backoffLimit"]) == (timeout_s, retries)


@pytest.mark.parametrize(
    ("completion", "least", "most", "deadline"),
    [
        ({"type": "Always"}, 600 * 3 + 300, 600 * 3 + 600, None),
        ({"type": "Always", "activeDeadlineSeconds": 700}, 1000, 1300, 700),
        ({"type": "Never"}, 85_800, 87_000, 1800),
        ({"type": "Always", "ttlSecondsAfterFinished": 2**31 - 1}, 2**31 - 1, 2**31, None),
        ({"type": "Always", "ttlSecondsAfterFinished": -1000}, 0, 1, None),
    ],
)
def test_an_entrys_ttl_and_deadline_follow_the_completion_policy(
    completion: Mapping[str, Any], least: int, most: int, deadline: int | None
) -> None:
    policy = the_entry(planned(held(completionPolicy=completion), *nodes("a")))["pullPolicy"]
    assert least <= policy["ttlSecondsAfterFinished"] < most
    assert policy.get("activeDeadlineSeconds") == deadline


@pytest.mark.parametrize("retries", [0, -1])
def test_negative_retries_add_no_time(retries: int) -> None:
    policy = the_entry(planned(held(pullPolicy={"backoffLimit": retries}), *nodes("a")))["pullPolicy"]
    assert 300 <= policy["ttlSecondsAfterFinished"] < 600


@pytest.mark.parametrize(
    ("completion", "least", "most"),
    [({"type": "Always", "ttlSecondsAfterFinished": 0}, 300, 600), ({"type": "Never"}, 85_800, 87_000)],
)
def test_entries_of_a_job_expire_at_different_times(
    completion: Mapping[str, Any], least: int, most: int
) -> None:
    """Otherwise all nodes would pull again at the same time."""
    wants = held(completionPolicy=completion, parallelism=100)
    entries = asked(planned(wants, *nodes(*(f"n{number}" for number in range(100)))))
    times = [image["tags"][0]["pullPolicy"]["ttlSecondsAfterFinished"] for image in entries.values()]
    tenth = (most - least) / 10
    assert least <= min(times) < least + tenth
    assert most - tenth <= max(times) < most


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


def test_a_job_of_which_nothing_is_known_keeps_its_reference_and_what_that_allows() -> None:
    """a manager of one namespace does not see the jobs of other namespaces"""
    world = node_image("a", entry(jobs=[job("away", namespace="away")], policy={"timeoutSeconds": 900}))
    tag = the_entry(planned(held(), world))
    assert [ref["namespace"] for ref in tag["ownerReferences"]] == ["away", "shop"]
    assert tag["pullPolicy"]["timeoutSeconds"] == 900


OF_HAND = {"apiVersion": "example.com/v1", "kind": "Puller", "namespace": "x", "name": "y", "uid": "z"}


def test_an_owner_that_is_not_a_job_keeps_its_entry_and_timeout() -> None:
    stored = entry(ownerReferences=[OF_HAND], policy={"timeoutSeconds": 900})
    tag = the_entry(planned(held(), node_image("a", stored)))
    assert [ref["name"] for ref in tag["ownerReferences"]] == ["y", "job"]
    assert tag["pullPolicy"]["timeoutSeconds"] == 900


@pytest.mark.parametrize("stored", [None, {}])
def test_an_entry_without_limits_gets_those_of_the_job(stored: object) -> None:
    first = job("first")
    world = node_image("a", entry(jobs=[first], pullPolicy=stored))
    tag = the_entry(planned(held(), world, others=[first]))
    limits = tag["pullPolicy"]
    assert (limits["timeoutSeconds"], limits["backoffLimit"]) == (600, 3)
    assert limits["ttlSecondsAfterFinished"] >= 2100


@pytest.mark.parametrize(
    ("stored", "own", "both"), [(50, 700, 700), (900, 700, 900), (None, 700, None), (900, None, None)]
)
def test_the_later_of_two_deadlines_applies_to_a_shared_entry(
    stored: int | None, own: int | None, both: int | None
) -> None:
    """images, lifted limit i"""
    first = job("first")
    world = node_image("a", entry(jobs=[first], policy={"activeDeadlineSeconds": stored}))
    wants = held(completionPolicy={"type": "Always", "activeDeadlineSeconds": own})
    tag = the_entry(planned(wants, world, others=[first]))
    assert tag["pullPolicy"].get("activeDeadlineSeconds") == both


def test_a_job_that_replaces_another_has_its_own_policy() -> None:
    """images, lifted limit i: gone, or of the same list"""
    policy = {"timeoutSeconds": 900, "ttlSecondsAfterFinished": 9_000_000}
    owners = {
        "ownerReferences": [{"uid": "list", "controller": True, "kind": "ImageListPullJob", "name": "l"}]
    }
    old = job("old", metadata=owners)
    new = job("new", metadata={**owners, **HELD})
    world = node_image("a", entry(jobs=[old], policy=policy))
    for known, left in (({"gone": [old]}, ["new"]), ({"others": [old]}, ["old", "new"])):
        tag = the_entry(planned(new, world, **known))
        assert tag["pullPolicy"]["timeoutSeconds"] == 600
        assert [ref["name"] for ref in tag["ownerReferences"]] == left


def test_a_status_of_an_earlier_pull_does_not_complete_the_job() -> None:
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


def test_a_digest_is_requested_as_the_tag() -> None:
    """images case 64"""
    digest = "sha256:" + "a" * 64
    assert the_entry(planned(held(image=f"nginx:1.9@{digest}"), *nodes("a")))["tag"] == digest


def test_tags_stay_sorted_and_other_tags_are_not_changed() -> None:
    world = node_image("a", entry("1.8"), entry("2.0"))
    (image,) = asked(planned(held(), world)).values()
    assert [tag["tag"] for tag in image["tags"]] == ["1.8", "1.9", "2.0"]


@pytest.mark.parametrize(
    ("stored", "own", "change"),
    [
        ({"labels": {"a": "1", "b": "1"}}, {"labels": {"b": "2"}}, {"labels": {"b": "2"}}),
        ({"annotations": {"a": "1"}}, {"annotations": {"b": "2"}}, {"annotations": {"b": "2"}}),
        ({"annotations": {"a": "1"}}, {"labels": {"b": "2"}}, {"labels": {"b": "2"}}),
        ({"labels": {"a": "1"}}, {"annotations": {"b": "2"}}, {"annotations": {"b": "2"}}),
        ({"labels": {"a": "1"}}, None, "none"),
        (None, {"labels": {"b": "2"}}, {"labels": {"b": "2"}}),
    ],
)
def test_the_sandbox_config_of_others_is_kept_beside_that_of_the_job(
    stored: object, own: object, change: object
) -> None:
    """images, lifted limit j: the write is a merge patch, which keeps other fields"""
    spec = {"images": {"nginx": {"tags": [entry("1.8")], "sandboxConfig": stored}}}
    (image,) = asked(planned(held(sandboxConfig=own), node_image("a", spec=spec))).values()
    assert image.get("sandboxConfig", "none") == change


@pytest.mark.parametrize(("known", "change"), [("others", "none"), ("gone", None)])
def test_the_sandbox_config_is_removed_with_the_last_job_of_the_entry(known: str, change: object) -> None:
    stored = {"tags": [entry(jobs=[job("first")])], "sandboxConfig": {"labels": {"a": "1"}}}
    world = node_image("a", spec={"images": {"nginx": stored}})
    (image,) = asked(planned(held(), world, **{known: [job("first")]})).values()
    assert image.get("sandboxConfig", "none") == change


def test_the_default_time_to_live_flag_is_added() -> None:
    plan = planned(held(), *nodes("a"), settings=ImagePullJobSettings(default_ttl_s=100_000))
    assert the_entry(plan)["pullPolicy"]["ttlSecondsAfterFinished"] >= 100_000
