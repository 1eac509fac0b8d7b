"""The operators under examples/: how long they are, what they decide, how they work on a cluster, and their tests."""

import asyncio
import json
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from pykruise.kube.client.client import Client
from pykruise.kube.clock import read_system_clock
from pykruise.kube.documents import decode
from pykruise.kube.errors import AlreadyExistsError, NotFoundError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, DEPLOYMENTS, EVENTS, Resource
from pykruise.operators import webhook_configurations
from pykruise.runtime.operator import Operator
from pykruise.sandbox.certificates import issue
from pykruise.testing.http import HttpSandbox
from support.programs import EXAMPLES, load_program
from support.rbac import Authorizer, AuthorizingTransport
from support.scenario import Object, Stage

HERE: Final = EXAMPLES / "operator"
SITES: Final = Resource("example.com", "v1", "sites", "Site")


@pytest.mark.parametrize(("name", "most"), [("page_operator", 20), ("serving_operator", 60)])
def test_an_operator_has_no_more_lines_than_the_documentation_promises(name: str, most: int) -> None:
    assert len((HERE / f"{name}.py").read_text().splitlines()) <= most


def site(html: str = "<h1>Hello</h1>", **spec: Any) -> Object:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Site",
        "metadata": {"name": "hello"},
        "spec": {"html": html, **spec},
    }


@asynccontextmanager
async def running(
    stage: Stage, name: str, *, has_status: bool = True, client: Client | None = None
) -> AsyncIterator[None]:
    """An example at work in the namespace of a scenario. `has_status`: whether its CRD declares the subresource.
    `client`: of the operator.
    """
    try:
        definition = yaml.safe_load((HERE / "crd.yaml").read_text())
        if not has_status:
            del definition["spec"]["versions"][0]["subresources"]
        await stage.client.create(CUSTOM_RESOURCE_DEFINITIONS, "", definition)
    except AlreadyExistsError:
        pass
    await stage.until(lambda: is_served(stage), what="the API server serves Sites")
    work = load_program(HERE / f"{name}.py").WORK
    operator = Operator(
        client or stage.client, [work], namespace=stage.namespace, clock=stage.clock, rng=stage.rng
    )
    task = asyncio.create_task(operator.run())
    try:
        yield
    finally:
        operator.stop()
        await task


async def is_served(stage: Stage) -> bool:
    try:
        await stage.client.list(SITES, stage.namespace)
    except NotFoundError:
        return False
    return True


async def get(stage: Stage, resource: Resource, name: str) -> Object | None:
    try:
        return decode(await stage.client.get(resource, stage.namespace, name))
    except NotFoundError:
        return None


def until_site(stage: Stage, is_so: Callable[[Object], bool], what: str) -> Awaitable[Any]:
    async def reached() -> bool:
        document = await get(stage, SITES, "hello")
        return document is not None and is_so(document)

    return stage.until(reached, what=what)


async def test_twenty_lines_keep_children_status_and_finalizer_right(stage: Stage) -> None:
    async with running(stage, "page_operator"):
        # given
        await stage.client.create(SITES, stage.namespace, site())
        await until_site(
            stage, lambda doc: doc.get("status") == {"observedGeneration": 1}, "the status is written"
        )
        page = await get(stage, CONFIG_MAPS, "hello-page")
        assert page is not None
        assert page["data"] == {"index.html": "<h1>Hello</h1>"}
        # when another client changes the child, and adds a field of its own
        drifted = {"data": {"index.html": "x", "own": "kept"}}
        await stage.client.patch(
            CONFIG_MAPS, stage.namespace, "hello-page", drifted, patch_type=PatchType.MERGE
        )

        async def is_repaired() -> bool:
            stored = await get(stage, CONFIG_MAPS, "hello-page")
            return stored is not None and stored["data"] == {"index.html": "<h1>Hello</h1>", "own": "kept"}

        # then
        await stage.until(is_repaired, what="the page is written again")
        # when
        await stage.client.delete(SITES, stage.namespace, "hello")

        async def is_gone() -> bool:
            return await get(stage, SITES, "hello") is None

        # then the finalizer goes after the child
        await stage.until(is_gone, what="the Site is deleted")
        assert await get(stage, CONFIG_MAPS, "hello-page") is None


