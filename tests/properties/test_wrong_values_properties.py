"""One wrong value anywhere in a document: each review responds, and all readers of the stored object handle it.

A document with every field of its kind gets a null, a number, a text, a list or an object, in one place at a time.
API servers reject most of these values before they call a webhook, but not in open parts of a schema, and a mutating
webhook gets all of them. A normal run has a fixed selection of the documents; --exhaustive has more.
"""

import asyncio
import re
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any, Final

import pytest

from pykruise.cli.explain import read_and_explain
from pykruise.cli.insight.known_kinds import list_known_kinds
from pykruise.kinds import list_conversions
from pykruise.kube.admission import AdmissionAnswer, AdmissionRequest, Reviewer, ReviewRule
from pykruise.kube.documents import get_path
from pykruise.kube.errors import KubeError
from pykruise.kube.ids import Key
from pykruise.kube.resources import PODS
from pykruise.kube.schemas.conversion import ConversionError, convert
from pykruise.kube.webhooks.reviews import Review, encode_answer
from support.reviews import at_once, request
from support.stored_objects import StoredObjects
from support.wrong_objects import NOW, Cluster, rules_around, view_of, views
from support.wrong_values import Document, Path, Whole, objects, pod, relabelled, spoilt, with_value

KEPT: Final = ("mended", "stored")
REFUSED: Final = (400, 403, 422)
BEARABLE: Final = (403, 422)
"""Codes for writes of an object whose stored state cannot be read."""
Ask = Callable[[Reviewer, AdmissionRequest], AdmissionAnswer]
PLACE: Final = re.compile(r"\b(apiVersion|metadata|spec|status|type)\b|not a Pod: |no conversion of")
NAMES: Final = sorted(objects())


def some(most: int) -> Any:
    """Parameter `most`: the number of documents of a kind; with --exhaustive all documents of most kinds."""
    marks = [pytest.mark.exhaustive, pytest.mark.timeout(1800)]
    return pytest.mark.parametrize("most", [pytest.param(most), pytest.param(4000, marks=marks)])


def writes(whole: Whole, wrong: Document) -> Iterator[tuple[str, AdmissionRequest]]:
    """All requests that can contain the document."""

    def asked(new: Document, old: Document | None) -> AdmissionRequest:
        return request(whole.resource, new, old=old, name="web")

    yield "created", asked(wrong, None)
    yield "changed", asked(wrong, whole.document)
    yield "mended", asked(whole.document, wrong)
    if (changed := relabelled(wrong)) is not None:
        yield "stored", asked(changed, wrong)


def _run(runner: asyncio.Runner, reviewer: Reviewer, asked: AdmissionRequest) -> AdmissionAnswer:
    """The response of a review that may wait, for its turn or with a time limit."""

    async def answer() -> AdmissionAnswer:
        return await reviewer(asked)

    return runner.run(answer())


def problem_of(
    rule: ReviewRule, asked: AdmissionRequest, *, ask: Ask = at_once, codes: Collection[int] = REFUSED
) -> str:
    """The problem of the response; empty: none. `codes`: codes of a rejection."""
    try:
        answer = ask(rule.reviewer, asked)
        encode_answer(Review("admission.k8s.io/v1", asked), answer, mutating=rule.mutating)
    except Exception as error:
        return raised(error)
    if (refusal := answer.refusal) is None:
        return ""
    is_named = PLACE.search(refusal.message) or refusal.code == 500
    return "" if refusal.code in codes and is_named else f"{refusal.code} {refusal.message}"


def raised(error: Exception) -> str:
    """The error, and its place."""
    at = traceback.extract_tb(error.__traceback__)[-1]
    return f"{at.filename.rpartition('pykruise/')[2]}:{at.lineno} {error!r}"


def assert_none(problems: Sequence[str]) -> None:
    shown = "\n".join(problems[:30])
    assert not problems, f"{len(problems)} problems:\n{shown}"


