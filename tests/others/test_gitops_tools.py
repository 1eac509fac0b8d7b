"""Flux and Argo CD as their Go packages: health of every kind in every state, apply, wait, sync, prune, drift.

Small programs in Go (testbed/flux-ssa-*, testbed/argo-cd-*) call the packages as their controllers do.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from others.client_work import NAMESPACE, Document, Place
from others.gitops_objects import delete, is_observed, key, samples, states, with_image
from others.modules import version_in_module
from others.programs import Program, program_of
from pykruise.kube.documents import deep_copy
from pykruise.manager.argocd import build_config_map
from pykruise.manager.lua_health import STATUSES
from support.kstatus import kstatus
from support.phase_objects import KINDS, objects_of, shown_by
from testbed.build import ARGO_CD, FLUX, Part

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(600)]

FLUX_VERSION: Final = version_in_module(FLUX.module, f"{FLUX.name}-{FLUX.minors[-1]}")
ARGO_CD_VERSION: Final = version_in_module(ARGO_CD.module, f"{ARGO_CD.name}-{ARGO_CD.minors[-1]}")


def runs_flux(what: str) -> pytest.MarkDecorator:
    return pytest.mark.program("Flux (fluxcd/pkg/ssa, kstatus)", FLUX_VERSION, what)


def runs_argo_cd(what: str) -> pytest.MarkDecorator:
    return pytest.mark.program("Argo CD (its health, gitops-engine)", ARGO_CD_VERSION, what)


@pytest.fixture(scope="module")
def flux(needed: Callable[[Part, str], Path]) -> Program:
    return program_of(needed(FLUX, FLUX.minors[-1]) / "flux")


@pytest.fixture(scope="module")
def argo(needed: Callable[[Part, str], Path]) -> Program:
    return program_of(needed(ARGO_CD, ARGO_CD.minors[-1]) / "argo")


real: Final = pytest.mark.parametrize("place", ["real"], indirect=True)


# ── what they read of a status ───────────────────────────────────────────────


def objects_of_every_kind() -> Iterator[tuple[str, Document, Any]]:
    """An object for each state that the declaration of its kind distinguishes, with its phase."""
    for kind in KINDS.values():
        shown = shown_by(kind)
        for name, document in objects_of(kind):
            yield f"{kind.name}: {name}", document, shown.progress_of(document).phase


@runs_flux("kstatus of every kind in every state: as Ready, Reconciling and Stalled say")
def test_kstatus_reads_every_state_of_every_kind_as_our_rules_do(flux: Program) -> None:
    objects = list(objects_of_every_kind())
    # when
    statuses = flux([document for _, document, _ in objects], "status")
    # then
    assert len(objects) > 500
    wanted = {name: kstatus(document) for name, document, _ in objects}
    assert dict(zip(wanted, statuses, strict=True)) == wanted


@runs_argo_cd("every kind in every state: Argo CD shows the same health as `pykruise explain`")
def test_argo_cd_reads_every_state_of_every_kind_as_explain_does(argo: Program) -> None:
    objects = [item for item in objects_of_every_kind() if "deletionTimestamp" not in item[1]["metadata"]]
    settings = build_config_map(namespace="argocd", name="argocd-cm")["data"]
    # when
    question = {"settings": settings, "objects": [deep_copy(document) for _, document, _ in objects]}
    answers = argo(question, "health")
    # then
    wanted = {name: STATUSES[phase] for name, _, phase in objects}
    said = dict(zip(wanted, (answer["status"] for answer in answers), strict=True))
    assert said == wanted


# ── what they do in a cluster ────────────────────────────────────────────────


@real
@runs_flux("every kind: applied, waited for, applied again without a change; drift is corrected")
def test_flux_applies_every_kind_and_corrects_only_drift(flux: Program, place: Place) -> None:
    documents = samples(place, "flux")
    names = [key(document) for document in documents]
    kubeconfig = str(place.kubeconfig)
    # when
    first = flux(documents, "apply", KUBECONFIG=kubeconfig, TIMEOUT="60s")
    # then all exist and are ready
    assert first == {"actions": dict.fromkeys(names, "created"), "wait": ""}
    # and nothing that admission or a controller writes is drift
    second = flux(documents, "apply", KUBECONFIG=kubeconfig, TIMEOUT="60s")
    assert second == {"actions": dict.fromkeys(names, "unchanged"), "wait": ""}
    # when a user changes an image
    drifted = next(document for document in documents if document["kind"] == "CloneSet")
    change = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "web:9"}]
    place.kubectl(
        *("patch", "clonesets", drifted["metadata"]["name"], "-n", NAMESPACE),
        *("--type=json", "-p", json.dumps(change)),
    )
    # then it is set back
    third = flux(documents, "apply", KUBECONFIG=kubeconfig, TIMEOUT="60s")
    assert third["actions"] == {**dict.fromkeys(names, "unchanged"), key(drifted): "configured"}
    delete(place, documents)


@real
@runs_flux("workloads that are healthy, progressing, failed, paused: the wait ends as it should")
def test_flux_ends_its_wait_with_the_outcome_of_each_state(flux: Program, place: Place) -> None:
    every = list(states(place))
    kubeconfig = str(place.kubeconfig)
    assert {state.ends for state in every} == {"", "InProgress", "Failed"}
    for state in every:
        flux([state.document], "apply", KUBECONFIG=kubeconfig, TIMEOUT="1s")
        is_observed(place, state.document)
    for expected, timeout in (("", "60s"), ("Failed", "60s"), ("InProgress", "6s")):
        for state in every:
            if state.ends == expected:
                ended = flux([state.document], "apply", KUBECONFIG=kubeconfig, TIMEOUT=timeout)["wait"]
                assert ended == "" if expected == "" else f"'{expected}'" in ended, (state, ended)
    # when an image is changed while a rollout is paused
    paused = next(state.document for state in every if state.name == "paused")
    ended = flux([with_image(paused, "web:2")], "apply", KUBECONFIG=kubeconfig, TIMEOUT="60s")
    assert ended["wait"] == ""
    delete(place, [state.document for state in every])


@real
@runs_argo_cd("every kind: synced by server-side apply, in sync afterwards, pruned")
def test_argo_cd_syncs_and_prunes_every_kind(argo: Program, place: Place) -> None:
    documents = samples(place, "argo")
    names = sorted(key(document) for document in documents)
    settings = build_config_map(namespace="argocd", name="argocd-cm")["data"]
    kubeconfig = str(place.kubeconfig)

    def ask(command: str, objects: Iterable[Document]) -> list[Document]:
        question = {"settings": settings, "objects": list(objects), "namespace": NAMESPACE}
        answer: list[Document] = argo(question, command, KUBECONFIG=kubeconfig)
        return answer

    # when
    synced = ask("sync", documents)
    # then
    assert sorted(item["object"] for item in synced) == names
    assert {item["status"] for item in synced} == {"Synced"}, synced
    assert ask("diff", documents) == []
    # when one is no longer in the repository
    gone = next(document for document in documents if document["kind"] == "CloneSet")
    pruned = ask("sync", [document for document in documents if document is not gone])
    # then it is deleted, and the others do not change
    assert {item["object"] for item in pruned if item["status"] == "Pruned"} == {key(gone)}
    rest = [document for document in documents if document is not gone]
    assert ask("diff", rest) == []
    delete(place, rest)
