"""A cluster for external clients: HTTPS on 127.0.0.1, in a thread of the test's process.

HttpSandbox ──▶ thread with an event loop ──▶ Cluster + HttpFront ──▶ kubeconfig (mode 0600), ca.crt

Time is real, because a program on the other side of a socket does not follow virtual time.
"""

import asyncio
import random
import secrets
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pykruise.kube.clock import read_system_clock
from pykruise.sandbox.certificates import Certificate, build_kubeconfig, issue, write_kubeconfig
from pykruise.sandbox.cluster import Cluster, ClusterSettings
from pykruise.sandbox.http_front import HttpFront
from pykruise.sandbox.nodes.faults import Rule
from pykruise.testing.contents import Manifest, list_documents_with_sources, put_all, rules_of

__all__ = ["HttpSandbox"]

_START_S = 30.0


class HttpSandbox:
    """A cluster over HTTPS. Enter its context to start it.

    For clients: `kubeconfig`, the path of the written file; or `url`, `token`, and `ca_file`, the path of the CA
    certificate. All are strings. Options are those of Sandbox, but by default containers start immediately
    (`start_s`).
    """

    def __init__(
        self,
        kubeconfig: str | Path,
        *,
        nodes: int = 3,
        seed: int = 0,
        manifests: Iterable[Manifest] = (),
        failures: Sequence[Rule | Mapping[str, Any]] = (),
        start_s: float | None = 0.0,
        ready_s: float | None = 0.0,
        stop_s: float | None = 0.0,
        rbac: bool = False,
    ) -> None:
        self.kubeconfig = str(kubeconfig)
        self.ca_file = str(Path(kubeconfig).with_name("ca.crt"))
        self.url = ""
        self.token = secrets.token_urlsafe(32)
        self._settings = ClusterSettings(
            nodes=nodes, start_s=start_s, ready_s=ready_s, stop_s=stop_s, rbac=rbac
        )
        self._seed = seed
        self._manifests = list_documents_with_sources(manifests)
        self._rules = rules_of(failures)
        self._cluster: Cluster | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._is_ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run_server, name="sandbox", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._is_ready.wait(_START_S):
            raise RuntimeError(f"the cluster did not start within {_START_S:g} s")
        if self._failure is not None:
            raise RuntimeError(f"the cluster did not start: {self._failure}") from self._failure
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._loop is not None and self._stop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(_START_S)
        if error is None and self._failure is not None:
            raise RuntimeError(f"the cluster ended: {self._failure}") from self._failure

    # ── faults ───────────────────────────────────────────────────────────────

    def fail(self, *failures: Rule | Mapping[str, Any]) -> None:
        """Replace the scripted failures: `fail({"image": "shop:2", "never_ready": True})`. Without arguments, no
        failures remain.
        """
        rules = rules_of(failures)
        self._run_in_thread(lambda cluster: cluster.kubelets.set_rules(rules))

    def stop_node(self, name: str) -> None:
        """Cut the node's power. Raises KeyError if there is no such node."""
        self._run_in_thread(lambda cluster: cluster.kubelets.stop_node(name))

    def start_node(self, name: str) -> None:
        """Restore the node's power. Raises KeyError if there is no such node."""
        self._run_in_thread(lambda cluster: cluster.kubelets.start_node(name))

    def _run_in_thread(self, change: Callable[[Cluster], None]) -> None:
        """Run the change in the cluster's thread. Raises its errors; RuntimeError if the cluster is not running."""
        cluster, loop = self._cluster, self._loop
        if cluster is None or loop is None:
            raise RuntimeError("the cluster is not running: enter the context of HttpSandbox first")

        async def changed() -> None:
            change(cluster)

        asyncio.run_coroutine_threadsafe(changed(), loop).result(_START_S)

    # ── thread ───────────────────────────────────────────────────────────────

    def _run_server(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as err:
            self._failure = err
        finally:
            self._is_ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        certificate = issue(now=read_system_clock())
        async with self._running() as cluster:
            self._cluster = cluster
            await put_all(cluster.client, self._manifests)
            front = self._make_front(cluster, certificate)
            await front.start()
            try:
                self.url = front.url
                self._write_files(certificate.authority)
                self._is_ready.set()
                stopping = asyncio.create_task(self._stop.wait())
                failing = asyncio.create_task(cluster.wait_failed())
                await asyncio.wait({stopping, failing}, return_when=asyncio.FIRST_COMPLETED)
                for task in (stopping, failing):
                    task.cancel()
                cluster.raise_failure()
            finally:
                await front.stop()

    def _make_front(self, cluster: Cluster, certificate: Certificate) -> HttpFront:
        """Return the server for clients."""
        return HttpFront(cluster.server, token=self.token, port=0, certificate=certificate)

    def _write_files(self, authority: bytes) -> None:
        document = build_kubeconfig(self.url, authority, self.token, "sandbox")
        write_kubeconfig(Path(self.kubeconfig), document)
        Path(self.ca_file).write_bytes(authority)

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[Cluster]:
        """The cluster, from its start to its end."""
        async with Cluster(self._settings, rng=random.Random(self._seed), rules=self._rules) as cluster:
            yield cluster
