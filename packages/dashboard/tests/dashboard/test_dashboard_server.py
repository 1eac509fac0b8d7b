"""Answers to browsers: logins, rights (in the stream too), and the events of a stream that was interrupted."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pykruise.dashboard.guard import OWN_HEADER
from pykruise.dashboard.serve import DashboardOptions, serve_dashboard
from pykruise.dashboard.sessions import LaptopDoor
from pykruise.kinds import build_crds
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.client.client import Client
from pykruise.kube.config.connection import make_bearer
from pykruise.kube.config.kubeconfig import load
from pykruise.kube.documents import decode
from pykruise.kube.errors import AlreadyExistsError
from pykruise.kube.http.transport import HttpTransport
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import NAMESPACES, PODS, SERVICE_ACCOUNTS, Resource
from pykruise.testing.http import HttpSandbox
from support.dashboards import Stream, dashboard, visitor
from support.sandbox import pod
from support.scenario import cloneset

pytestmark = pytest.mark.real_time

ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cluster with CloneSets in two namespaces, and no manager: objects stay as tests make them."""
    path = tmp_path_factory.mktemp("dashboard") / "kubeconfig"
    with HttpSandbox(path, nodes=1, rbac=True, manifests=build_crds()):
        yield path


@pytest.fixture
async def client(cluster: Path) -> AsyncIterator[Client]:
    transport = HttpTransport(await load(cluster))
    client = Client(transport)
    for namespace in ("blue", "crimson"):
        try:
            await client.create(NAMESPACES, "", {"metadata": {"name": namespace}})
            await client.create(CLONE_SETS, namespace, cloneset(f"web-of-{namespace}"))
            await client.create(PODS, namespace, {**pod(f"pod-of-{namespace}", labels={"app": "x"})})
        except AlreadyExistsError:
            break
    yield client
    await transport.close()


async def token_of(client: Client, namespace: str, name: str, *resources: str) -> str:
    """The token of a new service account that may only list these resources in its namespace."""
    await client.create(SERVICE_ACCOUNTS, namespace, {"metadata": {"name": name}})
    rule = {"apiGroups": ["*"], "resources": list(resources), "verbs": ["get", "list", "watch"]}
    await client.create(ROLES, namespace, {"metadata": {"name": name}, "rules": [rule]})
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    ref = {"apiGroup": ROLES.group, "kind": "Role", "name": name}
    await client.create(
        BINDINGS, namespace, {"metadata": {"name": name}, "roleRef": ref, "subjects": [subject]}
    )
    asked = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 3600},
    }
    made = await client.create(SERVICE_ACCOUNTS, namespace, asked, name=name, subresource="token")
    return str(decode(made)["status"]["token"])


def names(stream: Stream) -> set[str]:
    return {row["name"] for row in stream.rows.values() if "name" in row}


# ── users with and without access ────────────────────────────────────────────


async def test_nothing_is_sent_to_a_user_who_is_not_logged_in(cluster: Path, client: Client) -> None:
    async with dashboard(cluster) as served, visitor(served, logs_in=False) as browser:
        for path in ("api/session", "api/stream?page=rollouts", "api/stream?page=workload&kind=pods&name=x"):
            assert (await browser.get(path))[0] == 401
        assert (await browser.post("plan", {}))[0] == 401
        status, _, page = await browser.get("")
        assert (status, b"web-of" in page) == (200, False)


async def test_a_link_opens_once(cluster: Path, client: Client) -> None:
    async with dashboard(cluster) as served:
        assert isinstance(served.door, LaptopDoor)
        token = served.door.renew_token()
        async with visitor(served, logs_in=False) as first, visitor(served, logs_in=False) as second:
            assert await first.log_in("guessed") == 401
            assert await first.log_in(token) == 200
            assert await second.log_in(token) == 401
            assert (await first.get("api/session"))[0] == 200
            assert (await second.get("api/session"))[0] == 401


async def test_the_cookie_is_http_only_and_same_site_strict(cluster: Path, client: Client) -> None:
    async with dashboard(cluster) as served, visitor(served, logs_in=False) as browser:
        assert isinstance(served.door, LaptopDoor)
        body = {"token": served.door.renew_token()}
        async with browser.http.post(
            f"{browser.url}api/login", json=body, headers={OWN_HEADER: "1"}
        ) as answer:
            said = answer.headers["set-cookie"]
    assert "HttpOnly" in said
    assert "SameSite=Strict" in said
    assert "Path" not in said


