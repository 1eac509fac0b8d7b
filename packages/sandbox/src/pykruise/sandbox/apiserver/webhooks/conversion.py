"""Conversion webhooks of CRDs: a Converter that calls the webhook, once for all objects of a list.

CRD with conversion.strategy Webhook ──▶ WebhookConversions.find_converter() ──▶ WebhookConverter

Same rules as apiextensions-apiserver's `conversion/webhook_converter`. The webhook cannot change metadata, except
labels and annotations.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pykruise.kube.documents import Document
from pykruise.sandbox.apiserver.catalog import Conversions, Converter
from pykruise.sandbox.apiserver.objects.metadata import make_uid
from pykruise.sandbox.apiserver.requests.statuses import Refusal, make_unclassified_error
from pykruise.sandbox.apiserver.webhooks.calling import Caller, CallFailedError, CallTarget, target_of
from pykruise.sandbox.apiserver.webhooks.wire import (
    CallingError,
    encode_conversion,
    format_status_error,
    read_conversion,
)

_TIMEOUT_S: Final = 30.0


class WebhookConversions:
    """Uses the conversions of `first`. If `first` has none for a CRD, the webhook that the CRD names is called."""

    def __init__(self, first: Conversions | None, caller: Caller, rng: random.Random) -> None:
        self._first = first
        self._caller = caller
        self._rng = rng

    def find_converter(self, crd: Mapping[str, Any], version: str) -> Converter | None:
        """Return the converter between the CRD's storage version and `version`; None if only the apiVersion differs."""
        converter = self._first.find_converter(crd, version) if self._first is not None else None
        spec = crd["spec"]
        conversion = spec.get("conversion") or {}
        if converter is not None or conversion.get("strategy") != "Webhook":
            return converter
        storage = next(each["name"] for each in spec["versions"] if each.get("storage"))
        if storage == version and len((crd.get("status") or {}).get("storedVersions") or ()) <= 1:
            return None  # no object is stored in another version
        return WebhookConverter(
            self._caller,
            target_of((conversion.get("webhook") or {}).get("clientConfig") or {}),
            self._rng,
            kind=spec["names"]["kind"],
            stored=f"{spec['group']}/{storage}",
            served=f"{spec['group']}/{version}",
        )


class WebhookConverter:
    """Converts between the storage version of a custom resource and a served one."""

    def __init__(
        self, caller: Caller, target: CallTarget, rng: random.Random, *, kind: str, stored: str, served: str
    ) -> None:
        self._caller = caller
        self._target = target
        self._rng = rng
        self._kind = kind
        self._stored = stored
        self._served = served

    async def from_storage(self, docs: Sequence[Document]) -> list[Document]:
        """Convert to the served version. Raises Refusal (500)."""
        return await self._convert(docs, self._served)

    async def to_storage(self, docs: Sequence[Document]) -> list[Document]:
        """Convert to the storage version. Raises Refusal (500)."""
        return await self._convert(docs, self._stored)

    async def _convert(self, docs: Sequence[Document], desired: str) -> list[Document]:
        # An object has the version that was the storage version at its last write.
        unlike = [doc for doc in docs if doc.get("apiVersion") != desired and not _is_empty(doc)]
        if not unlike:
            return [{**doc, "apiVersion": desired} for doc in docs]
        try:
            result = iter(await self._call_webhook(unlike, desired))
        except CallingError as err:
            raise self._make_refusal(unlike[0], f"failed: {err}") from err
        except _BadAnswerError as err:
            raise self._make_refusal(unlike[0], str(err)) from err
        return [
            doc
            if doc.get("apiVersion") == desired
            else {**doc, "apiVersion": desired}
            if _is_empty(doc)
            else next(result)
            for doc in docs
        ]

    async def _call_webhook(self, docs: Sequence[Document], desired: str) -> list[Document]:
        uid = make_uid(self._rng)
        body = encode_conversion(docs, uid=uid, desired=desired)
        try:
            status, answer = await self._caller.call(self._target, body, timeout_s=_TIMEOUT_S)
        except CallFailedError as err:
            raise CallingError(f'Post "{self._target.url}?timeout={_TIMEOUT_S:g}s": {err}') from err
        if status != 200:
            raise CallingError(format_status_error(status, answer))
        result = read_conversion(answer, uid=uid)
        if len(result) != len(docs):
            raise _BadAnswerError(f"returned {len(result)} objects, expected {len(docs)}")
        return [
            _check_converted(old, new, place, desired)
            for place, (old, new) in enumerate(zip(docs, result, strict=True))
        ]

    def _make_refusal(self, doc: Document, why: str) -> Refusal:
        return make_unclassified_error(
            f"conversion webhook for {doc.get('apiVersion')}, Kind={self._kind} {why}"
        )


def _is_empty(doc: Document) -> bool:
    """Whether there is nothing to convert, so that the webhook is not called. (A real API server calls the webhook for
    an object that an apply has emptied.)
    """
    return doc.keys() == {"apiVersion", "kind"}


class _BadAnswerError(Exception):
    """The webhook's response is not a conversion of the posted objects."""


def _check_converted(old: Document, new: Any, place: int, desired: str) -> Document:
    """Check the converted object, and restore its metadata. Raises _BadAnswerError."""
    if not isinstance(new, dict):
        raise _BadAnswerError(f"returned invalid object at index {place}: it is not an object")
    for what, member, wanted in (
        ("groupVersion", "apiVersion", desired),
        ("kind", "kind", old.get("kind")),
    ):
        if new.get(member) != wanted:
            raise _BadAnswerError(
                f"returned invalid object at index {place}: invalid {what} (expected {wanted}, "
                f"received {new.get(member)})"
            )
    before, after = old.get("metadata") or {}, new.get("metadata")
    if not isinstance(after, dict):
        raise _BadAnswerError("returned invalid metadata: missing metadata in converted object")
    for member, called in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        if after.get(member) != before.get(member):
            raise _BadAnswerError(
                f"returned invalid object: must have the same {called}: "
                f"{before.get(member)} != {after.get(member)}"
            )
    kept = {member: value for member, value in before.items() if member not in ("labels", "annotations")}
    own = {member: after[member] for member in ("labels", "annotations") if after.get(member)}
    return {**new, "metadata": {**kept, **own}}
