"""Webhooks and a real API server: every order of installing, rotation under load, overload, and none at all."""

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pykruise.admission.certificate_work import authorities_of, renew_certificates
from pykruise.admission.certificates import DAY_S, YEAR_S
from pykruise.admission.configurations import MUTATING, MUTATING_NAME, read_current_conditions
from pykruise.admission.protection import LABEL
from pykruise.admission.stores import SecretStore
from pykruise.kinds import build_crds
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kube.admission import AdmissionAnswer, AdmissionRequest, ReviewRule
from pykruise.kube.client.client import Client
from pykruise.kube.client.limiter import Limiter
from pykruise.kube.client.retries import RetryPolicy
from pykruise.kube.client.transport import Request
from pykruise.kube.clock import read_system_clock
from pykruise.kube.documents import Key, decode
from pykruise.kube.errors import (
    AlreadyExistsError,
    ApiError,
    ForbiddenError,
    KubeError,
    NotFoundError,
    parse_error,
)
from pykruise.kube.http.transport import HttpTransport
from pykruise.kube.patches import PatchType
from pykruise.kube.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    PODS,
    SECRETS,
    SERVICES,
)
from pykruise.kube.schemas.crds import build_webhook_conversion
from pykruise.kube.values.selectors import parse_selector
from pykruise.kube.webhooks.server import WebhookLimits
from pykruise.manager.settings import ManagerSettings
from pykruise.manager.webhooks import Webhooks, endpoint_of
from support.control_plane import connection, running_plane
from support.replicas import Balancer, replica_settings
from support.replicas import replicas as several_replicas
from support.scenario import cloneset
from support.webhooks import (
    GATES,
    LOOPBACK,
    QUIET_S,
    install_configurations,
    install_namespace,
    running_webhooks,
    uninstall_configurations,
    wait_ready,
    webhook_settings,
)
from testbed.control_plane import ControlPlane

pytestmark = pytest.mark.real

NAMESPACE, SECRET = "kruise-system", "kruise-webhook-certs"
KINDS = ("CloneSet", "StatefulSet", "SidecarSet", "WorkloadSpread", "PodUnavailableBudget")
"""Kinds whose CRDs are installed repeatedly: kinds with two versions, and kinds for which pods are reviewed."""
OLD_CLONE_SETS = msgspec.structs.replace(CLONE_SETS, version="v1alpha1")


@pytest.fixture(scope="module")
def bare_plane() -> Iterator[ControlPlane]:
    """An API server of this module's own, with nothing of pykruise in it, and without controllers."""
    with running_plane(controller_manager=False, scheduler=False) as plane:
        yield plane


@pytest.fixture
async def client(bare_plane: ControlPlane) -> AsyncIterator[Client]:
    """A client of the API server; all objects of pykruise are deleted at the end."""
    transport = HttpTransport(connection(bare_plane.kubeconfig))
    client = Client(transport, retry=RetryPolicy(writes=0, reads=0))
    try:
        yield client
        await _uninstall(client)
    finally:
        await transport.close()


async def _uninstall(client: Client) -> None:
    """Delete all objects of pykruise repeatedly: an API server calls deleted webhooks for a moment, without success."""
    left: object = None
    try:
        async with asyncio.timeout(300):
            while left := await _left_over(client):
                await asyncio.sleep(0.5)
    except TimeoutError:
        pytest.fail(f"this does not go: {left}")


async def _left_over(client: Client) -> object:
    """Delete everything; returns the objects that still exist, or the error of a deletion."""
    try:
        await uninstall_configurations(client)
        with suppress(NotFoundError):
            await client.delete(SECRETS, NAMESPACE, SECRET)
        with suppress(NotFoundError):
            for raw in (await client.list(CLONE_SETS)).items:
                meta = decode(raw)["metadata"]
                await client.delete(CLONE_SETS, meta["namespace"], meta["name"])
        result = await _names_of_crds(client)
        for name in result:
            with suppress(NotFoundError):
                await client.delete(CUSTOM_RESOURCE_DEFINITIONS, "", name)
    except ApiError as error:
        return error
    return result


