"""Keys for a single pod are not allowed in a template: each review rejects them, and no pod gets them from a stored
object.

CRDs ──▶ documents with every field ──▶ each place of a pod template's metadata, and of a patch of pods ──▶ reviews
                                    ──▶ a stored workload with such a template ──▶ its pods
"""

import asyncio
from collections.abc import Iterator
from typing import Any, Final

import pytest

from pykruise.admission.reviewers import build_reviewers
from pykruise.admission.settings import AdmissionSettings
from pykruise.kinds import find_kind
from pykruise.kinds.gates import GATES, Gates
from pykruise.kube.documents import decode, get_path
from pykruise.kube.errors import Cause
from pykruise.kube.resources import PODS
from pykruise.pods.template.metadata import SINGLE_POD_KEYS, read_pod_metadata
from support.busy_keys import busy_cluster
from support.reviews import at_once, request
from support.wrong_values import Document, Path, Whole, objects, paths, with_value

MARKS: Final = [(field, key) for field, keys in SINGLE_POD_KEYS.items() for key in sorted(keys)]


def template_places(document: Document) -> Iterator[Path]:
    """Places in the document with a pod template, or with a patch of one."""
    for path in paths(document):
        value = get_path(document, *path)
        if isinstance(value, dict) and "metadata" in value and get_path(value, "spec", "containers"):
            yield path


WITH_TEMPLATES: Final = sorted(
    name for name, whole in objects().items() if any(template_places(whole.document))
)


def causes_of(whole: Whole, document: Document) -> list[Cause]:
    """Errors of the kind's validating reviews."""
    rules = [
        rule
        for rule in build_reviewers(AdmissionSettings(gates=Gates.of(**dict.fromkeys(GATES, True))))
        if not rule.mutating
        and any(whole.resource.plural in resource_rule.resources for resource_rule in rule.rules)
    ]
    answers = [at_once(rule.reviewer, request(whole.resource, document)) for rule in rules]
    refusals = [answer.refusal for answer in answers if answer.refusal is not None]
    return [cause for refusal in refusals if refusal.details is not None for cause in refusal.details.causes]


def field_of(path: Path) -> str:
    """A place as text, such as `spec.subsets[0].patch.metadata`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)[1:]


def test_all_kinds_that_create_pods_are_covered() -> None:
    kinds = {objects()[name].resource.kind for name in WITH_TEMPLATES}
    assert {*OWNERS, "AdvancedCronJob", "UnitedDeployment", "WorkloadSpread"} <= kinds


@pytest.mark.parametrize("name", WITH_TEMPLATES)
def test_no_template_and_no_patch_may_have_a_pod_specific_key(name: str) -> None:
    whole = objects()[name]
    for path in template_places(whole.document):
        for field, key in MARKS:
            marked = with_value(whole.document, (*path, "metadata", field), {key: "x"})
            result = [
                cause.message for cause in causes_of(whole, marked) if cause.reason == "FieldValueForbidden"
            ]
            assert any(key in message for message in result), (field_of(path), key)


OWNERS: Final = ("CloneSet", "StatefulSet", "DaemonSet", "BroadcastJob")
"""Kinds whose controllers create pods from their template."""


def stored(kind: str, mark: tuple[str, str]) -> tuple[Any, Document]:
    """A workload that was stored while no webhook responded."""
    field, key = mark
    resource = find_kind(kind).resource
    metadata: Document = {"labels": {"app": "web"}}
    metadata[field] = {**metadata.get(field, {}), key: "false"}
    spec: Document = {
        "template": {"metadata": metadata, "spec": {"containers": [{"name": "main", "image": "nginx:1"}]}}
    }
    if kind == "BroadcastJob":
        spec["template"]["spec"]["restartPolicy"] = "Never"
    else:
        spec["selector"] = {"matchLabels": {"app": "web"}}
    if kind in ("CloneSet", "StatefulSet"):
        spec["replicas"] = 2
    document = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "web"}}
    return resource, {**document, "spec": spec}


@pytest.mark.parametrize("kind", OWNERS)
async def test_a_stored_template_gives_a_pod_specific_key_to_no_pod_and_its_owner_settles(kind: str) -> None:
    async with busy_cluster(reviewed=False, nodes=2) as place:
        for mark in MARKS[::5] if kind != "CloneSet" else MARKS:
            resource, document = stored(kind, mark)
            await place.create(resource, document)
            await asyncio.sleep(30)
            # then each has its two pods, and they stay
            pods = {pod["metadata"]["name"]: pod for pod in await _pods(place)}
            assert len(pods) == 2
            busy = await place.busy_over(60)
            assert busy.writes == {}
            assert {pod["metadata"]["name"] for pod in await _pods(place)} == set(pods)
            for pod in pods.values():
                assert (pod["metadata"].get(mark[0]) or {}).get(mark[1]) != "false"
            await place.client.delete(resource, "default", "web")
            await place.until(lambda: _is_empty(place), within_s=300)


async def _pods(place: Any) -> list[Document]:
    return [decode(raw) for raw in (await place.client.list(PODS, "default")).items]


async def _is_empty(place: Any) -> bool:
    return not await _pods(place)


def test_a_template_gives_all_other_keys_to_its_pods() -> None:
    marked = {field: {"app": "web", **dict.fromkeys(keys, "x")} for field, keys in SINGLE_POD_KEYS.items()}
    plain = {field: {"app": "web"} for field in SINGLE_POD_KEYS}
    assert read_pod_metadata({"metadata": {**marked, "finalizers": ["a/b"]}}) == {
        **plain,
        "finalizers": ["a/b"],
    }
