"""A CRD is applied again, with another spec, while a manager follows its objects."""

from collections.abc import AsyncIterator

import pytest

from pykruise.kube.documents import decode
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from support.scenario import Object, Stage, cloneset
from support.silenced import SilencedTransport

CRD = "clonesets.apps.kruise.io"
SOON_S = 30.0
"""Seconds: far less than the two minutes after which a silent watch is opened again."""


async def _versions(stage: Stage) -> list[Object]:
    versions: list[Object] = decode(await stage.client.get(CUSTOM_RESOURCE_DEFINITIONS, "", CRD))["spec"][
        "versions"
    ]
    return versions


async def _set_versions(stage: Stage, versions: list[Object]) -> None:
    patch = {"spec": {"versions": versions}}
    await stage.client.patch(CUSTOM_RESOURCE_DEFINITIONS, "", CRD, patch, patch_type=PatchType.MERGE)


@pytest.fixture
async def versions(stage: Stage) -> AsyncIterator[list[Object]]:
    """Versions of the CRD; they are restored at the end."""
    before = await _versions(stage)
    yield before
    await _set_versions(stage, before)


async def test_changes_after_a_changed_definition_are_seen_immediately(
    stage: Stage, versions: list[Object]
) -> None:
    # given a manager at work (API servers that replace what serves a CRD's objects leave watches silent at times)
    transport = SilencedTransport(stage.manager_transport(), "/clonesets")
    await stage.start_manager(transport)
    await stage.create(cloneset(replicas=1))
    await stage.settled(replicas=1)
    # when the CRD has another column, time and again, and watches that were open get no more events
    for number in range(3):
        column = {"name": f"Seen{number}", "type": "string", "jsonPath": ".metadata.name"}
        changed = [
            {
                **version,
                "additionalPrinterColumns": [*(version.get("additionalPrinterColumns") or ()), column],
            }
            for version in versions
        ]
        transport.silence()
        await _set_versions(stage, changed)
        # then a CloneSet that changes soon after is seen
        await stage.scale("web", number + 2)
        await stage.settled(replicas=number + 2, within_s=SOON_S)
