"""Defaulting, pruning and validation of custom resources by their schema, as a Kubernetes API server does them.

    openAPIV3Schema of a CRD version ──▶ StructuralSchema.from_crd_schema()   (once; rejects an invalid schema)
                                                │ compiles the schema to closures
    a document ──▶ prune() ──▶ default() ──▶ validate() ──▶ causes of a 422, with the server's messages

The schema is compiled once, because every write of every custom resource uses it. A document is walked only where its
schema has rules, so an open node (a pod template with x-kubernetes-preserve-unknown-fields) takes no time. Equal
schemas are compiled once per process, because a test suite creates hundreds of servers with the same CRDs.

`x-kubernetes-validations` (rules in CEL) are checked last, and only if no other error prevents this check:
schemas/validations.py.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

import orjson

from pykruise.kube.documents import Document, encode_canonical
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules import field_errors as causes
from pykruise.sandbox.apiserver.schemas.checks import compile_check
from pykruise.sandbox.apiserver.schemas.defaulting import compile_fill
from pykruise.sandbox.apiserver.schemas.extensions import compile_embedded_check, compile_list_check
from pykruise.sandbox.apiserver.schemas.paths import Found, Schema, accept
from pykruise.sandbox.apiserver.schemas.pruning import compile_prune
from pykruise.sandbox.apiserver.schemas.ratcheting import is_unchanged
from pykruise.sandbox.apiserver.schemas.structure import ROOT, find_bad_defaults, find_offences
from pykruise.sandbox.apiserver.schemas.validations import compile_rules, find_rule_offences


class NotStructuralError(ValueError):
    """A schema that is not allowed in a CRD. `causes` lists every error with its field path."""

    def __init__(self, value: Sequence[Cause]) -> None:
        super().__init__("; ".join(f"{cause.field}: {cause.message}" for cause in value))
        self.causes = tuple(value)


class StructuralSchema:
    """A CRD version's schema, compiled. Create it with `from_crd_schema`."""

    def __init__(self, node: Schema) -> None:
        self._node = node
        self._check = compile_check(node) or accept
        self._check_lists = compile_list_check(node)
        self._check_embedded = compile_embedded_check(node)
        self._fill = compile_fill(node)
        self._prune = compile_prune(node, root=True)
        self._rules = compile_rules(node)

    @classmethod
    def from_crd_schema(
        cls, doc: Schema, *, path: str = "spec.validation.openAPIV3Schema"
    ) -> "StructuralSchema":
        """Compile the schema of a CRD version: its `openAPIV3Schema`, or the `schema` object around it.

        Raises NotStructuralError (a ValueError) when the schema is not structural; its messages begin with `path`.
        """
        node = doc["openAPIV3Schema"] if "openAPIV3Schema" in doc and "type" not in doc else doc
        if not isinstance(node, Mapping):
            raise NotStructuralError([causes.make_invalid_error(path, node, "must be an object")])
        try:
            # The schema as sent and as stored share one cache entry.
            return _compile_cached(encode_canonical(node))
        except ValueError:
            return cls._check_and_compile(node, path)  # checked again, for messages that begin with `path`

    @classmethod
    def _check_and_compile(cls, node: Schema, path: str) -> "StructuralSchema":
        result = sorted(find_offences(node, ROOT, path), key=lambda cause: f"{cause.field}: {cause.message}")
        result = result or list(find_rule_offences(node, path))
        if result:
            raise NotStructuralError(result)
        schema = cls(node)
        result = list(find_bad_defaults(node, path))
        if result:
            raise NotStructuralError(result)
        return schema

    def default(self, obj: Document) -> Document:
        """Fill in defaults where a value is absent, or is null but not nullable. Changes `obj`."""
        if self._fill:
            self._fill(obj)
        return obj

    def prune(self, obj: Document) -> tuple[Document, list[str]]:
        """Drop fields that the schema does not have. Return the changed `obj` and the sorted paths of the dropped
        fields.

        apiVersion, kind and metadata of the object are kept. Nulls where the schema has neither `nullable` nor a
        default are dropped too, but not listed, because they are not unknown fields.
        """
        dropped: list[str] = []
        if self._prune:
            self._prune(obj, None, dropped)
        dropped.sort()
        return obj, dropped

    def validate(self, obj: Document, old: Document | None = None) -> list[Cause]:
        """Return every error of `obj` against the schema; empty when the object is valid.

        With `old`, errors in parts that an update does not change are not reported, so that a schema can be tightened
        without blocking objects that were stored before (the server calls this ratcheting). Repeated items
        of sets and maps are reported unless the old object already had repeated items.
        """
        wrong: Found = []
        self._check(obj, None, wrong)
        if self._check_embedded:
            self._check_embedded(obj, None, wrong)
        repeated = self._find_repeated_items(obj)
        against_rules: Found = []
        unreadable = self._rules is not None and any(
            cause.reason in _BLOCKING for _, cause in (*wrong, *repeated)
        )
        if self._rules is not None and not unreadable:
            self._rules.check(obj, old, against_rules)
        if old is not None:
            wrong, against_rules = (
                self._select_errors_in_changes(errors, obj, old) for errors in (wrong, against_rules)
            )
            repeated = repeated if repeated and not self._find_repeated_items(old) else []
        result = [cause for _, cause in (*wrong, *repeated, *against_rules)]
        return result + ([_NOT_CHECKED] if unreadable else [])

    def _select_errors_in_changes(self, errors: Found, obj: Document, old: Document) -> Found:
        """Errors in parts that the update changes."""
        return [error for error in errors if not is_unchanged(error[0], obj, old, self._node)]

    def _find_repeated_items(self, obj: Document) -> Found:
        result: Found = []
        if self._check_lists:
            self._check_lists(obj, None, result)
        return result


_BLOCKING: Final = ("FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid")
_NOT_CHECKED: Final = causes.make_invalid_error(
    "<nil>",
    "null",
    "some validation rules were not checked because the object was invalid; correct the existing errors to "
    "complete validation",
)


@lru_cache(maxsize=256)
def _compile_cached(raw: bytes) -> StructuralSchema:
    return StructuralSchema._check_and_compile(orjson.loads(raw), "")
