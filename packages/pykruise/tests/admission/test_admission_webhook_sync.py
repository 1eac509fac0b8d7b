"""Passes of WebhookSync: the objects that they change, and the rights that they need."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec
import pytest

from pykruise.admission.certificates import Certificates
from pykruise.admission.configurations import (
    MUTATING,
    MUTATING_NAME,
    VALIDATING,
    VALIDATING_NAME,
    Endpoint,
    build_configurations,
)
from pykruise.admission.match_conditions import ConditionRemover
from pykruise.admission.pods.chain import CONDITION
from pykruise.admission.reviewers import build_reviewers
from pykruise.admission.stores import ExternalStore, SecretStore
from pykruise.admission.webhook_plan import CONFIRM_S, CrdView, WebhookTarget, project_crd
from pykruise.admission.webhook_sync import WebhookSync, WebhookSyncError
from pykruise.kinds import build_crds, list_conversions
from pykruise.kube.admission import MatchCondition, ReviewRule
from pykruise.kube.client.client import Client
from pykruise.kube.client.transport import Request, Response, WrappedTransport
from pykruise.kube.clock import read_system_clock
from pykruise.kube.documents import Document, decode, encode
from pykruise.kube.patches import PatchType
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, SECRETS
from pykruise.kube.schemas.crds import build_webhook_conversion
from pykruise.kube.values.cel import Interests
from pykruise.kube.webhooks.reviews import index_rules_by_path
from support.sandbox import small_cluster

BUNDLE = b"bundle"


@asynccontextmanager
async def sync_of(
    *installed: Document,
    allows_patch: bool = True,
    is_external: bool = False,
    rules: Sequence[ReviewRule] = (),
    served: list[Certificates] | None = None,
) -> AsyncIterator[tuple[WebhookSync, Client]]:
    """A WebhookSync on a cluster with these CRDs and no webhook configuration. Served certificates go into `served`."""

    async def serve(certificates: Certificates) -> None:
        if served is not None:
            served.append(certificates)

    async def list_selectors() -> Interests:
        return {}

    async with small_cluster(nodes=0) as place:
        await place.client.create(NAMESPACES, "", {"metadata": {"name": "kruise-system"}})
        for crd in installed:
            await place.client.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd)
        client = place.client if allows_patch else Client(WithoutPatch(place.client.transport))
        store = (ExternalStore if is_external else SecretStore)(
            client, namespace="kruise-system", name="certs"
        )
        sync = WebhookSync(
            client,
            store,
            target=WebhookTarget(
                rules=index_rules_by_path(rules),
                converted=frozenset(list_conversions()),
                endpoint=Endpoint(),
                is_managed=store.is_managed,
            ),
            remover=ConditionRemover(client),
            selectors=lambda: None,
            list_selectors=list_selectors,
            serve=serve,
            renew_before_s=1.0,
            clock=read_system_clock,
        )
        yield sync, place.client


class WithoutPatch(WrappedTransport):
    """Rights as OpenKruise's own role gives them for CRDs: update, but not patch."""

    async def request(self, request: Request, /) -> Response:
        """PATCH is forbidden."""
        if request.method == "PATCH":
            return Response(403, {}, encode({"kind": "Status", "code": 403, "reason": "Forbidden"}))
        return await self._inner.request(request)


def cloneset_crd(conversion: Document | None) -> Document:
    return next(crd for crd in build_crds(conversion) if crd["spec"]["names"]["kind"] == "CloneSet")


def foreign_crd() -> Document:
    """A CRD of another program, with a conversion webhook of its own."""
    schema = {"openAPIV3Schema": {"type": "object"}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "games.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "games", "kind": "Game", "singular": "game", "listKind": "GameList"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
            "conversion": build_webhook_conversion(service=("theirs", "theirs")),
        },
    }


async def synced(sync: WebhookSync, client: Client, name: str) -> tuple[Document, Document]:
    """The CRD before and after a pass. Missing configurations are reported as an error, and the pass continues."""
    before = decode(await client.get(CUSTOM_RESOURCE_DEFINITIONS, "", name))
    views = [project_crd(raw) for raw in (await client.list(CUSTOM_RESOURCE_DEFINITIONS)).items]
    with pytest.raises(WebhookSyncError, match="kruise-mutating-webhook-configuration does not exist"):
        await sync.sync_configurations(BUNDLE, views)
    return before, decode(await client.get(CUSTOM_RESOURCE_DEFINITIONS, "", name))


