"""Checks of image pulls in advance: the namespace of copied secrets, nodes without a NodeImage, agents that do not
respond.
"""

from collections.abc import Iterator, Sequence

from pykruise.kinds.gates import GateError
from pykruise.kube.documents import Document, get_path
from pykruise.kube.program.flags import FlagError
from pykruise.kube.resources import NAMESPACES, NODES
from pykruise.kube.values.counts import format_count
from pykruise.manager.doctor.findings import Finding, make_fine, make_warning
from pykruise.manager.doctor.live import Live
from pykruise.pods.images.node_image_api import NODE_IMAGES

SHOWN = 3


async def check_images(live: Live) -> Sequence[Finding]:
    """Check that the namespace of copied secrets exists and that agents respond."""
    try:
        settings = await live.read_settings()
    except (FlagError, GateError):
        return []  # the check of gates reports this
    if not (settings.gates["KruiseDaemon"] and settings.gates["ImagePullJobGate"]):
        return [
            make_fine(
                "images", "no images are pulled in advance: gate KruiseDaemon or ImagePullJobGate is off"
            )
        ]
    home = settings.secrets_namespace
    findings: list[Finding] = []
    if await live.get(NAMESPACES, "", home) is None:
        what = (
            f"namespace {home}, the destination of copied pull secrets, does not "
            "exist: ImagePullJobs with secrets wait"
        )
        findings.append(make_warning("images", what, live.apply))
    node_images = await live.list(NODE_IMAGES)
    findings += find_image_findings(node_images, await live.list(NODES))
    return findings or [
        make_fine("images", f"nothing is wrong with {format_count(len(node_images), 'NodeImage')}")
    ]


def find_image_findings(node_images: Sequence[Document], nodes: Sequence[Document]) -> list[Finding]:
    """Return findings about NodeImages and their agents. Pure."""
    silent = sorted(image["metadata"]["name"] for image in node_images if any(_list_silent_tags(image)))
    known = {image["metadata"]["name"] for image in node_images}
    bare = sorted(
        node["metadata"]["name"]
        for node in nodes
        if node["metadata"]["name"] not in known
        and (node["metadata"].get("labels") or {}).get("type") != "virtual-kubelet"
    )
    findings: list[Finding] = []
    if silent:
        what = f"the agent does not respond on {_join_names(silent)}: no image is pulled in advance on these nodes"
        findings.append(make_warning("images", what, "check that kruise-daemon runs there, and read its log"))
    if node_images and bare:
        what = f"there is no NodeImage for {_join_names(bare)}: ImagePullJobs ignore these nodes"
        findings.append(
            make_warning(
                "images", what, "the manager creates a NodeImage when a node has been ready for half a minute"
            )
        )
    return findings


def _list_silent_tags(node_image: Document) -> Iterator[bool]:
    for image in (get_path(node_image, "status", "imageStatuses") or {}).values():
        for tag in image.get("tags") or ():
            # An agent that stops trying sets Failed and startTime. If startTime is missing, the controller has set
            # Failed, because no agent responded.
            yield tag.get("phase") == "Failed" and not tag.get("startTime")


def _join_names(names: Sequence[str]) -> str:
    rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{', '.join(names[:SHOWN])}{rest}"