async def test_sixty_lines_serve_a_site_and_roll_out_its_page(stage: Stage) -> None:
    async with running(stage, "serving_operator"):
        await stage.client.create(SITES, stage.namespace, site(replicas=2))
        await until_site(stage, lambda doc: doc.get("status", {}).get("ready") == 2, "both pods are ready")
        before = await get(stage, DEPLOYMENTS, "hello")
        patch = {"spec": {"html": "<h1>Bye</h1>"}}
        await stage.client.patch(SITES, stage.namespace, "hello", patch, patch_type=PatchType.MERGE)
        await until_site(
            stage,
            lambda doc: doc["status"] == {"observedGeneration": 2, "ready": 2},
            "the new page is served",
        )
        after = await get(stage, DEPLOYMENTS, "hello")
        assert before is not None
        assert after is not None
        assert before["spec"]["template"] != after["spec"]["template"]

        async def is_told() -> bool:
            events = [decode(raw) for raw in (await stage.client.list(EVENTS, stage.namespace)).items]
            reasons = {event["reason"] for event in events if event["involvedObject"]["kind"] == "Site"}
            return {"Created", "Served"} <= reasons

        await stage.until(is_told, what="events of the Site are recorded")


async def test_a_child_of_another_owner_is_not_changed(stage: Stage) -> None:
    async with running(stage, "page_operator"):
        foreign = {"metadata": {"name": "hello-page"}, "data": {"a": "b"}}
        await stage.client.create(CONFIG_MAPS, stage.namespace, foreign)
        await stage.client.create(SITES, stage.namespace, site())

        async def is_told() -> bool:
            events = [decode(raw) for raw in (await stage.client.list(EVENTS, stage.namespace)).items]
            return any(event["reason"] == "NameTaken" for event in events)

        await stage.until(is_told, what="an event names the reason")
        stored = await get(stage, CONFIG_MAPS, "hello-page")
        assert stored is not None
        assert stored["data"] == {"a": "b"}


async def test_the_role_of_the_example_has_the_permissions_that_the_operator_needs(stage: Stage) -> None:
    roles = [*yaml.safe_load_all((HERE / "rbac.yaml").read_text())]
    transport = AuthorizingTransport(stage.client.transport, Authorizer(roles))
    async with running(stage, "page_operator", client=stage.client.replace_transport(transport)):
        await stage.client.create(SITES, stage.namespace, site())
        await until_site(stage, lambda doc: "status" in doc, "the status is written")
        await stage.client.delete(CONFIG_MAPS, stage.namespace, "hello-page")
        await stage.until(lambda: is_page_there(stage), what="the child is created again")
        changed = {"spec": {"html": "Bye"}}
        await stage.client.patch(SITES, stage.namespace, "hello", changed, patch_type=PatchType.MERGE)
        await until_site(stage, lambda doc: doc["status"]["observedGeneration"] == 2, "the child is changed")
        await stage.client.delete(SITES, stage.namespace, "hello")
        await stage.until(lambda: is_site_gone(stage), what="the finalizer is removed")
    assert transport.refused == []


async def is_page_there(stage: Stage) -> bool:
    return await get(stage, CONFIG_MAPS, "hello-page") is not None


async def is_site_gone(stage: Stage) -> bool:
    return await get(stage, SITES, "hello") is None


@pytest.mark.sandbox_only
async def test_an_event_names_a_crd_without_the_status_subresource(stage: Stage) -> None:
    async with running(stage, "page_operator", has_status=False):
        await stage.client.create(SITES, stage.namespace, site())

        async def list_messages() -> list[str]:
            events = [decode(raw) for raw in (await stage.client.list(EVENTS, stage.namespace)).items]
            return [event["message"] for event in events if event["reason"] == "FailedWrite"]

        await stage.until(list_messages, what="an event names the reason")
        (message,) = await list_messages()
        assert "the API server has no status subresource for Site" in message
        assert await get(stage, CONFIG_MAPS, "hello-page") is not None


# ── as a program ─────────────────────────────────────────────────────────────


