"""New images for the sidecars of existing pods: the choice of pods, their number and order, and the writes."""

from typing import Any

import msgspec
import orjson
import pytest

from pykruise.kinds.sidecarset.errors import InjectionError
from pykruise.kinds.sidecarset.managed_pod import ManagedPod, ManagedPodCache, build_managed_pod, is_managed
from pykruise.kinds.sidecarset.matching import choose_contents
from pykruise.kinds.sidecarset.upgrade_choice import choose, count_kept_back, count_most_unavailable
from pykruise.kube.documents import Document
from pykruise.pods.view.pod_view import PodView
from support.sidecar_world import SidecarWorld, upgraded
from support.sidecarsets import container, hot, sidecarset

HASH = "kruise.io/sidecarset-hash"
STATE = "kruise.io/sidecarset-inplace-update-state"
LIST = "kruise.io/sidecarset-injected-list"


def started(pods: int = 3, **strategy: Any) -> SidecarWorld:
    """A settled SidecarSet `log` with a sidecar of image log:1 in this many pods."""
    sidecar_world = SidecarWorld(sidecarset("log", container("log"), updateStrategy=strategy))
    sidecar_world.add(pods)
    sidecar_world.settle()
    return sidecar_world


def new_image(world: SidecarWorld, image: str = "log:2", **spec: Any) -> SidecarWorld:
    world.change(container("log", image), **spec)
    return world


# ── numbers ──────────────────────────────────────────────────────────────────


class Mix:
    """Managed pods with these counts of states; all other facts are the same."""

    def __init__(self, world: SidecarWorld, **counts: int) -> None:
        model = next(iter(world.managed().values()))
        kinds = {
            "waiting": {"is_updated": False},
            "ready": {"is_updated": True},
            "busy": {"is_updated": True, "is_ready": False},
            "broken": {"is_updated": False, "is_ready": False},
        }
        self.pods: list[ManagedPod] = []
        for kind, count in counts.items():
            self.pods += [self._pod(model, f"{kind}-{item:04}", kinds[kind]) for item in range(count)]

    @staticmethod
    def _pod(model: ManagedPod, name: str, facts: dict[str, bool]) -> ManagedPod:
        view = msgspec.structs.replace(model.pod, name=name, uid=name)
        fields = {"is_ready": True, "is_consistent": True, "upgradable": "yes", **facts}
        return msgspec.structs.replace(model, pod=view, **fields)


def taken(mix: Mix, **strategy: Any) -> int:
    world = started(1, **strategy)
    return len(choose(world.view, mix.pods).pods)


def test_upgraded_pods_that_are_not_ready_use_up_the_budget() -> None:
    """sidecarset case 57"""
    mix = Mix(started(1), waiting=70, ready=26, busy=4)
    assert taken(mix, maxUnavailable=10) == 6


@pytest.mark.parametrize(("partition", "expected"), [(180, 20), ("18%", 20), (100, 60)])
def test_the_partition_counts_waiting_pods(partition: int | str, expected: int) -> None:
    """sidecarset case 58"""
    mix = Mix(started(1), waiting=200, ready=760, busy=40)
    assert taken(mix, maxUnavailable=100, partition=partition) == expected


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ({"maxUnavailable": "5%"}, 1),
        ({"partition": "99%", "maxUnavailable": 5}, 1),
        ({"partition": "1%", "maxUnavailable": 5}, 4),
        ({"partition": "100%", "maxUnavailable": 5}, 0),
        ({"maxUnavailable": 0}, 0),
    ],
)
def test_percentages_are_rounded_so_that_something_happens(strategy: Any, expected: int) -> None:
    """sidecarset case 59"""
    assert taken(Mix(started(1), waiting=5), **strategy) == expected


def test_only_all_percent_keeps_all() -> None:
    amounts = {None: 0, 3: 3, 5: 5, 9: 5, -5: 0, "1%": 1, "99%": 4, "100%": 5, "0%": 0}
    assert {value: count_kept_back(value, of=5) for value in amounts} == amounts
    assert count_kept_back("99%", of=2) == 1
    assert count_kept_back("99%", of=1) == 1
    assert count_most_unavailable(None, of=5) == 1
    assert count_most_unavailable("1%", of=5) == 1