async def _names_of_crds(client: Client) -> list[str]:
    """Names of CRDs, read without the CRDs, whose schemas have more than a megabyte."""
    answer = await client.transport.request(
        Request(
            "GET",
            CUSTOM_RESOURCE_DEFINITIONS.format_path(),
            headers={"accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"},
        )
    )
    if answer.status != 200:
        raise parse_error(answer.status, answer.body, answer.headers)
    return [item["metadata"]["name"] for item in decode(answer.body).get("items") or ()]


async def until(claim: Callable[[], Awaitable[bool]], *, within_s: float = 100.0) -> None:
    async with asyncio.timeout(within_s):
        while not await claim():
            await asyncio.sleep(0.05)


@asynccontextmanager
async def replicas(
    client: Client, folder: Path, **options: Any
) -> AsyncIterator[tuple[ManagerSettings, list[Webhooks]]]:
    """Two managers' webhooks behind one address."""
    settings = replica_settings(folder, 0)
    port = settings.webhook.port
    async with (
        Balancer().on(port) as balancer,
        several_replicas(client, folder, balancer, port=port, **options) as webhookses,
    ):
        yield settings, webhookses


async def install_secret(client: Client, settings: ManagerSettings) -> None:
    with suppress(AlreadyExistsError):
        await client.create(SECRETS, NAMESPACE, {"metadata": {"name": SECRET}})


async def install_crds(client: Client, settings: ManagerSettings) -> None:
    for crd in build_crds(build_webhook_conversion(url=endpoint_of(settings).base_url)):
        if crd["spec"]["names"]["kind"] in KINDS:
            await client.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd)


async def is_reviewed_and_converted(client: Client) -> bool:
    """Whether a CloneSet gets defaults and can be written in one version and read in the other."""
    doc = cloneset("probe", replicas=0)
    try:
        with suppress(AlreadyExistsError):
            await client.create(CLONE_SETS, "default", doc)
        old = decode(await client.get(OLD_CLONE_SETS, "default", "probe"))
    except (ApiError, KubeError):
        return False
    return bool(old["spec"]["updateStrategy"]["type"] == "ReCreate" and old["spec"]["replicas"] == 0)


STEPS = {"secret": install_secret, "configurations": install_configurations, "crds": install_crds}


@pytest.mark.parametrize("first", [*STEPS, "managers"])
async def test_reviews_and_conversions_work_in_any_order_of_installation(
    client: Client, tmp_path: Path, first: str
) -> None:
    """admission cases 1, 2 and 15; operations: install order. Two managers race."""
    rest = [name for name in [*STEPS, "managers"] if name != first]
    order = [first, *random.Random(first).choice(list(itertools.permutations(rest)))]
    settings = webhook_settings(tmp_path, gates=GATES)
    await install_namespace(client, settings)
    async with AsyncExitStack() as stack:
        balancer = await stack.enter_async_context(Balancer().on(settings.webhook.port))
        webhookses: list[Webhooks] = []
        for step in order:
            if step == "managers":
                for number in range(2):
                    each = replica_settings(tmp_path, number, port=settings.webhook.port)
                    webhooks = running_webhooks(client, each, port=0, wait=False)
                    webhookses.append(await stack.enter_async_context(webhooks))
                filling = asyncio.create_task(balancer.follow(webhookses))
                stack.callback(filling.cancel)
            else:
                await STEPS[step](client, settings)
            await asyncio.sleep(0.2)
        await wait_ready(webhookses)
        await until(lambda: is_reviewed_and_converted(client))


class MovableClock:
    """A clock that is wrong by `off_s` seconds."""

    def __init__(self) -> None:
        self.off_s = 0.0

    def __call__(self) -> float:
        return read_system_clock() + self.off_s


