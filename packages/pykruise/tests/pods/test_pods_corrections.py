"""Parts of a pod that users correct in the template of its owner, or in the SidecarSet that injected them."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import pykruise.pods as pods_room
from pykruise.pods.corrections import (
    IN_TEMPLATE,
    OF_A_JOB,
    OF_THE_WORKLOAD,
    Correction,
    correct_container,
    correct_volumes,
    describe_holders,
    release_pod,
)

MESH: Final = {
    "kruise.io/sidecarset-hash": json.dumps(
        {"mesh": {"hash": "a", "sidecarSetName": "mesh", "sidecarList": ["log", "hot"]}}
    )
}
SCHEDULE: Final = Correction(again="AdvancedCronJob nightly")


@pytest.mark.parametrize("container", ["log", "hot-1", "hot-2"])
@pytest.mark.parametrize("own", [IN_TEMPLATE, OF_A_JOB, OF_THE_WORKLOAD, SCHEDULE])
def test_an_injected_container_is_corrected_in_its_sidecarset(container: str, own: Correction) -> None:
    where = correct_container(MESH, container, own)
    assert where.describe_for("the image") == "correct the image in SidecarSet mesh"
    kept = correct_container(MESH, container, own, is_in_place=False)
    assert (
        kept.describe_for("it")
        == "correct it in SidecarSet mesh, then delete the pod, which keeps the old value"
    )


def test_an_instruction_for_several_finalizers_is_in_the_plural() -> None:
    single, several = ("example.com/a",), ("example.com/a", "example.com/b")

    assert describe_holders(single) == "finalizer example.com/a holds"
    assert describe_holders(several) == "finalizers example.com/a, example.com/b hold"
    assert release_pod(single, "shop", "web-0").startswith(
        "the controller that is responsible for example.com/a must remove it; if this controller no longer runs, remove"
    )
    assert release_pod(several, "shop", "web-0").startswith(
        "the controllers that are responsible for example.com/a, example.com/b must remove them; if these controllers"
        " no longer run, remove"
    )


@pytest.mark.parametrize("annotations", [{}, MESH, {"kruise.io/sidecarset-hash": "["}])
def test_the_pods_own_container_is_corrected_where_its_owner_defines_it(annotations: dict[str, str]) -> None:
    assert correct_container(annotations, "main", OF_A_JOB) is OF_A_JOB


def test_volumes_of_a_pod_with_sidecars_are_corrected_in_either() -> None:
    text = correct_volumes(MESH, IN_TEMPLATE).describe_for("the volume")
    assert text.startswith("correct the volume in spec.template or in SidecarSet mesh, then delete the pod")
    assert correct_volumes({}, IN_TEMPLATE) is IN_TEMPLATE
    assert correct_volumes(MESH, SCHEDULE) is SCHEDULE


ALLOWED: Final = {
    "cli/insight/unavailability.py": "templates of workloads, which have it",
    "cli/insight/creators.py": "pull jobs of workloads, which have it",
    "pods/corrections.py": "the home of the rule",
    "pods/reasons.py": "codes of kinds that have spec.template: NoNodes, UnfitNode",
    "pods/template/node_placement.py": "remedies of BroadcastJobs, which have it",
    "pods/workload/admission.py": "paths of errors of workloads, which have it",
    "pods/workload/pod_groups.py": "paths of errors of workloads, which have it",
    "pods/workload/validation.py": "paths of errors of workloads, which have it",
}


def test_shared_remedies_leave_the_name_of_the_template_to_the_correction() -> None:
    room = Path(next(iter(pods_room.__path__))).parent
    rooms = (room / "pods", room / "cli" / "insight")
    files = [file for folder in rooms for file in folder.rglob("*.py") if file.parent.name != "united"]
    named = {
        str(file.relative_to(room))
        for file in files
        if any("spec.template" in text for text in texts_of(file))
    }
    assert files
    assert named <= set(ALLOWED)


def texts_of(file: Path) -> Iterator[str]:
    """String constants of a module, without docstrings."""
    tree = ast.parse(file.read_text())
    docs = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value