def test_unready_pods_are_upgraded_without_the_budget_but_count_against_it() -> None:
    assert taken(Mix(started(1), waiting=3, broken=2), maxUnavailable=3) == 3
    assert taken(Mix(started(1), waiting=3, broken=2), maxUnavailable=1) == 2
    assert taken(Mix(started(1), waiting=3, broken=2), maxUnavailable=0) == 2


# ── writes ───────────────────────────────────────────────────────────────────


def test_one_patch_changes_only_the_image_and_the_pods_records() -> None:
    # given
    world = started(1)
    world.edit("web-0", lambda pod: pod["spec"]["containers"][0].update(somethingNew={"a": 1}))
    before = world.pods["web-0"]
    # when
    new_image(world)
    world.now += 60
    world.round()
    # then
    after = world.pods["web-0"]
    assert world.images("web-0") == {"log": "log:2", "main": "web:1"}
    assert after["spec"]["containers"][0]["somethingNew"] == {"a": 1}
    record = world.note("web-0", HASH)["log"]
    assert record["hash"] == world.view.hashes.full
    assert record["controllerRevision"] == world.status["latestRevision"]
    assert record["updateTimestamp"] == "2026-01-31T12:01:00Z"
    assert world.note("web-0", STATE) == {
        "log": {
            "revision": world.view.hashes.full,
            "updateTimestamp": "2026-01-31T12:01:00Z",
            "lastContainerStatuses": {"log": {"imageID": "registry/log@sha256:log:1"}},
        }
    }
    changed = {
        key
        for key, value in after["metadata"]["annotations"].items()
        if before["metadata"]["annotations"].get(key) != value
    }
    assert changed == {HASH, STATE}


def test_the_condition_reports_a_successful_upgrade() -> None:
    """section 7.3"""
    world = started(1)
    assert world.condition("web-0") is None
    new_image(world).settle()
    assert world.condition("web-0") == {
        "type": "SidecarSetUpgradable",
        "status": "True",
        "reason": "AllSidecarsetUpgradable",
        "message": '{"log":true}',
        "lastTransitionTime": "2026-01-31T12:00:00Z",
    }


def test_changes_that_are_not_of_sidecars_upgrade_no_pod_but_make_a_revision() -> None:
    """sidecarset case 4"""
    world = started(2)
    before = world.view.hashes, dict(world.pods), set(world.revisions)
    world.change(volumes=[{"name": "v", "emptyDir": {}}], initContainers=[container("i")])
    world.settle()
    assert world.view.hashes == before[0]
    assert world.images("web-0") == {"log": "log:1", "main": "web:1"}
    assert len(world.revisions) == 2
    assert world.status["latestRevision"] in set(world.revisions) - before[2]


def test_pods_whose_sidecars_changed_otherwise_are_left_with_a_condition_and_one_event() -> None:
    """sidecarset case 60"""
    # given a pod that has a True entry of another SidecarSet
    world = started(2)

    def other(pod: Document) -> None:
        condition = {"type": "SidecarSetUpgradable", "status": "True", "message": '{"other":true}'}
        pod["status"]["conditions"].append(condition)
        pod["metadata"]["annotations"][LIST] = "log,other"

    world.edit("web-0", other)
    # when
    world.change(container("log", env=[{"name": "A", "value": "b"}]))
    plan = world.round()
    # then
    assert upgraded(plan) == []
    assert [(note.reason, note.warning) for note in plan.notes] == [("NotUpgradablePods", False)]
    assert "detected 2 not upgradable pod(s)" in plan.notes[0].message
    condition = world.condition("web-0")
    assert condition is not None
    assert (condition["status"], condition["reason"]) == ("False", "UpdateImmutableField")
    assert orjson.loads(condition["message"]) == {"log": False, "other": True}
    assert world.round().is_settled
    # when the change is reverted, the entry is True again
    world.change(container("log"))
    world.settle()
    assert world.status["updatedPods"] == 2
    assert orjson.loads((world.condition("web-0") or {})["message"]) == {"log": True, "other": True}
    assert (world.condition("web-0") or {})["status"] == "True"


