"""Rollouts of a DaemonSet past nodes out of service, and strictly within maxUnavailable: its options as annotations."""

import asyncio
from typing import Any

import msgspec
import pytest

from pykruise.kinds.daemonset.types import DAEMON_SETS
from pykruise.kube.errors import InvalidError
from pykruise.pods.workload.options import (
    IGNORE_UNAVAILABLE_NODES,
    STRICT_MAX_UNAVAILABLE,
    UNAVAILABLE_NODES_SELECTOR,
    Option,
)
from pykruise.sandbox.nodes.faults import Rule
from support.daemonsets import Pool, watching
from support.scenario import Object, Stage

OLD_DAEMON_SETS = msgspec.structs.replace(DAEMON_SETS, version="v1alpha1")


async def start(pool: Pool, options: dict[Option[Any], str] | None = None, **spec: Any) -> None:
    """Create the DaemonSet with these options, and wait until all its pods are available."""
    document = with_options(pool.daemonset(**spec), options or {})
    await pool.stage.start_manager()
    await pool.stage.create(document, resource=DAEMON_SETS)
    await pool.settled()


def with_options(document: Object, options: dict[Option[Any], str]) -> Object:
    annotations = {option.annotation: value for option, value in options.items()}
    return {**document, "metadata": {**document["metadata"], "annotations": annotations}}


async def set_option(stage: Stage, option: Option[Any], value: str) -> None:
    patch = {"metadata": {"annotations": {option.annotation: value}}}
    await stage.merge("web", patch, resource=DAEMON_SETS)


async def are_updated(pool: Pool, nodes: list[str], image: str = "nginx:2") -> None:
    """Wait until each of these nodes has one ready pod of this image."""

    async def is_true() -> bool:
        pods = await pool.by_node()
        return all(
            len(pods.get(node) or ()) == 1
            and pods[node][0].is_ready
            and pods[node][0].containers[0].image == image
            for node in nodes
        )

    await pool.stage.until(is_true, what=f"{nodes} run {image}")


async def test_a_node_that_does_not_answer_holds_the_rollout_until_the_option_leaves_it_out(
    stage: Stage, pool: Pool
) -> None:
    """daemonset case 74"""
    # given
    await start(pool)
    dead, *others = pool.nodes
    await pool.cut_off(dead)
    # when
    await pool.set_image("nginx:2")
    # then its pod is deleted, does not end, and uses up maxUnavailable
    await asyncio.sleep(3 + stage.long_s)
    assert "nginx:2" not in (await pool.images()).values()
    # when
    await set_option(stage, IGNORE_UNAVAILABLE_NODES, "1")
    # then
    async with watching(pool) as seen:
        seen.from_now()
        await are_updated(pool, others)
        assert seen.most_down <= 2, "the dead node, and one of the others"
    # when the node is back
    await pool.bring_back(dead)
    # then
    await pool.settled()


async def test_more_dead_nodes_than_the_limit_use_up_the_budget(stage: Stage, pool: Pool) -> None:
    """daemonset case 75"""
    # given
    await start(pool, {IGNORE_UNAVAILABLE_NODES: "25%"})
    for node in pool.nodes[:2]:
        await pool.cut_off(node)
    # when
    await pool.set_image("nginx:2")
    # then
    await asyncio.sleep(3 + stage.long_s)
    assert "nginx:2" not in (await pool.images()).values()
    # when one of them is back
    await pool.bring_back(pool.nodes[0])
    # then
    await are_updated(pool, [pool.nodes[0], *pool.nodes[2:]])
    await pool.bring_back(pool.nodes[1])
    await pool.settled()


@pytest.mark.parametrize("state", ["cordoned", "labelled"])
async def test_pods_that_fail_on_a_marked_node_do_not_hold_the_rollout(
    stage: Stage, pool: Pool, state: str
) -> None:
    """daemonset case 76"""
    # given a broken node, which is the first to be updated
    broken = max(pool.nodes)
    label = f"example.com/{pool.name}"
    options = {IGNORE_UNAVAILABLE_NODES: "1", UNAVAILABLE_NODES_SELECTOR: f"{label}=broken"}
    await start(pool, options)
    stage.kubelets.set_rules([Rule(image="nginx:2", node=broken, never_ready=True)])
    await pool.set_image("nginx:2")
    await asyncio.sleep(3 + stage.long_s)
    assert list((await pool.images()).values()).count("nginx:2") == 1
    # when
    if state == "cordoned":
        await pool.cordon(broken)
    else:
        await pool.label(broken, {label: "broken"})
    # then
    await are_updated(pool, [node for node in pool.nodes if node != broken])


async def test_a_second_update_within_min_ready_seconds_replaces_one_pod_at_a_time_if_strict(
    stage: Stage, pool: Pool
) -> None:
    """daemonset case 81"""
    # given pods that are ready, and not available yet
    await stage.start_manager()
    document = with_options(pool.daemonset(minReadySeconds=2), {STRICT_MAX_UNAVAILABLE: "true"})
    await stage.create(document, resource=DAEMON_SETS)

    async def are_ready() -> bool:
        return [pod.is_ready for pod in await stage.pods()] == [True] * 4

    await stage.until(are_ready)
    async with watching(pool) as seen:
        seen.from_now()
        # when
        await pool.set_image("nginx:2")
        await pool.settled()
        # then
        assert seen.most_down == 1


@pytest.mark.sandbox_only
@pytest.mark.parametrize("resource", [DAEMON_SETS, OLD_DAEMON_SETS], ids=lambda resource: resource.version)
@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        (IGNORE_UNAVAILABLE_NODES, "many", "must be a whole number (such as 3), or a percentage"),
        (UNAVAILABLE_NODES_SELECTOR, "a in b", "unable to parse requirement"),
        (STRICT_MAX_UNAVAILABLE, "yes", "must be true or false"),
    ],
    ids=["limit", "selector", "strict"],
)
async def test_admission_names_the_annotation_and_the_accepted_values(
    stage: Stage, pool: Pool, option: Option[Any], value: str, message: str, resource: Any
) -> None:
    """daemonset case 82"""
    document = {**with_options(pool.daemonset(), {option: value}), "apiVersion": resource.api_version}
    with pytest.raises(InvalidError) as refused:
        await stage.create(document, resource=resource)
    assert f"metadata.annotations[{option.annotation}]" in str(refused.value)
    assert message in str(refused.value)
