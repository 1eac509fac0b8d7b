"""The agent pulls the images of its NodeImage, and reports the progress."""

import asyncio

import pytest

from pykruise.agent.cri.errors import CallRefusedError
from pykruise.agent.cri.values import Image
from pykruise.agent.image_puller import find_image
from pykruise.agent.rules.pull_secrets import SOURCE_KEY
from pykruise.kube.resources import SECRETS
from pykruise.kube.values.image_references import parse_image
from support.agent_stage import AgentStage, agent_stage, pull_secret, tag
from support.fake_runtime import Remote

DIGEST = "sha256:" + "d" * 64
SYNCED = "kruise-daemon-config"


async def store_secret(stage: AgentStage, name: str, **users: str) -> dict[str, str]:
    await stage.create(SECRETS, pull_secret(name, **users), namespace=SYNCED)
    return {"namespace": SYNCED, "name": name}


async def test_an_image_is_pulled_and_reported_with_its_id_and_an_event() -> None:
    # given
    async with agent_stage() as stage:
        stage.runtime.registry["nginx:1.9"] = Remote(takes_s=40.0)
        # when
        await stage.ask({"nginx": [tag("1.9", timeoutSeconds=600)]})
        await asyncio.sleep(5.0)
        # then it reports immediately that it pulls
        assert (await stage.tag_status("nginx", "1.9"))["phase"] == "Pulling"
        result = await stage.ends("nginx", "1.9")
        assert (result["phase"], result["progress"], result["version"]) == ("Succeeded", 100, 0)
        assert result["imageID"].startswith("nginx@sha256:")
        status = await stage.node_image_status()
        assert (status["desired"], status["succeeded"]) == (1, 1)
        await asyncio.sleep(5.0)
        [event] = await stage.events("PullImageSucceed")
        assert event["source"] == {"component": "kruise-daemon-imagepuller", "host": "node-a"}


async def test_a_pull_continues_after_the_clock_was_set_forward() -> None:
    async with agent_stage() as stage:
        stage.runtime.registry["nginx:1.9"] = Remote(takes_s=60.0)
        await stage.ask({"nginx": [tag("1.9")]})
        await stage.until(lambda: len(stage.runtime.pulls) == 1)
        # when the clock is set forward by 45 minutes, and the agent looks at its pulls
        stage.clock_step_s = 2700.0
        await stage.ask({"nginx": [tag("1.9")], "redis": [tag("7")]})
        # then the same try succeeds
        assert (await stage.ends("nginx", "1.9"))["phase"] == "Succeeded"
        assert [reference for reference, *_ in stage.runtime.pulls].count("nginx:1.9") == 1


async def test_a_present_image_is_not_pulled_under_if_not_present() -> None:
    """images case 50"""
    async with agent_stage() as stage:
        stage.runtime.keep("nginx:1.9")
        await stage.ask({"nginx": [tag("1.9", policy="IfNotPresent")]})
        result = await stage.ends("nginx", "1.9")
        assert (result["phase"], result["progress"]) == ("Succeeded", 100)
        assert stage.runtime.pulls == []


async def test_an_image_is_pulled_although_the_runtime_does_not_list_its_images() -> None:
    # given
    async with agent_stage() as stage:
        stage.runtime.registry["nginx:1.9"] = Remote()

        async def refuse() -> list[Image]:
            raise CallRefusedError("ListImages: out of order")

        stage.runtime.list_images = refuse  # type: ignore[method-assign]
        # when
        await stage.ask({"nginx": [tag("1.9", policy="IfNotPresent", backoffLimit=0)]})
        result = await stage.ends("nginx", "1.9")
        # then the pull succeeds, with the id from the response to the pull
        assert result["phase"] == "Succeeded"
        assert result["imageID"].startswith("nginx@sha256:")
        assert len(stage.runtime.pulls) == 1


@pytest.mark.parametrize("policy", ["Always", ""])
async def test_a_present_image_is_pulled_under_always(policy: str) -> None:
    """images case 51; an empty policy means the same"""
    async with agent_stage() as stage:
        stage.runtime.keep("nginx:1.9")
        stage.runtime.registry["nginx:1.9"] = Remote()
        await stage.ask({"nginx": [tag("1.9", policy=policy)]})
        await stage.ends("nginx", "1.9")
        assert len(stage.runtime.pulls) == 1


