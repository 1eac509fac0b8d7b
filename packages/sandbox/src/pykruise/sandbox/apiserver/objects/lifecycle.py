"""Rules of namespaces: objects are created only in a namespace that exists and is not terminating, and the namespaces
that a cluster needs cannot be deleted.

writes.py ──▶ check_namespace(), check_not_immortal() ──▶ Refusal, or nothing

This is the rule of a real API server's NamespaceLifecycle admission plugin.
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kube.documents import decode
from pykruise.kube.errors import Cause
from pykruise.kube.ids import Key
from pykruise.kube.resources import NAMESPACES
from pykruise.sandbox.apiserver.core import Core
from pykruise.sandbox.apiserver.requests.call import Call
from pykruise.sandbox.apiserver.requests.statuses import make_forbidden, make_not_found

FIRST_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
_IMMORTAL: Final = ("default", "kube-public", "kube-system")
_PHASE: Final = 0


def check_namespace(core: Core, call: Call, meta: Mapping[str, Any]) -> None:
    """Reject creation in a namespace that is missing (404) or terminating (403)."""
    resource = call.entry.resource
    if not resource.namespaced or not call.namespace:
        return
    namespace = core.storage.get("namespaces", Key("", call.namespace))
    if namespace is None:
        raise make_not_found(NAMESPACES, call.namespace)
    if namespace.fields and namespace.fields[_PHASE] == "Terminating":
        terminating = True
    else:
        terminating = b'"deletionTimestamp"' in namespace.raw and bool(
            decode(namespace.raw)["metadata"].get("deletionTimestamp")
        )
    if terminating:
        name = meta.get("name") or meta.get("generateName") or "Unknown"
        cause = Cause(
            reason="NamespaceTerminating",
            message=f"namespace {call.namespace} is being terminated",
            field="metadata.namespace",
        )
        text = f"unable to create new content in namespace {call.namespace} because it is being terminated"
        raise make_forbidden(resource, name, text, [cause])


def check_not_immortal(call: Call) -> None:
    """Reject the deletion of namespaces that a cluster needs."""
    if call.entry.shelf == "namespaces" and call.name in _IMMORTAL:
        raise make_forbidden(call.entry.resource, call.name, "this namespace may not be deleted")
