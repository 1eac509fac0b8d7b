"""RBAC: tokens, impersonation, rules. Conformance tests compare permissions of users with Kubernetes."""

import asyncio
import random
from typing import Any

import pytest

from pykruise.kube.documents import decode
from pykruise.kube.errors import ForbiddenError
from pykruise.kube.resources import CLUSTER_ROLES, CONFIG_MAPS, PODS, SERVICE_ACCOUNTS
from pykruise.sandbox.apiserver import ApiServer
from pykruise.sandbox.apiserver.access.attributes import attributes_of
from pykruise.sandbox.apiserver.access.rules import format_rule, list_uncovered
from pykruise.sandbox.apiserver.access.users import ADMIN, ANONYMOUS_USER, AUTHENTICATED, User
from pykruise.sandbox.cluster import Cluster, ClusterSettings
from support.api import Api

ALICE = User(name="alice", groups=(AUTHENTICATED,))
READ_PODS = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}


class _Time:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


async def _with_account(clock: _Time, *, rbac: bool = True) -> tuple[ApiServer, Api]:
    server = ApiServer(clock=clock, rng=random.Random(1), rbac=rbac)
    api = Api(server)
    await api.post(str(SERVICE_ACCOUNTS.format_path("default")), {"metadata": {"name": "worker"}})
    return server, api


async def _token(api: Api, **spec: Any) -> str:
    path = SERVICE_ACCOUNTS.format_path("default", "worker", "token")
    reply = await api.post(path, {"spec": spec})
    assert reply.status == 201, reply.raw
    token: str = reply.doc["status"]["token"]
    return token


# --- tokens ----------------------------------------


async def test_a_token_authenticates_its_account_until_it_expires() -> None:
    # given
    clock = _Time()
    server, api = await _with_account(clock)
    token = await _token(api, expirationSeconds=600)
    # when
    user = server.user_of(token)
    clock.now += 600
    # then
    assert user is not None
    assert user.name == "system:serviceaccount:default:worker"
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:default", AUTHENTICATED)
    assert server.user_of(token) is None


async def test_a_token_ends_with_its_account_and_with_the_pod_it_is_bound_to() -> None:
    # given two accounts' tokens, one of them bound to a pod
    server, api = await _with_account(_Time())
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    await api.post(PODS.format_path("default"), pod)
    bound = await _token(api, boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "p"})
    free = await _token(api)
    # when the pod is deleted, and then the account
    await api.delete(PODS.format_path("default", "p"))
    after_pod = [server.user_of(bound), server.user_of(free)]
    await api.delete(SERVICE_ACCOUNTS.format_path("default", "worker"))
    await api.post(SERVICE_ACCOUNTS.format_path("default"), {"metadata": {"name": "worker"}})
    # then a new account with the same name is another one
    assert after_pod[0] is None
    assert after_pod[1] is not None
    assert server.user_of(free) is None


@pytest.mark.parametrize("change", ["x", "", ".", "..", "a.b.c", "é.é.é", "\udcff.a.b"])
async def test_a_token_of_no_server_or_of_another_one_has_no_user(change: str) -> None:
    # given
    server, api = await _with_account(_Time())
    other, other_api = await _with_account(_Time())
    token = await _token(api)
    # when, then
    assert server.user_of(change) is None
    assert server.user_of(token + change if change else token[:-1]) is None
    assert (await _token(other_api)) == token  # the same seed; a new server does not know it
    assert ApiServer(clock=_Time(), rng=random.Random(2)).user_of(token) is None
    assert other.user_of(token) is not None


# --- impersonation ---------------------------------------------


@pytest.mark.parametrize(
    ("headers", "refused"),
    [
        (
            {"impersonate-user": "bob"},
            'users "bob" is forbidden: User "alice" cannot impersonate resource "users" in API group "" at the '
            "cluster scope",
        ),
        (
            {"impersonate-user": "system:serviceaccount:shop:x"},
            'serviceaccounts "x" is forbidden: User "alice" cannot impersonate resource "serviceaccounts" in API '
            'group "" in the namespace "shop"',
        ),
    ],
)
async def test_acting_as_another_user_takes_a_right_to_it(headers: dict[str, str], refused: str) -> None:
    # given
    server, _ = await _with_account(_Time())
    # when
    answer = await server.handle("GET", PODS.format_path("default"), headers=headers, user=ALICE)
    # then
    assert answer.status == 403
    assert decode(answer.body)["message"] == refused