def test_the_condition_stays_false_while_another_sidecarset_cannot_upgrade() -> None:
    """sidecarset case 61; an entry of a deleted SidecarSet is dropped (pitfall 21)"""
    world = started(1)

    def other(pod: Document) -> None:
        message = '{"gone":false,"other":false}'
        condition = {"type": "SidecarSetUpgradable", "status": "False", "message": message}
        pod["status"]["conditions"].append(condition)
        pod["metadata"]["annotations"][LIST] = "log,other"

    world.edit("web-0", other)
    new_image(world).settle()
    condition = world.condition("web-0") or {}
    assert (condition["status"], condition["message"]) == ("False", '{"log":true,"other":false}')


def test_a_bad_image_breaks_one_pod_and_a_good_one_repairs_it() -> None:
    """sidecarset case 62"""
    world = started(3)
    new_image(world, "log:bad")
    for _ in range(5):
        world.round()
        for name in world.pods:
            failing = world.images(name)["log"] == "log:bad"
            world.runs(name, failing=("log",) if failing else ())
    assert sum(world.images(name)["log"] == "log:bad" for name in world.pods) == 1
    broken = next(name for name in world.pods if world.images(name)["log"] == "log:bad")
    new_image(world, "log:good")
    plan = world.round()
    assert upgraded(plan) == [broken], "the others serve, and wait until it does"
    world.settle()
    assert {world.images(name)["log"] for name in world.pods} == {"log:good"}


def test_only_pods_that_match_the_selector_are_upgraded_even_after_a_later_change() -> None:
    """sidecarset case 63"""
    world = started(2, selector={"matchLabels": {"canary": "yes"}})
    new_image(world)
    plan = world.round()
    assert upgraded(plan) == []
    assert "updateStrategy.selector" in plan.skipped["shop/web-0"].message
    world.edit("web-1", lambda pod: pod["metadata"]["labels"].update(canary="yes"))
    world.settle()
    assert [world.images(name)["log"] for name in ("web-0", "web-1")] == ["log:1", "log:2"]


def test_paused_upgrades_nothing_and_reports_all() -> None:
    """sidecarset case 64"""
    world = started(2)
    new_image(world, updateStrategy={"paused": True})
    plan = world.round()
    assert upgraded(plan) == []
    assert "paused" in plan.skipped["shop/web-0"].message
    assert (world.status["matchedPods"], world.status["updatedPods"]) == (2, 0)
    world.change(updateStrategy={"paused": False})
    world.settle()
    assert world.status["updatedPods"] == 2


def test_an_image_of_before_takes_pods_back_and_its_revision_becomes_the_newest() -> None:
    """sidecarset case 65"""
    world = started(3)
    first = world.status["latestRevision"]
    new_image(world)
    world.round()
    assert "log:2" in {world.images(name)["log"] for name in world.pods}
    world.run_all()
    new_image(world, "log:1")
    world.settle()
    assert {world.images(name)["log"] for name in world.pods} == {"log:1"}
    assert world.status["latestRevision"] == first
    assert len(world.revisions) == 2
    assert (
        max(world.revisions.values(), key=lambda revision: revision["revision"])["metadata"]["name"] == first
    )


def test_a_pod_whose_last_upgrade_is_not_over_waits() -> None:
    """sidecarset case 66"""
    world = started(1)
    new_image(world)
    world.round()
    new_image(world, "log:3")
    plan = world.round()
    assert upgraded(plan) == []
    assert "previous upgrade" in plan.skipped["shop/web-0"].message
    world.settle()
    assert world.images("web-0")["log"] == "log:3"


def test_pods_that_were_not_injected_are_not_counted() -> None:
    """sidecarset case 67"""
    world = started(2)
    world.edit("web-0", lambda pod: pod["metadata"]["annotations"].pop(LIST))
    new_image(world).settle()
    assert world.status["matchedPods"] == 1
    assert world.images("web-0")["log"] == "log:1"


