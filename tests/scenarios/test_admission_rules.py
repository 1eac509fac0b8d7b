"""Admission as an API server applies it: every rule with its field and code, defaults, pods, dry runs."""

from typing import Any

import msgspec
import pytest

from pykruise.kinds import list_conversions
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.cloneset.v1alpha1_rules import field_of
from pykruise.kube.documents import decode
from pykruise.kube.errors import ApiError, BadRequestError, Cause, InvalidError
from pykruise.kube.resources import DEPLOYMENTS, PODS, Resource
from pykruise.kube.schemas.conversion import convert
from support.broken_templates import BROKEN
from support.cloneset_rules import ACCEPTED, REFUSED, document
from support.scenario import Object, Stage, cloneset

pytestmark = pytest.mark.needs_admission

OLD_CLONE_SETS = msgspec.structs.replace(CLONE_SETS, version="v1alpha1")


def in_scenario(spec: dict[str, Any]) -> Object:
    """A CloneSet without the fields that only the API server writes."""
    doc = document(**spec)
    return {
        "apiVersion": doc["apiVersion"],
        "kind": doc["kind"],
        "metadata": {"name": doc["metadata"]["name"]},
        # The API server gets a field only if it is not null.
        "spec": {field: value for field, value in doc["spec"].items() if value is not None},
    }


async def dry_run(stage: Stage, doc: Object, *, resource: Resource = CLONE_SETS) -> ApiError | None:
    """The error with which the API server rejects the object; None: it accepts the object."""
    try:
        await stage.client.create(resource, stage.namespace, doc, dry_run=True)
    except ApiError as error:
        return error
    return None


def field_at(cause: Cause) -> str:
    """Path of the field. CRDs merge containers and volumes by name, so the API server itself rejects a name that occurs
    twice, and its path ends at the item; the paths of the webhook and of a Deployment end at the item's `name`.
    """
    field = cause.field.lstrip(".")
    is_item = cause.reason == "FieldValueDuplicate" and field.endswith("]")
    return f"{field}.name" if is_item else field


async def test_every_rule_is_answered_with_422_and_its_field(stage: Stage) -> None:
    """cloneset section 5.1, the whole table"""
    wrong = []
    for spec, field, _ in REFUSED:
        error = await dry_run(stage, in_scenario(spec))
        fields = {field_at(cause) for cause in error.causes} if error is not None else set()
        if error is None or error.code != 422 or field not in fields:
            wrong.append((spec, field, error and (error.code, str(error))))
    assert wrong == []


async def test_every_rule_is_answered_in_v1alpha1_under_the_name_of_its_field_there(stage: Stage) -> None:
    """cloneset section 5.1: the rules of both versions; those of v1alpha1 alone are in test_versions.py"""
    wrong = []
    for spec, field, _ in REFUSED:
        named = field_of(field)
        if named is None:
            continue  # v1alpha1 has no such rule
        doc = convert(in_scenario(spec), OLD_CLONE_SETS.api_version, list_conversions())
        error = await dry_run(stage, doc, resource=OLD_CLONE_SETS)
        fields = {field_at(cause) for cause in error.causes} if error is not None else set()
        if error is None or error.code != 422 or named not in fields:
            wrong.append((spec, named, error and (error.code, str(error))))
    assert wrong == []


async def test_valid_specs_are_accepted_by_the_api_server(stage: Stage) -> None:
    refused = [(spec, error) for spec in ACCEPTED if (error := await dry_run(stage, in_scenario(spec)))]
    assert refused == []


async def refusals(stage: Stage, doc: Object, resource: Resource) -> set[tuple[str, str]]:
    """Reason and field of each cause of the rejection, or its code if it has no causes; empty: it is accepted."""
    try:
        await stage.client.create(resource, stage.namespace, doc, dry_run=True)
    except ApiError as error:
        return {(cause.reason, field_at(cause)) for cause in error.causes} or {("", str(error.code))}
    return set()


async def test_a_template_is_refused_for_what_an_api_server_refuses_in_a_deployment(stage: Stage) -> None:
    """cloneset rule 6: the same reasons at the same fields as in a Deployment of this API server"""
    differing = {}
    for name, spec in BROKEN.items():
        doc = cloneset()
        doc["spec"]["template"]["spec"] = spec
        ours = await refusals(stage, doc, CLONE_SETS)
        doc = {**doc, "apiVersion": "apps/v1", "kind": "Deployment"}
        theirs = await refusals(stage, doc, DEPLOYMENTS)
        if not theirs or ours != theirs:
            differing[name] = {"only here": ours - theirs, "only there": theirs - ours}
    assert differing == {}


