"""The service account of a new pod, and the volume with its token.

writes.py ──▶ await_default_account(), then plugins/builtin.py ──▶ give_account() ──▶ the pod, or a Refusal (403)

Only a server with `service_accounts` assigns accounts; other servers check the account that a pod names. Same rules
as Kubernetes' admission plugin ServiceAccount, but the deprecated annotation kubernetes.io/enforce-mountable-secrets
is not read.
"""

import asyncio
from typing import Any, Final

from pykruise.kube.documents import Document, decode
from pykruise.kube.ids import Key
from pykruise.kube.values.go_text import quote_text
from pykruise.sandbox.apiserver.core import Core
from pykruise.sandbox.apiserver.objects.metadata import generate_name
from pykruise.sandbox.apiserver.requests.call import Call
from pykruise.sandbox.apiserver.requests.statuses import Refusal, make_forbidden

_ACCOUNTS: Final = "serviceaccounts"
_DEFAULT: Final = "default"
_MIRROR: Final = "kubernetes.io/config.mirror"
_VOLUME: Final = "kube-api-access-"
_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_TOKEN_S: Final = 3607
"""An hour and seven seconds. Kubernetes recognizes these tokens by the seven seconds."""
_ATTEMPTS: Final = 10


async def await_default_account(core: Core, call: Call, doc: Document) -> None:
    """Wait until a controller has created the service account `default` of a new namespace. This is the rule of
    Kubernetes: at most ten checks, 0.1 to 0.2 s apart.
    """
    if call.subresource:
        return
    if ((doc.get("spec") or {}).get("serviceAccountName") or _DEFAULT) != _DEFAULT:
        return
    key = Key(call.namespace, _DEFAULT)
    for _ in range(_ATTEMPTS - 1):
        if core.storage.get(_ACCOUNTS, key) is not None:
            return
        await asyncio.sleep(core.rng.uniform(0.1, 0.2))


def give_account(core: Core, call: Call, pod: Document) -> None:
    """Set account, token volume and pull secrets of a new pod. The additions share no objects with the sent document.

    Raises Refusal (403) when the account does not exist.
    """
    spec: dict[str, Any] = pod["spec"]
    if _MIRROR in (pod["metadata"].get("annotations") or {}):
        if spec.get("serviceAccountName"):
            raise _make_refusal(call, pod, "a mirror pod may not reference service accounts")
        return
    if not spec.get("serviceAccountName"):
        spec["serviceAccountName"] = spec["serviceAccount"] = _DEFAULT
    account = _account_of(core, call, pod)
    if _mounts_token(account, spec):
        _mount_token(core, spec)
    if not spec.get("imagePullSecrets") and (secrets := account.get("imagePullSecrets")):
        spec["imagePullSecrets"] = [{"name": secret.get("name") or ""} for secret in secrets]


def check_account(core: Core, call: Call, pod: Document) -> None:
    """Raise Refusal (403) when the named account does not exist; `default` is assumed to exist in each namespace."""
    if pod["spec"]["serviceAccountName"] != _DEFAULT:
        _account_of(core, call, pod)


def _account_of(core: Core, call: Call, pod: Document) -> Document:
    name = pod["spec"]["serviceAccountName"]
    stored = core.storage.get(_ACCOUNTS, Key(call.namespace, name))
    if stored is None:
        why = f"error looking up service account {call.namespace}/{name}: serviceaccount {quote_text(name)} not found"
        raise _make_refusal(call, pod, why)
    return decode(stored.raw)


def _make_refusal(call: Call, pod: Document, why: str) -> Refusal:
    metadata = pod["metadata"]
    return make_forbidden(
        call.entry.resource, metadata.get("name") or metadata.get("generateName") or "", why
    )


def _mounts_token(account: Document, spec: Document) -> bool:
    """Whether the token is mounted. The pod's choice has precedence over the account's."""
    choices = (spec.get("automountServiceAccountToken"), account.get("automountServiceAccountToken"), True)
    return bool(next(choice for choice in choices if choice is not None))


def _mount_token(core: Core, spec: dict[str, Any]) -> None:
    """Mount the token in each container that has no mount at the token's path. Add the volume if the pod has none."""
    volumes = spec.get("volumes") or []
    known = next((volume["name"] for volume in volumes if volume["name"].startswith(_VOLUME)), "")
    lacking = [
        container
        for field in ("initContainers", "containers")
        for container in spec.get(field) or ()
        if all(mount.get("mountPath") != _PATH for mount in container.get("volumeMounts") or ())
    ]
    if not lacking:
        return
    name = known or generate_name(_VOLUME, core.rng)
    mount = {"name": name, "readOnly": True, "mountPath": _PATH}
    for field in ("initContainers", "containers"):
        if spec.get(field):
            spec[field] = [
                {**each, "volumeMounts": [*(each.get("volumeMounts") or ()), dict(mount)]}
                if any(each is other for other in lacking)
                else each
                for each in spec[field]
            ]
    if not known:
        spec["volumes"] = [*volumes, {"name": name, "projected": _build_token_source()}]


def _build_token_source() -> Document:
    namespace = {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}, "path": "namespace"}
    return {
        "defaultMode": 0o644,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": _TOKEN_S, "path": "token"}},
            {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
            {"downwardAPI": {"items": [namespace]}},
        ],
    }
