"""Karmada's own interpreter runs the file that `pykruise manifests karmada` prints, for each kind and version."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from others.client_work import Document
from others.modules import version_in_module
from others.programs import Program, program_of
from pykruise.kube.documents import deep_copy
from pykruise.manager.karmada import build_interpreters
from pykruise.plans.progress import Phase
from support.phase_objects import KINDS, objects_of, shown_by
from testbed.build import KARMADA, Part

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(600)]

VERSION: Final = version_in_module(KARMADA.module, f"{KARMADA.name}-{KARMADA.minors[-1]}")
HEALTHY: Final = (Phase.HEALTHY, Phase.COMPLETED, Phase.PAUSED)
REPLICAS: Final = 7


@pytest.fixture(scope="module")
def interpret(needed: Callable[[Part, str], Path]) -> Program:
    return program_of(needed(KARMADA, KARMADA.minors[-1]) / "karmada")


def questions() -> Iterator[tuple[Document, Any]]:
    """Each interpreter with an object for each state that its kind distinguishes, and the phase of the object."""
    for interpreter in build_interpreters():
        target = interpreter["spec"]["target"]
        kind = KINDS[target["kind"].lower()]
        for _, document in objects_of(kind):
            asked = deep_copy(document)
            asked["spec"] = {**asked["spec"], "replicas": 3, "template": template()}
            phase = shown_by(kind).progress_of(asked).phase
            asked["apiVersion"] = target["apiVersion"]
            yield {"interpreter": interpreter, "object": asked, **statuses()}, phase


def template() -> Document:
    resources = {"requests": {"cpu": "250m", "memory": "64Mi"}}
    return {"spec": {"containers": [{"name": "main", "image": "web:1", "resources": resources}]}}


def statuses() -> Document:
    """Statuses of two clusters that have observed the change."""
    status = {"readyReplicas": 2, "generation": 4, "observedGeneration": 4, "labelSelector": "app=web"}
    return {"statuses": [status, {**status, "readyReplicas": 3}], "replicas": REPLICAS}


@pytest.mark.program(
    "Karmada (its interpreter of resources)",
    VERSION,
    "every kind with counts in every version and state: replicas, health, reflection and aggregation of the status",
)
def test_karmada_reads_every_kind_by_its_interpreter_file(interpret: Program) -> None:
    asked = list(questions())
    # when
    answers = interpret([question for question, _ in asked])
    # then
    assert len(asked) > 300
    scaled = set()
    for (question, phase), answer in zip(asked, answers, strict=True):
        kind, rules = question["object"]["kind"], question["interpreter"]["spec"]["customizations"]
        assert answer["healthy"] is (phase in HEALTHY), (kind, phase, question["object"])
        assert answer["reflected"]["generation"] == question["object"]["metadata"]["generation"]
        assert (
            answer["aggregated"]["status"]["observedGeneration"]
            == question["object"]["metadata"]["generation"]
        )
        if "readyReplicas" in rules["statusAggregation"]["luaScript"]:
            assert answer["aggregated"]["status"]["readyReplicas"] == 5
        if "replicaResource" in rules:
            scaled.add(kind)
            assert answer["replicas"] == 3
            assert answer["requested"] == {"cpu": "250m", "memory": "64Mi"}
            assert answer["revised"]["spec"]["replicas"] == REPLICAS
    assert {"CloneSet", "StatefulSet"} <= scaled
