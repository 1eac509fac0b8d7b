"""Every field of a pod's spec: the API servers of two minors, their sandboxes and CloneSets treat it in the same way.

pytest tests/conformance/test_pod_fields.py                          sandboxes and CloneSets and the recordings
pytest tests/conformance/test_pod_fields.py --cluster=real           a real API server too ($KUBERNETES)
pytest tests/conformance/test_pod_fields.py --cluster=real --record  ... and record its responses
"""

import json
import random
import re
from typing import Any, Final

import msgspec
import orjson
import pytest

from conformance.recordings import MINORS
from pykruise.cli.insight.simulating import Play, Played, play
from pykruise.kube.client.transport import Request, Transport
from pykruise.kube.clock import make_loop_clock
from pykruise.kube.http.transport import HttpTransport
from pykruise.kube.schemas.releases import NEWEST_MINOR, number_of
from pykruise.kube.schemas.served_fields import ServedFields
from pykruise.manager.settings import ManagerSettings
from pykruise.pods.in_place import InPlaceSettings, NotInPlace, UpdateSpec, find_difference
from pykruise.pods.template.validation import find_template_errors, list_unknown_field_warnings
from pykruise.sandbox.apiserver import ApiServer
from pykruise.sandbox.local import LocalTransport
from support.pod_fields import (
    DIFFERENCES,
    IN_TEMPLATES,
    OF_DROPPED,
    RECORDED,
    outcome,
    pod_fields,
    recorded,
    refusals,
)
from support.scenario import cloneset
from testbed.control_plane import ControlPlane

PODS: Final = "/api/v1/namespaces/default/pods"


async def asked(transport: Transport, minor: str) -> dict[str, str]:
    """The outcome of each field on a server."""
    answers: dict[str, str] = {}
    for path, spec in pod_fields(minor):
        document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
        answer = await transport.request(
            Request(
                "POST",
                PODS,
                query={"dryRun": "All"},
                headers={"content-type": "application/json"},
                body=orjson.dumps(document),
            )
        )
        answers[path] = outcome(answer.status, orjson.loads(answer.body), path)
    return answers


async def unlike(minor: str) -> dict[str, tuple[str | None, str]]:
    """Fields that the sandbox of a minor treats differently: the outcome on the API server, and in the sandbox."""
    server = ApiServer(
        clock=make_loop_clock(start=0.0), rng=random.Random(1), kubernetes=minor, checks_accounts=False
    )
    answers = await asked(LocalTransport(server, username="admin"), minor)
    wanted = recorded(minor)
    return {
        path: (wanted.get(path), answer) for path, answer in answers.items() if answer != wanted.get(path)
    }


@pytest.mark.parametrize("minor", MINORS)
async def test_the_sandbox_of_a_minor_treats_each_field_as_its_api_server(minor: str) -> None:
    differences = await unlike(minor)
    assert {path: both for path, both in differences.items() if not _is_known(path, *both)} == {}


async def test_every_listed_difference_exists() -> None:
    paths = [path for minor in MINORS for path in await unlike(minor)]
    assert [pattern for pattern in DIFFERENCES if not any(re.search(pattern, path) for path in paths)] == []


def _is_known(path: str, wanted: str | None, answer: str) -> bool:
    is_lenient = wanted is not None and wanted.startswith("refused")
    return is_lenient and any(re.search(pattern, path) for pattern in DIFFERENCES)


@pytest.mark.real
@pytest.mark.real_time  # sockets
async def test_a_real_api_server_treats_each_field_as_recorded(
    plane: ControlPlane, real: HttpTransport, request: pytest.FixtureRequest
) -> None:
    if plane.kubernetes not in MINORS:
        pytest.skip("what it answers is not recorded")
    answers = await asked(real, plane.kubernetes)
    if request.config.getoption("--record"):
        RECORDED.mkdir(exist_ok=True)
        lines = ",\n".join(f"{json.dumps(path)}: {json.dumps(answer)}" for path, answer in answers.items())
        (RECORDED / f"{plane.kubernetes}.json").write_text(f"{{\n{lines}\n}}\n")
    assert answers == recorded(plane.kubernetes)


@pytest.mark.parametrize("minor", MINORS)
def test_a_template_with_a_field_that_pods_may_have_is_neither_refused_nor_warned_of(minor: str) -> None:
    answers = recorded(minor)
    said: dict[str, Any] = {}
    for path, spec in pod_fields(minor):
        if answers[path] not in ("kept", "dropped"):
            continue
        template = {"metadata": {"labels": {"app": "web"}}, "spec": spec}
        warnings = list_unknown_field_warnings(template, "spec.template")
        errors = find_template_errors(template, "spec.template") if answers[path] == "kept" else []
        if warnings or errors:
            said[path] = (warnings, errors)
    assert said == {}


# warnings


