"""Both versions of the DaemonSet at once: written in one, read in the other, run by the manager."""

import msgspec
import pytest

from pykruise.kinds.daemonset.conversion import PROGRESSIVE
from pykruise.kinds.daemonset.types import DAEMON_SETS
from pykruise.kube.errors import InvalidError
from support.daemonsets import Pool, watching
from support.scenario import Object, Stage, rolling

OLD_DAEMON_SETS = msgspec.structs.replace(DAEMON_SETS, version="v1alpha1")

pytestmark = pytest.mark.needs_admission


def old(pool: Pool, **spec: object) -> Object:
    """The DaemonSet `web` in v1alpha1."""
    return {**pool.daemonset(**spec), "apiVersion": OLD_DAEMON_SETS.api_version}


async def test_surging_of_v1alpha1_is_stored_and_rolled_out_as_standard_with_surge(
    stage: Stage, pool: Pool
) -> None:
    """daemonset case 2"""
    # given
    await stage.start_manager()
    # when
    written = await stage.create(
        old(pool, updateStrategy=rolling(rollingUpdateType="Surging")), resource=OLD_DAEMON_SETS
    )
    await pool.settled()
    # then it is answered in its version, and stored as what it means
    assert written["apiVersion"] == "apps.kruise.io/v1alpha1"
    block = (await pool.get())["spec"]["updateStrategy"]["rollingUpdate"]
    assert block == {"rollingUpdateType": "Standard", "maxSurge": 1, "maxUnavailable": 0}
    async with watching(pool) as seen:
        seen.from_now()
        containers = [{"name": "main", "image": "nginx:2"}]
        patch = {"spec": {"template": {"spec": {"containers": containers}}}}
        await stage.merge("web", patch, resource=OLD_DAEMON_SETS)
        result = await pool.settled()
        assert (seen.most_down, seen.most_on_a_node) == (0, 2)
    # and the hash has the name of each version
    status = (await stage.get("web", resource=OLD_DAEMON_SETS))["status"]
    assert status["daemonSetHash"] == result["status"]["updateRevision"]


async def test_v1beta1_has_no_surging(stage: Stage, pool: Pool) -> None:
    """daemonset rule 16"""
    with pytest.raises(InvalidError) as refused:
        await stage.create(
            pool.daemonset(updateStrategy=rolling(rollingUpdateType="Surging", maxSurge=1)),
            resource=DAEMON_SETS,
        )
    [cause] = refused.value.causes
    assert cause.field == "spec.updateStrategy.rollingUpdate.rollingUpdateType"
    assert cause.reason == "FieldValueNotSupported"


async def test_progressive_creation_is_an_annotation_in_v1alpha1(stage: Stage, pool: Pool) -> None:
    """daemonset cases 15 and 54"""
    # given
    await stage.start_manager()
    doc = old(pool, updateStrategy=rolling(partition=3))
    doc["metadata"]["annotations"] = {PROGRESSIVE: "true"}
    # when
    await stage.create(doc, resource=OLD_DAEMON_SETS)

    # then three nodes wait
    async def has_one_pod() -> bool:
        status = await pool.status()
        return (status.get("desiredNumberScheduled"), status.get("numberAvailable")) == (4, 1)

    await stage.until(has_one_pod)
    assert list(await pool.by_node()) == [min(pool.nodes)]
    # when it is switched off in v1beta1
    await pool.change(scaleStrategy={"partitionedScaling": False})
    await pool.settled()
    # then v1alpha1 does not say it any more
    result = await stage.get("web", resource=OLD_DAEMON_SETS)
    assert PROGRESSIVE not in result["metadata"].get("annotations", {})
