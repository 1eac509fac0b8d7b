"""Where scenarios run: the sandbox in virtual time by default, a real control plane with `--cluster=real`."""

import random
from collections.abc import AsyncIterator

import pytest

from pykruise.admission.reviewers import reviewers
from pykruise.kinds import crds
from pykruise.kube.clock import loop_clock, parse_time
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from pykruise.sandbox.cluster import Cluster, ClusterSettings
from support.scenario import Audience, Stage, audience

START = parse_time("2026-01-31T12:00:00Z")
MANAGER_USER = "system:serviceaccount:kruise-system:kruise-manager"


@pytest.fixture
def cluster_settings() -> ClusterSettings:
    """Override it in a test module for other nodes or delays."""
    return ClusterSettings(nodes=4, start_s=0.5, ready_s=0.5, stop_s=0.5)


@pytest.fixture
def rng() -> random.Random:
    return random.Random(20260131)


@pytest.fixture
async def sandbox(cluster_settings: ClusterSettings, rng: random.Random) -> AsyncIterator[Cluster]:
    """A cluster of the test's own, with the CRDs and admission in it."""
    clock = loop_clock(start=START)
    async with Cluster(cluster_settings, clock=clock, rng=rng, reviewers=reviewers()) as cluster:
        for crd in crds():
            await cluster.client.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd)
        yield cluster


@pytest.fixture
async def stage(sandbox: Cluster, rng: random.Random) -> AsyncIterator[Stage]:
    """A scenario's cluster without a manager: the test starts one."""
    stage = Stage(
        client=sandbox.client,
        manager_transport=lambda: sandbox.transport_for(MANAGER_USER),
        namespace="scenario",
        clock=sandbox.clock,
        rng=rng,
        patience_s=600.0,
    )
    await stage.client.create(NAMESPACES, "", {"metadata": {"name": stage.namespace}})
    try:
        yield stage
    finally:
        await stage.close()


@pytest.fixture
async def seen(stage: Stage) -> AsyncIterator[Audience]:
    """Who watches the pods of the CloneSet `web` all the time."""
    async with audience(stage) as watching:
        yield watching