async def test_certificates_are_rotated_under_load_without_one_failed_request(
    client: Client, tmp_path: Path
) -> None:
    """rotated live; the authority too"""
    # given two managers with certificates that will soon be worn, and writers and readers at work
    clock = MovableClock()
    clock.off_s = -10 * DAY_S
    store = SecretStore(client, namespace=NAMESPACE, name=SECRET)
    settings = webhook_settings(tmp_path, gates=GATES)
    await install_namespace(client, settings)
    worn = renew_certificates(None, host=LOOPBACK, now=read_system_clock() + 175 * DAY_S - 10 * YEAR_S)
    await store.write(worn, over=None)
    async with replicas(client, tmp_path, clock=clock, wait=False) as (settings, webhookses):
        await install_crds(client, settings)
        await install_configurations(client, settings)
        await wait_ready(webhookses)
        await until(lambda: is_reviewed_and_converted(client))
        failures: list[KubeError] = []
        done = 0
        stop = asyncio.Event()

        async def work(request: Callable[[], Awaitable[object]]) -> None:
            nonlocal done
            while not stop.is_set():
                try:
                    await request()
                    done += 1
                except KubeError as error:
                    failures.append(error)
                await asyncio.sleep(0.01)

        requests = [
            lambda: client.create(CLONE_SETS, "default", cloneset("x"), dry_run=True),
            lambda: client.create(
                OLD_CLONE_SETS,
                "default",
                {**cloneset("y"), "apiVersion": OLD_CLONE_SETS.api_version},
                dry_run=True,
            ),
            lambda: client.get(OLD_CLONE_SETS, "default", "probe"),
        ]
        working = [asyncio.create_task(work(request)) for request in requests]
        await asyncio.sleep(1)
        before = done
        # when
        clock.off_s = 0.0
        await client.patch(
            SECRETS,
            NAMESPACE,
            SECRET,
            {"metadata": {"annotations": {"look": "now"}}},
            patch_type=PatchType.MERGE,
        )

        async def is_rotated() -> bool:
            stored = await store.read()
            assert stored is not None
            return stored.certificates != worn and all(
                webhooks.serves == stored.certificates for webhooks in webhookses
            )

        await until(is_rotated, within_s=40)
        await asyncio.sleep(2)
        stop.set()
        await asyncio.gather(*working)
        # then
        assert failures == []
        assert done > before + 50
        stored = await store.read()
        assert stored is not None
        assert authorities_of(stored.certificates.authority)[1:] == authorities_of(worn.authority)
        assert await is_reviewed_and_converted(client)


async def test_an_api_server_retries_overloaded_webhooks_successfully(client: Client, tmp_path: Path) -> None:
    """load is shed before anything stalls"""

    # given webhooks that take on two reviews at once, each of which takes its time
    def slowly(rules: Sequence[ReviewRule]) -> list[ReviewRule]:
        def slow(rule: ReviewRule) -> ReviewRule:
            async def review(request: AdmissionRequest) -> AdmissionAnswer:
                await asyncio.sleep(0.2)
                return await rule.reviewer(request)

            return msgspec.structs.replace(rule, reviewer=review)

        return [slow(rule) for rule in rules]

    settings = webhook_settings(tmp_path, gates=GATES)
    await install_namespace(client, settings)
    await install_crds(client, settings)
    await install_configurations(client, settings)
    limits = WebhookLimits(requests=2)
    async with running_webhooks(client, settings, limits=limits, over=slowly) as webhooks:
        await until(lambda: is_reviewed_and_converted(client))
        # when
        writes = [client.create(CLONE_SETS, "default", cloneset(f"x-{n}"), dry_run=True) for n in range(8)]
        answers = await asyncio.gather(*writes, return_exceptions=True)
        # then it rejects some reviews, but stays ready, and every write succeeds all the same
        assert webhooks.server.shed > 0
        assert webhooks.list_problems() == []
        assert [answer for answer in answers if isinstance(answer, BaseException)] == []


