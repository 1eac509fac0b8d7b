"""Service accounts of pods, on clusters with service accounts."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pykruise.kube.documents import decode
from pykruise.kube.errors import ForbiddenError
from pykruise.kube.resources import DEPLOYMENTS, NAMESPACES, PODS, SERVICE_ACCOUNTS
from pykruise.sandbox.cluster import ClusterSettings
from support.sandbox import Object, Place, pod, small_cluster

PATH = "/var/run/secrets/kubernetes.io/serviceaccount"


@asynccontextmanager
async def with_accounts() -> AsyncIterator[Place]:
    async with small_cluster(ClusterSettings(service_accounts=True)) as place:
        yield place


async def made(place: Place, doc: Object, namespace: str = "default") -> dict[str, Any]:
    """Create a pod; return the spec as it was stored."""
    await place.client.create(PODS, namespace, doc)
    name = doc["metadata"]["name"]
    data = await place.client.get(PODS, namespace, name)
    return dict(decode(data)["spec"])


def account(name: str, **more: Any) -> Object:
    return {"metadata": {"name": name}, **more}


async def test_a_pod_gets_the_default_account_and_a_volume_with_its_token() -> None:
    async with with_accounts() as place:
        # when
        doc = pod("web", initContainers=[{"name": "first", "image": "setup:1"}])
        spec = await made(place, doc)
        # then
        assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")
        (volume,) = spec["volumes"]
        assert volume["name"].startswith("kube-api-access-")
        assert volume["projected"] == {
            "defaultMode": 420,
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
                {
                    "downwardAPI": {
                        "items": [
                            {
                                "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                                "path": "namespace",
                            }
                        ]
                    }
                },
            ],
        }
        wanted = [{"name": volume["name"], "readOnly": True, "mountPath": PATH}]
        assert [each["volumeMounts"] for each in (*spec["initContainers"], *spec["containers"])] == [
            wanted
        ] * 2


@pytest.mark.parametrize(
    ("of_account", "of_pod", "mounts"),
    [(None, None, True), (False, None, False), (False, True, True), (True, False, False)],
)
async def test_the_pod_and_its_account_decide_whether_the_token_is_mounted(
    of_account: bool | None, of_pod: bool | None, mounts: bool
) -> None:
    async with with_accounts() as place:
        # given
        setting = {} if of_account is None else {"automountServiceAccountToken": of_account}
        await place.create(SERVICE_ACCOUNTS, account("worker", **setting))
        # when
        setting = {} if of_pod is None else {"automountServiceAccountToken": of_pod}
        spec = await made(place, pod("web", serviceAccountName="worker", **setting))
        # then
        assert bool(spec.get("volumes")) is mounts


async def test_a_container_with_its_own_mount_gets_no_token_volume() -> None:
    async with with_accounts() as place:
        # when
        doc = pod("web", volumes=[{"name": "own", "emptyDir": {}}])
        doc["spec"]["containers"][0]["volumeMounts"] = [{"name": "own", "mountPath": PATH}]
        spec = await made(place, doc)
        # then
        assert [volume["name"] for volume in spec["volumes"]] == ["own"]


async def test_secrets_to_pull_with_are_those_of_the_account_unless_the_pod_has_its_own() -> None:
    async with with_accounts() as place:
        # given
        await place.create(SERVICE_ACCOUNTS, account("worker", imagePullSecrets=[{"name": "registry"}]))
        # then
        spec = await made(place, pod("a", serviceAccountName="worker"))
        assert spec["imagePullSecrets"] == [{"name": "registry"}]
        spec = await made(place, pod("b", serviceAccountName="worker", imagePullSecrets=[{"name": "own"}]))
        assert spec["imagePullSecrets"] == [{"name": "own"}]


async def test_a_pod_with_a_missing_service_account_is_refused() -> None:
    async with with_accounts() as place:
        why = (
            'pods "web" is forbidden: error looking up service account default/nobody: '
            'serviceaccount "nobody" not found'
        )
        with pytest.raises(ForbiddenError, match=why):
            await place.create(PODS, pod("web", serviceAccountName="nobody"))
        # and for a pod with a generated name, the message has the prefix of the name
        unnamed = pod("web", serviceAccountName="nobody")
        unnamed["metadata"] = {"generateName": "web-"}
        with pytest.raises(ForbiddenError, match='pods "web-" is forbidden'):
            await place.create(PODS, unnamed)


async def test_a_server_that_gives_no_accounts_refuses_a_named_one_that_is_missing() -> None:
    async with small_cluster(ClusterSettings()) as place:
        with pytest.raises(ForbiddenError, match='serviceaccount "nobody" not found'):
            await place.create(PODS, pod("web", serviceAccountName="nobody"))
        spec = await made(place, pod("web", serviceAccountName="default"))
        assert spec["serviceAccountName"] == "default"


async def test_the_first_pod_of_a_new_namespace_waits_for_its_account() -> None:
    async with with_accounts() as place:
        # when
        await place.client.create(NAMESPACES, "", {"metadata": {"name": "new"}})
        spec = await made(place, pod("web"), "new")
        # then
        assert spec["serviceAccountName"] == "default"


async def test_workloads_run_with_accounts_as_without() -> None:
    async with with_accounts() as place:
        # when
        template = {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
        }
        spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
        await place.create(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": spec})

        # then
        async def is_available() -> bool:
            return (await place.get(DEPLOYMENTS, "web")).get("status", {}).get("availableReplicas") == 2

        await place.until(is_available)


async def test_service_accounts_are_not_added_to_pods_by_default() -> None:
    async with small_cluster() as place:
        spec = await made(place, pod("web"))
        assert "volumes" not in spec
        assert "serviceAccountName" not in spec