async def test_a_foreign_crd_is_never_changed() -> None:
    """admission case 14"""
    async with sync_of(foreign_crd()) as (sync, client):
        before, after = await synced(sync, client, "games.example.com")
        assert after == before


async def test_an_own_crd_without_a_webhook_is_not_changed() -> None:
    """admission case 13"""
    async with sync_of(cloneset_crd(None)) as (sync, client):
        before, after = await synced(sync, client, "clonesets.apps.kruise.io")
        assert after == before


@pytest.mark.parametrize("allows_patch", [True, False])
async def test_the_ca_bundle_is_the_only_field_that_changes_in_our_crds(allows_patch: bool) -> None:
    """The role of OpenKruise's own charts is enough"""
    crd = cloneset_crd(build_webhook_conversion(service=("kruise-system", "kruise-webhook-service")))
    async with sync_of(crd, allows_patch=allows_patch) as (sync, client):
        before, after = await synced(sync, client, "clonesets.apps.kruise.io")
        config = after["spec"]["conversion"]["webhook"]["clientConfig"]
        assert config.pop("caBundle") == "YnVuZGxl"
        assert after["spec"] == before["spec"]


def test_a_foreign_conversion_is_not_cached() -> None:
    assert project_crd(encode(foreign_crd())).conversion is None


async def test_a_webhook_is_registered_when_its_kind_is_installed() -> None:
    """operations case 19; admission 3.4, whatever is installed first"""
    rules = build_reviewers()
    async with sync_of(rules=rules) as (sync, client):
        for resource, doc in zip(
            (MUTATING, VALIDATING), build_configurations(rules, Endpoint()), strict=True
        ):
            await client.create(resource, "", doc)

        async def registered() -> set[str]:
            views = [project_crd(raw) for raw in (await client.list(CUSTOM_RESOURCE_DEFINITIONS)).items]
            await sync.sync_configurations(BUNDLE, views)
            result = [
                decode(await client.get(resource, "", name))
                for resource, name in ((MUTATING, MUTATING_NAME), (VALIDATING, VALIDATING_NAME))
            ]
            return {entry["name"] for doc in result for entry in doc["webhooks"]}

        # given no CRD of OpenKruise: no webhook reviews pods
        assert await registered() == {rule.name for rule in rules if rule.needs is None}
        assert not {"mpod.kb.io", "vpod.kb.io", "vpodeviction.kb.io"} & await registered()
        # when the CRD of SidecarSets is created
        sidecarset = next(crd for crd in build_crds() if crd["spec"]["names"]["kind"] == "SidecarSet")
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, "", sidecarset)
        # then, without a restart
        assert "mpod.kb.io" in await registered()


async def test_unchanged_configurations_are_written_once_more_and_then_never_again() -> None:
    """An API server that reads entries during the next write may use the old ones until another write."""
    rules = [rule for rule in build_reviewers() if rule.needs is None]
    async with sync_of(rules=rules) as (sync, client):
        for resource, doc in zip(
            (MUTATING, VALIDATING), build_configurations(rules, Endpoint()), strict=True
        ):
            await client.create(resource, "", doc)

        async def passed() -> tuple[Document, float | None]:
            again_s = await sync.sync_configurations(BUNDLE, [])
            return decode(await client.get(VALIDATING, "", VALIDATING_NAME)), again_s

        # given entries that were just written
        first, _ = await passed()
        assert (await passed()) == (first, CONFIRM_S)
        # when CONFIRM_S have passed
        await asyncio.sleep(CONFIRM_S)
        second, _ = await passed()
        # then they are written once more, without a change
        assert second["metadata"]["resourceVersion"] != first["metadata"]["resourceVersion"]
        assert second["webhooks"] == first["webhooks"]
        await asyncio.sleep(10 * CONFIRM_S)
        assert (await passed()) == (second, None)
        # and when another client changes an entry
        bad = {"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": "AAAA"}
        await client.patch(VALIDATING, "", VALIDATING_NAME, [bad], patch_type=PatchType.JSON)
        mended, _ = await passed()
        assert mended["webhooks"] == first["webhooks"]
        await passed()
        await asyncio.sleep(CONFIRM_S)
        # then there are two writes again
        last, _ = await passed()
        assert last["metadata"]["resourceVersion"] != mended["metadata"]["resourceVersion"]