def codes_of(way: str, whole: Whole, path: Path, wrong: Document) -> Collection[int]:
    """Codes with which the write may be rejected. A stored value that no schema forbids must be correctable."""
    is_bearable = way in KEPT and whole.is_open(path) and get_path(wrong, *path) is not None
    return BEARABLE if is_bearable else REFUSED


def place(path: Path, wrong: Document) -> str:
    """The place of the wrong value, for messages of tests."""
    return f"{'.'.join(map(str, path))} is {get_path(wrong, *path)!r}"


@some(25)
@pytest.mark.parametrize("name", NAMES)
def test_every_review_answers(name: str, most: int) -> None:
    whole = objects()[name]
    rules = [
        rule
        for rule in rules_around(Cluster(whole, whole.document))
        if any(whole.resource.plural in resource_rule.resources for resource_rule in rule.rules)
    ]
    assert_none(
        [
            f"{rule.name}, {way}: {place(path, wrong)}: {problem}"
            for path, wrong in spoilt(whole, most=most)
            for rule in rules
            for way, asked in writes(whole, wrong)
            if (problem := problem_of(rule, asked, codes=codes_of(way, whole, path, wrong)))
        ]
    )


@pytest.mark.parametrize(
    ("name", "path", "value", "problem"),
    [
        (
            "sidecarsets.v1beta1",
            ("spec", "containers", 0, "env"),
            "x",
            "spec.containers[0]: json: cannot unmarshal string into Go struct field Container.env of type "
            "[]v1.EnvVar",
        ),
        (
            "sidecarsets.v1alpha1",
            ("spec", "volumes"),
            7,
            "spec.volumes: Expected `array | null`, got `int`",
        ),
        (
            "ephemeraljobs.v1alpha1",
            ("spec", "template", "ephemeralContainers", 0, "stdin"),
            "yes",
            "spec.template.ephemeralContainers[0]: json: cannot unmarshal string into Go struct field "
            "EphemeralContainer.stdin of type bool",
        ),
        (
            "uniteddeployments.v1beta1",
            ("spec", "template", "deploymentTemplate", "spec", "template", "spec", "containers"),
            {},
            "spec.template.deploymentTemplate.spec.template: json: cannot unmarshal object into Go struct field "
            "PodSpec.spec.containers of type []v1.Container",
        ),
        (
            "advancedcronjobs.v1beta1",
            ("spec", "template", "jobTemplate", "spec", "completions"),
            "7",
            "spec.template.jobTemplate: json: cannot unmarshal string into Go struct field "
            "JobSpec.spec.completions of type int32",
        ),
    ],
)
def test_a_value_of_a_wrong_type_is_refused_with_its_place(
    name: str, path: Path, value: Any, problem: str
) -> None:
    whole = objects()[name]
    asked = request(whole.resource, with_value(whole.document, path, value))
    for rule in rules_around(Cluster()):
        if any(whole.resource.plural in resource_rule.resources for resource_rule in rule.rules):
            refusal = at_once(rule.reviewer, asked).refusal
            assert refusal is not None
            assert (refusal.code, refusal.message) == (400, problem)


@some(25)
@pytest.mark.parametrize("name", NAMES)
def test_every_conversion_answers(name: str, most: int) -> None:
    whole = objects()[name]
    group, kind = whole.resource.group, whole.resource.kind
    if (conversion := list_conversions().get((group, kind))) is None:
        return
    (other,) = {*conversion.versions} - {whole.resource.version}
    problems = []
    for path, wrong in spoilt(whole, most=most):
        try:
            convert(wrong, f"{group}/{other}", list_conversions())
        except ConversionError:
            continue
        except Exception as error:
            problems.append(f"{place(path, wrong)}: {raised(error)}")
    assert_none(problems)


STORED: Final = [
    name for name in NAMES if objects()[name].is_stored and objects()[name].resource.kind in views()
]


def stored_ones(whole: Whole, most: int) -> Iterator[tuple[Path, Document]]:
    """Documents that an API server may have stored: it checks metadata, and that spec and status are objects."""
    for path, wrong in spoilt(whole, most=most):
        if path[0] in ("spec", "status") and isinstance(wrong[path[0]], dict):
            yield path, wrong


