"""The health check of gRPC servers: grpc.health.v1.Health/Check.

address, service ──▶ check_health() ──▶ SERVING, NOT_SERVING, …

The two messages contain only a string and a number, so their descriptors are defined here.

The server belongs to a pod, so the agent does not trust it. grpclib has no limit for a message: it collects the whole
message before it decodes it. Therefore this module rejects a response that announces more than LARGEST_RESPONSE bytes
before it reads the data. The HTTP/2 windows limit the amount of data that arrives in the meantime.
"""

from functools import cache
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError
from grpclib.client import Channel, UnaryUnaryMethod
from grpclib.config import Configuration
from grpclib.exceptions import GRPCError, ProtocolError, StreamTerminatedError

from pykruise.kube.values.counts import format_count

PATH: Final = "/grpc.health.v1.Health/Check"
LARGEST_RESPONSE: Final = 4096
"""Maximum number of bytes of a response. A valid response has two; later versions may add fields."""

_WINDOW: Final = 64 * 1024
"""Maximum number of bytes that the server may send before the agent reads them. HTTP/2 allows no smaller window."""

_STATUS: Final = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")


_INVALID: Final = "the response is not a valid HealthCheckResponse"


class HealthCheckError(Exception):
    """The server did not report its health."""


async def check_health(host: str, port: int, service: str, timeout_s: float) -> str:
    """Return the status of a service, or of the whole server when `service` is empty. Raises HealthCheckError."""
    takes, gives = load_health_messages()
    windows = Configuration(http2_connection_window_size=_WINDOW, http2_stream_window_size=_WINDOW)
    channel = Channel(host, port, config=windows)
    try:
        async with UnaryUnaryMethod(channel, PATH, takes, gives).open(timeout=timeout_s) as stream:
            await stream.send_message(takes(service=service), end=True)
            # grpclib has no public interface for this.
            stream._stream = _BoundedStream(stream._stream)  # type: ignore[assignment]
            answer = await stream.recv_message()
    except TimeoutError as error:
        raise HealthCheckError(f"no response within {timeout_s:g} s") from error
    except GRPCError as error:
        raise HealthCheckError(f"{error.status.name}: {error.message}") from error
    except (OSError, ProtocolError, StreamTerminatedError) as error:
        raise HealthCheckError(str(error) or type(error).__name__) from error
    except (
        DecodeError,
        AssertionError,
        NotImplementedError,
    ) as error:  # grpclib has no error of its own for these
        raise HealthCheckError(_INVALID) from error
    finally:
        channel.close()
    if answer is None:
        raise HealthCheckError(_INVALID)
    return _STATUS[answer.status] if answer.status < len(_STATUS) else str(answer.status)


class _BoundedStream:
    """Replaces the stream of a call's response. Reading more than LARGEST_RESPONSE raises HealthCheckError."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def recv_data(self, size: int) -> bytes:
        if size > LARGEST_RESPONSE:
            raise HealthCheckError(
                f"the response has {format_count(size, 'byte')}, and at most {LARGEST_RESPONSE} are read"
            )
        return bytes(await self._stream.recv_data(size))


@cache
def load_health_messages() -> tuple[Any, Any]:
    """Return the classes HealthCheckRequest and HealthCheckResponse."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="health.proto", package="grpc.health.v1", syntax="proto3")
    asked = file.message_type.add(name="HealthCheckRequest")
    asked.field.add(name="service", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    answer = file.message_type.add(name="HealthCheckResponse")
    # An enum is a number in the wire format.
    answer.field.add(name="status", number=1, type=field.TYPE_INT32, label=field.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    result = (
        message_factory.GetMessageClass(pool.FindMessageTypeByName(f"grpc.health.v1.HealthCheck{name}"))
        for name in ("Request", "Response")
    )
    takes, gives = result
    return takes, gives
