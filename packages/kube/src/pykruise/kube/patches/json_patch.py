"""JSON patches (RFC 6902): exact operations, with `test` for preconditions.

document + operations ──▶ apply_json_patch() ──▶ document
old + new             ──▶ diff_json()        ──▶ operations

Pure; inputs are not changed and share nothing mutable with the result. The `jsonpatch` library provides the operations;
this module has those that differ on an API server (`test` and `replace`), and the API server's error messages.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jsonpatch
import jsonpointer

from pykruise.kube.documents import Document, deep_copy, is_same
from pykruise.kube.patches.errors import JsonPatchTestFailed, PatchError
from pykruise.kube.values.go_text import quote_text

__all__ = ["Operation", "apply_json_patch", "diff_json", "escape_pointer", "format_pointer"]

Operation = dict[str, Any]
"""An operation: `op`, `path`, and `value` or `from`."""

_MAX_OPERATIONS = 10_000
_ABSENT = object()


def apply_json_patch(doc: Mapping[str, Any], ops: Sequence[Mapping[str, Any]]) -> Document:
    """Return the document after all operations, in order. If one operation fails, none has taken effect.

    As on an API server, `replace` of an absent key adds it when its parent exists, and `test` for null succeeds for an
    absent key. `test` distinguishes `true` from 1; 1 and 1.0 are equal. Raises JsonPatchTestFailed when a `test` fails,
    PatchError when an operation is malformed or does not fit.
    """
    if isinstance(ops, (str, bytes, Mapping)) or not isinstance(ops, Sequence):
        raise PatchError("a JSON patch is a list of operations")
    if len(ops) > _MAX_OPERATIONS:
        raise PatchError(
            f"The allowed maximum operations in a JSON patch is {_MAX_OPERATIONS}, got {len(ops)}", code=413
        )
    result = deep_copy(doc)
    for op in ops:
        result = _apply_operation(result, op)
    if not isinstance(result, dict):
        raise PatchError("the result of a JSON patch must be an object", code=422)
    return result


def diff_json(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Operation]:
    """Return the operations (add, remove, replace) that change `old` into `new`; empty when they are equal.

    Equal items at the beginning and the end of a list cause no operation, so an added item is one `add`. Parts that
    both documents share as the same object are not compared.
    """
    return [*_yield_differences(old, new, "")]


def _yield_differences(old: Any, new: Any, path: str) -> Iterator[Operation]:
    if old is new:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        yield from _list_object_differences(old, new, path)
    elif isinstance(old, list) and isinstance(new, list):
        yield from _list_differences(old, new, path)
    elif not is_same(old, new):
        yield {"op": "replace", "path": path, "value": new}


def _list_object_differences(
    old: Mapping[str, Any], new: Mapping[str, Any], path: str
) -> Iterator[Operation]:
    for key in old:
        if key not in new:
            yield {"op": "remove", "path": f"{path}/{escape_pointer(key)}"}
    for key, value in new.items():
        place = f"{path}/{escape_pointer(key)}"
        if key in old:
            yield from _yield_differences(old[key], value, place)
        else:
            yield {"op": "add", "path": place, "value": value}


def _list_differences(old: list[Any], new: list[Any], path: str) -> Iterator[Operation]:
    """Yield the operations for the differing middle: item by item, then the surplus or missing items at its end."""
    start = _count_common(old, new)
    ending = _count_common(old[start:][::-1], new[start:][::-1])
    before, after = old[start : len(old) - ending], new[start : len(new) - ending]
    both = min(len(before), len(after))
    for number in range(both):
        yield from _yield_differences(before[number], after[number], f"{path}/{start + number}")
    for _ in range(both, len(before)):
        yield {"op": "remove", "path": f"{path}/{start + both}"}
    for number in range(both, len(after)):
        yield {"op": "add", "path": f"{path}/{start + number}", "value": after[number]}


def _count_common(left: list[Any], right: list[Any]) -> int:
    """Return the number of equal items at the beginning."""
    count = 0
    for value, other in zip(left, right, strict=False):
        if not is_same(value, other):
            break
        count += 1
    return count


def format_pointer(*path: str | int) -> str:
    """Return the JSON pointer to a place: `format_pointer("metadata", "labels", "a/b")` is `/metadata/labels/a~1b`."""
    return "".join(f"/{escape_pointer(str(step))}" for step in path)


def escape_pointer(step: str) -> str:
    """Return one step of a JSON pointer, with `~` and `/` escaped."""
    return step.replace("~", "~0").replace("/", "~1")


class _Replace(jsonpatch.ReplaceOperation):
    """Adds a missing key of an object, as an API server does."""

    def apply(self, obj: Any) -> Any:
        parent, step = self.pointer.to_last(obj)
        if isinstance(parent, dict) and step is not None and "value" in self.operation:
            parent[step] = deep_copy(self.operation["value"])
            return obj
        return super().apply(obj)


class _Test(jsonpatch.TestOperation):
    """Compares as JSON does, whatever the version of the library; an absent key equals null."""

    def apply(self, obj: Any) -> Any:
        if not is_same(self._find_value(obj), self.operation.get("value")):
            raise JsonPatchTestFailed(f"testing value {self.location} failed: test failed")
        return obj

    def _find_value(self, obj: Any) -> Any:
        parent, step = self.pointer.to_last(obj)
        if step is None:
            return parent
        if isinstance(parent, dict):
            return parent.get(step)
        if step == "-":
            raise jsonpointer.JsonPointerException(
                "'-' names the position after the last item, which has no value"
            )
        return self.pointer.walk(parent, step)


_OPERATIONS: Mapping[str, Any] = {
    "add": jsonpatch.AddOperation,
    "remove": jsonpatch.RemoveOperation,
    "replace": _Replace,
    "move": jsonpatch.MoveOperation,
    "test": _Test,
    "copy": jsonpatch.CopyOperation,
}


def _apply_operation(doc: Any, op: Mapping[str, Any]) -> Any:
    """Apply one operation to `doc`, in place where possible, and return the result."""
    if not isinstance(op, Mapping):
        raise PatchError("an operation of a JSON patch must be an object with op and path")
    kind = op.get("op")
    operation = _OPERATIONS.get(kind) if isinstance(kind, str) else None
    if operation is None:
        raise _make_misfit(f"Unexpected kind: {kind if isinstance(kind, str) else 'unknown'}")
    path = op.get("path")
    if not isinstance(path, str):
        raise _make_misfit(f"{kind} operation failed to decode path: missing value")
    if kind in ("move", "copy"):
        _check_transfer(doc, kind, op.get("from"), path)
    elif not path and kind not in ("test", "replace"):
        raise _make_misfit(f'{kind} operation does not apply: doc is missing path: "": missing value')
    try:
        return operation(dict(op)).apply(doc)
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError) as err:
        raise _explain(doc, op, err) from err


def _explain(doc: Any, op: Mapping[str, Any], err: Exception) -> PatchError:
    """Return the library's error with an API server's message, where the server has one."""
    match op["op"], op["path"]:
        case "move", path:
            return _make_misfit(
                f"error in move for path: '{path}': {_describe_problem(doc, path, adding=True)}"
            )
        case "copy", path:
            return _make_misfit(
                f"error while adding value during copy: {_describe_problem(doc, path, adding=True)}"
            )
        case "test", path if not _has_parent(doc, path):
            return JsonPatchTestFailed(
                f"test operation does not apply: is missing path: {path}: missing value"
            )
        case "test", path:
            return JsonPatchTestFailed(f"error in test for path: '{path}': {_describe_problem(doc, path)}")
        case "replace", path if not _has_parent(doc, path):
            return _make_misfit(
                f"replace operation does not apply: doc is missing path: {path}: missing value"
            )
        case "replace", path:
            return _make_misfit(
                f"replace operation does not apply: doc is missing key: {path}: missing value"
            )
        case kind, path if not _has_parent(doc, path):
            return _make_misfit(
                f'{kind} operation does not apply: doc is missing path: "{path}": missing value'
            )
        case "add", path if "value" not in op:
            return _make_misfit(f"error in add for path: '{path}': {err}")
        case kind, path:
            return _make_misfit(
                f"error in {kind} for path: '{path}': {_describe_problem(doc, path, adding=kind == 'add')}"
            )


def _check_transfer(doc: Any, kind: str, origin: Any, path: str) -> None:
    """Reject a move or copy with a missing source or destination, before a move removes its value."""
    if not isinstance(origin, str):
        raise _make_misfit(f"{kind} operation failed to decode from: missing value")
    if not _has_parent(doc, origin):
        raise _make_misfit(
            f"{kind} operation does not apply: doc is missing from path: {origin}: missing value"
        )
    result = jsonpointer.resolve_pointer(doc, origin, _ABSENT)
    if result is _ABSENT or isinstance(result, jsonpointer.EndOfList):
        where = f"for from: '{origin}'" if kind == "copy" else f"for path: '{_parse_last_step(origin)}'"
        raise _make_misfit(f"error in {kind} {where}: {_describe_problem(doc, origin)}")
    if not _has_parent(doc, path):
        raise _make_misfit(
            f"{kind} operation does not apply: doc is missing destination path: {path}: missing value"
        )


def _describe_problem(doc: Any, path: str, *, adding: bool = False) -> str:
    """Return the problem with the last step of a path whose parent exists."""
    step = _parse_last_step(path)
    if isinstance(jsonpointer.resolve_pointer(doc, path.rpartition("/")[0]), dict):
        return f"Unable to remove nonexistent key: {step}: missing value"
    if step.lstrip("+-").isdecimal():
        return f"Unable to access invalid index: {int(step)}: invalid index referenced"
    reason = f"strconv.Atoi: parsing {quote_text(step)}: invalid syntax"
    return f"value was not a proper array index: '{step}': {reason}" if adding else reason


def _parse_last_step(path: str) -> str:
    step: str = jsonpointer.unescape(path.rpartition("/")[2])
    return step


def _make_misfit(message: str) -> PatchError:
    return PatchError(message, code=422)


def _has_parent(doc: Any, path: str) -> bool:
    """Whether the parent of `path` is an object or a list. The whole document has no parent."""
    if not path.startswith("/"):
        return False
    try:
        parent = jsonpointer.resolve_pointer(doc, path.rpartition("/")[0], _ABSENT)
    except jsonpointer.JsonPointerException:
        return False
    return isinstance(parent, (dict, list))
