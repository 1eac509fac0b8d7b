"""Errors from answers: text of another party is shortened where it is decoded."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykruise.kube.errors import LONGEST_WAIT_S, ApiError, ErrorStatus, parse_error
from pykruise.kube.excerpts import MOST_TEXT, excerpt, shorten_messages
from support.examples import examples

WAITS = st.one_of(
    st.text(max_size=30),
    st.integers().map(str),
    st.sampled_from(
        ["9" * 200_000, "0" * 5_000 + "7", "inf", "nan", "1e9", "-1", "٣", "²", " 5", "5 ", "0x10"]
    ),
    st.sampled_from(["Fri, 27 Nov 2026 20:00:00 GMT", "3600", "86400", "1.5"]),
)
TEXTS = st.one_of(
    st.text(max_size=50), st.integers(0, 5_000).map("é ".__mul__), st.integers(0, 9_000).map("x".__mul__)
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=8,
)
CAUSES = st.lists(st.fixed_dictionaries({"reason": TEXTS, "message": TEXTS, "field": TEXTS}), max_size=40)
STATUSES = st.fixed_dictionaries(
    {},
    optional={
        "message": TEXTS,
        "reason": TEXTS,
        "code": st.integers(),
        "details": st.fixed_dictionaries(
            {},
            optional={
                "retryAfterSeconds": st.one_of(st.integers(), st.just(10**400)),
                "causes": CAUSES,
                "name": TEXTS,
            },
        ),
    },
)
BODIES = st.one_of(
    st.binary(max_size=200), st.one_of(JSON, STATUSES).map(lambda body: json.dumps(body).encode())
)


@given(code=st.integers(300, 599), body=BODIES, wait=WAITS)
@examples(1)
def test_every_answer_makes_a_small_error_with_a_short_wait(code: int, body: bytes, wait: str) -> None:
    # when
    error = parse_error(code, body, {"retry-after": wait})
    # then
    assert error.retry_after_s is None or (
        math.isfinite(error.retry_after_s) and 0 <= error.retry_after_s <= LONGEST_WAIT_S
    )
    assert len(str(error)) <= MOST_TEXT
    assert _characters(error) <= 64 * 1024


def _characters(error: ApiError) -> int:
    causes = [text for cause in error.causes for text in (cause.reason, cause.message, cause.field)]
    return sum(map(len, [str(error), error.reason, error.status.message, *causes]))


@pytest.mark.parametrize("text", ["5", "30", "86400", "9" * 200_000, "00000000000000000000012"])
def test_a_wait_in_seconds_counts_up_to_its_bound(text: str) -> None:
    wait_s = parse_error(503, b"", {"retry-after": text}).retry_after_s
    assert wait_s == {"5": 5.0, "00000000000000000000012": 12.0}.get(text, LONGEST_WAIT_S)


def test_a_long_refusal_keeps_its_beginning_and_its_end_and_whole_words() -> None:
    # given
    body = json.dumps(
        {"message": "forbidden: " + ", ".join(f"reason-{n}" for n in range(9_000)) + " over"}
    ).encode()
    # when
    text = str(parse_error(403, body))
    # then
    assert text.startswith("forbidden: reason-0, reason-1, ")
    assert text.endswith("reason-8999 over")
    begin, end = text.split(" … ")
    assert begin.endswith(",")
    assert end.startswith("reason-")


@given(text=TEXTS, most=st.integers(16, 200))
@examples(0.5)
def test_an_excerpt_is_never_longer_than_its_limit_and_short_texts_stay(text: str, most: int) -> None:
    assert len(excerpt(text, most=most)) <= most
    assert excerpt(text, most=len(text) + 16) == text


@given(status=JSON, message=TEXTS)
@examples(0.5)
def test_messages_of_a_status_are_shortened_and_other_fields_unchanged(status: Any, message: str) -> None:
    # given
    whole = {
        "labelSelector": "x" * 5_000,
        "conditions": [{"type": "Ready", "message": message}],
        "more": status,
    }
    # when
    short = shorten_messages(whole)
    # then
    assert short["conditions"] == [{"type": "Ready", "message": excerpt(message)}]
    assert short["labelSelector"] == whole["labelSelector"]
    assert shorten_messages(short) is short


def test_an_error_made_in_process_keeps_what_it_was_given() -> None:
    assert str(ApiError(ErrorStatus(message="x" * 5_000))) == "x" * 5_000