async def test_another_host_and_another_origin_are_refused(cluster: Path, client: Client) -> None:
    async with dashboard(cluster) as served, visitor(served) as browser:
        assert (await browser.get("api/session", Host=f"rebound.example:{served.port}"))[0] == 403
        assert (await browser.get("api/session", Origin="http://attacker.example"))[0] == 403
        assert (await browser.post("plan", {}, Origin="http://attacker.example"))[0] == 403
        assert (await browser.get("api/session", Origin=f"http://127.0.0.1:{served.port}"))[0] == 200


async def test_answers_have_a_content_security_policy_and_are_not_stored(
    cluster: Path, client: Client
) -> None:
    async with dashboard(cluster) as served, visitor(served) as browser:
        _, headers, _ = await browser.get("")
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        _, headers, _ = await browser.get("api/session")
        assert headers["cache-control"] == "no-store"


async def test_after_a_logout_the_session_and_its_stream_end(cluster: Path, client: Client) -> None:
    async with dashboard(cluster) as served, visitor(served) as browser:
        async with browser.stream("rollouts") as stream:
            await stream.until(lambda stream: "synced" in stream.events)
            await browser.post("logout", {})
            await make(client, "blue", "shows-that-the-stream-ends")
            await stream.until(lambda stream: stream.events[-1] == "")
        assert (await browser.get("api/session"))[0] == 401


async def test_behind_a_proxy_that_leaves_its_path_on(cluster: Path, client: Client) -> None:
    async with dashboard(cluster, base_path="/tools/kruise") as served, visitor(served) as browser:
        status, _, page = await browser.get("")
        script = re.search(rb'src="(assets/app\.\w+\.js)"', page)
        assert (status, script is not None) == (200, True)
        assert script is not None
        assert (await browser.get(script[1].decode()))[0] == 200
        async with browser.http.get(f"http://127.0.0.1:{served.port}/api/session") as answer:
            assert answer.status == 404


# ── rows ─────────────────────────────────────────────────────────────────────


async def make(client: Client, namespace: str, name: str, **spec: Any) -> None:
    await client.create(CLONE_SETS, namespace, cloneset(name, **spec))


async def test_a_local_dashboard_streams_everything_that_the_kubeconfig_may_read(
    cluster: Path, client: Client
) -> None:
    async with dashboard(cluster) as served, visitor(served) as browser, browser.stream("rollouts") as stream:
        await stream.until(lambda stream: {"web-of-blue", "web-of-crimson"} <= names(stream))
        await make(client, "blue", "comes", replicas=7)
        await stream.until(lambda stream: "comes" in names(stream))
        assert stream.rows["clonesets.apps.kruise.io/blue/comes"]["desired"] == 7
        await client.delete(CLONE_SETS, "blue", "comes")
        await stream.until(lambda stream: "comes" not in names(stream))


async def test_a_user_of_one_namespace_sees_no_other_namespace_in_pages_and_stream(
    cluster: Path, client: Client
) -> None:
    token = await token_of(client, "blue", "one-namespace", "*")
    async with (
        dashboard(cluster, is_shared=True) as served,
        visitor(served, token=token) as browser,
        browser.stream("rollouts") as stream,
    ):
        await stream.until(lambda stream: "web-of-blue" in names(stream))
        await make(client, "crimson", "secret-name")
        await client.delete(CLONE_SETS, "crimson", "secret-name")
        await make(client, "blue", "own-name")
        await stream.until(lambda stream: "own-name" in names(stream))
        await client.delete(CLONE_SETS, "blue", "own-name")
        await stream.until(lambda stream: "own-name" not in names(stream))
        assert "crimson" not in stream.sent
        assert "secret" not in stream.sent


@pytest.mark.parametrize(
    "page",
    [
        "workload&kind=clonesets.apps.kruise.io&namespace=crimson&name=web-of-crimson",
        "workload&kind=pods&namespace=crimson&name=pod-of-crimson",
        "workload&kind=namespaces&name=crimson",
        "pods",
        "jobs",
        "health",
    ],
)
async def test_no_page_shows_anything_of_another_namespace(cluster: Path, client: Client, page: str) -> None:
    token = await token_of(client, "blue", f"asks-{abs(hash(page))}", "*")
    async with (
        dashboard(cluster, is_shared=True) as served,
        visitor(served, token=token) as browser,
        browser.stream(page) as stream,
    ):
        await stream.until(lambda stream: "synced" in stream.events)
        await asyncio.sleep(1.0)
        await client.patch(
            CLONE_SETS, "crimson", "web-of-crimson", {"spec": {"replicas": 9}}, patch_type=PatchType.MERGE
        )
        await make(client, "blue", f"later-{abs(hash(page))}")
        await asyncio.sleep(1.0)
        sent = stream.sent
    assert "web-of-crimson" not in sent
    assert "pod-of-crimson" not in sent
    assert "nginx" not in sent or "blue" in sent


