"""kubectl against the HTTPS server: the client that most people use. Skipped if kubectl is not installed."""

import asyncio
import os
import random
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import orjson
import pytest

from pykruise.kube.clock import read_system_clock
from pykruise.sandbox.apiserver import ApiServer
from pykruise.sandbox.certificates import build_kubeconfig, issue, write_kubeconfig
from pykruise.sandbox.http_front import HttpFront

KUBECTL = shutil.which("kubectl")

pytestmark = [
    pytest.mark.real_time,
    pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl on this machine"),
]

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: main, image: "nginx:1", env: [{name: A, value: "1"}], ports: [{containerPort: 80}]}
      - {name: side, image: "busybox:1"}
"""

GIZMOS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gizmos.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: gizmos, kind: Gizmo, shortNames: [gz]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    additionalPrinterColumns:
    - {name: Replicas, type: integer, jsonPath: .spec.replicas}
    - {name: Mode, type: string, jsonPath: .spec.mode, priority: 1}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [mode]
            properties:
              replicas: {type: integer, minimum: 0, default: 1, description: how many}
              mode: {type: string, enum: [A, B]}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""


class Kubectl:
    """A kubectl with a kubeconfig of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.kubeconfig = folder / "kubeconfig"

    async def run(self, *arguments: str, stdin: str = "") -> tuple[int, str]:
        """Run a command; return its exit code, and its output and errors together."""
        assert KUBECTL is not None
        process = await asyncio.create_subprocess_exec(
            KUBECTL,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig), "HOME": str(self._folder)},
        )
        async with asyncio.timeout(60):
            said, _ = await process.communicate(stdin.encode())
        assert process.returncode is not None
        return process.returncode, said.decode()

    async def __call__(self, *arguments: str, stdin: str = "") -> str:
        """Run a command that must succeed; return its output."""
        code, said = await self.run(*arguments, stdin=stdin)
        assert code == 0, said
        return said


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[Kubectl]:
    server = ApiServer(clock=read_system_clock, rng=random.Random(1))
    certificate = issue(now=time.time())
    front = HttpFront(server, token="t", certificate=certificate)
    await front.start()
    kubectl = Kubectl(folder)
    write_kubeconfig(kubectl.kubeconfig, build_kubeconfig(front.url, certificate.authority, "t"))
    try:
        yield kubectl
    finally:
        await front.stop()