async def is_narrow(client: Client) -> bool:
    """Whether API servers ask only about the pods that an object selects."""
    conditions = read_current_conditions(decode(await client.get(MUTATING, "", MUTATING_NAME)))["/mutate-pod"]
    await asyncio.sleep(0.5)  # API servers have to load it
    return bool(conditions)


def pod(name: str, **metadata: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "nginx"}]
    return {"metadata": {"name": name, **metadata}, "spec": {"containers": containers}}


def sidecars(name: str, selector: dict[str, Any], **spec: Any) -> dict[str, Any]:
    log = {"name": name, "image": "log"}
    return {
        "apiVersion": SIDECAR_SETS.api_version,
        "kind": SIDECAR_SETS.kind,
        "metadata": {"name": name},
        "spec": {"selector": selector, "containers": [log], **spec},
    }


def condition(key: str, operator: str, *values: str) -> dict[str, Any]:
    values_given = {"values": list(values)} if values else {}
    return {"matchExpressions": [{"key": key, "operator": operator, **values_given}]}


SELECTED = {
    "labels": ({"matchLabels": {"app": "web", "example.com/tier": "a.b_c"}}, {}),
    "in": (condition("app", "In", "web", "db"), {}),
    "notin": (condition("app", "NotIn", "web"), {}),
    "exists": (condition("app", "Exists"), {}),
    "absent": (condition("app", "DoesNotExist"), {}),
    "here": ({"matchLabels": {"app": "web"}}, {"matchLabels": {"kubernetes.io/metadata.name": "default"}}),
    "elsewhere": ({"matchLabels": {"app": "web"}}, {"matchLabels": {"kubernetes.io/metadata.name": "other"}}),
}
LABELLED: tuple[dict[str, str], ...] = (
    {},
    {"app": "web"},
    {"app": "db"},
    {"app": "x", "other": "y"},
    {"app": "web", "example.com/tier": "a.b_c"},
)


async def is_read(webhooks: Webhooks, name: str) -> bool:
    """Whether a new SidecarSet has arrived in the cache that reviews read; a busy machine delays its event."""
    return webhooks.reviews.readers["sidecarset"].objects.cache.get(Key("", name)) is not None


async def means_no_labels(client: Client) -> bool:
    """Whether the deletion of the SidecarSet has removed its labels from the match conditions."""
    live = decode(await client.get(MUTATING, "", MUTATING_NAME))
    conditions = read_current_conditions(live)["/mutate-pod"]
    return not conditions or "labels" not in conditions[0].expression


async def test_only_selected_pods_are_reviewed_and_none_is_missed(client: Client, tmp_path: Path) -> None:
    """pods that are not selected cost nothing"""
    reviewed: list[str] = []

    def counting(rules: Sequence[ReviewRule]) -> list[ReviewRule]:
        def counted(rule: ReviewRule) -> ReviewRule:
            async def review(request: AdmissionRequest) -> AdmissionAnswer:
                reviewed.append(rule.name)
                return await rule.reviewer(request)

            return msgspec.structs.replace(rule, reviewer=review)

        return [counted(rule) for rule in rules]

    async def injected(labels: dict[str, str]) -> tuple[set[str], bool]:
        """The sidecars of such a pod, and whether a webhook was asked about it."""
        reviewed.clear()
        doc = decode(await client.create(PODS, "default", pod("x", labels=labels), dry_run=True))
        return {container["name"] for container in doc["spec"]["containers"]} - {
            "main"
        }, "mpod.kb.io" in reviewed

    # given webhooks without any SidecarSet
    settings = webhook_settings(tmp_path, gates=GATES)
    await install_namespace(client, settings)
    await install_crds(client, settings)
    await install_configurations(client, settings)
    async with running_webhooks(client, settings, quiet_s=QUIET_S, over=counting) as webhooks:
        await until(lambda: is_reviewed_and_converted(client))
        await until(lambda: is_narrow(client))
        for labels in LABELLED:
            assert await injected(labels) == (set(), False)
        for name, (selector, namespaces) in SELECTED.items():
            # when one comes
            where = {"namespaceSelector": namespaces} if namespaces else {}
            doc = sidecars(name, selector, **where)
            await client.create(SIDECAR_SETS, "", doc)
            await until(partial(is_read, webhooks, name))
            # then the very next pods have its sidecar
            at_once = [(await injected(labels))[0] for labels in LABELLED]
            matches = parse_selector(selector).matches
            wanted = [{name} if matches(labels) and name != "elsewhere" else set() for labels in LABELLED]
            assert at_once == wanted, name
            # and later only they are asked about
            await until(lambda: is_narrow(client))
            result = [(sidecar, bool(sidecar)) for sidecar in wanted]
            assert [await injected(labels) for labels in LABELLED] == result, name
            await client.delete(SIDECAR_SETS, "", name)
            await until(lambda: means_no_labels(client))


