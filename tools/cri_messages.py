"""Extract the agent's part of the CRI protocol.

api.proto of k8s.io/cri-api ──▶ part_of() ──▶ data/cri.proto ──▶ descriptors_of() (protoc) ──▶ data/cri.binpb

The complete protocol has 185 messages. The agent uses only the messages in FIELDS, and only their listed fields.
Protocol buffers skip unknown fields, so runtimes of every version understand the part.

    python -m tools.cri_messages path/to/api.proto
"""

import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

__all__ = ["FIELDS", "SERVICES", "descriptors_of", "part_of"]

FIELDS: Final[Mapping[str, Sequence[str]]] = {
    "AuthConfig": ("username", "password", "auth", "server_address", "identity_token", "registry_token"),
    "Container": (
        "id",
        "pod_sandbox_id",
        "metadata",
        "image_ref",
        "state",
        "created_at",
        "labels",
        "annotations",
    ),
    "ContainerEventResponse": (
        "container_id",
        "container_event_type",
        "created_at",
        "pod_sandbox_status",
    ),
    "ContainerEventType": (),
    "ContainerFilter": ("id", "pod_sandbox_id", "label_selector"),
    "ContainerMetadata": ("name", "attempt"),
    "ContainerState": (),
    "ContainerStatus": (
        "id",
        "metadata",
        "state",
        "created_at",
        "started_at",
        "finished_at",
        "exit_code",
        "image_ref",
        "reason",
        "message",
        "labels",
        "annotations",
    ),
    "ContainerStatusRequest": ("container_id",),
    "ContainerStatusResponse": ("status",),
    "ExecSyncRequest": ("container_id", "cmd", "timeout"),
    "ExecSyncResponse": ("stdout", "stderr", "exit_code"),
    "FilesystemUsage": ("timestamp",),
    "GetEventsRequest": (),
    "Image": ("id", "repo_tags", "repo_digests"),
    "ImageFilter": ("image",),
    "ImageFsInfoRequest": (),
    "ImageFsInfoResponse": ("image_filesystems",),
    "ImageSpec": ("image", "annotations"),
    "LinuxPodSandboxStatus": ("namespaces",),
    "ListContainersRequest": ("filter",),
    "ListContainersResponse": ("containers",),
    "ListImagesRequest": ("filter",),
    "ListImagesResponse": ("images",),
    "Namespace": ("options",),
    "NamespaceMode": (),
    "NamespaceOption": ("network",),
    "PodIP": ("ip",),
    "PodSandboxConfig": ("metadata", "labels", "annotations"),
    "PodSandboxMetadata": ("name", "uid", "namespace", "attempt"),
    "PodSandboxNetworkStatus": ("ip", "additional_ips"),
    "PodSandboxStatus": ("id", "metadata", "network", "linux"),
    "PodSandboxStatusRequest": ("pod_sandbox_id",),
    "PodSandboxStatusResponse": ("status",),
    "PullImageRequest": ("image", "auth", "sandbox_config"),
    "PullImageResponse": ("image_ref",),
    "StopContainerRequest": ("container_id", "timeout"),
    "StopContainerResponse": (),
    "VersionRequest": ("version",),
    "VersionResponse": ("version", "runtime_name", "runtime_version", "runtime_api_version"),
}
"""Messages with their fields. Enums have no fields to choose, so all their values are included."""

SERVICES: Final[Mapping[str, Sequence[str]]] = {
    "RuntimeService": (
        "Version",
        "ListContainers",
        "ContainerStatus",
        "StopContainer",
        "ExecSync",
        "PodSandboxStatus",
        "GetContainerEvents",
    ),
    "ImageService": ("ListImages", "PullImage", "ImageFsInfo"),
}

DATA: Final = Path(__file__).parents[1] / "packages/agent/src/pykruise/agent/cri/data"

_COMMENT: Final = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_BLOCK: Final = re.compile(r"^(message|enum|service) +(\w+) *\{(\}|.*?^\})", re.MULTILINE | re.DOTALL)
_FIELD: Final = re.compile(r"((?:repeated +)?(?:map<[^>]*>|\w+)) +(\w+) *= *(\d+)[^;]*;")
_VALUE: Final = re.compile(r"(\w+) *= *(\d+)")
_CALL: Final = re.compile(r"rpc +(\w+) *\(([^)]*)\) *returns *\(([^)]*)\)")

_HEAD: Final = """\
// The part of the Container Runtime Interface that a node agent uses, made by tools/cri_messages.py from the whole:
// k8s.io/cri-api/pkg/apis/runtime/v1/api.proto.
//
// Copyright 2020 The Kubernetes Authors.
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

syntax = "proto3";

package runtime.v1;
"""


def part_of(whole: str) -> str:
    """Return the agent's part of the protocol `whole`. Raises ValueError for a name that is not in the protocol."""
    blocks = {match[2]: match for match in _BLOCK.finditer(_COMMENT.sub("", whole))}
    missing = (FIELDS.keys() | SERVICES.keys()) - blocks.keys()
    if missing:
        raise ValueError(f"the protocol has no {', '.join(sorted(missing))}")
    parts = [_HEAD]
    for name, calls in SERVICES.items():
        parts.append(_format_block("service", name, _select_calls(name, blocks[name][3], calls)))
    for name, fields in FIELDS.items():
        kind, _, body = blocks[name].groups()
        lines = _select_fields(name, body, fields) if kind == "message" else _list_values(body)
        parts.append(_format_block(kind, name, lines))
    return "\n".join(parts)


def _format_block(kind: str, name: str, lines: Iterator[str]) -> str:
    return "\n".join((f"{kind} {name} {{", *(f"  {line}" for line in lines), "}\n"))


def _select_calls(service: str, body: str, wanted: Sequence[str]) -> Iterator[str]:
    calls = {name: (takes, gives) for name, takes, gives in _CALL.findall(body)}
    for name in wanted:
        if name not in calls:
            raise ValueError(f"{service} has no {name}")
        yield "rpc {}({}) returns ({});".format(name, *calls[name])


def _select_fields(message: str, body: str, wanted: Sequence[str]) -> Iterator[str]:
    fields = {name: (kind, number) for kind, name, number in _FIELD.findall(body)}
    for name in wanted:
        if name not in fields:
            raise ValueError(f"{message} has no {name}")
        kind, number = fields[name]
        yield f"{kind} {name} = {number};"


def _list_values(body: str) -> Iterator[str]:
    for name, number in _VALUE.findall(body):
        yield f"{name} = {number};"


def descriptors_of(part: str) -> bytes:
    """Compile the text of a protocol file to a FileDescriptorSet. Needs grpcio-tools."""
    from grpc_tools import protoc

    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "cri.proto", Path(folder) / "cri.binpb"
        source.write_text(part)
        code = protoc.main(["protoc", f"-I{folder}", f"--descriptor_set_out={target}", str(source)])
        if code:
            raise ValueError(f"protoc refuses the protocol (exit code {code})")
        return target.read_bytes()


def main() -> None:
    """Write both files again from the protocol that the command line names."""
    part = part_of(Path(sys.argv[1]).read_text())
    (DATA / "cri.proto").write_text(part)
    (DATA / "cri.binpb").write_bytes(descriptors_of(part))


if __name__ == "__main__":
    main()
