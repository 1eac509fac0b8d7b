"""Gangs: pods that the scheduler binds together or not at all.

a PodGroup ──▶ read_min_count() ──▶ scheduler.py

Pure. This is the rule of the plugin GangScheduling: it counts the pods of the group that have a node, even terminating
pods.
"""

import math

from pykruise.kube.documents import get_path
from pykruise.runtime.objects import DocumentView


def read_min_count(group: DocumentView | None) -> float:
    """Return how many of a PodGroup's pods must have a node; 0: no gang; infinite: the group does not exist."""
    if group is None:
        return math.inf
    least: int = get_path(group.doc, "spec", "schedulingPolicy", "gang", "minCount", default=0)
    return least


def format_gang_message(least: float, fitting: int, message: str) -> str:
    """Return the reason why no pod of the gang gets a node."""
    return f"{message} {fitting} pods of the pod group fit, but at least {least:.0f} must fit."
