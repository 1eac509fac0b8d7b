"""Answers that are not objects: each method of the client raises MalformedAnswerError."""

import ast
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykruise.kube.client.answers import metadata_of
from pykruise.kube.client.client import Client
from pykruise.kube.client.retries import RetryPolicy
from pykruise.kube.errors import MalformedAnswerError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import PODS, Resource
from support.examples import examples
from support.scripted import ScriptedTransport, answer
from support.sources import SOURCES, source_of

METHODS: dict[str, Callable[[Client], Awaitable[object]]] = {
    "get": lambda client: client.get(PODS, "ns", "a"),
    "get of a status": lambda client: client.get(PODS, "ns", "a", subresource="status"),
    "get of a scale": lambda client: client.get(PODS, "ns", "a", subresource="scale"),
    "create": lambda client: client.create(PODS, "ns", {}),
    "update": lambda client: client.update(PODS, "ns", "a", {}),
    "patch": lambda client: client.patch(PODS, "ns", "a", {}, patch_type=PatchType.MERGE),
    "list": lambda client: client.list(PODS, "ns"),
}
BODIES = [
    b"",
    b"<html>",
    b"[]",
    b"null",
    b'"x"',
    b'{"metadata": 5}',
    b'{"items": 5, "metadata": []}',
    b"\xff",
    b"{",
]


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("method", METHODS)
async def test_an_answer_that_is_not_an_object_raises_an_error_that_names_the_request(
    method: str, body: bytes
) -> None:
    client = Client(ScriptedTransport(answer(200, body)), retry=RetryPolicy(reads=0))
    with pytest.raises(MalformedAnswerError, match=r"(GET|POST|PUT|PATCH) /api/v1/namespaces/ns/pods"):
        await METHODS[method](client)


@given(
    body=st.one_of(
        st.binary(max_size=60),
        st.recursive(st.none() | st.text(max_size=3), st.lists).map(str).map(str.encode),
    )
)
@examples(1)
def test_metadata_of_anything_is_metadata_or_an_error_of_ours(body: bytes) -> None:
    with suppress(MalformedAnswerError):
        assert metadata_of(body).name


async def test_a_question_that_nothing_stores_needs_no_name() -> None:
    reviews = Resource(
        "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
    )
    client = Client(ScriptedTransport(answer(201, {"status": {"allowed": True}})))
    assert await client.create(reviews, "", {})


def test_no_field_is_read_from_what_was_just_decoded() -> None:
    """Code uses `metadata_of` and `get_path`: `decode(raw)["metadata"]` raises KeyError in the middle of a loop.

    A decoded document may be read at `metadata`: the client has checked that the field exists.
    The sandbox is not checked: it decodes documents that it has stored itself.
    """
    offences = []
    for path in (path for source in SOURCES for path in source.rglob("*.py")):
        where = source_of(str(path)) or ""
        if where.startswith("sandbox/"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Subscript) and _is_decode(node.value):
                offences.append(f"{where}:{node.lineno} {ast.unparse(node)}")
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not where.startswith("cli/"):
                offences += [f"{where}:{line} {text}" for line, text in _fields_of_decoded(node)]
    assert offences == []


def _is_decode(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") == "decode"


def _fields_of_decoded(function: ast.AST) -> list[tuple[int, str]]:
    names = {
        target.id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and _is_decode(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return [
        (node.lineno, ast.unparse(node))
        for node in ast.walk(function)
        if isinstance(node, ast.Subscript)
        and isinstance(node.ctx, ast.Load)
        and isinstance(node.value, ast.Name)
        and node.value.id in names
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, str)
        and node.slice.value != "metadata"
    ]