async def test_a_page_shows_only_parts_that_the_user_may_list(cluster: Path, client: Client) -> None:
    token = await token_of(client, "blue", "sets-alone", "clonesets")
    async with (
        dashboard(cluster, is_shared=True) as served,
        visitor(served, token=token) as browser,
        browser.stream("workload&kind=clonesets.apps.kruise.io&namespace=blue&name=web-of-blue") as stream,
    ):
        await stream.until(
            lambda stream: set(stream.rows) == {"head"}
        )  # before that, the row says that the page is being read


async def test_a_revoked_right_empties_the_page(
    cluster: Path, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pykruise.dashboard.access.ALLOWED_S", 0.2)
    token = await token_of(client, "blue", "goes-soon", "*")
    async with (
        dashboard(cluster, is_shared=True) as served,
        visitor(served, token=token) as browser,
        browser.stream("rollouts") as stream,
    ):
        await stream.until(lambda stream: "web-of-blue" in names(stream))
        await client.delete(BINDINGS, "blue", "goes-soon")
        await asyncio.sleep(0.3)
        await make(client, "blue", "after-that")
        await stream.until(lambda stream: not stream.rows)
        assert "after-that" not in stream.sent


async def test_a_kubeconfig_for_one_namespace_shows_that_namespace(cluster: Path, client: Client) -> None:
    token = await token_of(client, "blue", "small-laptop", "*")
    mine = replace(await load(cluster), credentials=make_bearer(token), namespace="blue")
    async with (
        serve_dashboard(mine, DashboardOptions()) as served,
        visitor(served) as browser,
        browser.stream("rollouts") as stream,
    ):
        assert served.namespace == "blue"
        await stream.until(lambda stream: "web-of-blue" in names(stream))
        assert "crimson" not in stream.sent


async def test_an_invalid_token_is_refused(cluster: Path, client: Client) -> None:
    async with dashboard(cluster, is_shared=True) as served, visitor(served, logs_in=False) as browser:
        for token in ("", "nonsense", "a b", "ä", "x" * 20_000):
            assert await browser.log_in(token) == 401


async def test_a_proxy_may_log_in_with_a_header_only_at_a_shared_dashboard(
    cluster: Path, client: Client
) -> None:
    token = await token_of(client, "blue", "by-header", "*")
    said = {"Authorization": f"Bearer {token}"}
    async with dashboard(cluster, is_shared=True) as served, visitor(served, logs_in=False) as browser:
        assert (await browser.get("api/session", **said))[0] == 200
        assert (await browser.get("api/session", Authorization="Bearer nonsense"))[0] == 401
    async with dashboard(cluster) as served, visitor(served, logs_in=False) as browser:
        assert (await browser.get("api/session", **said))[0] == 401


async def test_after_a_broken_connection_only_what_was_missed_is_sent(cluster: Path, client: Client) -> None:
    async with dashboard(cluster) as served, visitor(served) as browser:
        async with browser.stream("rollouts") as stream:
            await stream.until(lambda stream: "web-of-crimson" in names(stream) and stream.last_id)
        await make(client, "blue", "missed")
        async with browser.stream("rollouts", **{"Last-Event-ID": stream.last_id}) as again:
            await again.until(lambda stream: "missed" in names(stream))
            assert names(again) == {"missed"}
            assert "reset" not in again.events
        async with browser.stream("rollouts", **{"Last-Event-ID": "another-0-5"}) as anew:
            await anew.until(lambda stream: "missed" in names(stream))
            assert "reset" in anew.events
        await client.delete(CLONE_SETS, "blue", "missed")


# ── asking and doing ─────────────────────────────────────────────────────────


OBJECT = {"kind": "clonesets.apps.kruise.io", "namespace": "blue", "name": "web-of-blue"}


async def test_the_what_if_form_shows_the_result_of_plan_and_writes_nothing(
    cluster: Path, client: Client
) -> None:
    before = decode(await client.get(CLONE_SETS, "blue", "web-of-blue"))
    async with dashboard(cluster) as served, visitor(served) as browser:
        status, result = await browser.post("plan", {**OBJECT, "sets": {"replicas": "5"}})
        assert (status, result["lines"][0]) == (200, "CloneSet blue/web-of-blue: would change")
        assert result["command"].endswith("-n blue --set replicas=5")
        assert result["chart"].startswith("data:image/svg+xml;base64,")
        status, result = await browser.post("plan", {**OBJECT, "sets": {"replicas": "many"}})
        assert (status, "whole number" in result["error"]) == (422, True)
    assert decode(await client.get(CLONE_SETS, "blue", "web-of-blue"))["spec"] == before["spec"]


async def test_nothing_writes_without_actions(cluster: Path, client: Client) -> None:
    async with dashboard(cluster) as served, visitor(served) as browser:
        asked = {**OBJECT, "action": "pause", "values": {}}
        assert (await browser.post("act", asked))[0] == 404


async def test_an_action_is_what_its_command_does(cluster: Path, client: Client) -> None:
    await make(client, "blue", "acted-on")
    mine = {**OBJECT, "name": "acted-on"}
    async with dashboard(cluster, has_actions=True) as served, visitor(served) as browser:
        assert await browser.post("rights", mine) == (200, {"may": True})
        scale = {**mine, "action": "scale", "values": {"replicas": "4"}}
        assert (await browser.post("act", scale))[0] == 422  # no question was asked before
        status, question = await browser.post("question", scale)
        assert (status, question["code"], question["needs_name"]) == (200, 0, False)
        assert question["diff"] == ["spec.replicas: 3 → 4"]
        assert question["plan"][0] == "CloneSet blue/acted-on: would change"
        assert decode(await client.get(CLONE_SETS, "blue", "acted-on"))["spec"]["replicas"] == 3
        other = {**scale, "values": {"replicas": "5"}, "ticket": question["ticket"]}
        assert (await browser.post("act", other))[0] == 422  # the question had other values
        status, said = await browser.post("act", {**scale, "ticket": question["ticket"]})
        assert (status, said["code"]) == (200, 0)
        assert said["said"].endswith("scaled")
        assert (await browser.post("act", {**scale, "ticket": question["ticket"]}))[
            0
        ] == 422  # the object has changed since the question
        for path in ("question", "act"):
            for values in ({"replicas": "--dry-run"}, {"replicas": ""}, {}, {"replicas": "4\n5"}):
                assert (await browser.post(path, {**scale, "values": values}))[0] == 422
            assert (await browser.post(path, {**mine, "action": "delete", "values": {}}))[0] == 422
            for revision in ("0", "", "-1", "last"):
                undo = {**mine, "action": "undo", "values": {"revision": revision}}
                assert (await browser.post(path, undo))[0] == 422
    assert decode(await client.get(CLONE_SETS, "blue", "acted-on"))["spec"]["replicas"] == 4


async def test_the_name_is_typed_where_many_pods_are_at_stake(cluster: Path, client: Client) -> None:
    await make(client, "blue", "large")
    async with dashboard(cluster, has_actions=True) as served, visitor(served) as browser:
        scale = {**OBJECT, "name": "large", "action": "scale", "values": {"replicas": "11"}}
        _, question = await browser.post("question", scale)
        assert (question["pods"], question["needs_name"]) == (11, True)
        scale["ticket"] = question["ticket"]
        for typed in ({}, {"typed": "larg"}):
            assert (await browser.post("act", {**scale, **typed}))[0] == 422
        assert (await browser.post("act", {**scale, "typed": "large"}))[1]["code"] == 0
    assert decode(await client.get(CLONE_SETS, "blue", "large"))["spec"]["replicas"] == 11


async def test_an_action_runs_with_the_users_own_rights(cluster: Path, client: Client) -> None:
    token = await token_of(client, "blue", "reads-only", "*")
    async with (
        dashboard(cluster, is_shared=True, has_actions=True) as served,
        visitor(served, token=token) as browser,
    ):
        assert await browser.post("rights", OBJECT) == (200, {"may": False})
        scale = {**OBJECT, "action": "scale", "values": {"replicas": "5"}}
        status, question = await browser.post("question", scale)
        assert (status, question["code"], question["ticket"]) == (200, 1, "")
        assert "forbidden" in question["said"]
        assert (await browser.post("rights", {**OBJECT, "namespace": "crimson"}))[0] in (403, 404)
    assert decode(await client.get(CLONE_SETS, "blue", "web-of-blue"))["spec"]["replicas"] == 3
