"""The manager's webhooks for a whole run against the real control plane, on this machine's loopback.

They write as the manager's ServiceAccount, which has the generated roles and no other permission.

They run in a thread with its own event loop, because each test has another loop, and a cluster also sends
admission reviews between two tests.
"""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvloop

from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.client.client import Client
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import KubeError
from pykruise.kube.http.transport import HttpTransport
from pykruise.kube.resources import PODS
from pykruise.kube.values.owners import build_owner_reference
from pykruise.manager.settings import ManagerSettings
from pykruise.manager.webhooks import Webhooks
from support.control_plane import connection
from support.scenario import AdmissionSwitch, cloneset
from support.webhooks import LOOPBACK, install_configurations, install_namespace, wait_ready
from testbed.control_plane import ControlPlane

READY_S = 60.0

_OWNER = build_owner_reference(
    api_version=CLONE_SETS.api_version, kind=CLONE_SETS.kind, name="probe", uid="probe"
)


@contextmanager
def webhooks_in_thread(
    plane: ControlPlane, settings: ManagerSettings, switch: AdmissionSwitch
) -> Iterator[Webhooks]:
    """Webhooks at work while the block runs, with their configurations installed."""
    thread = _Thread(plane, settings, switch)
    thread.start()
    try:
        yield thread.wait_ready()
    finally:
        thread.end()


class _Thread(threading.Thread):
    def __init__(self, plane: ControlPlane, settings: ManagerSettings, switch: AdmissionSwitch) -> None:
        super().__init__(name="webhooks", daemon=True)
        self._plane, self._settings, self._switch = plane, settings, switch
        self._changed = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Event | None = None
        self._webhooks: Webhooks | None = None
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            uvloop.run(self._serve())
        except BaseException as error:
            self._error = error
        finally:
            self._changed.set()

    def wait_ready(self) -> Webhooks:
        """Wait until the webhooks are ready, and return them; raises the error with which they ended."""
        assert self._changed.wait(READY_S), "the webhooks are not ready"
        if self._error is not None:
            raise self._error
        assert self._webhooks is not None
        return self._webhooks

    def end(self) -> None:
        """Return when everything is closed; raises the error that ended the webhooks before."""
        if self._loop is not None and self._ending is not None and self.is_alive():
            self._loop.call_soon_threadsafe(self._ending.set)
        self.join(READY_S)
        if self._error is not None:
            raise self._error

    async def _serve(self) -> None:
        self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
        admin = HttpTransport(connection(self._plane.kubeconfig))
        transport = HttpTransport(connection(self._plane.manager_kubeconfig))
        try:
            installer = Client(admin)
            await install_namespace(installer, self._settings)
            await install_configurations(installer, self._settings)
            client = Client(transport, user_agent="kruise-manager")
            webhooks = Webhooks(client, settings=self._settings, bind=LOOPBACK, over=self._switch.over)
            running = asyncio.create_task(webhooks.run())
            await wait_ready([webhooks], running)
            await until_asked(installer)
            self._webhooks = webhooks
            self._changed.set()
            stopping = asyncio.create_task(self._ending.wait())
            await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            await webhooks.stop()
            await running
        finally:
            await admin.close()
            await transport.close()
            await asyncio.sleep(0.1)  # TLS connections close a moment later


async def until_asked(client: Client, *, namespace: str = "default") -> None:
    """Wait until the API server calls the webhooks: it applies a configuration some moments after it has stored it."""
    pod = {
        "metadata": {"name": "probe", "ownerReferences": [_OWNER]},
        "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
    }
    async with asyncio.timeout(READY_S):
        while not await _is_asked(client, namespace, pod):
            await asyncio.sleep(0.1)


async def _is_asked(client: Client, namespace: str, pod: Document) -> bool:
    try:
        tried = decode(await client.create(PODS, namespace, pod, dry_run=True))
        # The API server reads the two webhook configurations separately, so the second one is checked too.
        await client.create(CLONE_SETS, namespace, cloneset("probe"), dry_run=True)
    except KubeError:
        return False
    return "readinessGates" in tried["spec"]