async def test_an_image_that_the_kubelet_collected_is_pulled_again_for_the_next_job() -> None:
    async with agent_stage() as stage:
        stage.runtime.registry["nginx:1.9"] = Remote()
        await stage.ask({"nginx": [tag("1.9", policy="IfNotPresent")]})
        await stage.ends("nginx", "1.9")
        # when it is collected, and a job asks again
        stage.runtime.local.clear()
        await stage.ask({"nginx": [tag("1.9", policy="IfNotPresent", version=1)]})
        # then
        await stage.until(lambda: len(stage.runtime.pulls) == 2)


async def test_a_pull_from_a_failing_registry_is_tried_up_to_the_backoff_limit() -> None:
    """images case 52"""
    async with agent_stage() as stage:
        stage.runtime.registry["nginx:1.9"] = Remote(fails=-1)
        job = {
            "apiVersion": "apps.kruise.io/v1beta1",
            "kind": "ImagePullJob",
            "namespace": "default",
            "name": "job",
            "uid": "77",
        }
        began = stage.now
        await stage.ask({"nginx": [tag("1.9", backoffLimit=2, owners=[job])]})
        result = await stage.ends("nginx", "1.9")
        assert result["phase"] == "Failed"
        assert "out of order" in result["message"]
        assert len(stage.runtime.pulls) == 3
        assert 3.0 <= stage.now - began < 15.0  # pauses of 1 and 2 seconds
        await asyncio.sleep(5.0)
        about = {event["involvedObject"]["kind"] for event in await stage.events("PullImageFailed")}
        assert "ImagePullJob" in about


async def test_a_pull_that_hangs_ends_with_its_time_and_the_runtime_stops_it() -> None:
    """images case 53"""
    async with agent_stage() as stage:
        stage.runtime.registry["nginx:1.9"] = Remote(takes_s=1e6)
        await stage.ask({"nginx": [tag("1.9", timeoutSeconds=50, backoffLimit=0)]})
        await asyncio.sleep(49.0)
        assert stage.runtime.pulling == 1
        ends = await stage.ends("nginx", "1.9")
        assert (ends["phase"], ends["message"]) == ("Failed", "context deadline exceeded")
        assert stage.runtime.pulling == 0


async def test_a_removed_image_entry_stops_its_pull_and_its_status() -> None:
    """images case 54"""
    async with agent_stage() as stage:
        stage.runtime.registry["nginx:1.9"] = Remote(takes_s=100.0)
        await stage.ask({"nginx": [tag("1.9")]})
        await stage.until(lambda: stage.runtime.pulling == 1)
        # when
        await stage.ask({})
        await stage.until(lambda: stage.runtime.pulling == 0)
        # then
        await asyncio.sleep(200.0)
        assert "imageStatuses" not in await stage.node_image_status()


async def test_a_new_version_replaces_the_pull_under_way() -> None:
    async with agent_stage() as stage:
        stage.runtime.registry["nginx:1.9"] = Remote(takes_s=30.0)
        await stage.ask({"nginx": [tag("1.9")]})
        await asyncio.sleep(10.0)
        await stage.ask({"nginx": [tag("1.9", version=1)]})
        result = await stage.ends("nginx", "1.9")
        assert (result["version"], result["phase"]) == (1, "Succeeded")
        assert len(stage.runtime.pulls) == 2


