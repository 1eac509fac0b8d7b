"""Custom resources by their schema: defaulting, pruning and validation as a Kubernetes API server does them.

    openAPIV3Schema of a CRD version ──▶ StructuralSchema.from_crd_schema()   (once; refuses what is wrong)
                                                │ compiles the schema to closures
    a document ──▶ prune() ──▶ default() ──▶ validate() ──▶ causes of a 422, in the server's words

Compiled once, because every write of every custom resource passes here: a document is walked only where its
schema says something, so an open node (a pod template with x-kubernetes-preserve-unknown-fields) costs
nothing. Equal schemas are compiled once per process: a test suite makes hundreds of servers with the same CRDs.

`x-kubernetes-validations` (rules in CEL) are checked last, when nothing else is so wrong that they could not be:
schemas/validations.py.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

import orjson

from pykruise.kube.documents import Document, canonical
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules import field_errors as causes
from pykruise.sandbox.apiserver.schemas.checks import compile_check
from pykruise.sandbox.apiserver.schemas.defaulting import compile_fill
from pykruise.sandbox.apiserver.schemas.extensions import compile_embedded_check, compile_list_check
from pykruise.sandbox.apiserver.schemas.paths import Found, Schema, accept
from pykruise.sandbox.apiserver.schemas.pruning import compile_prune
from pykruise.sandbox.apiserver.schemas.ratcheting import unchanged
from pykruise.sandbox.apiserver.schemas.structure import ROOT, bad_defaults, offences
from pykruise.sandbox.apiserver.schemas.validations import compile_rules, rule_offences


class NotStructuralError(ValueError):
    """A schema that a CRD may not have; `causes` hold every offence with its field path."""

    def __init__(self, value: Sequence[Cause]) -> None:
        super().__init__("; ".join(f"{cause.field}: {cause.message}" for cause in value))
        self.causes = tuple(value)


class StructuralSchema:
    """A CRD version's schema, compiled. Make one with `from_crd_schema`."""

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
        """The schema of a CRD version: its `openAPIV3Schema`, or the `schema` object around it.

        Raises NotStructuralError (a ValueError) when it is not; its messages begin with `path`.
        """
        node = doc["openAPIV3Schema"] if "openAPIV3Schema" in doc and "type" not in doc else doc
        if not isinstance(node, Mapping):
            raise NotStructuralError([causes.invalid(path, node, "must be an object")])
        try:
            return _compiled(canonical(node))  # as it comes and as it is stored are one
        except ValueError:
            return cls._checked(node, path)  # once more, for messages that begin with `path`

    @classmethod
    def _checked(cls, node: Schema, path: str) -> "StructuralSchema":
        result = sorted(offences(node, ROOT, path), key=lambda cause: f"{cause.field}: {cause.message}")
        result = result or list(rule_offences(node, path))
        if result:
            raise NotStructuralError(result)
        schema = cls(node)
        result = list(bad_defaults(node, path))
        if result:
            raise NotStructuralError(result)
        return schema

    def default(self, obj: Document) -> Document:
        """Fill in defaults where a value is absent, or null without being nullable. Changes `obj`."""
        if self._fill:
            self._fill(obj)
        return obj

    def prune(self, obj: Document) -> tuple[Document, list[str]]:
        """Drop what the schema does not know; the changed `obj` and the sorted paths of what was dropped.

        apiVersion, kind and metadata of the object are kept. Nulls where the schema has neither `nullable`
        nor a default go too, but are not listed: they are not unknown.
        """
        dropped: list[str] = []
        if self._prune:
            self._prune(obj, None, dropped)
        dropped.sort()
        return obj, dropped

    def validate(self, obj: Document, old: Document | None = None) -> list[Cause]:
        """Every way in which `obj` breaks the schema; empty when it may be stored.

        With `old`, errors in parts that an update leaves as they were are not reported, so that a schema may
        be tightened without blocking objects stored before (the server calls this ratcheting). Repeated items of
        sets and maps are reported unless there were some before.
        """
        wrong: Found = []
        self._check(obj, None, wrong)
        if self._check_embedded:
            self._check_embedded(obj, None, wrong)
        repeated = self._repeated(obj)
        against_rules: Found = []
        unreadable = self._rules is not None and any(
            cause.reason in _BLOCKING for _, cause in (*wrong, *repeated)
        )
        if self._rules is not None and not unreadable:
            self._rules.check(obj, old, against_rules)
        if old is not None:
            wrong, against_rules = (self._changed(errors, obj, old) for errors in (wrong, against_rules))
            repeated = repeated if repeated and not self._repeated(old) else []
        result = [cause for _, cause in (*wrong, *repeated, *against_rules)]
        return result + ([_NOT_CHECKED] if unreadable else [])

    def _changed(self, errors: Found, obj: Document, old: Document) -> Found:
        """Errors in parts that the update changes."""
        return [error for error in errors if not unchanged(error[0], obj, old, self._node)]

    def _repeated(self, obj: Document) -> Found:
        result: Found = []
        if self._check_lists:
            self._check_lists(obj, None, result)
        return result


_BLOCKING: Final = ("FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid")
_NOT_CHECKED: Final = causes.invalid(
    "<nil>",
    "null",
    "some validation rules were not checked because the object was invalid; correct the existing errors to "
    "complete validation",
)


@lru_cache(maxsize=256)
def _compiled(raw: bytes) -> StructuralSchema:
    return StructuralSchema._checked(orjson.loads(raw), "")
