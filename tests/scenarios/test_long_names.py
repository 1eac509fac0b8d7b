"""Objects with names of 1 to 253 letters, of every kind: refused, or they get what they make, or it is said why not.

A warning at admission names what would be too long; where nothing can be made, the object has the code NameTooLong.
"""

import asyncio
import random
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import pytest

from pykruise.admission.reviewers import ReviewContext, reviewers
from pykruise.admission.settings import AdmissionSettings
from pykruise.cli.explain import explained
from pykruise.kinds import kinds
from pykruise.kube.admission import ReviewRule
from pykruise.kube.documents import deep_copy
from pykruise.kube.errors import InvalidError
from pykruise.kube.ids import Key
from pykruise.kube.resources import PODS
from pykruise.plans.kind import Kind
from pykruise.pods.reasons import Code
from support.reviews import after_both
from support.scenario import Object, Stage
from support.sources import ROOT
from support.yaml_documents import yaml_documents

EDGES: Final = (1, 39, 40, 41, 46, 47, 48, *range(50, 66), 100, 200, 246, 247, 248, 249, 253)
"""Lengths around each of the limits that there are."""

MAKES_PODS: Final = (
    "CloneSet",
    "StatefulSet",
    "DaemonSet",
    "BroadcastJob",
    "UnitedDeployment",
    "AdvancedCronJob",
)


def _example(kind: Kind) -> Object | None:
    path = ROOT / "examples" / f"{kind.resource.kind.lower()}.yaml"
    if not path.is_file():
        return None
    text = path.read_text("utf-8")
    return next((one for one in yaml_documents(text) if one["kind"] == kind.resource.kind), None)


WITH_EXAMPLES: Final = [
    kind for kind in kinds() if kind.versions and kind.control is not None and _example(kind) is not None
]


def _named(kind: Kind, length: int) -> Object:
    """The example under a name of so many letters, with pods of its own."""
    doc = deep_copy(_example(kind) or {})
    doc["metadata"]["name"] = "n" * length
    spec = doc["spec"]
    for app in _apps(spec):
        app["app"] = f"of-{length}"
    if "replicas" in spec:
        spec["replicas"] = 1
    if kind.resource.kind == "UnitedDeployment":
        subsets = [{"name": one} for one in ("a", "b-and-more")]
        spec["topology"] = {"subsets": subsets}
        spec["replicas"] = 2
    if kind.resource.kind == "AdvancedCronJob":
        spec["schedule"] = "* * * * *"
        job = spec["template"]["broadcastJobTemplate"]["spec"]
        job["template"]["metadata"] = {"labels": {"app": f"of-{length}"}}
    return doc


def _apps(node: Any) -> Iterator[dict[str, Any]]:
    """Labels and selectors with the example's own `app`."""
    if isinstance(node, dict):
        if isinstance(node.get("app"), str):
            yield node
        for value in node.values():
            yield from _apps(value)
    elif isinstance(node, list):
        for value in node:
            yield from _apps(value)


@cache
def _rules() -> tuple[ReviewRule, ...]:
    return reviewers(AdmissionSettings(), ReviewContext(rng=random.Random(1)))


def _is_warned(kind: Kind, doc: Object) -> bool:
    answer = after_both(_rules(), kind.resource, {**doc, "apiVersion": kind.resource.api_version})
    return any("it cannot be made" in one for one in answer.warnings)


@pytest.mark.virtual_time("names of all lengths")
@pytest.mark.parametrize("kind", WITH_EXAMPLES, ids=lambda kind: kind.resource.kind)
async def test_an_object_by_any_name_works_or_says_why_not(stage: Stage, kind: Kind) -> None:
    # given
    await stage.start_manager()
    made: list[int] = []
    refused: dict[int, str] = {}
    for length in EDGES:
        doc = _named(kind, length)
        try:
            await stage.create(doc, resource=kind.resource)
        except InvalidError as error:
            refused[length] = str(error)
            continue
        made.append(length)
    # Of kinds that make no pods several examples are in each other's way.
    if kind.resource.kind in MAKES_PODS:
        assert made
        assert [length for length, said in refused.items() if "metadata.name" not in said] == []
    await asyncio.sleep(100)
    # then
    served = await _lengths_with_pods(stage)
    verdicts: dict[int, str] = {}
    for length in made:
        verdicts[length] = await _verdict(stage, kind, length, has_pod=length in served)
    assert {length: verdict for length, verdict in verdicts.items() if verdict} == {}


async def _lengths_with_pods(stage: Stage) -> set[int]:
    apps = [(pod["metadata"].get("labels") or {}).get("app", "") for pod in await stage.stored(PODS)]
    return {int(app.removeprefix("of-")) for app in apps if app.startswith("of-")}


async def _verdict(stage: Stage, kind: Kind, length: int, *, has_pod: bool) -> str:
    """What is wrong about the object whose name has so many letters; empty: nothing is."""
    if kind.resource.kind not in MAKES_PODS or has_pod:
        return ""
    if not _is_warned(kind, _named(kind, length)):
        return "no pod, and no warning"
    namespace = stage.namespace if kind.resource.namespaced else ""
    found = await explained(stage.client, Key(namespace, "n" * length), now=stage.clock(), kind=kind)
    if not found.waits or found.waits[0].code != Code.NAME_TOO_LONG:
        return f"no pod, and explain says {[(one.code, one.words) for one in found.waits][:2]}"
    return ""