async def test_matching_credentials_are_tried_in_order_and_never_without() -> None:
    """images case 55"""
    async with agent_stage() as stage:
        stage.runtime.registry["r.io/team/app:1"] = Remote(user="me:right")
        wrong = await store_secret(stage, "wrong", **{"r.io/team": "me:wrong"})
        right = await store_secret(stage, "right", **{"r.io": "me:right"})
        # when the secret with the longer match fails, the other one works
        await stage.ask({"r.io/team/app": [tag("1", backoffLimit=0)]}, secrets=[wrong, right])
        assert (await stage.ends("r.io/team/app", "1"))["phase"] == "Succeeded"
        assert [auth.password for _, auth, _ in stage.runtime.pulls if auth] == ["wrong", "right"]
        # when no secret works, the agent does not pull without credentials
        stage.runtime.pulls.clear()
        await stage.ask({"r.io/team/app": [tag("1", version=1, backoffLimit=0)]}, secrets=[wrong])
        await stage.until(lambda: bool(stage.runtime.pulls))
        await asyncio.sleep(10.0)
        assert [auth.password for _, auth, _ in stage.runtime.pulls if auth] == ["wrong"]
        assert (await stage.tag_status("r.io/team/app", "1"))["phase"] == "Failed"


async def test_a_tag_requested_by_another_namespace_is_not_pulled_with_this_namespaces_secret() -> None:
    async with agent_stage() as stage:
        for name in ("1", "2"):
            stage.runtime.registry[f"r.io/app:{name}"] = Remote(user="me:right")
        copy = pull_secret("s", **{"r.io": "me:right"})
        copy["metadata"]["annotations"] = {SOURCE_KEY: "shop/s"}
        await stage.create(SECRETS, copy, namespace=SYNCED)
        # given two tags of one image, each for another namespace
        of = {name: {"kind": "ImagePullJob", "namespace": name, "name": "job"} for name in ("shop", "thief")}
        tags = [
            tag("1", backoffLimit=0, owners=[of["shop"]]),
            tag("2", backoffLimit=0, owners=[of["thief"]]),
        ]
        await stage.ask({"r.io/app": tags}, secrets=[{"namespace": SYNCED, "name": "s"}])
        # then
        assert (await stage.ends("r.io/app", "1"))["phase"] == "Succeeded"
        assert (await stage.ends("r.io/app", "2"))["phase"] == "Failed"
        used = {reference: auth for reference, auth, _ in stage.runtime.pulls}
        assert used["r.io/app:2"] is None


async def test_a_secret_that_is_missing_is_passed_over_and_the_pull_has_no_credentials() -> None:
    async with agent_stage() as stage:
        stage.runtime.registry["nginx:1.9"] = Remote()
        await stage.ask({"nginx": [tag("1.9")]}, secrets=[{"namespace": SYNCED, "name": "gone"}])
        assert (await stage.ends("nginx", "1.9"))["phase"] == "Succeeded"
        assert stage.runtime.pulls[0][1] is None


async def test_credentials_that_were_exchanged_count_from_the_next_try_on() -> None:
    async with agent_stage() as stage:
        stage.runtime.registry["r.io/app:1"] = Remote(user="me:new")
        secret = await store_secret(stage, "s", **{"r.io": "me:old"})
        await stage.ask({"r.io/app": [tag("1", backoffLimit=5)]}, secrets=[secret])
        await stage.until(lambda: len(stage.runtime.pulls) == 1)
        # when
        body = {"data": pull_secret("s", **{"r.io": "me:new"})["data"]}
        await stage.merge(SECRETS, "s", body, namespace=SYNCED)
        # then
        assert (await stage.ends("r.io/app", "1"))["phase"] == "Succeeded"


async def test_the_agent_pulls_as_many_images_in_parallel_as_the_flag_allows() -> None:
    """images case 56, operations case 35"""
    async with agent_stage(most_pulls=2) as stage:
        for number in range(5):
            stage.runtime.registry[f"app{number}:1"] = Remote(takes_s=30.0)
        await stage.ask({f"app{number}": [tag("1")] for number in range(5)})
        await asyncio.sleep(10.0)
        status = await stage.node_image_status()
        assert (status["pulling"], status["waiting"]) == (2, 3)
        for number in range(5):
            await stage.ends(f"app{number}", "1")
        assert stage.runtime.most_pulling == 2


async def test_status_writes_are_bounded() -> None:
    """images case 57"""
    async with agent_stage() as stage:
        for number in range(40):
            stage.runtime.registry[f"app{number}:1"] = Remote(takes_s=0.5 * number)
        await stage.ask({f"app{number}": [tag("1")] for number in range(40)})
        await asyncio.sleep(20.0)
        puller = stage.agent.parts[0] if stage.agent else None
        assert 1 < puller.status_writes <= 5 + 0.5 * 20  # type: ignore[union-attr]
        await asyncio.sleep(20.0)
        assert (await stage.node_image_status())["succeeded"] == 40


