"""NodeImage and NodePodProbe, which controllers create for each node: the writes of a client that are accepted.

Nothing is stored: the controllers of both kinds would delete an object for a node that does not exist.
"""

from typing import Any, Final

from recorded_original.language import Document, Group, Try
from recorded_original.scenarios.documents import BOTH, KRUISE, build_scenario

__all__ = ["NODE_IMAGE", "NODE_POD_PROBE"]

_OLDER: Final = "apps.kruise.io/v1alpha1"
_NODE: Final = "no-such-node"


def _images(**images: Any) -> Try:
    metadata = {"name": _NODE}
    return Try({"apiVersion": KRUISE, "kind": "NodeImage", "metadata": metadata, "spec": {"images": images}})


def _tag(tag: str = "7", *, policy: Document | None = None, **fields: Any) -> Document:
    """A tag that the original accepts: it refuses one without a time to live."""
    pull_policy = {"ttlSecondsAfterFinished": 60, **(policy or {})}
    return {"tag": tag, "createdAt": "2026-01-31T12:00:00Z", "pullPolicy": pull_policy, **fields}


NODE_IMAGE: Final = Group(
    kind="NodeImage",
    scenarios=tuple(
        build_scenario(name, *steps, versions=BOTH)
        for name, steps in (
            ("an empty one", [_images()]),
            ("one tag", [_images(redis={"tags": [_tag()]})]),
            ("two tags of one image", [_images(redis={"tags": [_tag("7"), _tag("8")]})]),
            ("two images", [_images(redis={"tags": [_tag("7")]}, nginx={"tags": [_tag("7")]})]),
            ("one tag twice", [_images(redis={"tags": [_tag(), _tag()]})]),
            ("an image without tags", [_images(redis={"tags": []})]),
            ("an image without a name", [_images(**{"": {"tags": [_tag()]}})]),
            ("a tag without a name", [_images(redis={"tags": [_tag("")]})]),
            ("a tag without a time", [_images(redis={"tags": [_tag(createdAt=None)]})]),
            ("a version", [_images(redis={"tags": [_tag(version=3)]})]),
            ("a version below zero", [_images(redis={"tags": [_tag(version=-1)]})]),
            ("a tag without a pull policy", [_images(redis={"tags": [_tag(pullPolicy=None)]})]),
            ("no time to live", [_images(redis={"tags": [_tag(pullPolicy={"backoffLimit": 2})]})]),
            (
                "a pull policy",
                [_images(redis={"tags": [_tag(policy={"backoffLimit": 2, "timeoutSeconds": 9})]})],
            ),
            (
                "a pull policy below zero",
                [
                    _images(redis={"tags": [_tag(policy={"timeoutSeconds": -1})]}),
                    _images(redis={"tags": [_tag(policy={"backoffLimit": -1})]}),
                    _images(redis={"tags": [_tag(policy={"ttlSecondsAfterFinished": -1})]}),
                    _images(redis={"tags": [_tag(policy={"activeDeadlineSeconds": -1})]}),
                ],
            ),
            ("an active deadline", [_images(redis={"tags": [_tag(policy={"activeDeadlineSeconds": 30})]})]),
            ("how a tag is pulled", [_images(redis={"tags": [_tag(imagePullPolicy="Always")]})]),
            (
                "secrets",
                [_images(redis={"pullSecrets": [{"namespace": "shop", "name": "key"}], "tags": [_tag()]})],
            ),
            (
                "owners of a tag",
                [_images(redis={"tags": [_tag(ownerReferences=[{"kind": "ImagePullJob", "name": "pull"}])]})],
            ),
            (
                "more images than a node has",
                [_images(**{f"image-{number}": {"tags": [_tag()]} for number in range(257)})],
            ),
        )
    ),
)


def _probes(*probes: Document, pod: str = "web-0", **fields: Any) -> Try:
    asked = {
        "name": pod,
        "namespace": "shop",
        "uid": "u-1",
        "IP": "10.0.0.7",
        "probes": list(probes),
        **fields,
    }
    spec = {"podProbes": [{name: value for name, value in asked.items() if value is not None}]}
    return Try({"apiVersion": _OLDER, "kind": "NodePodProbe", "metadata": {"name": _NODE}, "spec": spec})


def _probe(name: str = "marker#idle", **fields: Any) -> Document:
    how = {"exec": {"command": ["true"]}, **fields}
    return {"name": name, "containerName": "main", "probe": how}


NODE_POD_PROBE: Final = Group(
    kind="NodePodProbe",
    scenarios=tuple(
        build_scenario(name, *steps, versions=("v1alpha1",))
        for name, steps in (
            ("a command", [_probes(_probe())]),
            ("two probes of a pod", [_probes(_probe(), _probe("marker#busy"))]),
            ("one probe twice", [_probes(_probe(), _probe())]),
            ("no probes", [_probes()]),
            ("a pod without an address", [_probes(_probe(), IP=None)]),
            ("a pod without a uid", [_probes(_probe(), uid="")]),
            ("a port", [_probes(_probe(exec=None, tcpSocket={"port": 80}))]),
            ("a request", [_probes(_probe(exec=None, httpGet={"path": "/idle", "port": 8080}))]),
            ("times", [_probes(_probe(periodSeconds=3, timeoutSeconds=2, initialDelaySeconds=1))]),
            ("thresholds", [_probes(_probe(successThreshold=2, failureThreshold=5))]),
            ("a period below zero", [_probes(_probe(periodSeconds=-1))]),
            ("a probe without a container", [_probes({"name": "marker#idle", "probe": {}})]),
        )
    ),
)