def read_page(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        text: str = answer.read().decode()
        return text


def until_real(is_so: Callable[[], bool], what: str) -> None:
    for _ in range(600):
        try:
            if is_so():
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise AssertionError(f"never: {what}")


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@pytest.mark.sandbox_only
@pytest.mark.real_time
@pytest.mark.timeout(300)
def test_a_program_elects_serves_probes_and_reviews_and_ends_gracefully(tmp_path: Path) -> None:
    # given
    certificate = issue(now=read_system_clock())
    (tmp_path / "tls.crt").write_bytes(certificate.chain)
    (tmp_path / "tls.key").write_bytes(certificate.key)
    metrics, probes, webhooks = free_port(), free_port(), free_port()
    with HttpSandbox(tmp_path / "kubeconfig", manifests=[HERE / "crd.yaml"]) as sandbox:
        program = subprocess.Popen(
            [
                *(sys.executable, str(HERE / "serving_operator.py"), f"--kubeconfig={sandbox.kubeconfig}"),
                *("--leader-elect", f"--webhook-cert-dir={tmp_path}"),
                *(
                    f"--metrics-bind-address=127.0.0.1:{metrics}",
                    f"--webhook-bind-address=127.0.0.1:{webhooks}",
                ),
                f"--health-probe-bind-address=127.0.0.1:{probes}",
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            until_real(lambda: read_page(probes, "/readyz") == "ok", "it is ready")
            rules = load_program(HERE / "serving_operator.py").WEBHOOKS
            url = f"https://127.0.0.1:{webhooks}"
            client = sandbox_client(sandbox)
            for document in webhook_configurations("sites", rules, ca=certificate.authority, url=url):
                client(
                    "POST", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", document
                )
            # when
            path = "/apis/example.com/v1/namespaces/default/sites"
            refusal = client("POST", path, site("no tag"))
            client("POST", path, site())
            # then
            assert refusal["code"] == 422
            assert refusal["details"]["causes"][0]["field"] == "spec.html"
            until_real(
                lambda: client("GET", f"{path}/hello").get("status", {}).get("ready") == 1,
                "the Site is served",
            )
            page = read_page(metrics, "/metrics")
            assert 'controller_runtime_reconcile_total{controller="sites",result="success"}' in page
            assert 'leader_election_master_status{name="serving-operator"} 1.0' in page
            lease_path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/serving-operator"
            assert client("GET", lease_path)["spec"]["holderIdentity"]
            # when
            program.send_signal(signal.SIGTERM)
            _, log = program.communicate(timeout=60)
            # then
            assert program.returncode == 0, log
            assert not client("GET", lease_path)["spec"].get("holderIdentity")
        finally:
            program.kill()


@pytest.mark.sandbox_only
@pytest.mark.real_time
@pytest.mark.timeout(300)
def test_a_program_without_its_crd_is_ready_and_logs_why_it_waits(tmp_path: Path) -> None:
    probes = free_port()
    with HttpSandbox(tmp_path / "kubeconfig") as sandbox:
        program = subprocess.Popen(
            [
                *(sys.executable, str(HERE / "page_operator.py"), f"--kubeconfig={sandbox.kubeconfig}"),
                *("--metrics-bind-address=0", f"--health-probe-bind-address=127.0.0.1:{probes}"),
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            until_real(lambda: read_page(probes, "/readyz") == "ok", "it is ready without the CRD")
            time.sleep(6.0)
        finally:
            program.send_signal(signal.SIGTERM)
            _, log = program.communicate(timeout=60)
        assert program.returncode == 0, log
        (line,) = [line for line in log.splitlines() if "does not serve Site" in line]
        assert "the controllers that read this kind start when the CRD exists; install it" in line


def sandbox_client(sandbox: HttpSandbox) -> Callable[..., Object]:
    """Requests of another client, with Python's own HTTP."""
    context = ssl.create_default_context(cafile=sandbox.ca_file)

    def ask(method: str, path: str, body: Object | None = None) -> Object:
        request = urllib.request.Request(
            sandbox.url + path,
            method=method,
            data=json.dumps(body).encode() if body is not None else None,
            headers={"authorization": f"Bearer {sandbox.token}", "content-type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, context=context, timeout=10) as answer:
                result: Object = json.load(answer)
        except urllib.error.HTTPError as error:
            result = json.load(error)
        return result

    return ask


def test_flags_that_cannot_be_used_are_refused_with_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    module = load_program(HERE / "serving_operator.py")
    with pytest.raises(SystemExit) as ended:
        module.main("serving-operator", module.WORK, webhooks=module.WEBHOOKS, argv=[])
    assert ended.value.code == 2
    assert "--webhook-cert-dir" in capsys.readouterr().err


# ── their own tests ──────────────────────────────────────────────────────────


@pytest.mark.sandbox_only
@pytest.mark.real_time
@pytest.mark.timeout(400)
@pytest.mark.parametrize("file", sorted(EXAMPLES.rglob("test_*.py")), ids=lambda file: file.stem)
def test_the_tests_beside_an_operator_pass_as_a_user_runs_them(file: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(file.parent, tmp_path / "example")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=", file.name]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=380, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
