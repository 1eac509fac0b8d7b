"""All messages of the Container Runtime Interface, for tests that simulate a runtime or call a real one.

cri_api.proto ──protoc──▶ message("RunPodSandboxRequest")      METHODS: every call with its request and response
"""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tools.cri_messages import descriptors_of

__all__ = ["METHODS", "Method", "message", "whole_protocol"]

_FILE: Final = Path(__file__).parent / "cri_api.proto"
_PACKAGE: Final = "runtime.v1"


class Method(NamedTuple):
    """A call of the protocol."""

    path: str
    takes: str
    gives: str
    is_stream: bool


@cache
def whole_protocol() -> str:
    return _FILE.read_text()


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors_of(whole_protocol())).file:
        pool.Add(file)
    return pool


@cache
def message(name: str) -> Any:
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{_PACKAGE}.{name}"))


def _methods() -> Mapping[str, Method]:
    methods: dict[str, Method] = {}
    for service, body in re.findall(r"^service (\w+) \{(.*?)^\}", whole_protocol(), re.M | re.S):
        for name, takes, stream, gives in re.findall(r"rpc (\w+)\((\w+)\) returns \((stream )?(\w+)\)", body):
            methods[name] = Method(f"/{_PACKAGE}.{service}/{name}", takes, gives, bool(stream))
    return methods


METHODS: Final = _methods()
