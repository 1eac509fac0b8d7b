"""Pull secrets on a cluster: copied once to where nodes may read them, shared, followed, and cleaned up."""

import pytest

from pykruise.kinds.imagepulljob.types import IMAGE_PULL_JOBS
from pykruise.kube.documents import annotations_of, decode
from pykruise.kube.errors import InvalidError
from pykruise.kube.resources import NAMESPACES, SECRETS
from pykruise.manager.settings import SECRETS_NAMESPACE
from pykruise.sandbox.cluster import ClusterSettings
from pykruise.sandbox.nodes.faults import Rule
from pykruise.sandbox.nodes.images import ImageTable
from support.daemonsets import Pool
from support.faults import FaultyTransport, writes
from support.kills import Kill
from support.pulls import NAME, PULLING, Pulls, pull_secret, with_agents
from support.scenario import Stage

REGISTRY = "registry.example.com"
REFERENCES = "imagepulljobs.kruise.io/references"


@pytest.fixture
def cluster_settings(cluster_settings: ClusterSettings, request: pytest.FixtureRequest) -> ClusterSettings:
    is_real = request.config.getoption("--cluster") == "real"
    return with_agents(cluster_settings, pull_s=0.2 if is_real else 1.0)


@pytest.fixture
async def pulls(stage: Stage, pool: Pool) -> Pulls:
    """Pulls of a private image."""
    pulls = Pulls(stage, pool)
    await pulls.have_home()
    stage.kubelets.set_images(ImageTable(private={pulls.image.rpartition(":")[0]: "me:right"}))
    return pulls


async def test_a_private_image_is_pulled_with_the_job_s_secret(stage: Stage, pulls: Pulls) -> None:
    """images cases 41 and 55"""
    await stage.create(pull_secret("wrong", REGISTRY, "me:wrong"), resource=SECRETS)
    await stage.create(pull_secret("right", REGISTRY, "me:right"), resource=SECRETS)
    await stage.start_manager(settings=PULLING)
    await pulls.ready()

    stage.kubelets.set_rules([Rule(pull_s=5.0)])
    await pulls.create(parallelism=4, pullSecrets=["wrong", "right"])
    await pulls.counts(active=4)

    copies = await pulls.copies()
    assert set(copies) == {"wrong", "right"}
    notes = annotations_of(copies["right"])
    assert notes[REFERENCES] == f"{stage.namespace}/{NAME}"
    assert notes["imagepulljobs.kruise.io/mode"] == "batch"
    assert copies["right"]["type"] == "kubernetes.io/dockerconfigjson"
    assert (await pulls.completed())["succeeded"] == 4
    await stage.until(lambda: _no_copies(pulls))


async def _no_copies(pulls: Pulls) -> bool:
    return not await pulls.copies()


@pytest.mark.virtual_time("pauses between tries")
async def test_a_missing_secret_is_reported_and_the_job_continues(stage: Stage, pulls: Pulls) -> None:
    """images case 45"""
    await stage.start_manager(settings=PULLING)
    await pulls.ready()

    await pulls.create(parallelism=4, pullSecrets=["gone"], pullPolicy={"backoffLimit": 0})

    assert (await pulls.completed())["failed"] == 4
    assert await stage.until(lambda: stage.events("PullSecretMissing"))


async def test_jobs_share_a_copy_and_the_last_one_has_it_deleted(stage: Stage, pulls: Pulls) -> None:
    """images cases 42 and 43"""
    await stage.create(pull_secret("s1", REGISTRY, "me:right"), resource=SECRETS)
    await stage.start_manager(settings=PULLING)
    await pulls.ready()
    for name in ("job", "job2"):
        await pulls.create(name, parallelism=4, pullSecrets=["s1"], completionPolicy={"type": "Never"})
        await pulls.counts(name, succeeded=4)
    (copy,) = (await pulls.copies()).values()
    assert annotations_of(copy)[REFERENCES] == f"{stage.namespace}/job,{stage.namespace}/job2"

    await stage.delete("job", resource=IMAGE_PULL_JOBS)

    async def is_released() -> bool:
        (result,) = (await pulls.copies()).values()
        return annotations_of(result)[REFERENCES] == f"{stage.namespace}/job2"

    await stage.until(is_released)
    await stage.delete("job2", resource=IMAGE_PULL_JOBS)
    await stage.until(lambda: _no_copies(pulls))


async def test_a_secret_that_changes_is_copied_again(stage: Stage, pulls: Pulls) -> None:
    """images case 44"""
    await stage.create(pull_secret("s1", REGISTRY, "me:wrong"), resource=SECRETS)
    await stage.start_manager(settings=PULLING)
    await pulls.ready()
    stage.kubelets.set_rules([Rule(pull_s=1e6)])
    await pulls.create(parallelism=4, pullSecrets=["s1"], completionPolicy={"type": "Never"})
    await pulls.counts(active=4)

    new = pull_secret("s1", REGISTRY, "me:right")
    await stage.merge("s1", {"data": new["data"]}, resource=SECRETS)

    async def follows() -> bool:
        (copy,) = (await pulls.copies()).values()
        return bool(copy["data"] == new["data"])

    await stage.until(follows)
    stage.kubelets.set_rules([])
    await pulls.counts(succeeded=4)


