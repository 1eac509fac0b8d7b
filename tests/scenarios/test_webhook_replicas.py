"""The webhooks of managers on a cluster: every order of installing, races, rotation, and what can go wrong."""

import asyncio
import base64
import random
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import orjson
import pytest

from pykruise.admission.certificate_work import authorities_of, find_problem, renew_certificates
from pykruise.admission.certificates import DAY_S, YEAR_S, Certificates
from pykruise.admission.configurations import (
    MUTATING,
    MUTATING_NAME,
    VALIDATING,
    VALIDATING_NAME,
    read_current_conditions,
)
from pykruise.admission.stores import CertificateFolder, SecretStore
from pykruise.kinds import build_crds
from pykruise.kinds import list_kinds as all_kinds
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.gates import Gates
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kube.admission import AdmissionAnswer, AdmissionRequest, ReviewRule
from pykruise.kube.client.client import Client
from pykruise.kube.client.retries import RetryPolicy
from pykruise.kube.client.transport import Request, Response, Transport, WrappedTransport
from pykruise.kube.clock import read_system_clock
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import AlreadyExistsError, UnreachableError
from pykruise.kube.patches import PatchType
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, PODS, SECRETS
from pykruise.kube.schemas.crds import build_webhook_conversion
from pykruise.kube.values.x509 import pem_of
from pykruise.kube.webhooks.server import WebhookLimits
from pykruise.manager.settings import ManagerSettings
from pykruise.manager.webhooks import WebhooksNotReadyError
from pykruise.sandbox.apiserver import ApiServer
from pykruise.sandbox.local import LocalTransport
from pykruise.sandbox.webhook_caller import WebhookCaller
from support.cloneset_builder import cloneset
from support.reviews import posted, read, request
from support.webhooks import (
    QUIET_S,
    install_configurations,
    install_namespace,
    running_webhooks,
    wait_ready,
    webhook_settings,
)

# Sockets and TLS are real, and so is time; test_webhooks.py has the same on a real API server.
pytestmark = [pytest.mark.real_time, pytest.mark.sandbox_only, pytest.mark.timeout(300)]

NAMESPACE, SECRET = "kruise-system", "kruise-webhook-certs"
CRD = "clonesets.apps.kruise.io"


@asynccontextmanager
async def fresh_client(caller: WebhookCaller | None = None) -> AsyncIterator[Client]:
    """A client of an empty API server; with a caller, the API server calls webhooks."""
    server = ApiServer(clock=read_system_clock, rng=random.Random(1), webhooks=caller)
    transport = LocalTransport(server, username="manager")
    try:
        yield Client(transport, rng=random.Random(2))
    finally:
        await transport.close()


async def install_secret(client: Client, settings: ManagerSettings) -> None:
    """Create the empty Secret, as the chart does; an existing one stays, with the data that a manager has written."""
    with suppress(AlreadyExistsError):
        await client.create(SECRETS, NAMESPACE, {"metadata": {"name": SECRET}})


async def install_crds(client: Client, settings: ManagerSettings) -> None:
    for crd in build_crds(build_webhook_conversion(service=("kruise-system", "kruise-webhook-service"))):
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd)


async def everything(client: Client, settings: ManagerSettings) -> None:
    for install in (install_namespace, install_secret, install_crds, install_configurations):
        await install(client, settings)


async def stored_data(client: Client) -> dict[str, str]:
    data: dict[str, str] = decode(await client.get(SECRETS, NAMESPACE, SECRET))["data"]
    return data


async def bundles(client: Client) -> set[str]:
    """Every caBundle that API servers are given."""
    bundles: set[str] = set()
    for resource, name in ((MUTATING, MUTATING_NAME), (VALIDATING, VALIDATING_NAME)):
        doc = decode(await client.get(resource, "", name))
        bundles |= {entry["clientConfig"].get("caBundle", "") for entry in doc["webhooks"]}
    crd = decode(await client.get(CUSTOM_RESOURCE_DEFINITIONS, "", CRD))
    return bundles | {crd["spec"]["conversion"]["webhook"]["clientConfig"].get("caBundle", "")}


