"""The messages and calls of the CRI, built from their descriptors.

data/cri.binpb ──▶ load_message_class("ListImagesRequest") ──▶ a protobuf class
               ──▶ make_unary_call(channel, …), stream_call(channel, …) ──▶ a grpclib method

There is no generated code: descriptors work with any installed version of protobuf.
"""

from functools import cache
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpclib.client import Channel, UnaryStreamMethod, UnaryUnaryMethod

from pykruise.kube.package_data import read_package_data

PACKAGE: Final = "runtime.v1"


@cache
def _load_pool() -> descriptor_pool.DescriptorPool:
    """Return a pool of these messages only, because another library may load other parts of the same protocol."""
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(read_package_data(__package__, "cri.binpb")).file:
        pool.Add(file)
    return pool


@cache
def load_message_class(name: str) -> Any:
    """Return the class of a message. Raises KeyError for a message that the descriptors do not contain."""
    return message_factory.GetMessageClass(_load_pool().FindMessageTypeByName(f"{PACKAGE}.{name}"))


def make_unary_call(channel: Channel, service: str, name: str) -> UnaryUnaryMethod[Any, Any]:
    """Return a call with one response."""
    takes, gives = load_message_class(f"{name}Request"), load_message_class(f"{name}Response")
    return UnaryUnaryMethod(channel, f"/{PACKAGE}.{service}/{name}", takes, gives)


def stream_call(
    channel: Channel, service: str, name: str, *, takes: str, gives: str
) -> UnaryStreamMethod[Any, Any]:
    """Return a call with a stream of responses."""
    return UnaryStreamMethod(
        channel, f"/{PACKAGE}.{service}/{name}", load_message_class(takes), load_message_class(gives)
    )
