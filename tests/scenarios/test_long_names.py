"""Objects with names of 1 to 253 letters, of every kind: admission refuses them, or they get all their child
objects, or a condition says why not.

A warning at admission names what would be too long; where nothing can be made, the object has the code NameTooLong.
"""

import asyncio
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from pykruise.admission.reviewers import ReviewContext, build_reviewers
from pykruise.admission.settings import AdmissionSettings
from pykruise.cli.explain import read_and_explain
from pykruise.kinds import list_kinds
from pykruise.kube.admission import ReviewRule
from pykruise.kube.documents import deep_copy
from pykruise.kube.errors import BadRequestError, InvalidError
from pykruise.kube.ids import Key
from pykruise.kube.resources import PODS
from pykruise.plans.kind import Kind
from pykruise.pods.reasons import Code
from pykruise.pods.workload.derived_names import LONGEST_NAME
from support.reviews import after_both
from support.scenario import Object, Stage
from support.sources import ROOT
from support.yaml_documents import yaml_documents

LENGTHS: Final = range(1, LONGEST_NAME + 1)

MAKES_PODS: Final = (
    "CloneSet",
    "StatefulSet",
    "DaemonSet",
    "BroadcastJob",
    "UnitedDeployment",
    "AdvancedCronJob",
)


def _example(kind: Kind) -> Object | None:
    name = f"{kind.resource.kind.lower()}.yaml"
    paths = (ROOT / "examples" / name, Path(__file__).parents[1] / "support" / "data" / name)
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        return None
    text = path.read_text("utf-8")
    return next(
        (document for document in yaml_documents(text) if document["kind"] == kind.resource.kind), None
    )


OF_NODES: Final = {"NodeImage", "NodePodProbe"}
"""Kinds whose objects are named after nodes; the manager makes them."""
SPECS: Final[dict[str, Object]] = {
    "ContainerRecreateRequest": {"podName": "web", "containers": [{"name": "main"}]},
    "NodeImage": {"images": {}},
    "NodePodProbe": {},
    "PersistentPodState": {
        "targetRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "web"},
        "preferredPersistentTopology": [{"weight": 100, "preference": {"keys": ["kubernetes.io/hostname"]}}],
    },
}
"""Specs of kinds that have no example."""

KINDS: Final = [kind for kind in list_kinds() if kind.versions and kind.control is not None]


def _named(kind: Kind, length: int) -> Object:
    """The example with a name of this length, and with pods of its own."""
    doc = deep_copy(_example(kind) or _without_example(kind))
    doc["metadata"]["name"] = "n" * length
    spec = doc["spec"]
    for app in _apps(spec):
        app["app"] = f"of-{length}"
    if "replicas" in spec:
        spec["replicas"] = 1
    if kind.resource.kind == "UnitedDeployment":
        subsets = [{"name": literal} for literal in ("a", "b-and-more")]
        spec["topology"] = {"subsets": subsets}
        spec["replicas"] = 2
    if kind.resource.kind == "AdvancedCronJob":
        spec["schedule"] = "* * * * *"
        job = spec["template"]["broadcastJobTemplate"]["spec"]
        job["template"]["metadata"] = {"labels": {"app": f"of-{length}"}}
    return doc


def _without_example(kind: Kind) -> Object:
    resource = kind.resource
    spec = SPECS[resource.kind]
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {}, "spec": spec}


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
    return build_reviewers(AdmissionSettings(), ReviewContext(rng=random.Random(1)))


class Verdict(msgspec.Struct, frozen=True):
    """Admission's response to a name."""

    refusal: str = ""
    warnings: frozenset[str] = frozenset()
    """Warnings about objects that cannot be created, without the name."""


def _verdict_of(kind: Kind, length: int) -> Verdict:
    return _verdicts(kind.name)[length]


@cache
def _verdicts(name: str) -> Mapping[int, Verdict]:
    (kind,) = (kind for kind in KINDS if kind.name == name)
    return {length: _review(kind, length) for length in LENGTHS}


def _review(kind: Kind, length: int) -> Verdict:
    doc = {**_named(kind, length), "apiVersion": kind.resource.api_version}
    answer = after_both(_rules(), kind.resource, doc)
    if answer.refusal is not None:
        return Verdict(refusal=answer.refusal.message)
    warnings = (warning for warning in answer.warnings if "the API server would reject it" in warning)
    return Verdict(warnings=frozenset(warning.partition(" would be ")[0] for warning in warnings))


