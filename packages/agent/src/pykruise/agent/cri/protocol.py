"""The messages and calls of the CRI, made from their descriptors.

data/cri.binpb ──▶ message("ListImagesRequest") ──▶ a protobuf class      call(channel, …) ──▶ a grpclib method

There is no generated code: descriptors do not depend on the version of protobuf that is installed.
"""

from functools import cache
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpclib.client import Channel, UnaryStreamMethod, UnaryUnaryMethod

from pykruise.kube.package_data import package_data

PACKAGE: Final = "runtime.v1"


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    """A pool of our own: another library of the process may know other parts of the same protocol."""
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(package_data(__package__, "cri.binpb")).file:
        pool.Add(file)
    return pool


@cache
def message(name: str) -> Any:
    """The class of a message. Raises KeyError for one that is not part of the protocol here."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{PACKAGE}.{name}"))


def unary_call(channel: Channel, service: str, name: str) -> UnaryUnaryMethod[Any, Any]:
    """A call with one answer."""
    takes, gives = message(f"{name}Request"), message(f"{name}Response")
    return UnaryUnaryMethod(channel, f"/{PACKAGE}.{service}/{name}", takes, gives)


def stream_call(
    channel: Channel, service: str, name: str, *, takes: str, gives: str
) -> UnaryStreamMethod[Any, Any]:
    """A call with an answer again and again."""
    return UnaryStreamMethod(channel, f"/{PACKAGE}.{service}/{name}", message(takes), message(gives))
