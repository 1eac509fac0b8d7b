"""ImagePullJobs on a cluster whose nodes pull: turns, nodes that come and go, failures, deadlines, kills."""

import asyncio

import msgspec
import pytest

from pykruise.kinds.advancedcronjob.types import ADVANCED_CRON_JOBS
from pykruise.kinds.gates import Gates
from pykruise.kinds.imagelistpulljob.types import IMAGE_LIST_PULL_JOBS
from pykruise.kinds.imagepulljob.types import IMAGE_PULL_JOBS
from pykruise.kube.client.metered import MeteredTransport
from pykruise.kube.documents import decode
from pykruise.kube.errors import InvalidError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import PODS
from pykruise.pods.images.node_images import NODE_IMAGES
from pykruise.sandbox.cluster import ClusterSettings
from pykruise.sandbox.nodes.faults import Rule
from support.common_faults import WRITE_FAULTS, the_writes
from support.daemonsets import POOL_LABEL, Pool
from support.faults import FaultyTransport, writes
from support.kills import Kill
from support.pulls import NAME, PULLING, Pulls, with_agents
from support.scenario import Stage, cloneset, rolling

_MERGE = PatchType.MERGE
SLOW = 1e6
"""Seconds of a pull that does not end."""
LONG = 3.0
"""Seconds of a pull whose progress is reported."""


@pytest.fixture
def cluster_settings(cluster_settings: ClusterSettings, request: pytest.FixtureRequest) -> ClusterSettings:
    is_real = request.config.getoption("--cluster") == "real"
    return with_agents(cluster_settings, pull_s=0.2 if is_real else 1.0)


@pytest.fixture
def pulls(stage: Stage, pool: Pool) -> Pulls:
    return Pulls(stage, pool)


def of(pulls: Pulls, *, node: str = "", **fields: object) -> Rule:
    """A rule for pulls of the test's own images."""
    return Rule(image=f"registry.example.com/{pulls.stage.namespace}/*", node=node, **fields)  # type: ignore[arg-type]


async def test_every_node_pulls_the_image_one_after_another(stage: Stage, pool: Pool, pulls: Pulls) -> None:
    """images cases 1, 21, 35"""
    stage.kubelets.set_rules([of(pulls, pull_s=LONG)])
    await stage.start_manager(settings=PULLING)
    await pulls.ready()
    most = 0

    async def is_over() -> bool:
        nonlocal most
        result = await pulls.node_images()
        pulling = [
            node_image
            for node_image in result.values()
            if node_image.statuses and _is_pulling(node_image.statuses.values())
        ]
        most = max(most, len(pulling))
        return bool((await pulls.status()).get("completionTime"))

    stored = await pulls.create()
    await stage.until(is_over)

    assert stored["spec"]["pullPolicy"] == {"timeoutSeconds": 600, "backoffLimit": 3}
    status = await pulls.status()
    assert (status["desired"], status["succeeded"], status.get("active", 0)) == (4, 4, 0)
    assert status["message"] == "job has completed"
    assert most == 1
    for node in pool.nodes:
        assert f"registry.example.com/{stage.namespace}/app:1" in stage.kubelets.list_images(node)


def _is_pulling(statuses: object) -> bool:
    return any(status.phase == "Pulling" for status in statuses)  # type: ignore[attr-defined]


async def test_a_pod_whose_image_was_pulled_ahead_starts_without_a_pull(
    stage: Stage, pool: Pool, pulls: Pulls
) -> None:
    # given images that take long to pull, one of which is pulled ahead
    await stage.start_manager(settings=PULLING)
    await pulls.ready()
    await pulls.create(parallelism=4)
    await pulls.completed()
    stage.kubelets.set_rules([of(pulls, pull_s=SLOW)])
    node = pool.nodes[0]
    # when
    for name, image in (("there", pulls.image), ("not-there", f"{pulls.image}0")):
        pod = {
            "metadata": {"name": name, "labels": {"app": "x"}},
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": image}]},
        }
        await stage.create(pod, resource=PODS)

    # then
    async def is_running() -> bool:
        result = await stage.get("there", resource=PODS)
        return bool((result.get("status") or {}).get("phase") == "Running")

    await stage.until(is_running)
    other = await stage.get("not-there", resource=PODS)
    assert (other.get("status") or {}).get("phase") == "Pending"