async def test_apply_changes_what_changed_and_merges_lists_by_name(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kubectl:
        # given
        assert "created" in await kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
        # when an image changes and a container is removed
        changed = DEPLOYMENT.replace("nginx:1", "nginx:2").replace(
            '      - {name: side, image: "busybox:1"}\n', ""
        )
        assert "configured" in await kubectl("apply", "-f", "-", stdin=changed)
        # then
        result = orjson.loads(await kubectl("get", "deploy", "web", "-o", "json"))
        assert [each["image"] for each in result["spec"]["template"]["spec"]["containers"]] == ["nginx:2"]
        assert result["metadata"]["generation"] == 2
        assert "unchanged" in await kubectl("apply", "-f", "-", stdin=changed)


async def test_typed_commands_which_send_protobuf_work(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kubectl:
        # when
        await kubectl("create", "configmap", "settings", "--from-literal=key=value")
        await kubectl("create", "deployment", "web", "--image=nginx", "--replicas=3", "--port=80")
        await kubectl("create", "secret", "generic", "password", "--from-literal=p=q")
        # then
        assert await kubectl("get", "cm", "settings", "-o", "jsonpath={.data.key}") == "value"
        replicas = "jsonpath={.spec.replicas}"
        assert await kubectl("get", "deploy", "web", "-o", replicas) == "3"
        # when
        await kubectl("scale", "deployment", "web", "--replicas=5")
        # then
        assert await kubectl("get", "deploy", "web", "-o", replicas) == "5"


async def test_tables_show_what_kubectl_users_expect(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kubectl:
        # given
        await kubectl("run", "one", "--image=nginx", "--labels=a=b")
        # when
        lines = (await kubectl("get", "pods", "-o", "wide")).splitlines()
        # then
        titles = "NAME READY STATUS RESTARTS AGE IP NODE NOMINATED NODE READINESS GATES"
        assert " ".join(lines[0].split()) == titles
        assert lines[1].split()[:4] == ["one", "0/1", "Pending", "0"]
        assert (await kubectl("get", "pods", "-l", "a=b", "-o", "name")).strip() == "pod/one"
        assert "No resources found" in await kubectl("get", "pods", "-l", "a=c")


async def test_mistakes_are_reported_field_by_field(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kubectl:
        # given
        pod = '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"A","imag":"x"}]}}'
        # when
        strict, printed_strictly = await kubectl.run("create", "-f", "-", stdin=pod)
        lax, printed = await kubectl.run("create", "--validate=false", "-f", "-", stdin=pod)
        # then
        assert strict == lax == 1
        assert 'unknown field "spec.containers[0].imag"' in printed_strictly
        assert "spec.containers[0].image: Required value" in printed
        assert 'spec.containers[0].name: Invalid value: "A"' in printed


async def test_custom_resources_are_explained_listed_scaled_and_checked(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kubectl:
        # given
        await kubectl("apply", "-f", "-", stdin=GIZMOS)
        await kubectl("wait", "--for=condition=Established", "crd/gizmos.example.com", "--timeout=20s")
        gizmo = '{"apiVersion":"example.com/v1","kind":"Gizmo","metadata":{"name":"g"},"spec":{"mode":"A"}}'
        # when
        await kubectl("apply", "-f", "-", stdin=gizmo)
        # then
        lines = (await kubectl("get", "gz", "-o", "wide")).splitlines()
        assert [line.split() for line in lines] == [["NAME", "REPLICAS", "MODE"], ["g", "1", "A"]]
        assert "how many" in await kubectl("explain", "gizmo.spec.replicas")
        # when
        await kubectl("scale", "gizmo", "g", "--replicas=4")
        # then
        assert await kubectl("get", "gizmo", "g", "-o", "jsonpath={.spec.replicas}") == "4"
        code, printed = await kubectl.run(
            "patch", "gizmo", "g", "--type=merge", "-p", '{"spec":{"mode":"C"}}'
        )
        assert code == 1
        assert 'Unsupported value: "C": supported values: "A", "B"' in printed


async def test_kubectl_explain_shows_the_fields_of_built_in_kinds(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kubectl:
        # when
        printed = await kubectl("explain", "pod.spec.containers")
        # then
        assert "imagePullPolicy\t<string>" in printed
        assert "volumeMounts\t<[]VolumeMount>" in printed
        assert "terminationGracePeriodSeconds\t<integer>" in await kubectl("explain", "pod.spec")
        assert "configmaps" in await kubectl("api-resources")


async def test_logs_are_followed_until_the_container_ends(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kubectl:
        # given a running pod
        await kubectl("run", "a", "--image=nginx:1", '--overrides={"spec":{"nodeName":"node-1"}}')
        status = {"name": "a", "image": "nginx:1", "imageID": "x", "ready": True, "restartCount": 0}

        async def report(state: object) -> None:
            patch = {"status": {"phase": "Running", "containerStatuses": [{**status, "state": state}]}}
            await kubectl("patch", "pod", "a", "--subresource=status", "-p", orjson.dumps(patch).decode())

        await report({"running": {"startedAt": "2026-01-01T10:00:00Z"}})
        following = asyncio.create_task(kubectl("logs", "-f", "a", "--since=1000000h", "--tail=5"))
        await asyncio.sleep(1)
        assert not following.done()
        # when
        ended = {"startedAt": "2026-01-01T10:00:00Z", "finishedAt": "2026-01-01T10:00:09Z", "exitCode": 2}
        await report({"terminated": ended})
        # then
        assert (await following).splitlines() == [
            "nginx:1 started (restarts: 0) at 2026-01-01T10:00:00Z",
            "ended with exit code 2 at 2026-01-01T10:00:09Z",
        ]