@pytest.mark.parametrize(
    "change",
    [
        lambda pod: pod["metadata"].update(deletionTimestamp="2026-01-31T12:00:00Z"),
        lambda pod: pod["status"].update(phase="Succeeded"),
        lambda pod: pod["metadata"]["labels"].update(app="other"),
        lambda pod: pod["spec"]["containers"].pop(0),
    ],
)
def test_pods_that_leave_or_lack_the_sidecar_are_not_managed(change: Any) -> None:
    world = started(1)
    world.edit("web-0", change)
    assert world.managed() == {}


def test_namespaces_are_selected_by_their_present_labels() -> None:
    world = SidecarWorld(
        sidecarset("log", container("log"), namespaceSelector={"matchLabels": {"tier": "gold"}}),
        namespace_labels={"shop": {"tier": "gold"}},
    )
    world.doc["spec"].pop("namespaceSelector")
    world.add()
    world.change(namespaceSelector={"matchLabels": {"tier": "gold"}})
    assert len(world.managed()) == 1
    world.namespaces = {"shop": {}}
    assert world.managed() == {}
    world.namespaces = {}
    assert world.managed() == {}


# ── predicates ───────────────────────────────────────────────────────────────

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("image_id", "consistent"),
    [
        (f"docker-pullable://log@{DIGEST}", True),
        (f"log@{DIGEST}", True),
        (f"docker.io/library/log@{DIGEST}", True),
        (f"other@{DIGEST}", False),
        ("log@sha256:" + "b" * 64, False),
        ("", False),
    ],
)
def test_images_by_digest_are_compared_with_what_runs(image_id: str, *, consistent: bool) -> None:
    """sidecarset case 68"""
    world = SidecarWorld(sidecarset("log", container("log", f"log@{DIGEST}")))
    world.add()
    world.edit("web-0", lambda pod: pod["status"]["containerStatuses"][0].update(imageID=image_id))
    assert world.managed()["web-0"].is_consistent is consistent


def test_a_pod_without_a_status_of_each_container_is_not_consistent() -> None:
    """sidecarset case 69"""
    world = started(1)
    world.edit("web-0", lambda pod: pod["status"]["containerStatuses"].pop())
    assert not world.managed()["web-0"].is_consistent
    world.round()
    assert world.status["readyPods"] == 0


def test_two_tags_of_one_image_differ_by_their_names() -> None:
    """pitfall 8"""
    world = started(1)
    new_image(world)
    world.round()
    same = "registry/log@sha256:log:1"
    world.runs("web-0")
    world.edit("web-0", lambda pod: pod["status"]["containerStatuses"][0].update(imageID=same))
    assert world.managed()["web-0"].is_consistent


def test_a_second_plan_on_the_answers_of_the_first_upgrades_nothing_more() -> None:
    """sidecarset case 70"""
    world = started(3)
    new_image(world)
    assert len(upgraded(world.round())) == 1
    assert upgraded(world.round()) == []


def test_every_write_requires_the_pods_uid_and_resource_version() -> None:
    """sidecarset cases 71 and 72: the write fails if the pod was deleted or changed; the next plan sees that"""
    world = started(2)
    new_image(world, updateStrategy={"maxUnavailable": 2})
    actions: list[Any] = [step.action for step in world.plan().steps if step.action.key.namespace == "shop"]
    assert [(action.uid, action.resource_version) for action in actions] == [
        (pod["metadata"]["uid"], pod["metadata"]["resourceVersion"]) for pod in world.pods.values()
    ]


def test_a_record_of_the_older_form_gets_all_its_fields() -> None:
    """section 3.3"""
    world = started(1)
    hashes = world.view.hashes

    def older(pod: Document) -> None:
        pod["metadata"]["annotations"] |= {
            HASH: orjson.dumps({"log": hashes.full, "other": "h"}).decode(),
            f"{HASH}-without-image": orjson.dumps({"log": hashes.without_image, "other": "h"}).decode(),
        }

    world.edit("web-0", older)
    assert world.managed()["web-0"].is_updated
    new_image(world).settle()
    for key in (HASH, f"{HASH}-without-image"):
        records = world.note("web-0", key)
        assert records["other"]["hash"] == "h"
        assert records["other"]["updateTimestamp"] is not None
        assert records["log"]["sidecarList"] == ["log"]


