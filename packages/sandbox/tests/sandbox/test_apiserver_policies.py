"""ValidatingAdmissionPolicies on an API server of the sandbox; the conformance tests check their semantics."""

import random
from pathlib import Path
from typing import Any

import pytest

from pykruise.kube.client.client import Client
from pykruise.kube.clock import make_loop_clock
from pykruise.kube.errors import InvalidError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CONFIG_MAPS, Resource
from pykruise.sandbox.apiserver import ApiServer
from pykruise.sandbox.apiserver.policies.reading import list_used_variables
from pykruise.sandbox.durable import DurableStorage
from pykruise.sandbox.local import LocalTransport

_GROUP = "admissionregistration.k8s.io"
POLICIES = Resource(
    _GROUP, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False
)
BINDINGS = Resource(
    _GROUP, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", namespaced=False
)


def policy(expression: str, **spec: Any) -> dict[str, Any]:
    """A policy about ConfigMaps."""
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["configmaps"],
    }
    return {
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": expression}],
            **spec,
        },
    }


BINDING = {"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}}


def client(server: ApiServer) -> Client:
    """A client of this server."""
    return Client(LocalTransport(server, username="admin"))


def fresh(**more: Any) -> ApiServer:
    return ApiServer(clock=make_loop_clock(start=0.0), rng=random.Random(1), **more)


async def put_in(user: Client, name: str) -> None:
    await user.create(CONFIG_MAPS, "default", {"metadata": {"name": name}})


async def test_a_policy_applies_from_the_creation_of_its_binding_until_either_is_deleted() -> None:
    # given
    user = client(fresh())
    await user.create(POLICIES, "", policy("object.metadata.name == 'right'"))
    await put_in(user, "before")
    # when
    await user.create(BINDINGS, "", BINDING)
    # then
    with pytest.raises(InvalidError, match=r"failed expression: object\.metadata\.name == 'right'"):
        await put_in(user, "wrong")
    await put_in(user, "right")
    # and when
    await user.delete(POLICIES, "", "p")
    # then
    await put_in(user, "wrong")


async def test_policies_hold_on_the_next_start_too(tmp_path: Path) -> None:
    # given
    storage = DurableStorage(tmp_path)
    user = client(fresh(storage=storage))
    await user.create(POLICIES, "", policy("false"))
    await user.create(BINDINGS, "", BINDING)
    storage.close()
    # when
    storage = DurableStorage(tmp_path)
    user = client(fresh(storage=storage))
    # then
    with pytest.raises(InvalidError):
        await put_in(user, "any")
    storage.close()


async def test_a_policy_cannot_forbid_its_own_deletion() -> None:
    # given a policy that forbids everything
    user = client(fresh())
    anything = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}
    await user.create(POLICIES, "", policy("false", matchConstraints={"resourceRules": [anything]}))
    await user.create(BINDINGS, "", BINDING)
    with pytest.raises(InvalidError):
        await put_in(user, "any")
    # when
    await user.delete(BINDINGS, "", "b")
    # then
    await put_in(user, "any")


@pytest.mark.parametrize(
    "expression",
    [
        "object.?data.hasValue()",
        "authorizer.requestResource.check('get').allowed()",
        "ip('1.2.3.4').family() == 4",
        "cel.bind(x, 1, x == 1)",
        "variables.nothing == 1",
    ],
)
async def test_an_expression_that_cannot_be_compiled_is_refused_when_it_is_written(expression: str) -> None:
    user = client(fresh())
    with pytest.raises(InvalidError, match=r"spec.validations\[0\].expression: .*compilation failed"):
        await user.create(POLICIES, "", policy(expression))


@pytest.mark.parametrize(("failure", "refuses"), [("Fail", True), ("Ignore", False)])
async def test_an_invalid_restored_policy_fails_by_its_failure_policy(failure: str, refuses: bool) -> None:
    # given a server with restored objects, which were not checked
    server = fresh()
    foreign = policy("object.?data.hasValue()", failurePolicy=failure)
    for resource, doc in ((POLICIES, foreign), (BINDINGS, BINDING)):
        server.restore(resource, [{**doc, "metadata": {**doc["metadata"], "uid": "u"}}])
    user = client(server)
    # then
    if refuses:
        with pytest.raises(InvalidError, match="denied request: compilation failed"):
            await put_in(user, "any")
    else:
        await put_in(user, "any")


async def test_a_broken_variable_is_an_error_of_the_expression_that_uses_it() -> None:
    # given
    user = client(fresh())
    variables = [{"name": "lost", "expression": "object.no.way"}, {"name": "fine", "expression": "1"}]
    await user.create(POLICIES, "", policy("variables.fine == 1", variables=variables))
    await user.create(BINDINGS, "", BINDING)
    # then an expression that does not use the variable works
    await put_in(user, "one")
    # and when an expression uses it
    changed = {"spec": {"validations": [{"expression": "variables.lost == 1"}]}}
    await user.patch(POLICIES, "", "p", changed, patch_type=PatchType.MERGE)
    # then
    with pytest.raises(InvalidError, match='composited variable "lost" fails to evaluate'):
        await put_in(user, "two")


def test_variables_inside_string_literals_are_ignored() -> None:
    text = "variables.a + 'variables.b' + my.variables.c + variables . d + variables.a"
    assert list_used_variables(text) == ("a", "d")