async def test_parallelism_0_pulls_on_no_node_until_it_is_raised(stage: Stage, pulls: Pulls) -> None:
    """images cases 22, 23, 33"""
    await stage.start_manager(settings=PULLING)
    await pulls.ready()
    await pulls.create(parallelism=0)

    status = await pulls.counts(desired=4)
    assert status["message"] == "job is running, progress 0.0%"
    assert await pulls.asked() == {}

    await stage.merge(NAME, {"spec": {"parallelism": "2"}}, resource=IMAGE_PULL_JOBS)
    await pulls.completed()


async def test_nodes_join_and_leave_during_a_job(stage: Stage, pool: Pool, pulls: Pulls) -> None:
    """images cases 3, 5, 38"""
    # given a job whose pulls do not end
    stage.kubelets.set_rules([of(pulls, pull_s=SLOW)])
    await stage.start_manager(settings=PULLING)
    await pulls.ready()
    await pulls.create(parallelism=10)
    await pulls.counts(desired=4, active=4)
    # when one node joins and another leaves
    await pool.join("late")
    await pulls.counts(desired=5, active=5)
    going = pool.nodes[0]
    await pool.leave(going)
    # then its NodeImage is gone, and the job is over when the others have pulled
    await pulls.counts(desired=4, active=4)
    stage.kubelets.set_rules([])
    await pulls.completed()
    # and nodes that come later do not change it
    await pool.join("later")
    await pulls.ready()
    assert (await pulls.status())["desired"] == 4


async def test_a_never_ending_job_pulls_on_new_nodes(stage: Stage, pool: Pool, pulls: Pulls) -> None:
    """images case 38"""
    await stage.start_manager(settings=PULLING)
    await pulls.ready()
    await pulls.create(parallelism=4, completionPolicy={"type": "Never"})
    await pulls.counts(desired=4, succeeded=4)

    await pool.join("late")

    status = await pulls.counts(desired=5, succeeded=5)
    assert "completionTime" not in status


async def test_a_pod_selector_pulls_on_the_nodes_of_its_pods_and_on_new_ones_immediately(
    stage: Stage, pool: Pool, pulls: Pulls
) -> None:
    """images cases 26 and 27"""

    async def run(name: str, node: str) -> None:
        pod = {
            "metadata": {"name": name, "labels": {"app": "x"}},
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": "nginx:1"}]},
        }
        await stage.create(pod, resource=PODS)

    first, second = pool.nodes[:2]
    await stage.start_manager(settings=PULLING)
    await pulls.ready()
    for name in ("a", "b"):
        await run(name, first)
    await pulls.create(
        selector=None, podSelector={"matchLabels": {"app": "x"}}, completionPolicy={"type": "Never"}
    )
    await pulls.counts(desired=1, succeeded=1)

    await run("c", second)

    await pulls.counts(desired=2, succeeded=2)
    assert set(await pulls.asked()) == {first, second}


async def test_names_without_a_node_do_not_count(stage: Stage, pool: Pool, pulls: Pulls) -> None:
    """images case 24"""
    await stage.start_manager(settings=PULLING)
    await pulls.ready()
    await pulls.create(selector={"names": [pool.nodes[0], "ghost"]})

    status = await pulls.completed()

    assert (status["desired"], status["succeeded"]) == (1, 1)


@pytest.mark.virtual_time("pauses between tries")
async def test_a_pull_that_fails_is_tried_again_and_then_given_up(
    stage: Stage, pool: Pool, pulls: Pulls
) -> None:
    """images cases 35 and 52: one node gets it at the third try, another not at all"""
    flaky, broken = pool.nodes[:2]
    stage.kubelets.set_rules(
        [
            of(pulls, node=flaky, image_pull_error=True, first_runs=2),
            of(pulls, node=broken, image_pull_error=True),
        ]
    )
    await stage.start_manager(settings=PULLING)
    await pulls.ready()
    await pulls.create(parallelism=4, pullPolicy={"backoffLimit": 2})

    status = await pulls.completed()

    assert (status["succeeded"], status["failed"], status["failedNodes"]) == (3, 1, [broken])
    events = await stage.until(lambda: stage.events("PullImageFailed"))
    assert broken in events[0]["message"]