@pytest.mark.parametrize("text", ["", "no json", "[]", '{"log":1}'])
def test_a_pod_without_a_readable_record_is_not_upgraded(text: str) -> None:
    world = started(1)
    world.edit(
        "web-0",
        lambda pod: pod["metadata"]["annotations"].update({HASH: text, f"{HASH}-without-image": text}),
    )
    new_image(world)
    assert upgraded(world.round()) == []
    assert world.status["updatedPods"] == 0


def test_an_unreadable_upgrade_state_is_replaced() -> None:
    """section 3.4"""
    world = started(1)
    world.edit("web-0", lambda pod: pod["metadata"]["annotations"].update({STATE: "no json"}))
    assert not world.managed()["web-0"].is_consistent
    world.edit("web-0", lambda pod: pod["status"]["containerStatuses"][0].update(ready=False))
    new_image(world)
    world.round()
    assert world.note("web-0", STATE)["log"]["lastContainerStatuses"].keys() == {"log"}


def test_annotations_are_patched_with_the_upgrade() -> None:
    """section 6.5"""
    entry = {"annotations": {"oom": '{"log":1}'}, "patchPolicy": "MergePatchJson"}
    world = SidecarWorld(sidecarset("log", container("log"), patchPodMetadata=[entry]))
    world.add()
    world.change(patchPodMetadata=[{**entry, "annotations": {"oom": '{"more":2}'}}])
    world.settle()
    assert world.note("web-0", "oom") == {"log": 1}
    new_image(world).settle()
    assert world.note("web-0", "oom") == {"log": 1, "more": 2}
    world.edit("web-0", lambda pod: pod["metadata"]["annotations"].update(oom="abc"))
    new_image(world, "log:3")
    plan = world.round()
    assert upgraded(plan) == []
    assert [(note.reason, note.warning) for note in plan.notes] == [("FailedUpgradeSidecar", True)] * 2
    assert [note.about.key.name if note.about else "" for note in plan.notes] == ["", "web-0"]
    assert "oom" in plan.skipped["shop/web-0"].message


def test_cached_managed_pods_equal_freshly_built_ones() -> None:
    world = started(3)
    cache = ManagedPodCache()

    def views() -> list[PodView]:
        return [world.pod_view(name) for name in world.pods]

    def fresh(pods: list[PodView]) -> list[ManagedPod]:
        return [build_managed_pod(pod, world.view) for pod in pods if is_managed(pod, world.view)]

    pods = views()
    first = cache.list_managed(pods, world.view)
    again = cache.list_managed(pods, world.view)
    assert all(pod is other for pod, other in zip(first, again, strict=True))
    # when the spec, a pod, and which pods there are change
    new_image(world)
    assert cache.list_managed(pods, world.view) == fresh(pods) != first
    world.runs("web-0", ready=False)
    pods = views()[:2]
    assert cache.list_managed(pods, world.view) == fresh(pods)
    assert len(cache.list_managed(pods, world.view)) == 2


# ── order ────────────────────────────────────────────────────────────────────


def test_order_priority_sorts_pods_without_the_label_first_and_high_numbers_last() -> None:
    """sidecarset case 80"""
    world = SidecarWorld(
        sidecarset(
            "log",
            container("log"),
            updateStrategy={
                "maxUnavailable": 3,
                "priorityStrategy": {"orderPriority": [{"orderedKey": "k"}]},
            },
        )
    )
    for value in ("sts-2", "10", ""):
        world.add(labels={"k": value} if value else {})
    new_image(world)
    assert upgraded(world.round()) == ["web-2", "web-1", "web-0"]


def test_pods_with_a_higher_weight_are_upgraded_first() -> None:
    weights = [
        {"weight": 5, "matchSelector": {"matchLabels": {"k": "low"}}},
        {"weight": 50, "matchSelector": {"matchLabels": {"k": "high"}}},
    ]
    world = SidecarWorld(
        sidecarset(
            "log",
            container("log"),
            updateStrategy={"maxUnavailable": 3, "priorityStrategy": {"weightPriority": weights}},
        )
    )
    for value in ("low", "none", "high"):
        world.add(labels={"k": value})
    new_image(world)
    assert upgraded(world.round()) == ["web-2", "web-0", "web-1"]


