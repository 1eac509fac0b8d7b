"""Every field of a pod's spec in the template of a CloneSet: its pod has the field as a pod of a client has it.

tests/conformance/test_pod_fields.py has recorded how the API servers of two minors treat each field of a pod.
"""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest

from conformance.recordings import MINORS, NEWEST
from pykruise.cli.insight.forecasting import forecast_and_play
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.documents import decode
from pykruise.kube.errors import ApiError
from pykruise.kube.resources import PODS
from pykruise.manager.settings import ManagerSettings
from pykruise.pods.reasons import NOT_WRITTEN
from support.pod_fields import DIFFERENCES, IN_TEMPLATES, OF_DROPPED, outcome, pod_fields, recorded, refusals
from support.scenario import Object, Stage, cloneset

MINOR: Final = os.environ.get("KUBERNETES", NEWEST)
AT_ONCE: Final = 100
PLANNED: Final = 16
"""`plan` plays each rollout, which is slow. So its result is compared only for one in this number of fields."""

pytestmark = [
    pytest.mark.skipif(MINOR not in MINORS, reason="what its API server answers is not recorded"),
    pytest.mark.exhaustive(in_sandbox=True),
    pytest.mark.not_in_brief("tests/conformance/test_pod_fields.py has the answers of the API server"),
]


def manifest(number: int, spec: Mapping[str, Any]) -> Object:
    body = cloneset(f"field-{number}", replicas=1)
    body["spec"]["template"]["spec"] = dict(spec)
    return body


def as_a_template(path: str, answer: str) -> str:
    """Outcome of a field in a CloneSet, if the outcome in a pod is `answer`: kept, dropped or refused."""
    of_clonesets = (*IN_TEMPLATES, *(OF_DROPPED if answer == "dropped" else ()))
    is_refused = any(re.search(pattern, path) for pattern in of_clonesets)
    return "refused" if is_refused else answer.split()[0]


def is_lenient(path: str) -> bool:
    """Whether sandboxes, also the sandbox of `plan`, accept some values of the field that an API server refuses."""
    return any(re.search(pattern, path) for pattern in DIFFERENCES)


async def made_of(stage: Stage, fields: Sequence[tuple[int, str, Mapping[str, Any]]]) -> dict[str, str]:
    """Path of a field → its outcome in a pod of a CloneSet."""
    made: dict[str, str] = {}
    waiting: dict[str, str] = {}
    for number, path, spec in fields:
        body = manifest(number, spec)
        try:
            await stage.create(body)
        except ApiError:
            made[path] = "refused"
        else:
            waiting[body["metadata"]["name"]] = path

    async def all_are_known() -> bool:
        listed = await stage.client.list(PODS, stage.namespace)
        for pod in map(decode, listed.items):
            path = waiting.pop(pod["metadata"]["labels"]["app"], None)
            if path is not None:
                made[path] = outcome(201, pod, path)
        for raw in (await stage.client.list(CLONE_SETS, stage.namespace)).items:
            stored = decode(raw)
            conditions = (stored.get("status") or {}).get("conditions") or ()
            if any(condition["reason"] in NOT_WRITTEN for condition in conditions):
                path = waiting.pop(stored["metadata"]["name"], None)
                if path is not None:
                    made[path] = "refused"
        return not waiting

    await stage.until(all_are_known, what="a pod, or why there is none, of each CloneSet")
    for number, _, _ in fields:
        if await stage.exists(f"field-{number}"):
            await stage.delete(f"field-{number}")
    return made


async def test_pods_of_clonesets_have_each_field_as_pods_have_it(
    stage: Stage, request: pytest.FixtureRequest
) -> None:
    # given
    await stage.start_manager(settings=ManagerSettings(kubernetes=MINOR))
    answers = recorded(MINOR)
    fields = [(number, path, spec) for number, (path, spec) in enumerate(pod_fields(MINOR))]
    # when
    made: dict[str, str] = {}
    for first in range(0, len(fields), AT_ONCE):
        made |= await made_of(stage, fields[first : first + AT_ONCE])
    # then
    wanted = {path: as_a_template(path, answers[path]) for _, path, _ in fields}
    unlike = {path: (wanted[path], made[path]) for path in wanted if wanted[path] != made[path]}
    if request.config.getoption("--cluster") != "real":
        unlike = {path: both for path, both in unlike.items() if both[0] != "refused" or not is_lenient(path)}
    assert unlike == {}


async def test_plan_refuses_the_fields_that_are_refused_and_no_others(stage: Stage) -> None:
    # given
    answers = recorded(MINOR)
    fields = list(enumerate(pod_fields(MINOR)))[::PLANNED]
    # when
    unlike: dict[str, Any] = {}
    for number, (path, spec) in fields:
        body = manifest(number, spec)
        said, play = await forecast_and_play(
            stage.client,
            body,
            namespace=stage.namespace,
            now=stage.clock(),
            settings=ManagerSettings(kubernetes=MINOR),
        )
        is_refused = play is None or bool(refusals(play))
        is_right = is_refused is (as_a_template(path, answers[path]) == "refused")
        if not is_right and not is_lenient(path):
            unlike[path] = (answers[path], said.change, said.errors, said.holds)
    # then
    assert fields
    assert unlike == {}