async def review(port: int, bundle: str) -> bool:
    """Ask as an API server that trusts `bundle`."""
    context = ssl.create_default_context(cadata=base64.b64decode(bundle).decode())
    url = f"https://127.0.0.1:{port}/mutate-apps-kruise-io-cloneset"
    connector = aiohttp.TCPConnector(ssl=context, force_close=True)
    body = posted(request(CLONE_SETS, cloneset(3).document))
    async with aiohttp.ClientSession(connector=connector) as session, session.post(url, data=body) as answer:
        answer.raise_for_status()
        reply = read(await answer.read())
    assert reply.allowed, reply.message
    return True


async def until(claim: Callable[[], Awaitable[bool]], *, within_s: float = 100.0) -> None:
    async with asyncio.timeout(within_s):
        while not await claim():
            await asyncio.sleep(0.05)


# ── every order ──────────────────────────────────────────────────────────────

STEPS = {"secret": install_secret, "configurations": install_configurations, "crds": install_crds}


@pytest.mark.parametrize("is_reversed", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("first", [*STEPS, "manager"])
async def test_all_replicas_serve_with_one_authority_in_any_order_of_installation(
    tmp_path: Path, first: str, is_reversed: bool
) -> None:
    """admission cases 1, 2, 15 and 16; operations: install order"""
    # given half of all orders, so that every pair of steps comes in both orders; the other half is reversed
    a, b, c = (name for name in [*STEPS, "manager"] if name != first)
    turns = [(a, b, c), (b, c, a), (c, a, b)]
    orders = [(first, *(reversed(turn) if is_reversed else turn)) for turn in turns]
    # then
    await asyncio.gather(*(_install_in(order, tmp_path / "-".join(order)) for order in orders))


async def _install_in(order: Sequence[str], folder: Path) -> None:
    async with fresh_client() as client, AsyncExitStack() as stack:
        # given two replicas, started at the same moment when it is their turn
        settings = webhook_settings(folder / "0")
        other = webhook_settings(folder / "1", port=settings.webhook.port)
        await install_namespace(client, settings)
        replicas = []
        for step in order:
            if step == "manager":
                replicas = [
                    await stack.enter_async_context(
                        running_webhooks(client, each, port=0, wait=False, settle_s=0.05)
                    )
                    for each in (settings, other)
                ]
            else:
                await STEPS[step](client, settings)
            await asyncio.sleep(0.1)
        # then
        await wait_ready(replicas)
        data = await stored_data(client)
        await until(lambda: _all_have(client, data["ca-cert.pem"]))
        for replica in replicas:
            assert await review(replica.server.port, data["ca-cert.pem"]), order


async def _all_have(client: Client, bundle: str) -> bool:
    return await bundles(client) == {bundle}


# ── as time goes by ──────────────────────────────────────────────────────────


class WrongClock:
    """A clock that is wrong by `off_s` seconds."""

    def __init__(self) -> None:
        self.off_s = 0.0

    def __call__(self) -> float:
        return read_system_clock() + self.off_s


async def stored_before(client: Client, settings: ManagerSettings, *, days_left: float) -> None:
    """Store certificates of an earlier manager, and an authority of the same age."""
    await install_namespace(client, settings)
    worn = renew_certificates(
        None, host=settings.webhook.host, now=read_system_clock() + days_left * DAY_S - 10 * YEAR_S
    )
    await SecretStore(client, namespace=NAMESPACE, name=SECRET).write(worn, over=None)
    await install_crds(client, settings)
    await install_configurations(client, settings)


async def touch_secret(client: Client) -> None:
    """Change an annotation of the Secret, so that replicas read it again."""
    patch = {"metadata": {"annotations": {"touched": str(read_system_clock())}}}
    await client.patch(SECRETS, NAMESPACE, SECRET, patch, patch_type=PatchType.MERGE)


async def take_the_pair_away(client: Client) -> None:
    """Delete the pair from the Secret, as a person does to renew it early (docs/webhooks.md)."""
    patch = {"data": {"ca-key.pem": None, "cert.pem": None, "tls.crt": None}}
    await client.patch(SECRETS, NAMESPACE, SECRET, patch, patch_type=PatchType.MERGE)


@pytest.mark.parametrize("by", ["time", "hand"])
async def test_an_authority_is_replaced_without_one_failed_request(tmp_path: Path, by: str) -> None:
    """admission case 3; operations case 18; with several replicas, under load"""
    clock = WrongClock()
    async with fresh_client() as client, AsyncExitStack() as stack:
        # given two replicas that have no reason yet to renew, and API servers that ask all the time
        clock.off_s = -10 * DAY_S
        settings = webhook_settings(tmp_path / "0")
        other = webhook_settings(tmp_path / "1", port=settings.webhook.port)
        await stored_before(client, settings, days_left=175)
        replicas = [
            await stack.enter_async_context(running_webhooks(client, each, port=0, settle_s=0.3, clock=clock))
            for each in (settings, other)
        ]
        before = (await stored_data(client))["ca-cert.pem"]
        assert await bundles(client) == {before}
        failures: list[BaseException] = []
        asked: list[str] = []
        stop = asyncio.Event()

        async def ask(port: int) -> None:
            while not stop.is_set():
                entry = decode(await client.get(VALIDATING, "", VALIDATING_NAME))["webhooks"][0]
                bundle = entry["clientConfig"]["caBundle"]
                await asyncio.sleep(0.05)  # an API server uses a configuration that is a little old
                try:
                    assert await review(port, bundle)
                    asked.append(bundle)
                except (OSError, aiohttp.ClientError, AssertionError) as error:
                    failures.append(error)

        asking = [asyncio.create_task(ask(replica.server.port)) for replica in replicas]
        await until(lambda: _is_true(len(asked) > 10))
        # when the time to renew has come, or a user wants another one
        if by == "time":
            clock.off_s = 0.0
            await touch_secret(client)
        else:
            await take_the_pair_away(client)
        await until(lambda: _is_served_by(replicas, client, not_before=before))
        count = len(asked)
        await until(lambda: _is_true(len(asked) > count + 20))
        stop.set()
        await asyncio.gather(*asking)
        # then
        assert failures == []
        assert len(set(asked)) == 2
        new, *former = authorities_of(base64.b64decode((await stored_data(client))["ca-cert.pem"]))
        assert former == authorities_of(base64.b64decode(before))
        assert new not in former


async def _is_true(value: bool) -> bool:
    return value


async def _is_served_by(replicas: Sequence[Any], client: Client, *, not_before: str) -> bool:
    """Whether all replicas serve with a pair of the first stored authority, and the CA bundle has changed."""
    bundle = (await stored_data(client))["ca-cert.pem"]
    if bundle == not_before or await bundles(client) != {bundle}:
        return False
    [first, *_] = authorities_of(base64.b64decode(bundle))
    alone = base64.b64encode(pem_of(first)).decode()
    try:
        return all([await review(replica.server.port, alone) for replica in replicas])
    except (OSError, aiohttp.ClientError):
        return False


async def test_a_short_window_leaves_a_pair_alone(tmp_path: Path) -> None:
    """admission case 4"""
    async with fresh_client() as client:
        settings = webhook_settings(tmp_path, renew_before="30d")
        await stored_before(client, settings, days_left=100)
        before = await stored_data(client)
        async with running_webhooks(client, settings, port=0):
            assert await stored_data(client) == before


async def test_a_replica_whose_clock_is_behind_does_not_replace_the_pair(tmp_path: Path) -> None:
    """Certificates are valid from an hour before their creation. A clock that is further behind causes no renewal."""
    behind = WrongClock()
    behind.off_s = -3 * DAY_S
    async with fresh_client() as client, AsyncExitStack() as stack:
        settings = webhook_settings(tmp_path / "0")
        other = webhook_settings(tmp_path / "1", port=settings.webhook.port)
        await everything(client, settings)
        await stack.enter_async_context(running_webhooks(client, settings, port=0))
        before = await stored_data(client)
        webhooks = await stack.enter_async_context(running_webhooks(client, other, port=0, clock=behind))
        assert await review(webhooks.server.port, before["ca-cert.pem"])
        await touch_secret(client)
        await asyncio.sleep(1.2)
        assert await stored_data(client) == before


async def test_an_expired_certificate_is_replaced_immediately(tmp_path: Path) -> None:
    async with fresh_client() as client:
        settings = webhook_settings(tmp_path)
        await stored_before(client, settings, days_left=-1)
        async with running_webhooks(client, settings, port=0, settle_s=60.0) as webhooks:
            data = await stored_data(client)
            assert await review(webhooks.server.port, data["ca-cert.pem"])
            assert len(authorities_of(base64.b64decode(data["ca-cert.pem"]))) == 1


async def test_a_clock_jump_past_the_expiry_renews_the_certificate_immediately(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # given certificates of ten years, and looks at them every minute
    monkeypatch.setattr("pykruise.manager.webhooks.CHECK_EVERY_S", 0.1)
    jumped_s = 0.0
    async with fresh_client() as client:
        settings = webhook_settings(tmp_path)
        await everything(client, settings)
        async with running_webhooks(
            client, settings, port=0, settle_s=0.3, clock=lambda: read_system_clock() + jumped_s
        ):
            await asyncio.sleep(3)  # the checks after a start are over: the next one comes in a minute
            # when
            jumped_s = 11 * YEAR_S

            # then
            async def is_renewed() -> bool:
                stored = await SecretStore(client, namespace=NAMESPACE, name=SECRET).read()
                now = read_system_clock() + jumped_s
                return stored is not None and not find_problem(
                    stored.certificates, host="127.0.0.1", now=now, lasting_s=DAY_S
                )

            async with asyncio.timeout(15):
                await until(is_renewed)
            assert "the clock has jumped: certificates are checked again" in caplog.text


async def test_configurations_changed_by_another_client_are_restored(tmp_path: Path) -> None:
    """admission case 8"""
    async with fresh_client() as client:
        settings = webhook_settings(tmp_path)
        await everything(client, settings)
        async with running_webhooks(client, settings, port=0):
            good = await bundles(client)
            ops = [{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": "AAAA"}]
            await client.patch(VALIDATING, "", VALIDATING_NAME, ops, patch_type=PatchType.JSON)
            path = "/spec/conversion/webhook/clientConfig/caBundle"
            ops = [{"op": "replace", "path": path, "value": "AAAA"}]
            await client.patch(CUSTOM_RESOURCE_DEFINITIONS, "", CRD, ops, patch_type=PatchType.JSON)
            assert await bundles(client) != good
            await until(lambda: _is_good(client, good))


async def _is_good(client: Client, good: set[str]) -> bool:
    return await bundles(client) == good


async def test_nothing_is_written_when_nothing_differs(tmp_path: Path) -> None:
    """pitfall 3"""
    async with fresh_client() as client:
        settings = webhook_settings(tmp_path)
        await everything(client, settings)

        async def versions() -> list[str]:
            versions = []
            for resource, namespace, name in (
                (MUTATING, "", MUTATING_NAME),
                (VALIDATING, "", VALIDATING_NAME),
                (CUSTOM_RESOURCE_DEFINITIONS, "", CRD),
            ):
                doc = decode(await client.get(resource, namespace, name))
                versions.append(doc["metadata"]["resourceVersion"])
            return versions

        async with running_webhooks(client, settings, port=0):
            before = await versions()
            for _ in range(3):
                await touch_secret(client)
                await asyncio.sleep(0.7)
            assert await versions() == before


async def test_an_api_server_without_match_conditions_is_not_patched_repeatedly(tmp_path: Path) -> None:
    """Kubernetes before 1.28 drops the field"""
    async with fresh_client() as client:
        settings = webhook_settings(tmp_path)
        await everything(client, settings)
        old = WithoutConditions(client.transport)
        async with running_webhooks(Client(old, rng=random.Random(3)), settings, port=0, quiet_s=0.5):
            for _ in range(6):
                await touch_secret(client)
                await asyncio.sleep(0.7)
        assert old.patches == 3, "the address and the bundle, and once for each condition that is tried"


async def test_the_match_conditions_follow_the_stored_objects(tmp_path: Path) -> None:
    """pods that are not selected cost nothing; test_webhooks.py has the same on a real API server"""
    caller = WebhookCaller()
    async with fresh_client(caller) as client, AsyncExitStack() as stack:
        stack.push_async_callback(caller.close)
        settings = webhook_settings(tmp_path)
        await everything(client, settings)
        await client.create(NAMESPACES, "", {"metadata": {"name": "shop"}})

        async def asks(*terms: str, not_about: str = "none of these") -> None:
            async def so() -> bool:
                conditions = read_current_conditions(decode(await client.get(MUTATING, "", MUTATING_NAME)))[
                    "/mutate-pod"
                ]
                text = conditions[0].expression if conditions else ""
                return bool(text) and all(term in text for term in terms) and not_about not in text

            await until(so)

        async with running_webhooks(client, settings, quiet_s=QUIET_S):
            await asks(not_about="labels")
            # when
            await client.create(SIDECAR_SETS, "", sidecarset_for("web"))
            # then a pod that is created at once has its sidecar, and the conditions soon select such pods
            assert await containers_of(client, "web") == ["log", "main"]
            await asks('object.metadata.labels["app"] in ["web"]')
            assert await containers_of(client, "web") == ["log", "main"]
            assert await containers_of(client, "db") == ["main"]
            # when the SidecarSet selects other pods
            new = {"spec": sidecarset_for("db")["spec"]}
            await client.patch(SIDECAR_SETS, "", "log", new, patch_type=PatchType.MERGE)
            assert await containers_of(client, "db") == ["log", "main"]
            await asks('object.metadata.labels["app"] in ["db"]', not_about='"web"')
            # when a WorkloadSpread is created, and both objects are deleted
            await client.create(WORKLOAD_SPREADS, "shop", SPREAD)
            await asks('object.metadata.labels["app"] in ["db"]', 'request.namespace in ["shop"]')
            await client.delete(SIDECAR_SETS, "", "log")
            await asks('request.namespace in ["shop"]', not_about="labels")
            await client.delete(WORKLOAD_SPREADS, "shop", "web")
            await asks(not_about="shop")
        # then pods that are not selected start without a webhook that answers
        assert await containers_of(client, "web") == ["main"]


async def containers_of(client: Client, app: str) -> list[str]:
    """Names of the containers of a new pod, after the webhooks."""
    doc = {
        "metadata": {"name": "x", "labels": {"app": app}},
        "spec": {"containers": [{"name": "main", "image": "nginx"}]},
    }
    containers = decode(await client.create(PODS, "shop", doc, dry_run=True))
    return [container["name"] for container in containers["spec"]["containers"]]


SPREAD = {
    "apiVersion": WORKLOAD_SPREADS.api_version,
    "kind": WORKLOAD_SPREADS.kind,
    "metadata": {"name": "web"},
    "spec": {
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "subsets": [{"name": "a", "maxReplicas": 1}, {"name": "b"}],
    },
}


def sidecarset_for(app: str) -> Document:
    return {
        "apiVersion": SIDECAR_SETS.api_version,
        "kind": SIDECAR_SETS.kind,
        "metadata": {"name": "log"},
        "spec": {
            "selector": {"matchLabels": {"app": app}},
            "containers": [{"name": "log", "image": "log"}],
        },
    }


class WithoutConditions(WrappedTransport):
    """A transport to an API server that does not know match conditions."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self.patches = 0

    async def request(self, request: Request, /) -> Response:
        """Remove match conditions from patches of the validating configuration."""
        if request.method == "PATCH" and request.path.endswith(VALIDATING_NAME):
            self.patches += 1
            ops = [op for op in orjson.loads(request.body or b"[]") if "matchConditions" not in op["path"]]
            request = msgspec.structs.replace(request, body=orjson.dumps(ops))
        return await self._inner.request(request)


async def test_a_start_without_configurations_ends_after_its_timeout_with_the_reason(tmp_path: Path) -> None:
    """admission case 15, at the start"""
    async with fresh_client() as client:
        settings = webhook_settings(tmp_path, initialize_timeout_s=1.0)
        await install_namespace(client, settings)
        with pytest.raises(ExceptionGroup) as caught:
            async with running_webhooks(client, settings, port=0) as webhooks:
                assert webhooks.list_problems()
        [error] = caught.value.exceptions
        assert isinstance(error, WebhooksNotReadyError)
        assert "kruise-mutating-webhook-configuration does not exist" in str(error)


@pytest.mark.parametrize("bind", ["127.0.0.2", ""])
async def test_a_replica_checks_its_server_at_the_address_on_which_the_server_listens(
    tmp_path: Path, bind: str
) -> None:
    async with fresh_client() as client:
        settings = webhook_settings(tmp_path)
        await everything(client, settings)
        # when
        async with running_webhooks(client, settings, bind=bind, port=0) as webhooks:
            await asyncio.sleep(
                1.5
            )  # the first check follows a second after the start of the server at the latest
            # then
            assert webhooks.list_problems() == []


async def test_a_replica_that_rejects_reviews_because_of_too_much_load_stays_ready(tmp_path: Path) -> None:
    # given
    go = asyncio.Event()

    def hold(rules: Sequence[ReviewRule]) -> list[ReviewRule]:
        def held(rule: ReviewRule) -> ReviewRule:
            async def review(request: AdmissionRequest) -> AdmissionAnswer:
                await go.wait()
                return await rule.reviewer(request)

            return msgspec.structs.replace(rule, reviewer=review)

        return [held(rule) for rule in rules]

    async with fresh_client() as client:
        settings = webhook_settings(tmp_path)
        await everything(client, settings)
        limits = WebhookLimits(requests=2, share=1.0)
        async with running_webhooks(client, settings, port=0, limits=limits, over=hold) as webhooks:
            port, bundle = webhooks.server.port, (await stored_data(client))["ca-cert.pem"]
            # when
            reviews = [asyncio.create_task(review(port, bundle)) for _ in range(2)]
            await until(lambda: _is_true(webhooks.server.requests == 2))
            with pytest.raises(aiohttp.ClientResponseError, match="429"):
                await review(port, bundle)
            # then
            assert webhooks.server.shed == 1
            assert webhooks.list_problems() == []
            go.set()
            assert all(await asyncio.gather(*reviews))


async def test_later_deleted_configurations_are_waited_for_while_reviews_continue(tmp_path: Path) -> None:
    """admission case 15; pitfall 5"""
    async with fresh_client() as client:
        settings = webhook_settings(tmp_path, initialize_timeout_s=1.0)
        await everything(client, settings)
        async with running_webhooks(client, settings, port=0) as webhooks:
            bundle = (await stored_data(client))["ca-cert.pem"]
            await client.delete(MUTATING, "", MUTATING_NAME)
            await client.delete(VALIDATING, "", VALIDATING_NAME)
            await asyncio.sleep(1.5)
            assert webhooks.list_problems() == []
            assert await review(webhooks.server.port, bundle)
            await install_configurations(client, settings)
            await until(lambda: _is_good(client, {bundle}))


# ── certificates from outside ────────────────────────────────────────────────

EXTERNAL = Gates.of(EnableExternalCerts=True)


async def test_missing_external_certificates_end_the_manager(tmp_path: Path) -> None:
    """admission case 11"""
    async with fresh_client() as client:
        settings = webhook_settings(tmp_path, gates=EXTERNAL, initialize_timeout_s=1.0)
        await install_namespace(client, settings)
        with pytest.raises(ExceptionGroup) as caught:
            async with running_webhooks(client, settings, port=0):
                pass
        assert "EnableExternalCerts is on and Secret" in str(caught.value.exceptions[0])


async def test_external_certificates_are_served_and_compared_but_nothing_is_written(tmp_path: Path) -> None:
    """admission case 12; operations case 39"""
    async with fresh_client() as client:
        # given a Secret of another program, and configurations that trust it but for one entry
        settings = webhook_settings(tmp_path, gates=EXTERNAL)
        await install_namespace(client, settings)
        made = renew_certificates(None, host="127.0.0.1", now=read_system_clock())
        names = {"ca.crt": made.authority, "tls.crt": made.certificate, "tls.key": made.key}
        data = {name: base64.b64encode(value).decode() for name, value in names.items()}
        await client.create(SECRETS, NAMESPACE, {"metadata": {"name": SECRET}, "data": data})
        await install_configurations(client, settings)
        for resource, name in ((MUTATING, MUTATING_NAME), (VALIDATING, VALIDATING_NAME)):
            doc = decode(await client.get(resource, "", name))
            ops = [
                {"op": "add", "path": f"/webhooks/{number}/clientConfig/caBundle", "value": data["ca.crt"]}
                for number in range(len(doc["webhooks"]))
            ]
            await client.patch(
                resource, "", name, ops[1:] if resource is VALIDATING else ops, patch_type=PatchType.JSON
            )
        before = decode(await client.get(VALIDATING, "", VALIDATING_NAME))
        # when
        async with running_webhooks(client, settings, port=0, wait=False) as webhooks:
            await until(
                lambda: _is_true(any("external caBundle" in problem for problem in webhooks.list_problems()))
            )
            # then it is not ready, has written nothing, and is well as soon as the entry is put right
            assert decode(await client.get(VALIDATING, "", VALIDATING_NAME)) == before
            fix = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": data["ca.crt"]}]
            await client.patch(VALIDATING, "", VALIDATING_NAME, fix, patch_type=PatchType.JSON)
            await wait_ready([webhooks])
            assert await review(webhooks.server.port, data["ca.crt"])


async def test_external_certificates_that_do_not_fit_are_not_served_with(tmp_path: Path) -> None:
    async with fresh_client() as client:
        # given webhooks at work with a good pair
        settings = webhook_settings(tmp_path, gates=EXTERNAL)
        await install_namespace(client, settings)
        made = renew_certificates(None, host="127.0.0.1", now=read_system_clock())
        other = renew_certificates(made, host="127.0.0.1", now=read_system_clock())
        data = {"ca.crt": made.authority, "tls.crt": made.certificate, "tls.key": made.key}
        await client.create(SECRETS, NAMESPACE, {"metadata": {"name": SECRET}, "data": _in_base64(data)})
        await install_configurations(client, settings)
        bundle = base64.b64encode(made.authority).decode()
        for resource, name in ((MUTATING, MUTATING_NAME), (VALIDATING, VALIDATING_NAME)):
            count = len(decode(await client.get(resource, "", name))["webhooks"])
            ops = [
                {"op": "add", "path": f"/webhooks/{number}/clientConfig/caBundle", "value": bundle}
                for number in range(count)
            ]
            await client.patch(resource, "", name, ops, patch_type=PatchType.JSON)
        async with running_webhooks(client, settings, port=0) as webhooks:
            # when that program puts in the certificate of another key, and then its key
            for name, value in (("tls.crt", other.certificate), ("tls.key", other.key)):
                assert webhooks.serves is not None
                assert webhooks.serves.certificate == made.certificate
                patch = {"data": _in_base64({name: value})}
                await client.patch(SECRETS, NAMESPACE, SECRET, patch, patch_type=PatchType.MERGE)
                await asyncio.sleep(1.0)
                assert await review(webhooks.server.port, bundle)
            # then only what fits is served with
            await until(lambda: _is_true(webhooks.serves == _other_pair(made, other)))
            assert await review(webhooks.server.port, bundle)


def _other_pair(made: Certificates, other: Certificates) -> Certificates:
    """Content of an external Secret with the other pair."""
    return Certificates(
        authority_key=b"", authority=made.authority, key=other.key, certificate=other.certificate
    )


def _in_base64(values: dict[str, bytes]) -> dict[str, str]:
    return {name: base64.b64encode(value).decode() for name, value in values.items()}


# ── an API server that is away ───────────────────────────────────────────────


async def test_reviews_continue_while_the_api_server_is_away(tmp_path: Path) -> None:
    async with fresh_client() as client:
        settings = webhook_settings(tmp_path)
        await everything(client, settings)
        flaky = Away(client.transport)
        mine = Client(flaky, rng=random.Random(3), retry=RetryPolicy(reads=0, writes=0))
        async with running_webhooks(mine, settings, port=0) as webhooks:
            bundle = (await stored_data(client))["ca-cert.pem"]
            # when
            flaky.is_away = True
            await touch_secret(client)
            await asyncio.sleep(1.0)
            # then
            assert webhooks.list_problems() == []
            assert await review(webhooks.server.port, bundle)
            # and what was changed meanwhile is put right afterwards
            ops = [{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": "AAAA"}]
            await client.patch(VALIDATING, "", VALIDATING_NAME, ops, patch_type=PatchType.JSON)
            flaky.is_away = False
            await touch_secret(client)
            await until(lambda: _is_good(client, {bundle}))


@pytest.mark.parametrize("code", [429, 500, 503])
async def test_a_start_during_api_errors_succeeds_when_they_end(tmp_path: Path, code: int) -> None:
    async with fresh_client() as client:
        settings = webhook_settings(tmp_path)
        await everything(client, settings)
        flaky = Away(client.transport, code=code)
        flaky.is_away = True
        mine = Client(flaky, rng=random.Random(3), retry=RetryPolicy(reads=0, writes=0))
        async with running_webhooks(mine, settings, port=0, wait=False) as webhooks:
            await until(lambda: _is_true(any("away" in problem for problem in webhooks.list_problems())))
            flaky.is_away = False
            await wait_ready([webhooks])


class Away(WrappedTransport):
    """A transport to an API server that is unreachable while `is_away`."""

    def __init__(self, inner: Transport, *, code: int = 0) -> None:
        super().__init__(inner)
        self._code = code
        self.is_away = False

    async def request(self, request: Request, /) -> Response:
        """Raise an error, or return the response of a proxy, while the API server is away."""
        if not self.is_away:
            return await self._inner.request(request)
        if not self._code:
            raise UnreachableError("away")
        return Response(self._code, {}, b"away")


# ── files ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("writer", ["", "fs"])
async def test_outside_the_cluster_certificates_are_files(tmp_path: Path, writer: str) -> None:
    """admission case 7, the other way round"""
    async with fresh_client() as client:
        settings = webhook_settings(tmp_path, certificate_writer=writer)
        await install_namespace(client, settings)
        await install_crds(client, settings)
        await install_configurations(client, settings)
        async with running_webhooks(client, settings, port=0) as webhooks:
            bundle = base64.b64encode((tmp_path / "certs" / "ca-cert.pem").read_bytes()).decode()
            assert await bundles(client) == {bundle}
            assert await review(webhooks.server.port, bundle)
            assert (await client.list(SECRETS, NAMESPACE)).items == []


async def test_exchanged_files_are_served_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Section 2: reloaded when they change, without restart"""
    monkeypatch.setattr("pykruise.manager.webhooks.FILES_AGAIN_S", 0.2)
    async with fresh_client() as client:
        settings = webhook_settings(tmp_path, certificate_writer="fs")
        await install_namespace(client, settings)
        await install_crds(client, settings)
        await install_configurations(client, settings)
        async with running_webhooks(client, settings, port=0, settle_s=0.1) as webhooks:
            before = webhooks.serves
            # when
            mine = renew_certificates(None, host="127.0.0.1", now=read_system_clock())
            CertificateFolder(tmp_path / "certs", clock=read_system_clock).write(mine)
            # then
            await until(lambda: _is_true(webhooks.serves == mine))
            assert before != mine
            bundle = base64.b64encode(mine.authority).decode()
            await until(lambda: _is_good(client, {bundle}))
            assert await review(webhooks.server.port, bundle)


async def test_webhooks_publish_their_address(tmp_path: Path) -> None:
    """admission cases 6 and 7"""
    async with fresh_client() as client:
        settings = webhook_settings(tmp_path)
        await everything(client, settings)
        async with running_webhooks(client, settings, port=0):
            doc: Document = decode(await client.get(MUTATING, "", MUTATING_NAME))
            urls = {entry["clientConfig"]["url"] for entry in doc["webhooks"]}
            base = f"https://127.0.0.1:{settings.webhook.port}"
            kinds = [kind.resource.kind.lower() for kind in all_kinds() if kind.reviews.mutating is not None]
            paths = ("pod", *(f"apps-kruise-io-{kind}" for kind in kinds))
            assert urls == {f"{base}/mutate-{path}" for path in paths}
            stored = await SecretStore(client, namespace=NAMESPACE, name=SECRET).read()
            assert stored is not None
            made = stored.certificates
            assert find_problem(made, host="127.0.0.1", now=read_system_clock(), lasting_s=DAY_S) == ""