async def test_a_finished_pull_is_not_repeated_after_a_restart() -> None:
    """images case 58"""
    async with agent_stage() as stage:
        stage.runtime.registry["nginx:1.9"] = Remote()
        await stage.ask({"nginx": [tag("1.9")]})
        before = await stage.ends("nginx", "1.9")
        await stage.stop_agent()
        await stage.start_agent()
        await asyncio.sleep(60.0)
        assert len(stage.runtime.pulls) == 1
        assert await stage.tag_status("nginx", "1.9") == before


async def test_an_agent_that_is_killed_in_mid_pull_is_followed_by_one_that_pulls() -> None:
    async with agent_stage() as stage:
        stage.runtime.registry["nginx:1.9"] = Remote(takes_s=20.0)
        await stage.ask({"nginx": [tag("1.9")]})
        await asyncio.sleep(10.0)
        await stage.kill_agent()
        assert stage.runtime.pulling == 0
        assert (await stage.tag_status("nginx", "1.9"))["phase"] == "Pulling"
        await stage.start_agent()
        assert (await stage.ends("nginx", "1.9"))["phase"] == "Succeeded"


async def test_a_runtime_that_dies_during_a_pull_uses_one_retry() -> None:
    async with agent_stage() as stage:
        stage.runtime.registry["nginx:1.9"] = Remote(takes_s=20.0)
        stage.runtime.go_down()
        await stage.ask({"nginx": [tag("1.9", backoffLimit=3)]})
        await asyncio.sleep(2.5)
        stage.runtime.come_back()
        assert (await stage.ends("nginx", "1.9"))["phase"] == "Succeeded"


async def test_a_digest_is_pulled_as_one_and_found_by_it() -> None:
    """images case 64"""
    async with agent_stage() as stage:
        stage.runtime.registry[f"nginx@{DIGEST}"] = Remote(digest=DIGEST)
        await stage.ask({"nginx": [tag(DIGEST, policy="IfNotPresent")]})
        assert (await stage.ends("nginx", DIGEST))["phase"] == "Succeeded"
        assert [reference for reference, _, _ in stage.runtime.pulls] == [f"nginx@{DIGEST}"]
        await stage.ask({"nginx": [tag(DIGEST, policy="IfNotPresent", version=1)]})
        await asyncio.sleep(10.0)
        assert len(stage.runtime.pulls) == 1


async def test_the_runtime_gets_the_sandbox_config_and_what_pulls() -> None:
    async with agent_stage() as stage:
        stage.runtime.registry["nginx:1.9"] = Remote()
        config = {"labels": {"team": "a"}, "annotations": {"x": "y"}}
        await stage.ask({"nginx": [tag("1.9")]}, sandboxConfig=config)
        await stage.ends("nginx", "1.9")
        [(_, _, sandbox)] = stage.runtime.pulls
        assert sandbox.labels == {"team": "a"}
        assert sandbox.annotations == {"x": "y", "apps.kruise.io/pulling-image-by": "kruise-daemon"}


async def test_the_first_sync_status_is_reported_and_kept() -> None:
    async with agent_stage() as stage:
        stage.runtime.registry["nginx:1.9"] = Remote()
        await stage.ask({"nginx": [tag("1.9")]})
        await stage.ends("nginx", "1.9")
        assert (await stage.node_image_status())["firstSyncStatus"]["status"] == "Succeeded"


def test_an_image_is_found_by_any_spelling_of_its_name() -> None:
    image = Image(
        id="sha256:1", tags=("docker.io/library/nginx:1.9",), digests=(f"docker.io/library/nginx@{DIGEST}",)
    )
    odd = Image(id="sha256:2", tags=("<none>:<none>",), digests=())
    assert find_image([odd, image], parse_image("nginx:1.9")) is image
    assert find_image([odd, image], parse_image(f"nginx@{DIGEST}")) is image
    assert find_image([odd, image], parse_image("nginx:2")) is None