async def test_a_field_of_a_newer_kubernetes_is_not_an_error(stage: Stage) -> None:
    doc = cloneset()
    main = {"name": "main", "image": "nginx", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    probe = {"periodSeconds": 3, "telepathy": {"port": 80}}
    doc["spec"]["template"]["spec"] = {
        "containers": [{**main, "livenessProbe": probe, "somethingNew": True}],
        "volumes": [{"name": "v", "cloud": {"size": "1Gi"}}],
    }
    assert await dry_run(stage, doc) is None


NEWER = (
    {"containers": [{"name": "main", "image": "nginx", "restartPolicy": "Never"}]},
    {"containers": [{"name": "main", "image": "nginx", "env": [{"name": "a b.c!", "value": "1"}]}]},
    {"dnsConfig": {"searches": ["_tcp.example.com", "."]}},
    {"tolerations": [{"key": "a", "operator": "Gt", "value": "5"}]},
    {"initContainers": [{"name": "init", "image": "nginx", "restartPolicy": "OnFailure"}]},
    {
        "containers": [
            {
                "name": "main",
                "image": "nginx",
                "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "a"}],
            }
        ],
        "volumes": [{"name": "v", "image": {"reference": "nginx", "pullPolicy": "Always"}}],
    },
)
"""Parts of a pod's spec that older minors of Kubernetes reject and newer ones accept."""


@pytest.mark.parametrize("part", NEWER)
async def test_fields_that_some_api_server_accepts_are_not_refused(
    stage: Stage, part: dict[str, Any]
) -> None:
    doc = cloneset()
    doc["spec"]["template"]["spec"].update(part)
    assert await dry_run(stage, doc) is None


async def test_a_template_that_is_stored_invalid_does_not_prevent_scaling(stage: Stage) -> None:
    doc = cloneset(replicas=0)
    doc["spec"]["template"]["spec"]["containers"][0]["ports"] = [{"containerPort": 70000}]
    with stage.past_admission():
        await stage.create(doc)
    await stage.merge("web", {"metadata": {"labels": {"touched": "yes"}}})


async def test_a_dry_run_stores_nothing_and_answers_with_defaults(stage: Stage) -> None:
    body = await stage.client.create(CLONE_SETS, stage.namespace, cloneset(), dry_run=True)
    assert decode(body)["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] == "20%"
    assert not await stage.exists("web")


async def test_the_selector_cannot_be_changed_through_the_api_server(stage: Stage) -> None:
    """cloneset case 7"""
    await stage.create(cloneset(replicas=0))
    labels = {"app": "web", "tier": "x"}
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}}
    with pytest.raises(InvalidError) as refused:
        await stage.merge("web", {"spec": spec})
    assert [cause.field for cause in refused.value.causes] == ["spec"]


async def test_a_template_that_cannot_be_decoded_is_a_bad_request_with_its_place(stage: Stage) -> None:
    doc = cloneset()
    doc["spec"]["template"]["spec"]["containers"] = [{"name": "main", "image": "nginx", "env": "A=1"}]
    place = r"spec\.template: json: cannot unmarshal string into Go struct field Container\.spec\.containers\.env "
    with pytest.raises(BadRequestError, match=place):
        await stage.create(doc)


def bare_pod(name: str, **metadata: Any) -> Object:
    return {
        "metadata": {"name": name, **metadata},
        "spec": {"containers": [{"name": "main", "image": "nginx"}], "nodeName": "nowhere"},
    }


async def gates_of(stage: Stage, doc: Object) -> list[str]:
    """The readiness gates with which a pod is stored."""
    stored = await stage.create(doc, resource=PODS)
    return [gate["conditionType"] for gate in stored["spec"].get("readinessGates", ())]


async def test_only_pods_of_kruise_workloads_get_their_readiness_gate(stage: Stage) -> None:
    """admission cases 17 and 18"""

    def owned(api_version: str, **more: Any) -> Object:
        return {"apiVersion": api_version, "kind": "CloneSet", "name": "web", "uid": "u-1", **more}

    assert await gates_of(stage, bare_pod("plain")) == []
    kruise = "apps.kruise.io/v1beta1"
    mine = bare_pod("mine", ownerReferences=[owned(kruise, controller=True)])
    assert await gates_of(stage, mine) == ["KruisePodReady"]
    old = bare_pod("old", ownerReferences=[owned("apps.kruise.io/v1alpha1", controller=True)])
    assert await gates_of(stage, old) == ["KruisePodReady"]
    listed = bare_pod("listed", ownerReferences=[owned(kruise, controller=True)])
    listed["spec"]["readinessGates"] = [{"conditionType": "KruisePodReady"}]
    assert await gates_of(stage, listed) == ["KruisePodReady"]
    assert await gates_of(stage, bare_pod("kept", ownerReferences=[owned(kruise)])) == []
    other = bare_pod("other", ownerReferences=[owned("train.example.com/v1", controller=True)])
    assert await gates_of(stage, other) == []