OWNER = {
    "apiVersion": "apps.kruise.io/v1beta1",
    "kind": "CloneSet",
    "name": "x",
    "uid": "u",
    "controller": True,
}


async def test_pods_are_reviewed_while_their_creation_uses_all_requests_of_the_manager(
    client: Client, tmp_path: Path
) -> None:
    # given a manager that may have one request in flight
    narrow = client.replace_limiter(Limiter(start=1, minimum=1, maximum=1))
    settings = webhook_settings(tmp_path, gates=GATES)
    await install_namespace(client, settings)
    await install_crds(client, settings)
    await install_configurations(client, settings)
    async with running_webhooks(narrow, settings):
        await until(lambda: is_reviewed_and_converted(client))
        # when it creates a pod: the review reads a ConfigMap
        async with asyncio.timeout(8):
            created = decode(await narrow.create(PODS, "default", pod("mine", ownerReferences=[OWNER])))
        # then
        assert created["metadata"]["name"] == "mine"
        await client.delete(PODS, "default", "mine", grace_period_s=0)


async def test_a_dead_manager_blocks_only_what_it_guards(client: Client, tmp_path: Path) -> None:
    """a sick manager cannot take the cluster down"""
    # given webhooks that were in place and are gone
    settings = webhook_settings(tmp_path, gates=GATES)
    await install_namespace(client, settings)
    await install_crds(client, settings)
    await install_configurations(client, settings)
    async with running_webhooks(client, settings, quiet_s=QUIET_S):
        await until(lambda: is_reviewed_and_converted(client))
        await until(lambda: is_narrow(client))
        port = {"spec": {"ports": [{"port": 80}]}}
        await client.create(SERVICES, "default", {"metadata": {"name": "free"}, **port})
        kept = {"name": "kept", "labels": {LABEL: "Always"}}
        await client.create(SERVICES, "default", {"metadata": kept, **port})

    # then
    await client.create(PODS, "default", pod("plain"))
    await client.create(PODS, "kube-system", pod("system", ownerReferences=[OWNER]))
    await client.create(PODS, NAMESPACE, pod("manager", ownerReferences=[OWNER]))
    await client.create(CONFIG_MAPS, "default", {"metadata": {"name": "free"}})
    await client.delete(SERVICES, "default", "free")
    with pytest.raises(ApiError, match=r"failed calling webhook.*vservice\.kb\.io"):
        await client.delete(SERVICES, "default", "kept")
    with pytest.raises(ApiError, match=r"failed calling webhook.*mpod\.kb\.io"):
        await client.create(PODS, "default", pod("mine", ownerReferences=[OWNER]))
    with pytest.raises(ApiError, match=r"failed calling webhook.*mcloneset\.kb\.io"):
        await client.create(CLONE_SETS, "default", cloneset("x"))
    # and when it is back, all is as before
    async with running_webhooks(client, settings):
        with pytest.raises(ForbiddenError):
            await client.delete(SERVICES, "default", "kept")
        await client.patch(
            SERVICES, "default", "kept", {"metadata": {"labels": {LABEL: None}}}, patch_type=PatchType.MERGE
        )
        await client.delete(SERVICES, "default", "kept")
