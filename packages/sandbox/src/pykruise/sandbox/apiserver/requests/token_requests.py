"""POST serviceaccounts/NAME/token: a token for a service account.

This is the rule of Kubernetes' TokenRequest. access/tokens.py issues and verifies tokens.
"""

from typing import Any, Final

import orjson

from pykruise.kube.clock import format_time
from pykruise.kube.documents import Document
from pykruise.kube.errors import Cause
from pykruise.kube.ids import Key
from pykruise.kube.pod_rules import field_errors as causes
from pykruise.kube.resources import PODS, SECRETS
from pykruise.kube.schemas.builtin_types import DecodeError, find_decoder
from pykruise.sandbox.apiserver.access.tokens import AUDIENCE, Bound
from pykruise.sandbox.apiserver.core import Core
from pykruise.sandbox.apiserver.requests.call import Call, CallAnswer, check_write_options
from pykruise.sandbox.apiserver.requests.negotiation import read_body
from pykruise.sandbox.apiserver.requests.statuses import (
    make_bad_request,
    make_conflict,
    make_invalid,
    make_not_found,
)

_DEFAULT_S: Final = 3600
_SHORTEST_S: Final = 600
_LONGEST_S: Final = 1 << 32
_GROUP: Final = "authentication.k8s.io"
_BINDS: Final = {"Pod": PODS, "Secret": SECRETS}


async def create_token(core: Core, call: Call) -> CallAnswer:
    """Respond 201 with the TokenRequest and its token. Raises Refusal."""
    check_write_options(call, "CreateOptions")
    doc = _decode_body(call)
    account = core.get(call.entry, call.namespace, call.name)
    if account is None:
        raise make_not_found(call.entry.resource, call.name)
    spec: Document = doc.setdefault("spec", {})
    spec["audiences"] = spec.get("audiences") or [AUDIENCE]
    seconds = spec.get("expirationSeconds")
    spec["expirationSeconds"] = seconds = _DEFAULT_S if seconds is None else seconds
    if result := _check_duration(seconds):
        raise make_invalid("TokenRequest", _GROUP, "", result)
    bound = _find_bound_object(core, call, spec.get("boundObjectRef"))
    token = core.tokens.issue(account, audiences=tuple(spec["audiences"]), seconds=seconds, bound=bound)
    doc["metadata"] = {
        **(doc.get("metadata") or {}),
        "name": call.name,
        "namespace": call.namespace,
        "creationTimestamp": format_time(core.clock()),
    }
    doc["status"] = {"token": token, "expirationTimestamp": format_time(core.clock() + seconds)}
    shown = {"kind": "TokenRequest", "apiVersion": f"{_GROUP}/v1", **doc}
    return CallAnswer(201, orjson.dumps(shown), is_object=False)


def _decode_body(call: Call) -> dict[str, Any]:
    sent = read_body(call.headers, call.body, what="TokenRequest")
    decoder = find_decoder("io.k8s.api.authentication.v1.TokenRequest")
    assert decoder is not None
    try:
        doc, _ = decoder.decode(sent)
    except DecodeError as err:
        raise make_bad_request(
            f'TokenRequest in version "v1" cannot be handled as a TokenRequest: {err}'
        ) from err
    return {member: value for member, value in doc.items() if member in ("metadata", "spec")}


def _check_duration(seconds: int) -> list[Cause]:
    if seconds < _SHORTEST_S:
        text = "may not specify a duration less than 10 minutes"
    elif seconds > _LONGEST_S:
        text = "may not specify a duration larger than 2^32 seconds"
    else:
        return []
    return [causes.make_invalid_error("spec.expirationSeconds", seconds, text)]


def _find_bound_object(core: Core, call: Call, said: Document | None) -> Bound | None:
    """Return the object whose deletion invalidates the token. Raises Refusal."""
    if said is None:
        return None
    resource = _BINDS.get(said.get("kind") or "")
    if resource is None:
        raise make_bad_request(
            f"cannot bind token for serviceaccount to a type={said.get('apiVersion')}, Kind={said.get('kind')} object"
        )
    name = said.get("name") or ""
    stored = core.storage.get(str(resource), Key(call.namespace, name))
    if stored is None:
        raise make_not_found(resource, name)
    if (uid := said.get("uid")) and uid != stored.uid:
        why = (
            f"the UID in the bound object reference ({uid}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        raise make_conflict(resource, name, why)
    return Bound(str(resource), name, stored.uid)
