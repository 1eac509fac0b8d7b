"""Service accounts: every namespace has one named `default`.

Namespace ──▶ plan_account() ──▶ POST serviceaccounts/default, again after it is deleted

This is the rule of Kubernetes' service accounts controller.
"""

from typing import Any, Final

import msgspec

from pykruise.kube.clock import Instant
from pykruise.kube.ids import Key
from pykruise.kube.resources import NAMESPACES, SERVICE_ACCOUNTS
from pykruise.runtime.control import Control, is_same_object
from pykruise.runtime.objects import DocumentView
from pykruise.runtime.operator import Work
from pykruise.runtime.plan import Plan
from pykruise.runtime.read import Read
from pykruise.runtime.wakes import Wake, wake_itself
from pykruise.sandbox.controllers.pods import make_document_views
from pykruise.sandbox.controllers.steps import CREATE, create_object, run_in_order

NAMESPACE_VIEWS: Final = make_document_views(NAMESPACES)
ACCOUNT_VIEWS: Final = make_document_views(SERVICE_ACCOUNTS)
_NAME: Final = "default"


class ServiceAccountSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All that a decision about one namespace needs."""

    namespace: DocumentView
    account: DocumentView | None
    now: Instant


async def read_snapshot(namespace: DocumentView, read: Read[Any]) -> ServiceAccountSnapshot:
    """Read a snapshot from caches, without requests."""
    account = read.get(ACCOUNT_VIEWS, Key(namespace.name, _NAME))
    return ServiceAccountSnapshot(namespace=namespace, account=account, now=read.now())


def plan_account(snapshot: ServiceAccountSnapshot) -> Plan:
    """Create the account if it is missing."""
    if snapshot.namespace.is_deleting or snapshot.account is not None:
        return Plan()
    body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": _NAME}}
    step = create_object(
        SERVICE_ACCOUNTS,
        snapshot.namespace.name,
        body,
        because="the namespace has no ServiceAccount `default`",
    )
    return Plan(stages=run_in_order(CREATE, [step]))


WORK: Final = Work(
    resource=NAMESPACES,
    control=Control(
        name="serviceaccounts",
        component="serviceaccount-controller",
        objects=NAMESPACE_VIEWS,
        reads=lambda _: (ACCOUNT_VIEWS,),
        wakes=lambda _: (
            wake_itself(NAMESPACE_VIEWS),
            Wake(
                on=ACCOUNT_VIEWS,
                keys=lambda change, _: (
                    (Key("", change.key.namespace),)
                    if change.new is None and change.key.name == _NAME
                    else ()
                ),
            ),
        ),
        snapshot=read_snapshot,
        object_of=lambda snapshot: snapshot.namespace,
        plan=plan_account,
        is_current=is_same_object,
    ),
)
