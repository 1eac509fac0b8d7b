"""Large conversions in their own process."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pykruise.admission.conversion import review
from pykruise.admission.conversion_process import ConversionProcess
from pykruise.kube.documents import decode, encode

pytestmark = pytest.mark.real_time


def asked(count: int, **metadata: Any) -> bytes:
    """A ConversionReview of `count` CloneSets."""
    spec = {"selector": {}, "template": {}}
    objects = [
        {
            "apiVersion": "apps.kruise.io/v1alpha1",
            "kind": "CloneSet",
            "metadata": {"name": f"a-{number}", **metadata},
            "spec": spec,
        }
        for number in range(count)
    ]
    request = {"uid": "u", "desiredAPIVersion": "apps.kruise.io/v1beta1", "objects": objects}
    return encode({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request})


@pytest.fixture
async def process() -> AsyncIterator[ConversionProcess]:
    made = ConversionProcess(idle_s=0.3)
    yield made
    made.close()


async def test_the_child_answers_as_the_function_does(process: ConversionProcess) -> None:
    many, large, none = asked(200), asked(1, annotations={"x": "y" * 1_000_000}), b"[]"
    result = await asyncio.gather(*map(process.convert, (many, large, none)))
    assert result[:2] == [review(many), review(large)]
    assert "not a ConversionReview" in decode(result[2])["response"]["result"]["message"]


async def test_a_killed_conversion_process_is_replaced(process: ConversionProcess) -> None:
    body = asked(3)
    await process.convert(body)
    first = process.pid
    os.kill(first, signal.SIGSTOP)
    waiting = asyncio.create_task(process.convert(body))
    await asyncio.sleep(0.1)
    os.kill(first, signal.SIGKILL)
    with pytest.raises(ConnectionResetError, match="has ended"):
        await waiting
    assert await process.convert(body) == review(body)
    assert process.pid != first


async def test_a_conversion_process_that_times_out_is_replaced() -> None:
    process = ConversionProcess(longest_s=60.0)
    body = asked(3)
    await process.convert(body)
    os.kill(process.pid, signal.SIGSTOP)
    process._longest_s = 0.1
    with pytest.raises(TimeoutError):
        await process.convert(body)
    process._longest_s = 60.0
    assert await process.convert(body) == review(body)
    process.close()


async def test_an_answer_that_no_request_waits_for_is_not_given_to_the_next(
    process: ConversionProcess,
) -> None:
    await process.convert(asked(1))
    os.kill(process.pid, signal.SIGSTOP)
    waiting = asyncio.create_task(process.convert(asked(2)))
    await asyncio.sleep(0.1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    body = asked(3)
    assert await process.convert(body) == review(body)


async def test_the_child_ends_when_it_is_not_needed_for_a_while(process: ConversionProcess) -> None:
    await process.convert(asked(1))
    pid = process.pid
    await asyncio.sleep(1.0)
    assert process.pid == 0
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
