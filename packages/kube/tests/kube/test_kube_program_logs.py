"""Log lines: text or JSON, with the object that they are about, and never with a secret."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykruise.kube.program.logs import MOST_LINE, LogSettings, mask_secrets, set_up


@pytest.fixture(autouse=True)
def _root_logger() -> Iterator[None]:
    """Leave the root logger as it was."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)


def lines(settings: LogSettings) -> list[str]:
    stream = io.StringIO()
    set_up(settings, stream=stream)
    log = logging.getLogger("pykruise.test")
    log.debug("a detail")
    log.info("3 writes", extra={"fields": {"object": "default/web", "duration_s": 0.25, "why": "scale out"}})
    try:
        raise ValueError("no good")
    except ValueError:
        log.exception("it failed")
    return stream.getvalue().splitlines()


def test_text_lines_show_fields_as_key_and_value() -> None:
    result = lines(LogSettings())
    assert result[0].endswith(
        'INFO pykruise.test 3 writes object=default/web duration_s=0.25 why="scale out"'
    )
    assert result[1].endswith("ERROR pykruise.test it failed")
    assert result[-1] == "ValueError: no good"


def test_each_json_line_is_an_object() -> None:
    """operations case 45"""
    result = [json.loads(line) for line in lines(LogSettings(format="json", verbosity=5))]
    assert [line["msg"] for line in result] == ["a detail", "3 writes", "it failed"]
    assert [line["level"] for line in result] == ["debug", "info", "error"]
    assert result[1]["object"] == "default/web"
    assert result[1]["duration_s"] == 0.25
    assert result[2]["error"].endswith("ValueError: no good")


def test_debug_lines_need_a_verbosity_of_five() -> None:
    assert "a detail" not in "\n".join(lines(LogSettings(verbosity=4)))


KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEabcdefgh\nijklmnop\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Authorization: Bearer abc.def-ghi_jkl", "abc.def-ghi_jkl"),
        ("token=s3cr3tvalue and more", "s3cr3tvalue"),
        ('{"password": "hunter22"}', "hunter22"),
        (f"cannot read {KEY} from the Secret", "MIIEabcdefgh"),
        ("-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE cut off", "MHcCAQEE"),
        ("eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "c2lnbmF0dXJl"),
        ("in a.b.prefix-eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl.more", "c2lnbmF0dXJl"),
        ("GET https://admin:pa55word@10.0.0.1/ failed", "pa55word"),
        ('{"tls.key": "TUlJRXBBSUJBQUtD"}', "TUlJRXBBSUJBQUtD"),
    ],
)
def test_a_credential_in_a_log_line_is_masked(text: str, secret: str) -> None:
    assert secret not in mask_secrets(text)


def test_text_without_secrets_is_not_masked() -> None:
    text = "lease kruise-system/kruise-manager: 3 tokens left; the secret kruise-webhook-certs is missing"
    assert mask_secrets(text) == text


def test_secrets_are_masked_in_fields_arguments_and_tracebacks_too() -> None:
    for form in ("text", "json"):
        stream = io.StringIO()
        set_up(LogSettings(format=form), stream=stream)  # type: ignore[arg-type]  # both are of the Literal
        log = logging.getLogger("pykruise.test")
        log.info("read %s", KEY, extra={"fields": {"header": "Bearer abcdefghijk"}})
        try:
            raise ValueError(f"token: abcdefghijk {KEY}")
        except ValueError:
            log.exception("it failed")
        assert "abcdefghijk" not in stream.getvalue()
        assert "MIIE" not in stream.getvalue()


@given(st.text(max_size=200))
def test_masking_any_text_ends_and_is_stable(text: str) -> None:
    assert mask_secrets(mask_secrets(text)) == mask_secrets(text)


LONG = ["x" * 3_000_000, "word " * 500_000, '"\x01' * 500_000, "a\nb\n" * 500_000, f"token={'y' * 500_000}"]


@pytest.mark.parametrize("text", LONG, ids=["one word", "words", "escapes", "lines", "a secret"])
@pytest.mark.parametrize("form", ["text", "json"])
def test_no_log_line_is_longer_than_its_limit(form: Literal["text", "json"], text: str) -> None:
    # given
    stream = io.StringIO()
    set_up(LogSettings(format=form), stream=stream)
    # when
    logging.getLogger("pykruise.test").info(text)
    logging.getLogger("pykruise.test").info("%s", "short", extra={"fields": {"error": text, "n": 1}})
    try:
        raise ValueError(text) from KeyError(text)
    except ValueError:
        logging.getLogger("pykruise.test").exception("it failed")
    # then
    written = stream.getvalue()
    longest = max(map(len, written.splitlines() if form == "json" else written.split("\n")))
    assert longest <= MOST_LINE + 200
    assert len(written) < 3_000_000
    assert "y" * 100 not in written