async def test_certificates_are_created_once_served_immediately_and_kept() -> None:
    served: list[Certificates] = []
    async with sync_of(served=served) as (sync, client):
        made = await sync.sync_certificates()
        secret = decode(await client.get(SECRETS, "kruise-system", "certs"))
        assert (served, sync.served) == ([made], made)
        # when nothing is due
        assert await sync.sync_certificates() == made
        # then nothing is written, and no certificate is served again
        assert decode(await client.get(SECRETS, "kruise-system", "certs")) == secret
        assert served == [made]


async def test_the_first_pass_serves_certificates_before_crds_are_read() -> None:
    served: list[Certificates] = []

    async def crds() -> Sequence[CrdView]:
        assert served, "API servers that read CRDs may have to convert"
        return []

    async with sync_of(served=served) as (sync, _):
        with pytest.raises(WebhookSyncError, match="does not exist"):
            await sync.reconcile(crds)


async def test_a_match_condition_without_a_maintaining_manager_is_an_error() -> None:
    """EnableExternalCerts: the manager only compares configurations, so the condition would miss new SidecarSets"""
    rules = [
        msgspec.structs.replace(rule, conditions=(MatchCondition(CONDITION, "false"),))
        for rule in build_reviewers()
        if rule.path == "/mutate-pod"
    ]
    async with sync_of(is_external=True, rules=rules) as (sync, client):
        for resource, doc in zip(
            (MUTATING, VALIDATING),
            build_configurations(rules, Endpoint(), bundle=BUNDLE),
            strict=True,
        ):
            await client.create(resource, "", doc)
        with pytest.raises(
            WebhookSyncError, match=r"no manager updates the match condition pykruise\.io/asked-for now"
        ):
            await sync.sync_configurations(BUNDLE, [])


async def test_an_exclusion_added_by_an_enforcer_is_kept() -> None:
    """AKS excludes its own namespaces from each webhook, and repeats this whenever the exclusion is missing."""
    rules = [rule for rule in build_reviewers() if rule.needs is None]
    async with sync_of(rules=rules) as (sync, client):
        for resource, doc in zip(
            (MUTATING, VALIDATING), build_configurations(rules, Endpoint()), strict=True
        ):
            await client.create(resource, "", doc)
        excluded = [
            {"key": "control-plane", "operator": "NotIn", "values": ["true"]},
            {"key": "kubernetes.azure.com/managedby", "operator": "NotIn", "values": ["aks"]},
        ]

        async def enforced() -> int:
            """Make one pass of the enforcer over both. Returns the number of writes."""
            written = 0
            for resource, name in ((MUTATING, MUTATING_NAME), (VALIDATING, VALIDATING_NAME)):
                live = decode(await client.get(resource, "", name))
                changed = decode(encode(live))
                for webhook in changed["webhooks"]:
                    there = webhook.setdefault("namespaceSelector", {}).setdefault("matchExpressions", [])
                    there += [expression for expression in excluded if expression not in there]
                if changed != live:
                    await client.update(resource, "", name, changed)
                    written += 1
            return written

        # given configurations that the manager has written, and an enforcer that narrows them
        await sync.sync_configurations(BUNDLE, [])
        assert await enforced() == 2
        for _ in range(4):
            # when the manager makes further passes, also after the time of its second write
            await sync.sync_configurations(BUNDLE, [])
            await asyncio.sleep(2 * CONFIRM_S)
            # then nothing is left for the enforcer, and the webhooks are called as before
            assert await enforced() == 0
        versions = [
            decode(await client.get(resource, "", name))["metadata"]["resourceVersion"]
            for resource, name in ((MUTATING, MUTATING_NAME), (VALIDATING, VALIDATING_NAME))
        ]
        await sync.sync_configurations(BUNDLE, [])
        assert versions == [
            decode(await client.get(resource, "", name))["metadata"]["resourceVersion"]
            for resource, name in ((MUTATING, MUTATING_NAME), (VALIDATING, VALIDATING_NAME))
        ]
        live = decode(await client.get(VALIDATING, "", VALIDATING_NAME))
        assert all(webhook["clientConfig"]["caBundle"] for webhook in live["webhooks"])
