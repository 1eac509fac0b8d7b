"""Traces of reconciles: a tree for each, and nothing of OpenTelemetry without an endpoint."""

import asyncio
import random
import subprocess
import sys

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pykruise.kinds import crds_of
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.client.client import Client
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, PODS
from pykruise.manager.manager import Manager
from pykruise.manager.traces import MissingTracesError, make_span_recorder, spans_of
from pykruise.runtime.tracing import NO_SPANS
from support.sandbox import small_cluster
from support.scenario import cloneset


async def spans_of_a_creation() -> tuple[ReadableSpan, ...]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    async with small_cluster() as place:
        for crd in crds_of([CLONE_SETS]):
            await place.create(CUSTOM_RESOURCE_DEFINITIONS, crd)
        clock, rng = place.cluster.clock, random.Random(1)
        client = Client(place.cluster.make_transport("manager"), clock=clock, rng=rng)
        manager = Manager(client, clock=clock, rng=rng, cpu_time=lambda: 0.0, span=spans_of(provider))
        running = asyncio.create_task(manager.run())
        await place.create(CLONE_SETS, cloneset(replicas=2))

        async def has_pods() -> bool:
            return len(await place.names(PODS)) == 2

        await place.until(has_pods)
        manager.stop()
        await running
    return tuple(exporter.get_finished_spans())


async def test_a_turn_holds_its_snapshot_its_plan_and_its_writes() -> None:
    # when
    spans = await spans_of_a_creation()
    # then
    by_id = {span.context.span_id: span for span in spans if span.context is not None}
    writes = [span for span in spans if span.name == "write"]
    pods = [span for span in writes if (span.attributes or {})["k8s.resource"] == str(PODS)]
    assert len(pods) >= 2
    for span in spans:
        if span.name == "reconcile":
            assert span.parent is None
            assert (span.attributes or {})["k8s.object.name"] == "web"
        else:
            assert span.parent is not None
            assert by_id[span.parent.span_id].name == "reconcile"
    turn = next(span for span in spans if span.context is not None and _is_parent_of(span, pods[0]))
    inner = {span.name for span in spans if _is_parent_of(turn, span)}
    assert inner >= {"snapshot", "plan", "write"}


def _is_parent_of(readable_span: ReadableSpan, other: ReadableSpan) -> bool:
    return (
        readable_span.context is not None
        and other.parent is not None
        and other.parent.span_id == readable_span.context.span_id
    )


def test_nothing_is_recorded_without_an_endpoint() -> None:
    assert make_span_recorder({}) is NO_SPANS
    assert (
        make_span_recorder({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "true"})
        is NO_SPANS
    )


def test_a_trace_endpoint_without_the_packages_is_an_error_that_names_the_extra() -> None:
    with pytest.raises(MissingTracesError, match=r"pykruise\[traces\]"):
        make_span_recorder({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"})


def test_the_manager_does_not_import_opentelemetry_by_default() -> None:
    text = "import pykruise.manager.process, sys; print([m for m in sys.modules if 'opentelemetry' in m])"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