def scattered(most: int) -> SidecarWorld:
    """Ten pods, three of them with foo=bar."""
    terms = [{"key": "foo", "value": "bar"}]
    world = SidecarWorld(
        sidecarset("log", container("log"), updateStrategy={"maxUnavailable": most, "scatterStrategy": terms})
    )
    for number in range(10):
        world.add(labels={"foo": "bar"} if number < 3 else {})
    world.settle()
    return new_image(world)


def places(world: SidecarWorld, order: list[str]) -> list[int]:
    return [place for place, name in enumerate(order, 1) if "foo" in world.pods[name]["metadata"]["labels"]]


def test_scattered_pods_are_spread_over_one_round() -> None:
    """sidecarset case 79"""
    world = scattered(10)
    assert places(world, upgraded(world.round())) == [1, 6, 10]


def test_the_scatter_order_is_computed_again_each_round_with_a_small_budget() -> None:
    """sidecarset case 79"""
    world = scattered(1)
    order: list[str] = []
    while len(order) < 10:
        order += upgraded(world.round())
        world.run_all()
    assert places(world, order)[:2] == [1, 5]


def test_an_asterisk_scatters_every_value() -> None:
    terms = [{"key": "zone", "value": "*"}]
    world = SidecarWorld(
        sidecarset("log", container("log"), updateStrategy={"maxUnavailable": 9, "scatterStrategy": terms})
    )
    for number in range(8):
        world.add(labels={"zone": "ab"[number % 2]})
    new_image(world)
    assert sorted(upgraded(world.round())) == sorted(world.pods)


# ── hot upgrades ─────────────────────────────────────────────────────────────

WORKING = "kruise.io/sidecarset-working-hotupgrade-container"


def hot_world(*more: Document, pods: int = 1) -> SidecarWorld:
    sidecar_world = SidecarWorld(sidecarset("mesh", hot("mesh"), *more))
    sidecar_world.add(pods)
    sidecar_world.settle()
    return sidecar_world


def versions(world: SidecarWorld) -> dict[str, str]:
    """The version annotations: `1` and `2` of the containers themselves, `1alt` and `2alt` of the other container."""
    annotations = world.pods["web-0"]["metadata"]["annotations"]
    return {
        f"{number}{alt}": annotations[f"version{alt}.sidecarset.kruise.io/mesh-{number}"]
        for number in (1, 2)
        for alt in ("", "alt")
    }


def test_the_idle_container_gets_the_new_image_and_the_working_one_becomes_idle() -> None:
    """sidecarset case 73"""
    # given
    world = hot_world()
    assert world.images("web-0") == {"mesh-1": "mesh:1", "mesh-2": "empty:1", "main": "web:1"}
    # when
    world.change(hot("mesh", "mesh:2"))
    version = str(world.version)
    world.round()
    # then the idle container has the image, and the pod counts as updated but not as ready
    assert world.images("web-0") == {"mesh-1": "mesh:1", "mesh-2": "mesh:2", "main": "web:1"}
    assert world.note("web-0", WORKING) == {"mesh": "mesh-2"}
    assert versions(world) == {"1": "1", "1alt": version, "2": version, "2alt": "1"}
    world.round()
    assert (world.status["updatedPods"], world.status.get("updatedReadyPods", 0)) == (1, 0)
    # when the container runs
    world.run_all()
    plan = world.round()
    # then
    assert world.images("web-0") == {"mesh-1": "empty:1", "mesh-2": "mesh:2", "main": "web:1"}
    assert versions(world) == {"1": "0", "1alt": version, "2": version, "2alt": "0"}
    done = [step.done for step in plan.steps if step.done is not None]
    assert [(note.reason, note.about.key.name) for note in done if note.about] == [
        ("ResetContainerSucceed", "web-0")
    ]
    world.settle()
    assert world.status["updatedReadyPods"] == 1