async def test_secrets_of_a_job_cannot_be_changed(stage: Stage, pulls: Pulls) -> None:
    """images case 33"""
    await pulls.create(pullSecrets=["s1"])
    with pytest.raises(InvalidError, match=r"spec\.pullSecrets"):
        await stage.merge(NAME, {"spec": {"pullSecrets": ["s2"]}}, resource=IMAGE_PULL_JOBS)


@pytest.mark.virtual_time("namespaces end slowly on a real cluster, and tests share this one")
async def test_a_missing_namespace_of_copies_stops_pulls_but_not_the_deletion_of_jobs(
    stage: Stage, pulls: Pulls
) -> None:
    """images case 48"""
    await stage.client.delete(NAMESPACES, "", SECRETS_NAMESPACE)
    await stage.create(pull_secret("s1", REGISTRY, "me:right"), resource=SECRETS)
    await stage.start_manager(settings=PULLING)
    await pulls.ready()

    await pulls.create(parallelism=4, pullSecrets=["s1"])

    assert await stage.until(lambda: stage.events("NoNamespace"))
    assert await pulls.asked() == {}
    await pulls.have_home()
    assert (await pulls.completed())["succeeded"] == 4
    # when it is gone again
    await pulls.create("second", parallelism=4, pullSecrets=["s1"], completionPolicy={"type": "Never"})
    await pulls.counts("second", succeeded=4)
    await stage.client.delete(NAMESPACES, "", SECRETS_NAMESPACE)
    await stage.delete("second", resource=IMAGE_PULL_JOBS)

    async def is_gone() -> bool:
        return not await stage.exists("second", resource=IMAGE_PULL_JOBS)

    await stage.until(is_gone)


@pytest.mark.few_on_real(1)
@pytest.mark.parametrize("takes_effect", [False, True])
@pytest.mark.parametrize("at", range(8))
@pytest.mark.checkered
async def test_a_manager_is_killed_at_any_write(
    stage: Stage, pulls: Pulls, at: int, takes_effect: bool
) -> None:
    """No copy is made twice, and none is left."""
    await stage.create(pull_secret("s1", REGISTRY, "me:right"), resource=SECRETS)
    kill = Kill(at, takes_effect=takes_effect)
    faulty = FaultyTransport(stage.manager_transport())
    await stage.start_manager(faulty, settings=PULLING)
    await pulls.ready()
    faulty.on(writes(), kill)
    await pulls.create(parallelism=4, pullSecrets=["s1"])

    async def is_over() -> bool:
        return kill.reached or bool((await pulls.status()).get("completionTime"))

    await stage.until(is_over)
    await stage.kill_manager()
    await stage.start_manager(settings=PULLING)

    assert (await pulls.completed())["succeeded"] == 4
    assert await pulls.count_copies() <= 1
    await stage.until(lambda: _no_copies(pulls))


async def test_a_job_of_another_namespace_does_not_pull_with_this_one_s_secret(
    stage: Stage, pulls: Pulls
) -> None:
    """A job without a secret gets none, although NodeImages list its tag beside the tag of a job with a secret."""
    await stage.create(pull_secret("right", REGISTRY, "me:right"), resource=SECRETS)
    await stage.start_manager(settings=PULLING)
    await pulls.ready()
    thieves = f"{stage.namespace}-thieves"
    await stage.client.create(NAMESPACES, "", {"metadata": {"name": thieves}})
    await pulls.create(parallelism=4, pullSecrets=["right"], completionPolicy={"type": "Never"})
    await pulls.counts(succeeded=4)
    # when
    job = await stage.get(NAME, resource=IMAGE_PULL_JOBS)
    spec = {field: value for field, value in job["spec"].items() if field != "pullSecrets"}
    spec["image"] = pulls.image.rpartition(":")[0] + ":2"
    spec["completionPolicy"], spec["pullPolicy"] = {"type": "Always"}, {"backoffLimit": 0}
    await stage.client.create(
        IMAGE_PULL_JOBS,
        thieves,
        {"apiVersion": job["apiVersion"], "kind": job["kind"], "metadata": {"name": "theirs"}, "spec": spec},
    )

    # then
    async def has_failed() -> bool:
        theirs = decode(await stage.client.get(IMAGE_PULL_JOBS, thieves, "theirs"))
        return bool((theirs.get("status") or {}).get("failed") == 4)

    await stage.until(has_failed)
