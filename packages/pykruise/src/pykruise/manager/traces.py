"""Traces of reconciles for OpenTelemetry, when the environment names an endpoint.

OTEL_EXPORTER_OTLP_ENDPOINT ──▶ make_span_recorder() ──▶ Span (runtime/tracing.py) ──▶ the collector

Without an endpoint, nothing of OpenTelemetry is imported. With an endpoint, `pykruise[traces]` must be installed.
OpenTelemetry itself reads the other settings of the environment (OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER, headers).
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Final

from pykruise.kube.errors import ConfigurationError
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.kube.version import __version__
from pykruise.runtime.tracing import NO_SPANS, Span

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


class MissingTracesError(ConfigurationError):
    """The environment names an endpoint, but the packages that send to it are not installed."""


def make_span_recorder(environ: Mapping[str, str]) -> Span:
    """Return a recorder of spans for reconciles. Raises MissingTracesError."""
    named = next((name for name in ENDPOINTS if environ.get(name)), "")
    if not named or environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return NO_SPANS
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource as Described
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise MissingTracesError(
            f"{named} is set, and OpenTelemetry is not installed ({error}): pip install 'pykruise[traces]', "
            f"or unset the variable"
        ) from error
    provider = TracerProvider(resource=Described.create({"service.name": "kruise-manager"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return spans_of(provider)


def spans_of(provider: Any) -> Span:
    """Return a recorder of spans for an OpenTelemetry TracerProvider."""
    tracer = provider.get_tracer("pykruise", __version__)

    def span(name: str, resource: Resource, key: Key) -> AbstractContextManager[Any]:
        attributes = {
            "k8s.resource": str(resource),
            "k8s.namespace.name": key.namespace,
            "k8s.object.name": key.name,
        }
        abstract_context_manager: AbstractContextManager[Any] = tracer.start_as_current_span(
            name, attributes=attributes
        )
        return abstract_context_manager

    return span