def test_no_hot_sidecar_becomes_idle_while_the_new_one_fails() -> None:
    """sidecarset case 74"""
    world = hot_world()
    world.change(hot("mesh", "mesh:bad"))
    world.round()
    world.runs("web-0", failing=("mesh-2",))
    assert world.images("web-0")["mesh-1"] == "mesh:1"
    world.round()
    assert world.images("web-0")["mesh-1"] == "mesh:1"
    world.change(hot("mesh", "mesh:good"))
    world.round()
    assert world.images("web-0") == {"mesh-1": "mesh:1", "mesh-2": "mesh:good", "main": "web:1"}
    world.run_all()
    world.settle()
    assert world.images("web-0") == {"mesh-1": "empty:1", "mesh-2": "mesh:good", "main": "web:1"}


def test_hot_upgrades_one_after_another_take_turns() -> None:
    """sidecarset case 75"""
    world = hot_world()
    working = []
    for number in range(2, 6):
        world.change(hot("mesh", f"mesh:{number}"))
        world.round()
        working.append(world.note("web-0", WORKING)["mesh"])
        world.run_all()
        world.settle()
        assert sorted(world.images("web-0").values()) == ["empty:1", f"mesh:{number}", "web:1"]
    assert working == ["mesh-2", "mesh-1", "mesh-2", "mesh-1"]


def test_a_change_in_the_middle_of_a_hot_upgrade_ends_with_one_idle_container() -> None:
    """sidecarset case 75, pitfall 2"""
    world = hot_world()
    world.change(hot("mesh", "mesh:2"))
    world.round()
    world.run_all()
    world.change(hot("mesh", "mesh:3"))
    world.settle()
    assert sorted(world.images("web-0").values()) == ["empty:1", "mesh:3", "web:1"]


def test_hot_and_cold_sidecars_are_upgraded_in_one_write() -> None:
    """sidecarset case 76"""
    world = hot_world(container("log"))
    world.change(hot("mesh", "mesh:2"), container("log", "log:2"))
    plan = world.plan()
    assert len([step for step in plan.steps if step.action.key.name == "web-0"]) == 1
    world.settle()
    assert world.images("web-0") == {"mesh-1": "empty:1", "mesh-2": "mesh:2", "log": "log:2", "main": "web:1"}


def test_a_pause_stops_the_end_of_hot_upgrades_too() -> None:
    """pitfall 19"""
    world = hot_world()
    world.change(hot("mesh", "mesh:2"))
    world.round()
    world.run_all()
    world.change(updateStrategy={"paused": True})
    world.round()
    assert world.images("web-0")["mesh-1"] == "mesh:1"


def test_a_pod_without_the_working_map_is_not_managed() -> None:
    world = hot_world()
    world.edit("web-0", lambda pod: pod["metadata"]["annotations"].pop(WORKING))
    assert world.managed() == {}


# ── revisions ────────────────────────────────────────────────────────────────


def test_the_stored_revision_is_that_of_the_original() -> None:
    world = started(1)
    (entry,) = world.revisions.values()
    assert entry["data"]["spec"].keys() == {
        "$patch",
        "containers",
        "imagePullSecrets",
        "initContainers",
        "patchPodMetadata",
        "volumes",
    }
    assert entry["data"]["spec"]["$patch"] == "replace"
    assert entry["data"]["spec"]["volumes"] is None
    metadata = entry["metadata"]
    assert metadata["namespace"] == "kruise-system"
    assert metadata["labels"]["kruise.io/sidecarset-name"] == "log"
    assert metadata["name"] == f"log-{metadata['labels']['controller.kubernetes.io/hash']}"
    assert metadata["annotations"][HASH] == world.view.hashes.full
    assert metadata["ownerReferences"][0]["kind"] == "SidecarSet"
    assert entry["revision"] == 1


def test_an_equivalent_revision_of_another_manager_is_recognized() -> None:
    world = started(1)
    (name,) = world.revisions
    spec = world.revisions[name]["data"]["spec"]
    spec["containers"][0] |= {"env": [], "ports": None, "tty": False, "lifecycle": None}
    spec["initContainers"] = []
    assert world.plan().is_settled


def test_a_paused_injection_does_not_stop_upgrades() -> None:
    """sidecarset case 34"""
    world = started(2)
    new_image(world, injectionStrategy={"paused": True}).settle()
    assert {world.images(pod)["log"] for pod in world.pods} == {"log:2"}


