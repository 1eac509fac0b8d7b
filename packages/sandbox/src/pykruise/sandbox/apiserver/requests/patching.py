"""The patch in a request's body: reading and applying it.

Content-Type, body ──▶ read_patch() ──▶ WantedPatch.apply(document) ──▶ document

Pure. kube.patches implements the patches; this module decides which types a resource accepts, and turns failures into a
Refusal.
"""

import logging
from collections.abc import Iterable
from typing import Any, NoReturn

import msgspec

from pykruise.kube.documents import Document
from pykruise.kube.patches.errors import PatchError
from pykruise.kube.patches.json_patch import apply_json_patch
from pykruise.kube.patches.merge import apply_merge_patch
from pykruise.kube.patches.schemas import has_definition
from pykruise.kube.patches.strategic import apply_strategic_merge
from pykruise.kube.patches.types import PatchType
from pykruise.kube.pod_rules import field_errors as causes
from pykruise.sandbox.apiserver.requests.call import Call, check_write_options
from pykruise.sandbox.apiserver.requests.negotiation import BODY_LIMIT, parse_json
from pykruise.sandbox.apiserver.requests.statuses import (
    Refusal,
    make_bad_request,
    make_request_entity_too_large,
    make_unclassified_error,
    make_unprocessable,
    make_unsupported_media_type,
    make_wrong_content_type,
)

_LOG = logging.getLogger(__name__)
_JSON_KINDS = {bool: "bool", str: "string", list: "array", dict: "object", type(None): "null"}
_ALWAYS_READ = ("apiVersion", "kind")


class WantedPatch(msgspec.Struct, frozen=True):
    """A patch of one type, with the definition for strategic merges."""

    kind: PatchType
    value: Any
    definition: str

    def apply(self, doc: Document) -> Document:
        """Return the patched document; the given document must not be used afterwards.

        Raises Refusal (400, 413, 422) when the patch cannot be applied.
        """
        try:
            match self.kind:
                case PatchType.JSON:
                    return apply_json_patch(doc, self.value)
                case PatchType.MERGE:
                    return apply_merge_patch(doc, self.value)
                case _ if has_definition(self.definition):
                    return apply_strategic_merge(doc, self.value, definition=self.definition, uses_up=True)
                case _:
                    # For a kind without lists (Scale), both merge patches have the same result.
                    return apply_merge_patch(doc, self.value)
        except PatchError as err:
            _raise_refusal(err)
        except RecursionError as err:
            raise make_bad_request("the patch is nested too deeply") from err

    def list_untouched(self, doc: Document) -> Iterable[str]:
        """Members of the document that the patch certainly does not change."""
        if self.kind is PatchType.JSON or any(name.startswith("$") for name in self.value):
            return ()
        return [name for name in doc if name not in self.value and name not in _ALWAYS_READ]


def is_apply(call: Call) -> bool:
    """Whether a PATCH is a server-side apply (applying.py)."""
    return call.method == "PATCH" and _read_media_type(call) == PatchType.APPLY


def _read_media_type(call: Call) -> str:
    return (call.headers.get("content-type") or "").partition(";")[0].strip()


def read_patch(call: Call, definition: str) -> WantedPatch:
    """Read the patch of the call. Without a `definition`, strategic merges are not supported. Raises Refusal: 400,
    413, 415, 422.
    """
    media = _read_media_type(call)
    taken = [PatchType.JSON, PatchType.MERGE, *([PatchType.STRATEGIC] if definition else [])]
    if media == PatchType.APPLY:
        raise make_unsupported_media_type([*map(str, taken)])
    if media not in taken:
        if call.entry.is_custom:
            raise make_unsupported_media_type([*map(str, taken), str(PatchType.APPLY)])
        raise make_wrong_content_type()
    kind = PatchType(media)
    extra = []
    if "force" in call.query:
        extra.append(causes.make_forbidden_error("force", "may not be specified for non-apply patch"))
    check_write_options(call, "PatchOptions", extra)
    body = call.body or b""
    if len(body) > BODY_LIMIT:
        raise make_request_entity_too_large(BODY_LIMIT)
    prefix = "" if kind is PatchType.STRATEGIC else "error decoding patch: "
    value = parse_json(body, prefix=prefix)
    if not isinstance(value, list if kind is PatchType.JSON else dict):
        wanted = "[]handlers.jsonPatchOp" if kind is PatchType.JSON else "map[string]interface {}"
        text = _JSON_KINDS.get(type(value), "number")
        raise make_bad_request(f"{prefix}json: cannot unmarshal {text} into Go value of type {wanted}")
    return WantedPatch(kind, value, definition)


def _raise_refusal(err: PatchError) -> NoReturn:
    match err.code:
        case 400:
            raise make_bad_request(str(err)) from err
        case 413:
            status = make_request_entity_too_large(0).status
            raise Refusal(msgspec.structs.replace(status, message=str(err))) from err
        case 422:
            _LOG.debug("a patch cannot be applied to the object: %s", err)
            raise make_unprocessable() from err
        case _:
            raise make_unclassified_error(str(err)) from err