@pytest.mark.virtual_time("a deadline of ten minutes")
async def test_after_the_deadline_every_node_without_the_image_has_failed(
    stage: Stage, pool: Pool, pulls: Pulls
) -> None:
    """images case 36"""
    slow = pool.nodes[1]
    stage.kubelets.set_rules([of(pulls, node=slow, pull_s=SLOW)])
    await stage.start_manager(settings=PULLING)
    await pulls.ready()
    names = pool.nodes[:3]
    await pulls.create(
        selector={"names": names},
        completionPolicy={"type": "Always", "activeDeadlineSeconds": 50},
        pullPolicy={"timeoutSeconds": 50},
    )

    status = await pulls.completed()

    assert (status["succeeded"], status["failed"], status.get("active", 0)) == (1, 2, 0)
    assert status["failedNodes"] == sorted(names[1:])
    assert status["message"] == "job exceeds activeDeadlineSeconds"


@pytest.mark.virtual_time("ten minutes without an answer")
async def test_a_node_whose_agent_is_silent_counts_as_failed(stage: Stage, pool: Pool, pulls: Pulls) -> None:
    """images case 17"""
    await stage.start_manager(settings=PULLING)
    await pulls.ready()
    silent = pool.nodes[0]
    stage.kubelets.stop_node(silent)
    await pulls.create(selector={"names": [silent]})

    status = await pulls.completed()

    assert status["failedNodes"] == [silent]
    (silence,) = [
        event
        for event in await stage.until(lambda: stage.events("PullImageFailed"))
        if event["involvedObject"]["kind"] == "ImagePullJob"
    ]
    assert "has not responded" in silence["message"]


@pytest.mark.parametrize("ttl", [0, 3])
async def test_a_finished_job_is_deleted_and_its_entries_leave_the_nodes(
    stage: Stage, pulls: Pulls, ttl: int
) -> None:
    """images cases 12 and 37"""
    await stage.start_manager(settings=PULLING)
    await pulls.ready()
    await pulls.create(parallelism=4, completionPolicy={"type": "Always", "ttlSecondsAfterFinished": ttl})

    async def is_gone() -> bool:
        return not await stage.exists(NAME, resource=IMAGE_PULL_JOBS)

    await stage.until(is_gone)

    async def nothing_is_asked() -> bool:
        values = (await pulls.node_images()).values()
        return not await pulls.asked() and all(pulls.name not in node_image.statuses for node_image in values)

    await stage.until(nothing_is_asked)


async def test_a_second_job_for_the_image_has_it_pulled_again(stage: Stage, pulls: Pulls) -> None:
    """images cases 12 and 39"""
    await stage.start_manager(settings=PULLING)
    await pulls.ready()
    await pulls.create(parallelism=4)
    await pulls.completed()
    assert set((await pulls.asked()).values()) == {0}

    await pulls.create("second", parallelism=4, imagePullPolicy="Always")
    await pulls.completed("second")

    assert set((await pulls.asked()).values()) == {1}
    for image in (await pulls.node_images()).values():
        entry = image.find_entry(pulls.name)
        assert entry is not None
        assert [ref.name for ref in entry.owner_references or ()] == [NAME, "second"]
    # when the first is deleted, the second keeps its entries
    await stage.delete(NAME, resource=IMAGE_PULL_JOBS)

    async def is_let_go() -> bool:
        entries = [node_image.find_entry(pulls.name) for node_image in (await pulls.node_images()).values()]
        return all(
            entry is not None and [ref.name for ref in entry.owner_references or ()] == ["second"]
            for entry in entries
        )

    await stage.until(is_let_go)


async def test_a_changed_image_replaces_the_first_pull(stage: Stage, pulls: Pulls) -> None:
    """A running job whose image is changed asks no node for the old one any more."""
    stage.kubelets.set_rules([Rule(image=pulls.image, pull_s=SLOW)])
    await stage.start_manager(settings=PULLING)
    await pulls.ready()
    await pulls.create(parallelism=4)
    await pulls.counts(active=4)

    await stage.merge(NAME, {"spec": {"image": f"{pulls.image}0"}}, resource=IMAGE_PULL_JOBS)
    await pulls.completed()

    async def is_let_go() -> bool:
        return not await pulls.asked()

    await stage.until(is_let_go)


