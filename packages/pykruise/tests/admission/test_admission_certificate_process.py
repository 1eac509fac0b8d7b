"""Certificates are checked and created in a process that ends afterwards."""

import sys

import pytest

from pykruise.admission.certificate_process import CertificateProcess
from pykruise.admission.certificate_work import examine, find_problem, renew_certificates
from pykruise.admission.certificates import DAY_S

pytestmark = pytest.mark.real_time

HOST = "kruise-webhook-service.kruise-system.svc"
NOW = 1_800_000_000.0


async def test_results_of_the_certificate_process_are_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    work = CertificateProcess()
    stored = renew_certificates(None, host=HOST, now=NOW)
    facts = await work.examine(stored, host=HOST)
    assert facts == examine(stored, host=HOST)
    # when no process can be started any longer
    monkeypatch.setattr(sys, "executable", "/nowhere")
    # then the result for the same pair is still known, and that for another pair is not
    assert await work.examine(stored, host=HOST) == facts
    with pytest.raises(OSError, match="nowhere"):
        await work.examine(stored, host="another.host")


async def test_a_process_makes_a_pair_by_the_stored_authority() -> None:
    stored = renew_certificates(None, host=HOST, now=NOW)
    made = await CertificateProcess().renew(stored, host=HOST, now=NOW + DAY_S)
    assert made.authority == stored.authority
    assert made.certificate != stored.certificate
    assert find_problem(made, host=HOST, now=NOW + DAY_S, lasting_s=DAY_S) == ""


async def test_a_dead_certificate_process_is_an_error_that_the_next_pass_retries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(OSError, match="ended with exit code 1"):
        await CertificateProcess().renew(None, host=HOST, now=NOW)
