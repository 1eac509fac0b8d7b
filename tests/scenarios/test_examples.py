"""Every manifest that a user is shown works: those under examples/, and the whole ones in the docs."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.daemonset.types import DAEMON_SETS
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kube.resources import DEPLOYMENTS, Resource
from support.scenario import Stage

ROOT = Path(__file__).parents[2]
RESOURCES: dict[str, Resource] = {
    one.kind: one for one in (CLONE_SETS, DAEMON_SETS, DEPLOYMENTS, WORKLOAD_SPREADS)
}


def manifests() -> list[Any]:
    """Each object with the place it is from."""
    texts = [(path.name, path.read_text()) for path in sorted((ROOT / "examples").glob("*.yaml"))]
    for page in sorted((ROOT / "docs").rglob("*.md")):
        blocks = re.findall(r"^```yaml\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        texts += [(page.name, block) for block in blocks if block.startswith("apiVersion:")]
    found = []
    for place, text in texts:
        for doc in yaml.safe_load_all(text):
            name = f"{place}:{doc['kind']}/{doc['metadata']['name']}"
            found.append(pytest.param(doc, id=name))
    return found


@pytest.mark.parametrize("doc", manifests())
async def test_a_manifest_that_users_are_shown_becomes_what_it_says(
    stage: Stage, doc: dict[str, Any]
) -> None:
    # given
    await stage.start_manager()
    # when
    created = await stage.create(doc, resource=RESOURCES[doc["kind"]])

    # then
    async def all_available() -> bool:
        found = await stage.get(created["metadata"]["name"], resource=RESOURCES[doc["kind"]])
        status = found.get("status") or {}
        if doc["kind"] == DAEMON_SETS.kind:
            wanted = status.get("desiredNumberScheduled", 0)
            return wanted > 0 and status.get("numberAvailable") == wanted
        if doc["kind"] == WORKLOAD_SPREADS.kind:
            return [one["name"] for one in status.get("subsetStatuses") or ()] == [
                one["name"] for one in found["spec"]["subsets"]
            ]
        wanted = found["spec"]["replicas"]
        return wanted > 0 and status.get("availableReplicas") == wanted

    await stage.until(all_available)


def test_there_are_manifests_to_be_tried() -> None:
    assert len(manifests()) >= 2
