"""Answers to probes, in the words of Kubernetes' components."""

from collections.abc import Sequence

from pykruise.kube.program.health import make_responder


def test_all_checks_pass() -> None:
    respond = make_responder("readyz", {"ping": lambda: (), "webhook-ready": lambda: ()})
    assert respond("", {}).text == "ok"
    assert respond("", {"verbose": ["1"]}).text == "[+]ping ok\n[+]webhook-ready ok\nreadyz check passed\n"
    assert respond("webhook-ready", {}).text == "ok"


def test_a_check_that_fails_is_named_with_its_reason() -> None:
    """operations case 16"""

    def webhook() -> Sequence[str]:
        return ("there is no certificate yet",)

    respond = make_responder("readyz", {"ping": lambda: (), "webhook-ready": webhook})
    answer = respond("", {})
    assert answer.status == 500
    assert answer.text == (
        "[+]ping ok\n[-]webhook-ready failed: there is no certificate yet\nreadyz check failed\n"
    )
    assert respond("webhook-ready", {}).status == 500
    assert respond("ping", {}).status == 200


def test_a_check_can_be_left_out() -> None:
    broken = {name: lambda: ("broken",) for name in ("one", "other")}
    respond = make_responder("readyz", {"ping": lambda: (), **broken})
    assert respond("", {"exclude": ["other"]}).status == 500
    assert respond("", {"exclude": ["other", "one"]}).status == 200


def test_a_check_that_is_not_known_is_not_found() -> None:
    answer = make_responder("readyz", {"ping": lambda: ()})("nonsense", {})
    assert answer.status == 404
    assert "the checks are: ping" in answer.text