@pytest.mark.parametrize("minor", MINORS)
async def test_admission_warns_of_the_fields_of_which_the_api_server_of_the_minor_warns(minor: str) -> None:
    """All fields of the newest minor, in templates (for `plan` and `simulate`) and in pods."""
    server = ApiServer(
        clock=make_loop_clock(start=0.0), rng=random.Random(1), kubernetes=minor, checks_accounts=False
    )
    transport = LocalTransport(server, username="admin")
    unlike, warned = {}, set()
    for path, spec in pod_fields(NEWEST_MINOR):
        document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
        answer = await transport.request(
            Request(
                "POST",
                PODS,
                query={"dryRun": "All", "fieldValidation": "Warn"},
                headers={"content-type": "application/json"},
                body=orjson.dumps(document),
            )
        )
        if answer.status != 201:
            continue  # an API server does not warn of a field that it rejects
        of_server = set(re.findall(r'unknown field \\"([^"\\]+)', answer.headers.get("warning", "")))
        said = list_unknown_field_warnings({"spec": spec}, "spec.template", ServedFields(minor))
        of_template = {text.split('"')[1].removeprefix("spec.template.") for text in said}
        if of_server != of_template:
            unlike[path] = (of_server, of_template)
        warned |= {path} if of_server else set()
    assert unlike == {}
    assert bool(warned) is (minor != NEWEST_MINOR)


class Revision(msgspec.Struct):
    template: dict[str, Any]
    annotations: dict[str, str] = {}


def test_an_added_or_changed_field_recreates_pods_and_is_never_an_error() -> None:
    """No field can be added to a running pod."""
    settings = InPlaceSettings(vertical_scaling=True, resizes_pods=True)
    plain = {"containers": [{"name": "main", "image": "nginx:1"}]}
    changed: list[str] = []
    for path, spec in pod_fields(NEWEST_MINOR):
        result = find_difference(
            Revision({"spec": plain}), Revision({"spec": spec}), revision="web-2", settings=settings
        )
        assert isinstance(result, NotInPlace | UpdateSpec)
        if isinstance(result, UpdateSpec) and not result.is_empty:
            changed.append(path)
        if isinstance(result, NotInPlace):
            assert "cannot be read" not in result.reason, path
    assert changed == []


# plan and simulate: both run a CloneSet of such pods in a sandbox of the minor


_SLICES: Final = 8


def played(spec: dict[str, Any], minor: str) -> Played:
    body = cloneset(replicas=1)
    body["spec"]["template"]["spec"] = spec
    return play(Play(change=body, nodes=1, limit_s=60.0, settings=ManagerSettings(kubernetes=minor)))


def newest_fields() -> list[str]:
    """Fields that 1.37 has and 1.32 does not have, without the fields below them."""
    before = {path for path, _ in pod_fields(min(MINORS, key=number_of))}
    new = [path for path, _ in pod_fields(NEWEST_MINOR) if path not in before]
    return [path for path in new if not any(path.startswith(f"{other}.") for other in new)]


def slice_of_fields(minor: str, number: int) -> list[str]:
    return [path for path, _ in pod_fields(minor)][number::_SLICES]


PLAYED: Final = [
    pytest.param(NEWEST_MINOR, newest_fields(), id="new fields"),
    *[
        pytest.param(
            minor, slice_of_fields(minor, number), id=f"{minor}-{number}", marks=pytest.mark.exhaustive
        )
        for minor in MINORS
        for number in range(_SLICES)
    ],
]


@pytest.mark.parametrize(("minor", "paths"), PLAYED)
def test_plan_and_simulate_refuse_no_field_that_pods_may_have(minor: str, paths: list[str]) -> None:
    assert paths
    answers, specs = recorded(minor), dict(pod_fields(minor))
    refused = {
        path: said
        for path in paths
        if answers[path] == "kept"
        and not any(re.search(pattern, path) for pattern in IN_TEMPLATES)
        and (said := refusals(played(specs[path], minor)))
    }
    assert refused == {}


@pytest.mark.parametrize("minor", MINORS)
def test_plan_and_simulate_refuse_a_dropped_field_only_if_it_breaks_a_rule(minor: str) -> None:
    answers, specs = recorded(minor), dict(pod_fields(minor))
    dropped = [path for path, answer in answers.items() if answer == "dropped"]
    refused = {path for path in dropped if refusals(played(specs[path], minor))}
    assert dropped
    assert refused == {path for path in dropped if any(re.search(pattern, path) for pattern in OF_DROPPED)}


def test_plan_and_simulate_refuse_what_a_cloneset_may_not_have() -> None:
    specs = dict(pod_fields(NEWEST_MINOR))
    for pattern in IN_TEMPLATES:
        paths = [path for path in specs if re.search(pattern, path)]
        assert paths
        assert all(refusals(played(specs[path], NEWEST_MINOR)) for path in paths)