@some(25)
@pytest.mark.parametrize("name", STORED)
def test_every_view_is_projected_from_wrong_values(name: str, most: int) -> None:
    whole = objects()[name]
    problems = []
    for path, wrong in stored_ones(whole, most):
        try:
            view_of(whole.resource.kind, wrong)
        except Exception as error:
            problems.append(f"{place(path, wrong)}: {raised(error)}")
    assert_none(problems)


@pytest.mark.parametrize("field", ["containers", "initContainers"])
def test_a_null_sidecar_counts_as_an_empty_one(field: str) -> None:
    whole = objects()["sidecarsets.v1beta1"]
    view = view_of("SidecarSet", with_value(whole.document, ("spec", field), [None]))
    assert view.spec is not None


OF_PODS: Final = (
    *("PersistentPodState", "PodProbeMarker", "PodUnavailableBudget", "SidecarSet", "WorkloadSpread"),
)
"""Kinds that pod admission reads."""


@some(40)
@pytest.mark.parametrize("name", [name for name in STORED if objects()[name].resource.kind in OF_PODS])
def test_every_new_pod_gets_an_answer_with_any_stored_object(name: str, most: int) -> None:
    """A stored object with which no pod can be computed results in 500, because the pod is not wrong."""
    whole = objects()[name]
    problems = []
    with asyncio.Runner() as runner:
        for path, wrong in stored_ones(whole, most):
            (rule,) = (
                review_rule
                for review_rule in rules_around(Cluster(whole, wrong))
                if review_rule.path == "/mutate-pod"
            )
            ask = partial(_run, runner)
            if problem := problem_of(rule, request(PODS, pod().document), ask=ask, codes=(*REFUSED, 500)):
                problems.append(f"{place(path, wrong)}: {problem}")
    assert_none(problems)


PLANNED: Final = {kind.resource.kind: kind for kind in list_known_kinds()}


@some(20)
@pytest.mark.parametrize("name", [name for name in STORED if objects()[name].resource.kind in PLANNED])
def test_every_plan_is_computed_from_wrong_values(name: str, most: int) -> None:
    whole = objects()[name]
    known = PLANNED[whole.resource.kind]
    problems = []
    for path, wrong in stored_ones(whole, most):
        if path[0] != "spec":
            continue
        client: Any = StoredObjects({known.resource.plural: [wrong], "pods": [pod().document]})
        key = Key("default" if whole.resource.namespaced else "", "web")
        try:
            asyncio.run(read_and_explain(client, key, now=NOW, kind=known))
        except KubeError:
            continue
        except Exception as error:
            problems.append(f"{place(path, wrong)}: {raised(error)}")
    assert_none(problems)


@some(60)
def test_every_review_of_a_pod_answers(most: int) -> None:
    whole = pod()
    stored = [whole for whole in objects().values() if whole.resource.kind in OF_PODS and whole.is_stored]
    rules = [
        rule
        for whole in stored
        for rule in rules_around(Cluster(whole, whole.document))
        if rule.name in ("mpod.kb.io", "vpod.kb.io")
    ]
    with asyncio.Runner() as runner:
        assert_none(
            [
                f"{rule.name}, {asked.operation} {asked.subresource}: {place(path, wrong)}: {problem}"
                for path, wrong in spoilt(whole, most=most)
                for rule in rules
                for asked in _of_pod(whole.document, wrong, rule)
                if (problem := problem_of(rule, asked, ask=partial(_run, runner)))
            ]
        )


def _of_pod(whole: Document, wrong: Document, rule: ReviewRule) -> Iterator[AdmissionRequest]:
    if rule.mutating:
        yield request(PODS, wrong)
        return
    yield request(PODS, wrong, old=whole)
    yield request(PODS, whole, old=wrong, subresource="resize")
    yield request(PODS, None, old=wrong, name="web")
