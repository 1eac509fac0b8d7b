"""The roles and bindings that every cluster begins with.

data/bootstrap_policy.json ──▶ make_first_roles(core) ──▶ storage

A role or binding that already exists in the data directory stays unchanged.
"""

from functools import cache
from typing import TYPE_CHECKING, Any

import orjson

from pykruise.kube.clock import format_time
from pykruise.kube.documents import deep_copy
from pykruise.kube.ids import Key
from pykruise.kube.package_data import read_package_data
from pykruise.sandbox.apiserver.access.authorizer import GROUP
from pykruise.sandbox.apiserver.objects.metadata import make_uid

if TYPE_CHECKING:
    from pykruise.sandbox.apiserver.core import Core


_KINDS = {
    "clusterroles": "ClusterRole",
    "clusterrolebindings": "ClusterRoleBinding",
    "roles": "Role",
    "rolebindings": "RoleBinding",
}


def make_first_roles(core: "Core") -> None:
    """Store the roles and bindings that are missing."""
    for plural, kind in _KINDS.items():
        entry = core.catalog.find_entry(GROUP, "v1", plural)
        assert entry is not None
        for said in _read_policy()[plural]:
            doc: dict[str, Any] = deep_copy(said)
            meta = doc["metadata"]
            if core.storage.get(entry.shelf, Key(meta.get("namespace") or "", meta["name"])) is not None:
                continue
            meta |= {"uid": make_uid(core.rng), "creationTimestamp": format_time(core.clock())}
            core.put(entry, None, {"apiVersion": f"{GROUP}/v1", "kind": kind, **doc})


@cache
def _read_policy() -> dict[str, list[dict[str, Any]]]:
    policy: dict[str, list[dict[str, Any]]] = orjson.loads(
        read_package_data("pykruise.sandbox", "bootstrap_policy.json")
    )
    return policy
