"""`explain` and the dashboard say of an object whose kind is switched off that no controller handles it."""

import asyncio

import pytest

from pykruise.cli.explain import code_of, read_and_explain
from pykruise.cli.insight.gates import read_manager_settings
from pykruise.cli.playground import publish_manager
from pykruise.kinds import find_kind
from pykruise.kinds.gates import Gates
from pykruise.kube.ids import Key
from pykruise.manager.settings import ManagerSettings
from pykruise.plans.progress import Phase
from pykruise.pods.probes.api import POD_PROBE_MARKERS
from pykruise.pods.reasons import Code
from support.judged_rows import judged_rows
from support.scenario import Stage, cloneset
from support.situations.documents import marker

pytestmark = pytest.mark.sandbox_only

OFF = ManagerSettings(gates=Gates.of(PodProbeMarkerGate=False))


async def test_a_kind_whose_gate_is_off_is_degraded_everywhere(stage: Stage) -> None:
    # given a marker that was created before its gate was turned off
    manager = await stage.start_manager(settings=OFF)
    assert "podprobemarker" not in {kind.name for kind in manager.kinds}
    await publish_manager(stage.client, OFF)
    await stage.create(cloneset(replicas=1))
    await stage.create(marker(), resource=POD_PROBE_MARKERS)
    await asyncio.sleep(10)
    # when the command reads the gates from the manager's Deployment
    settings = await read_manager_settings(stage.client, stage.clock)
    key, kind = Key(stage.namespace, "web"), find_kind("PodProbeMarker")
    said = await read_and_explain(stage.client, key, now=stage.clock(), kind=kind, settings=settings)
    # then
    assert (said.cause, said.phase, said.next, code_of(said)) == (Code.GATE_OFF, Phase.DEGRADED, (), 3)
    assert said.waits[0].words.startswith("feature gate PodProbeMarkerGate is off")
    # and the row of the dashboard has the same
    async with judged_rows(stage, settings) as rows:
        await asyncio.sleep(10)
        assert rows.of(POD_PROBE_MARKERS, key)["phase"] == Phase.DEGRADED
        assert rows.why(POD_PROBE_MARKERS, key)["code"] == Code.GATE_OFF
