"""Service accounts: every namespace has one named `default`.

Namespace ──▶ POST serviceaccounts/default, again when somebody deletes it
"""

from pykruise.kube.cache import Change
from pykruise.kube.errors import AlreadyExistsError, ForbiddenError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.resources import NAMESPACES, SERVICE_ACCOUNTS
from pykruise.runtime.objects import DocumentView
from pykruise.sandbox.controllers.base import Loop, Shared

__all__ = ["ServiceAccounts"]


class ServiceAccounts(Loop):
    """Gives every namespace its service account. Rule: Kubernetes' service accounts controller."""

    name = "serviceaccounts"
    component = "serviceaccount-controller"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.cache = self.watch(NAMESPACES)
        self.accounts = shared.cache(SERVICE_ACCOUNTS)
        self.accounts.subscribe(self._on_account)

    def _on_account(self, change: Change[DocumentView]) -> None:
        if change.new is None and change.key.name == "default":
            self.queue.add(Key("", change.key.namespace))

    async def sync(self, key: Key) -> float | None:
        namespace = self.cache.get(key)
        if namespace is None or namespace.is_deleting:
            return None
        if self.accounts.get(Key(namespace.name, "default")) is not None:
            return None
        doc = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        try:
            await self.writer.create(SERVICE_ACCOUNTS, namespace.name, doc)
        except (AlreadyExistsError, NotFoundError, ForbiddenError):
            return None  # there already, or the namespace is going
        return None