def _is_warned(kind: Kind, length: int) -> bool:
    return bool(_verdict_of(kind, length).warnings)


def _edges(kind: Kind) -> tuple[int, ...]:
    """Lengths of the shortest and the longest name, and those on both sides of each change in admission's response."""
    said = {length: _verdict_of(kind, length) for length in LENGTHS}
    turns = [
        length
        for length in LENGTHS[1:]
        if (bool(said[length].refusal), said[length].warnings)
        != (bool(said[length - 1].refusal), said[length - 1].warnings)
    ]
    return tuple(sorted({1, LONGEST_NAME, *turns, *(length - 1 for length in turns)}))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.resource.kind)
def test_a_longer_name_is_refused_whenever_a_shorter_one_is(kind: Kind) -> None:
    for length in LENGTHS[1:]:
        before, after = _verdict_of(kind, length - 1), _verdict_of(kind, length)
        assert bool(before.refusal) <= bool(after.refusal), length
        assert before.warnings <= after.warnings or after.refusal, length


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.resource.kind)
def test_a_warning_lists_each_derived_name_that_is_too_long(kind: Kind) -> None:
    """Each derived name has a limit that some tested length exceeds, and a warning for each length above it."""
    settings = kind.settings()
    for derived in kind.derived:
        too_long = [
            length
            for length in LENGTHS
            if any(len(name) > derived.longest for name in derived.of(_named(kind, length), settings))
        ]
        for length in too_long:
            verdict = _verdict_of(kind, length)
            assert verdict.refusal or f"metadata.name: {derived.what}" in verdict.warnings, length
    warned = {warning for length in LENGTHS for warning in _verdict_of(kind, length).warnings}
    assert warned <= {f"metadata.name: {derived.what}" for derived in kind.derived}


@pytest.mark.virtual_time("names of all lengths")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.resource.kind)
async def test_an_object_with_a_name_of_boundary_length_works_or_reports_why_not(
    stage: Stage, kind: Kind
) -> None:
    await stage.start_manager()
    await _every_length_works_or_says_why_not(stage, kind, _edges(kind))


@pytest.mark.exhaustive
@pytest.mark.virtual_time("names of all lengths")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.resource.kind)
async def test_an_object_with_a_name_of_any_length_works_or_reports_why_not(stage: Stage, kind: Kind) -> None:
    await stage.start_manager()
    for begin in range(0, len(LENGTHS), 64):
        await _every_length_works_or_says_why_not(stage, kind, LENGTHS[begin : begin + 64])


async def _every_length_works_or_says_why_not(stage: Stage, kind: Kind, lengths: Sequence[int]) -> None:
    # given
    if kind.resource.kind in OF_NODES:
        return  # the manager makes and deletes them with their nodes
    made: list[int] = []
    refused: dict[int, str] = {}
    for length in lengths:
        doc = _named(kind, length)
        try:
            await stage.create(doc, resource=kind.resource)
        except (InvalidError, BadRequestError) as error:
            refused[length] = str(error)
            continue
        made.append(length)
    # Of kinds that make no pods several examples are in each other's way.
    if kind.resource.kind in MAKES_PODS:
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
    """The error of the object whose name has this length; empty: there is none."""
    if has_pod:
        return ""
    namespace = stage.namespace if kind.resource.namespaced else ""
    explanation = await read_and_explain(
        stage.client, Key(namespace, "n" * length), now=stage.clock(), kind=kind
    )
    codes = [wait.code for wait in explanation.waits]
    if kind.resource.kind not in MAKES_PODS and Code.NAME_TOO_LONG not in codes:
        return ""
    if not _is_warned(kind, length):
        return f"no warning, and explain says {codes}"
    if codes[:1] != [Code.NAME_TOO_LONG]:
        return f"no pod, and explain says {codes}"
    if kind.control is None or kind.control.standing is None:
        return ""
    stored = await stage.get("n" * length, resource=kind.resource)
    conditions = stored.get("status", {}).get("conditions", ())
    if not any(
        condition.get("reason") == Code.NAME_TOO_LONG and condition["status"] == "True"
        for condition in conditions
    ):
        return f"no pod, and its conditions are {conditions}"
    return ""