def test_a_history_limit_of_zero_keeps_one_revision_and_those_in_use() -> None:
    """sidecarset case 77"""
    world = started(2)
    world.change(revisionHistoryLimit=0, updateStrategy={"partition": 1})
    for number in range(2, 6):
        new_image(world, f"log:{number}")
        world.settle()
    used = {world.note(name, HASH)["log"]["controllerRevision"] for name in world.pods}
    assert len(used) == 2
    assert used == set(world.revisions)
    world.change(updateStrategy={"partition": 0})
    world.settle()
    world.settle()
    assert set(world.revisions) == {world.status["latestRevision"]}


def test_revisions_that_the_injection_strategy_selects_are_kept() -> None:
    """sidecarset case 77"""
    world = started(1)
    first = world.status["latestRevision"]
    choice = {"revision": {"revisionName": first}}
    world.change(revisionHistoryLimit=1, injectionStrategy=choice)
    for number in range(2, 5):
        new_image(world, f"log:{number}")
        world.settle()
    world.settle()
    assert set(world.revisions) == {first, world.status["latestRevision"]}


def test_a_changed_custom_version_labels_the_existing_revision() -> None:
    """sidecarset case 78"""
    label = "apps.kruise.io/sidecarset-custom-version"
    world = started(1)
    for version in ("v1", "v2"):
        world.change(customVersion=version)
        world.settle()
        (moves,) = world.revisions.values()
        assert moves["metadata"]["labels"][label] == version


def test_older_content_under_another_custom_version_loses_its_earlier_version() -> None:
    """sidecarset case 101; OpenKruise does the same, and then rejects pods for the earlier version"""
    # given
    world = started(1)
    for image, version in (("log:1", "v1"), ("log:2", "v2"), ("log:1", "v3")):
        new_image(world, image, customVersion=version)
        world.settle()
    # then
    label = "apps.kruise.io/sidecarset-custom-version"
    assert {entry["metadata"]["labels"][label] for entry in world.revisions.values()} == {"v2", "v3"}
    # when
    world.change(injectionStrategy={"revision": {"customVersion": "v1"}})
    # then
    view = world.view
    assert view.contents is not None
    with pytest.raises(InjectionError, match="custom version v1 of SidecarSet log is not stored"):
        choose_contents(view, labels={}, revisions=world.revision_views(), draw=lambda: 1.0)  # type: ignore[arg-type]


# ── the whole plan ───────────────────────────────────────────────────────────


def test_a_terminating_sidecarset_changes_no_pods_and_revisions() -> None:
    """sidecarset case 81"""
    world = started(1)
    new_image(world)
    world.doc["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    assert world.round().is_settled


def test_pods_are_reported_and_not_changed_without_updates() -> None:
    """pitfall 17"""
    world = started(2, type="NotUpdate")
    new_image(world)
    plan = world.round()
    assert upgraded(plan) == []
    assert "NotUpdate" in plan.skipped["shop/web-0"].message
    world.runs("web-0", ready=False)
    world.round()
    assert (world.status["matchedPods"], world.status["readyPods"]) == (2, 1)


def test_the_status_has_all_its_fields() -> None:
    """section 7.1"""
    world = started(2)
    assert world.status == {
        "observedGeneration": 1,
        "matchedPods": 2,
        "updatedPods": 2,
        "readyPods": 2,
        "updatedReadyPods": 2,
        "latestRevision": world.status["latestRevision"],
        "collisionCount": 0,
    }
    assert world.plan().is_settled


def test_an_unreadable_spec_is_reported_and_nothing_is_written() -> None:
    world = started(1)
    world.doc["spec"]["updateStrategy"] = {"paused": "yes"}
    plan = world.plan()
    assert [(note.reason, note.warning) for note in plan.notes] == [("InvalidSpec", True)]
    assert "spec.updateStrategy.paused" in plan.notes[0].message
    assert not plan.stages
    world = started(1, partition="abc%")
    new_image(world)
    plan = world.plan()
    assert upgraded(plan) == []
    assert "abc%" in plan.skipped["shop/web-0"].message
