"""A cluster without controllers, whose webhooks are several replicas behind one address: a real API server, or the
sandbox's, over HTTPS like a real one.

API server ──HTTPS──▶ Balancer ──▶ Webhooks, Webhooks, …
"""

import random
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from pykruise.kinds import build_crds
from pykruise.kube.client.client import Client
from pykruise.kube.client.retries import RetryPolicy
from pykruise.kube.client.transport import Transport
from pykruise.kube.clock import read_system_clock
from pykruise.kube.http.transport import HttpTransport
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from pykruise.manager.webhooks import Webhooks
from pykruise.sandbox.apiserver import ApiServer
from pykruise.sandbox.local import LocalTransport
from pykruise.sandbox.webhook_caller import WebhookCaller
from support.control_plane import connection
from support.real_webhooks import until_asked
from support.replicas import Balancer, replica_settings, replicas
from support.webhooks import install_configurations, install_namespace, uninstall_configurations
from testbed.control_plane import ControlPlane

AT_ONCE = 64
"""Connections of the user."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster whose webhooks are behind the balancer."""

    user: Client
    manager: Callable[[], Client]
    balancer: Balancer
    namespace: str
    folder: Path
    port: int

    @asynccontextmanager
    async def replicas(self, count: int = 2) -> AsyncIterator[list[Webhooks]]:
        """This number of ready replicas that API servers call."""
        options: dict[str, Any] = {"port": self.port, "settle_s": 0.1, "count": count}
        async with replicas(self.manager(), self.folder, self.balancer, **options) as webhookses:
            await until_asked(self.user, namespace=self.namespace)
            yield webhookses


@asynccontextmanager
async def webhook_place(plane: ControlPlane | None, folder: Path) -> AsyncIterator[Place]:
    """A cluster on this control plane; None: on the sandbox's API server."""
    async with AsyncExitStack() as stack:
        user_transport, manager_transport = await _transports(plane, stack)
        # The client repeats no request, so that every rejection is counted.
        user = Client(user_transport, rng=random.Random(2), retry=RetryPolicy(writes=0, reads=0))
        if plane is None:
            for crd in build_crds():
                await user.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd)
        namespace = f"race-{secrets.token_hex(4)}"
        await user.create(NAMESPACES, "", {"metadata": {"name": namespace}})
        settings = replica_settings(folder, 0)
        await install_namespace(user, settings)
        await install_configurations(user, settings)
        stack.push_async_callback(uninstall_configurations, user)
        port = settings.webhook.port
        yield Place(
            user=user,
            manager=lambda: Client(manager_transport, rng=random.Random(3)),
            balancer=await stack.enter_async_context(Balancer().on(port)),
            namespace=namespace,
            folder=folder,
            port=port,
        )


async def _transports(plane: ControlPlane | None, stack: AsyncExitStack) -> tuple[Transport, Transport]:
    """Transports of the user, and of the manager, which has only the permissions that it needs on the real
    control plane."""
    user: Transport
    manager: Transport
    if plane is None:
        caller = WebhookCaller()
        stack.push_async_callback(caller.close)
        server = ApiServer(clock=read_system_clock, rng=random.Random(1), webhooks=caller)
        user, manager = (LocalTransport(server, username=name) for name in ("user", "manager"))
    else:
        user = HttpTransport(connection(plane.kubeconfig), pool=AT_ONCE)
        manager = HttpTransport(connection(plane.manager_kubeconfig))
    for item in (user, manager):
        stack.push_async_callback(item.close)
    return user, manager