async def test_an_admin_acting_as_a_user_of_several_groups_is_that_user() -> None:
    # given
    server, _ = await _with_account(_Time())
    headers = {
        "impersonate-user": "bob",
        "impersonate-group": "one\ntwo",
        "impersonate-extra-scopes": "a",
        "content-type": "application/json",
    }
    # when
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    answer = await server.handle("POST", path, headers=headers, body=b"{}", user=ADMIN)
    # then
    assert decode(answer.body)["status"]["userInfo"] == {
        "username": "bob",
        "groups": ["one", "two", AUTHENTICATED],
        "extra": {"scopes": ["a"]},
    }


@pytest.mark.parametrize("name", ["root", "kubernetes-admin"])
async def test_a_client_without_a_token_cannot_act_as_another_user(name: str) -> None:
    # given
    server, _ = await _with_account(_Time())
    headers = {"impersonate-user": name, "impersonate-group": "system:masters"}
    # when
    answers = [
        await server.handle("GET", path, headers=headers, user=ANONYMOUS_USER)
        for path in ("/version", "/api")
    ]
    # then
    assert [answer.status for answer in answers] == [403, 403]
    assert (await server.handle("GET", "/version", user=ANONYMOUS_USER)).status == 200


async def test_groups_without_a_user_are_refused() -> None:
    server, _ = await _with_account(_Time())
    answer = await server.handle("GET", "/version", headers={"impersonate-group": "x"}, user=ADMIN)
    assert answer.status == 400


async def test_every_user_may_do_everything_without_rbac() -> None:
    # given
    server, _ = await _with_account(_Time(), rbac=False)
    # when
    answer = await server.handle("GET", PODS.format_path("default"), user=ALICE)
    # then
    assert answer.status == 200


# --- rules ----------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "query", "verb", "resource", "name"),
    [
        ("GET", "/api/v1/namespaces/a/pods/p/log", {}, "get", "pods/log", "p"),
        ("GET", "/api/v1/pods", {"watch": "1"}, "watch", "pods", ""),
        ("GET", "/api/v1/watch/pods", {}, "watch", "pods", ""),
        ("GET", "/api/v1/pods", {"fieldSelector": "metadata.name=x,a=b"}, "list", "pods", "x"),
        ("DELETE", "/apis/apps/v1/namespaces/a/deployments", {}, "deletecollection", "deployments", ""),
        ("GET", "/api/v1/namespaces/a", {}, "get", "namespaces", "a"),
        ("PUT", "/api/v1/namespaces/a/finalize", {}, "update", "namespaces/finalize", "a"),
    ],
)
def test_the_verb_and_resource_of_a_request_are_parsed_from_its_path(
    method: str, path: str, query: dict[str, str], verb: str, resource: str, name: str
) -> None:
    asked = attributes_of(ALICE, method, path, query)
    assert (asked.verb, asked.full_resource, asked.name) == (verb, resource, name)


def test_rules_cover_what_is_narrower_and_nothing_else() -> None:
    # given
    held = [READ_PODS, {"verbs": ["*"], "apiGroups": ["apps"], "resources": ["*/scale"]}]
    wanted = [
        {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]},
        {"verbs": ["update"], "apiGroups": ["apps"], "resources": ["deployments/scale", "deployments"]},
        {"verbs": ["get"], "nonResourceURLs": ["/metrics"]},
    ]
    # when
    missing = list_uncovered(held, wanted)
    # then
    assert [format_rule(rule) for rule in missing] == [
        '{APIGroups:["apps"], Resources:["deployments"], Verbs:["update"]}',
        '{NonResourceURLs:["/metrics"], Verbs:["get"]}',
    ]


# --- in a cluster ----------------------------------------


async def test_aggregated_roles_follow_their_parts() -> None:
    # given
    async with Cluster(ClusterSettings(nodes=0, rbac=True), rng=random.Random(1)) as cluster:
        await cluster.controllers.wait_synced()
        rule = {"verbs": ["get"], "apiGroups": ["shop.example.com"], "resources": ["carts"]}
        role = {
            "metadata": {"name": "more", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
            "rules": [rule],
        }
        # when a role is aggregated to another, which is aggregated to a third
        await cluster.client.create(CLUSTER_ROLES, "", role)
        await _until_idle(cluster)
        # then both have its rules
        for name in ("view", "edit", "admin"):
            rules = decode(await cluster.client.get(CLUSTER_ROLES, "", name))["rules"]
            assert rule in rules, name


async def test_a_watch_and_a_list_of_a_user_without_a_role_are_refused() -> None:
    async with Cluster(ClusterSettings(nodes=0, rbac=True), rng=random.Random(1)) as cluster:
        client = cluster.make_granted_client(ALICE)
        with pytest.raises(ForbiddenError):
            await client.list(CONFIG_MAPS, "default")
        with pytest.raises(ForbiddenError):
            async with client.watch(CONFIG_MAPS, "default", resource_version="0"):
                pass


async def _until_idle(cluster: Cluster) -> None:
    await asyncio.sleep(5)
