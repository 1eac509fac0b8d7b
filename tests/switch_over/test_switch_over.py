"""No pod changes in a switch from a real OpenKruise manager to pykruise and back (real control plane, simulated nodes).

Run by `make test-switch-over`; continuous integration plays the first test of each release.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pykruise.admission.configurations import covers
from pykruise.admission.reviewers import build_reviewers
from pykruise.admission.settings import make_admission_settings
from pykruise.kinds.gates import parse
from switch_over.clusters import NODES, Switching, differences, without_specs
from switch_over.objects import jobs
from testbed.build import OPENKRUISE
from testbed.control_plane import ControlPlane

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(900)]

TIMES = 3

CHANGED = "nginx:2"

ROLLOUTS = {
    "clonesets.apps.kruise.io": ("cs-recreate", "cs-in-place"),
    "statefulsets.apps.kruise.io": ("sts-rolling",),
    "daemonsets.apps.kruise.io": ("ds-rolling",),
}
"""Workloads whose image is changed while managers are switched."""


@pytest.fixture(params=OPENKRUISE.minors)
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Switching]:
    """A cluster of this release with objects of every kind, at rest."""
    if request.config.getoption("--cluster") != "real":
        pytest.skip("needs --cluster=real: make test-switch-over")
    async with await ControlPlane.start() as plane:
        switching = Switching(plane, request.param, tmp_path)
        try:
            await switching.begin()
            yield switching
        finally:
            await switching.end()


@pytest.mark.parametrize("times", [1, pytest.param(TIMES, marks=pytest.mark.exhaustive)])
async def test_at_rest_switching_back_and_forth_changes_nothing(cluster: Switching, times: int) -> None:
    # given
    before = cluster.seen()
    assert len(before.pods) > 60
    checked = cluster.pykruise("switch-over", "check")
    # then the check describes the differences
    assert checked.stdout.startswith("0 pods would be affected."), checked.stdout
    assert checked.returncode == 0, checked.stdout
    for _ in range(times):
        # when
        await cluster.use("pykruise")
        await cluster.settled()
        # then
        assert not differences(before, cluster.seen())
        # when
        await cluster.use("openkruise")
        await cluster.settled()
        # then
        assert not differences(before, cluster.seen())
    assert "Traceback" not in cluster.own_log()


async def test_switching_back_and_forth_with_both_definitions_changes_nothing(cluster: Switching) -> None:
    """Pykruise's CRDs specify lists in templates that the release's CRDs leave open; both store the same objects."""
    # given
    before = without_specs(cluster.seen())
    # when
    await cluster.use("pykruise", with_definitions=True)
    await cluster.settled()
    # then
    assert not differences(before, without_specs(cluster.seen()))
    # when
    await cluster.use("openkruise", with_definitions=True)
    await cluster.settled()
    # then
    assert not differences(before, without_specs(cluster.seen()))
    assert "Traceback" not in cluster.own_log()


async def test_a_switch_beside_a_running_manager_registers_all_webhooks(cluster: Switching) -> None:
    """The release's manager rewrites the configurations without the paths that it does not serve."""
    # when
    await cluster.use_beside(for_s=3)
    await asyncio.sleep(5)
    # then
    registered = cluster.webhooks()
    settings = make_admission_settings(parse([cluster.original.gates]))
    assert not [
        rule.name
        for rule in build_reviewers(settings)
        if not any(covers(entry, rule) for entry in registered)
    ]
    assert "Traceback" not in cluster.own_log()


@pytest.mark.parametrize("manager", ["pykruise", "openkruise"])
async def test_rollouts_begun_by_one_manager_are_finished_by_the_other(
    cluster: Switching, manager: str
) -> None:
    # given rollouts in progress
    if manager == "openkruise":
        await cluster.use("pykruise")
        await cluster.settled()
    before = cluster.seen()
    for kind, names in ROLLOUTS.items():
        for name in names:
            change = f'{{"spec":{{"template":{{"spec":{{"containers":[{{"name":"main","image":"{CHANGED}"}}]}}}}}}}}'
            cluster.kubectl("patch", kind, name, "--type=merge", "-p", change)
    cluster.kubectl("scale", "clonesets.apps.kruise.io", "cs-scaled", "--replicas=7")
    for job in jobs(cluster.served()):
        cluster.create(job)
    await asyncio.sleep(2.5)
    underway = cluster.seen()
    updated = {name for name, pod in underway.pods.items() if CHANGED in pod["images"].values()}
    # when
    await cluster.use(manager)
    await cluster.settled()
    # then each workload matches its spec, and no pod was created or restarted twice
    after = cluster.seen()
    for names in ROLLOUTS.values():
        for name in names:
            pods = [pod for key, pod in after.pods.items() if key.startswith(f"Pod default/{name}-")]
            assert pods, name
            assert all(pod["images"] == {"main": CHANGED} and pod["ready"] for pod in pods), name
    assert {name: after.pods[name]["uid"] for name in updated} == {
        name: underway.pods[name]["uid"] for name in updated
    }
    in_place = {name: pod for name, pod in before.pods.items() if name.startswith("Pod default/cs-in-place-")}
    for name, pod in in_place.items():
        assert after.pods[name]["uid"] == pod["uid"]
        assert after.pods[name]["restarts"] == {"main": pod["restarts"]["main"] + 1}
    assert sum(name.startswith("Pod default/cs-scaled-") for name in after.pods) == 7
    # and jobs run once on each node, and end
    assert len([name for name in after.pods if name.startswith("Pod default/once-")]) == NODES
    for kind, name in (("broadcastjobs", "once"), ("imagepulljobs", "pulled")):
        status = cluster.get(kind, name).get("status")
        assert status, name
        assert status.get("succeeded") == NODES, status
    touched = {line for line in differences(before, after) if not any(name in line for name in _changed())}
    assert not touched


def _changed() -> list[str]:
    return ["cs-scaled", "once", "pulled", "/node-", *(name for names in ROLLOUTS.values() for name in names)]
