"""The health check of gRPC servers: grpc.health.v1.Health/Check.

address, service ──▶ check_health() ──▶ SERVING, NOT_SERVING, …

The two messages contain only a string and a number, so their descriptors are defined here.
"""

from functools import cache
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpclib.client import Channel, UnaryUnaryMethod
from grpclib.exceptions import GRPCError, ProtocolError, StreamTerminatedError

PATH: Final = "/grpc.health.v1.Health/Check"
_STATUS: Final = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")


class HealthCheckError(Exception):
    """The server did not report its health."""


async def check_health(host: str, port: int, service: str, timeout_s: float) -> str:
    """Return the status of a service, or of the whole server when `service` is empty. Raises HealthCheckError."""
    takes, gives = load_health_messages()
    channel = Channel(host, port)
    try:
        check = UnaryUnaryMethod(channel, PATH, takes, gives)
        answer = await check(takes(service=service), timeout=timeout_s)
    except TimeoutError as error:
        raise HealthCheckError(f"no response within {timeout_s:g} s") from error
    except GRPCError as error:
        raise HealthCheckError(f"{error.status.name}: {error.message}") from error
    except (OSError, ProtocolError, StreamTerminatedError) as error:
        raise HealthCheckError(str(error) or type(error).__name__) from error
    finally:
        channel.close()
    return _STATUS[answer.status] if answer.status < len(_STATUS) else str(answer.status)


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
