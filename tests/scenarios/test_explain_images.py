"""`explain` and `plan` of jobs that pull images: which nodes wait for what, and what a manifest would do."""

from typing import Any

import pytest

from pykruise.cli.explain import read_and_explain
from pykruise.cli.insight.explanations import Explanation
from pykruise.cli.insight.generic import forecast_any
from pykruise.kinds.imagelistpulljob.kind import KIND as LIST_JOB
from pykruise.kinds.imagepulljob.kind import KIND as PULL_JOB
from pykruise.kinds.nodeimage.kind import KIND as NODE_IMAGE
from pykruise.kube.documents import decode
from pykruise.kube.ids import Key
from pykruise.kube.resources import SECRETS
from pykruise.plans.kind import Kind
from pykruise.plans.progress import Phase
from pykruise.pods.images.pull_jobs import IMAGE_PULL_JOBS
from pykruise.pods.reasons import Code
from pykruise.sandbox.cluster import ClusterSettings
from pykruise.sandbox.nodes.faults import Rule
from support.daemonsets import Pool
from support.pulls import NAME, PULLING, Pulls, pull_secret, with_agents
from support.scenario import Stage


@pytest.fixture
def cluster_settings(cluster_settings: ClusterSettings, request: pytest.FixtureRequest) -> ClusterSettings:
    is_real = request.config.getoption("--cluster") == "real"
    return with_agents(cluster_settings, pull_s=0.2 if is_real else 1.0)


@pytest.fixture
async def pulls(stage: Stage, pool: Pool) -> Pulls:
    pulls = Pulls(stage, pool)
    await pulls.have_home()
    return pulls


async def said_of(stage: Stage, kind: Kind, name: str = NAME) -> Explanation:
    namespace = stage.namespace if kind.resource.namespaced else ""
    return await read_and_explain(
        stage.client, Key(namespace, name), now=stage.clock(), kind=kind, settings=PULLING
    )


async def test_explain_reports_which_nodes_wait_for_which_reason(
    stage: Stage, pool: Pool, pulls: Pulls
) -> None:
    # given a job whose first node pulls for ever, and that pulls with a secret
    await stage.create(pull_secret("s1", "registry.example.com", "me:x"), resource=SECRETS)
    stage.kubelets.set_rules([Rule(image=pulls.image, pull_s=1e6)])
    await stage.start_manager(settings=PULLING)
    await pulls.ready()
    await pulls.create(selector={"names": [*pool.nodes, "ghost"]}, pullSecrets=["s1"])
    await pulls.counts(active=1)
    first = pool.nodes[0]

    async def is_pulling() -> bool:
        status = (await pulls.node_images())[first].statuses.get(pulls.name)
        return status is not None and status.phase == "Pulling"

    await stage.until(is_pulling)
    # when
    explanation = await said_of(stage, PULL_JOB)
    # then
    by_node = {name: (wait.code, wait.words) for wait in explanation.waits for name in wait.pods}
    assert by_node[first] == (Code.IMAGE_PULLING, "Pulling")
    assert {by_node[name][0] for name in pool.nodes[1:]} == {Code.PARALLELISM}
    assert by_node["ghost"][0] == Code.NO_NODE_IMAGE
    assert "0 of 4 nodes have the image, 0 failed, 1 pulls it" in explanation.headline
    assert not any("copy" in step for step in explanation.next)  # its secret is copied already
    # and `explain` of the NodeImage names the image too
    node = await said_of(stage, NODE_IMAGE, first)
    assert any(pulls.image in wait.pods for wait in node.waits)


@pytest.mark.virtual_time("pauses between tries")
async def test_explain_reports_where_an_image_could_not_be_pulled(
    stage: Stage, pool: Pool, pulls: Pulls
) -> None:
    stage.kubelets.set_rules([Rule(image=pulls.image, node=pool.nodes[1], image_pull_error=True)])
    await stage.start_manager(settings=PULLING)
    await pulls.ready()
    never = {"type": "Never"}
    await pulls.create_list(
        pulls.image, parallelism=4, completionPolicy=never, pullPolicy={"backoffLimit": 0}
    )

    async def has_failed() -> Explanation | None:
        result = await said_of(stage, LIST_JOB)
        return result if any(wait.code == Code.IMAGE_PULL for wait in result.waits) else None

    explanation: Explanation = await stage.until(has_failed)

    (wait,) = [wait for wait in explanation.waits if wait.code == Code.IMAGE_PULL]
    assert wait.pods == (pool.nodes[1],)
    assert pulls.image in wait.words


async def test_plan_shows_which_nodes_a_new_job_would_use(stage: Stage, pool: Pool, pulls: Pulls) -> None:
    await stage.start_manager(settings=PULLING)
    await pulls.ready()
    document: dict[str, Any] = {
        "apiVersion": PULL_JOB.resource.api_version,
        "kind": PULL_JOB.resource.kind,
        "metadata": {"name": NAME, "namespace": stage.namespace},
        "spec": {"image": pulls.image, **pulls.spec(parallelism=2)},
    }

    outlook = await forecast_any(
        stage.client, PULL_JOB, document, Key(stage.namespace, NAME), stage.clock(), PULLING
    )

    asked = [
        fate.pod
        for batch in outlook.batches
        for fate in batch.fates
        if fate.do.startswith("update NodeImage")
    ]
    assert len(asked) == 2
    assert set(asked) <= set(pool.nodes)


async def test_a_job_of_a_list_is_corrected_in_the_list(stage: Stage, pool: Pool, pulls: Pulls) -> None:
    # given a list with an image that no node can pull
    stage.kubelets.set_rules([Rule(image=pulls.image, image_pull_error=True)])
    await stage.start_manager(settings=PULLING)
    await pulls.ready()
    document = {
        "apiVersion": LIST_JOB.resource.api_version,
        "kind": LIST_JOB.resource.kind,
        "metadata": {"name": NAME},
        "spec": {"images": [pulls.image], "completionPolicy": {"type": "Always"}},
    }
    await stage.create(document, resource=LIST_JOB.resource)

    async def has_failed() -> bool:
        return (await said_of(stage, LIST_JOB)).phase is Phase.FAILED

    await stage.until(has_failed)
    (job,) = [decode(raw) for raw in (await stage.client.list(IMAGE_PULL_JOBS, stage.namespace)).items]
    # when
    explanation = await said_of(stage, PULL_JOB, job["metadata"]["name"])
    # then
    assert explanation.cause == Code.IMAGE_PULL
    assert f"instead of the job, create ImageListPullJob {NAME} again" in explanation.waits[0].remedy