async def test_an_image_by_digest_is_pulled_by_it(stage: Stage, pool: Pool, pulls: Pulls) -> None:
    """images case 64"""
    digest = f"sha256:{'0123456789abcdef' * 4}"
    await stage.start_manager(settings=PULLING)
    await pulls.ready()
    await pulls.create(image=f"{pulls.image}@{digest}", selector={"names": pool.nodes[:1]})

    status = await pulls.completed()

    assert status["succeeded"] == 1
    (node_image,) = [image for image in (await pulls.node_images()).values() if image.name == pool.nodes[0]]
    assert pulls.name.name in node_image.images
    assert [tag.tag for tag in node_image.images[pulls.name.name].tags] == [digest]
    assert f"{pulls.name.name}@{digest}" in stage.kubelets.list_images(pool.nodes[0])


async def test_labels_of_a_node_are_those_of_its_nodeimage(stage: Stage, pool: Pool, pulls: Pulls) -> None:
    """images case 6"""
    await stage.start_manager(settings=PULLING)
    await pulls.ready()
    node = pool.nodes[0]
    mine = {"metadata": {"labels": {"example.com/mine": "x"}}}
    await stage.client.patch(NODE_IMAGES, "", node, mine, patch_type=_MERGE)

    await pool.label(node, {"example.com/new": "1"})

    async def are_equal() -> bool:
        result = decode(await stage.client.get(NODE_IMAGES, "", node))["metadata"]["labels"]
        return result.get("example.com/new") == "1" and "example.com/mine" not in result

    await stage.until(are_equal)
    await pool.label(node, {"example.com/new": None})


async def test_an_unworkable_job_is_refused(stage: Stage, pulls: Pulls) -> None:
    """images cases 8, 10, 28 to 32"""
    for fields, path in (
        ({"parallelism": "30%"}, "spec.parallelism"),
        ({"podSelector": {"matchLabels": {"app": "x"}}}, "spec.podSelector"),
        ({"selector": {"names": ["a", "a"]}}, r"spec.selector.names\[1\]"),
        ({"completionPolicy": {"type": "Never", "ttlSecondsAfterFinished": 1}}, "ttlSecondsAfterFinished"),
        ({"completionPolicy": {"type": "Always", "activeDeadlineSeconds": 599}}, "activeDeadlineSeconds"),
        ({"image": "UPPER/case"}, "spec.image"),
    ):
        with pytest.raises(InvalidError, match=path):
            await pulls.create(**fields)  # type: ignore[arg-type]


async def test_a_client_of_the_older_version_sees_the_same_job(stage: Stage, pulls: Pulls) -> None:
    await stage.start_manager(settings=PULLING)
    await pulls.ready()
    older = msgspec.structs.replace(IMAGE_PULL_JOBS, version="v1alpha1")
    document = {
        "apiVersion": older.api_version,
        "kind": older.kind,
        "metadata": {"name": NAME},
        "spec": {"image": pulls.image, **pulls.spec(parallelism=4)},
    }

    await stage.create(document, resource=older)
    await pulls.completed()

    result = await stage.get(NAME, resource=older)
    assert result["status"]["succeeded"] == 4


async def test_a_cloneset_has_its_new_image_on_all_nodes_before_it_is_rolled_out(
    stage: Stage, pool: Pool, pulls: Pulls
) -> None:
    """A rollout that waits at its partition; when it goes on, no node has to pull."""
    gates = Gates.of(ImagePullJobGate=True, PreDownloadImageForInPlaceUpdate=True)
    await stage.start_manager(settings=msgspec.structs.replace(PULLING, gates=gates))
    await pulls.ready()
    at_most_one = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
    }
    spread = {**at_most_one, "labelSelector": {"matchLabels": {"app": "web"}}}
    doc = cloneset("web", replicas=4, image=pulls.image)
    doc["spec"]["template"]["spec"] |= {
        "nodeSelector": {POOL_LABEL: pool.name},
        "topologySpreadConstraints": [spread],
    }
    doc["spec"]["updateStrategy"] = rolling(
        podUpdatePolicy="InPlaceIfPossible",
        maxUnavailable=1,
        partition=4,
        inPlaceUpdateStrategy={"imagePreDownloadParallelism": 2},
    )
    await stage.create(doc)
    await stage.settled("web", replicas=4)
    new = f"{pulls.image}0"

    await stage.set_image("web", new)

    async def is_everywhere() -> bool:
        jobs = await stage.stored(IMAGE_PULL_JOBS)
        return bool(jobs) and all((job.get("status") or {}).get("succeeded") == 4 for job in jobs)

    await stage.until(is_everywhere)
    assert all(new in stage.kubelets.list_images(node) for node in pool.nodes)
    # when nothing could be pulled any more
    stage.kubelets.set_rules([of(pulls, pull_s=SLOW)])
    await stage.merge("web", {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})
    await stage.settled("web", replicas=4, updated=4)

    async def are_gone() -> bool:
        return not await stage.stored(IMAGE_PULL_JOBS)

    await stage.until(are_gone)


