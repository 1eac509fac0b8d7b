"""Permissions that an agent needs, cluster-wide and in the namespace of copied pull secrets.

gates ──▶ rights_of_agent() ──▶ ClusterRole of the agents      SECRET_RIGHTS ──▶ Role in the secrets' namespace

Pure. An agent writes only three things: events, the status of the NodeImage, NodePodProbe and ContainerRecreateRequests
of its node, and metadata of pods (through the pods' status subresource). RBAC cannot restrict an agent to objects of
its own node; a ValidatingAdmissionPolicy does this (manager/daemon.py).
"""

from collections.abc import Sequence
from typing import Final

from pykruise.agent.rules.image_pulls import NODE_IMAGES
from pykruise.agent.rules.probe_checks import NODE_POD_PROBES
from pykruise.agent.rules.recreations import REQUESTS
from pykruise.kube.rbac import Right, make_right
from pykruise.kube.resources import EVENTS, PODS, SECRETS

_WATCH: Final = ("list", "watch")

SECRET_RIGHTS: Final[Sequence[Right]] = (make_right(SECRETS, "get", why="read credentials for pulls"),)
"""Permissions in the namespace to which the manager copies pull secrets, and in no other."""


def rights_of_agent(*, probes: bool = True, watches_pods: bool = True) -> list[Right]:
    """Return cluster-wide permissions. `probes`: gate PodProbeMarkerGate; `watches_pods`: gate DaemonWatchingPod."""
    rights = [
        make_right(NODE_IMAGES, *_WATCH, why="read the images that the node must pull"),
        make_right(NODE_IMAGES, "patch", subresource="status", why="report the progress of pulls"),
        make_right(REQUESTS, *_WATCH, why="read the containers that must be recreated"),
        make_right(REQUESTS, "patch", subresource="status", why="report the progress of recreations"),
        make_right(EVENTS, "create", "patch", why="write events about pulls, probes and containers"),
    ]
    if probes:
        rights += [
            make_right(NODE_POD_PROBES, *_WATCH, why="read the probes that the node must run"),
            make_right(NODE_POD_PROBES, "patch", subresource="status", why="report the results of probes"),
        ]
    if watches_pods:
        rights += [
            make_right(PODS, *_WATCH, why="watch the pods of the node"),
            make_right(PODS, "patch", subresource="status", why="report metadata of their containers"),
        ]
    return rights