@pytest.mark.virtual_time("schedules go by the minute")
async def test_a_cron_job_of_lists_has_images_pulled(stage: Stage, pulls: Pulls) -> None:
    await stage.start_manager(settings=PULLING)
    await pulls.ready()
    template = {"spec": {"images": [pulls.image], **pulls.spec(parallelism=4)}}
    doc = {
        "apiVersion": ADVANCED_CRON_JOBS.api_version,
        "kind": ADVANCED_CRON_JOBS.kind,
        "metadata": {"name": "nightly"},
        "spec": {"schedule": "* * * * *", "template": {"imageListPullJobTemplate": template}},
    }
    await stage.create(doc, resource=ADVANCED_CRON_JOBS)

    async def has_succeeded() -> bool:
        lists = await stage.stored(IMAGE_LIST_PULL_JOBS)
        return any((entry.get("status") or {}).get("succeeded") == 1 for entry in lists)

    await stage.until(has_succeeded)
    assert len(await pulls.asked()) == 4


@pytest.mark.few_on_real(2)
@pytest.mark.parametrize("takes_effect", [False, True])
@pytest.mark.parametrize("at", range(9))
@pytest.mark.checkered
async def test_a_manager_is_killed_at_any_write(
    stage: Stage, pulls: Pulls, at: int, takes_effect: bool
) -> None:
    """No node is asked twice, none is forgotten, and the job can be deleted in the end."""
    kill = Kill(at, takes_effect=takes_effect)
    faulty = FaultyTransport(stage.manager_transport())
    await stage.start_manager(faulty, settings=PULLING)
    await pulls.ready()
    faulty.on(writes(), kill)
    await pulls.create(parallelism=2)

    async def is_over() -> bool:
        return kill.reached or bool((await pulls.status()).get("completionTime"))

    await stage.until(is_over)
    await stage.kill_manager()
    await stage.start_manager(settings=PULLING)

    status = await pulls.completed()

    assert (status["succeeded"], status["desired"]) == (4, 4)
    assert set((await pulls.asked()).values()) == {0}
    await stage.delete(NAME, resource=IMAGE_PULL_JOBS)

    async def nothing_is_left() -> bool:
        return not await stage.exists(NAME, resource=IMAGE_PULL_JOBS) and not await pulls.asked()

    await stage.until(nothing_is_left)


@pytest.mark.few_on_real(2)
@pytest.mark.parametrize("number", [0, 2, 4])
@WRITE_FAULTS
@pytest.mark.checkered
async def test_one_failing_write_does_not_disturb_the_job(
    stage: Stage, pulls: Pulls, fault: object, number: int
) -> None:
    faulty = FaultyTransport(stage.manager_transport())
    await stage.start_manager(faulty, settings=PULLING)
    await pulls.ready()
    faulty.on(writes(), the_writes(number, number + 5, fault=fault))

    await pulls.create(parallelism=2)
    status = await pulls.completed()

    assert (status["succeeded"], status["desired"]) == (4, 4)
    assert set((await pulls.asked()).values()) == {0}


async def test_a_job_costs_a_write_for_each_node_and_few_statuses(stage: Stage, pulls: Pulls) -> None:
    metered = MeteredTransport(stage.manager_transport())
    await stage.start_manager(metered, settings=PULLING)
    await pulls.ready()
    before = metered.requests["PATCH nodeimages"]
    await pulls.create(parallelism=2)
    await pulls.completed()
    await asyncio.sleep(1.0)

    assert metered.requests["PATCH nodeimages"] - before == 4
    assert metered.requests["PATCH imagepulljobs/status"] <= 8
