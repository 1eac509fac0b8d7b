"""Names of pods and revisions, and the ids in these names.

owner name + InstanceId ──▶ format_pod_name()
IdSource (a value of the snapshot) + ids in use ──▶ draw_ids() ──▶ ids for the pods of one plan

Pure: the same source gives the same ids, so the same snapshot gives the same plan.
"""

from collections.abc import Iterable
from typing import NewType

import msgspec

from pykruise.kube.values.hashing import draw_suffix
from pykruise.kube.values.seeded import make_random

InstanceId = NewType("InstanceId", str)
"""Five characters that a pod and its claims share."""

RevisionName = NewType("RevisionName", str)
"""`<owner>-<hash>`."""

RevisionHash = NewType("RevisionHash", str)
"""The last part of a revision's name."""

ID_LENGTH = 5
LONGEST_REVISION_OWNER = 223
"""Maximum number of characters that a revision's name takes from its owner's name."""


class IdSource(msgspec.Struct, frozen=True):
    """Source of fresh ids for one plan. Each snapshot has a new `seed`, so that a retry does not repeat taken names."""

    seed: int

    def draw_ids(self, count: int, *, used: Iterable[str]) -> list[InstanceId]:
        """`count` different ids that are not in `used`, sorted."""
        rng = make_random(self.seed)
        taken = set(used)
        fresh: list[InstanceId] = []
        while len(fresh) < count:
            drawn = draw_suffix(rng, ID_LENGTH)
            if drawn not in taken:
                taken.add(drawn)
                fresh.append(InstanceId(drawn))
        return sorted(fresh)


def shorten_hash(revision: str) -> RevisionHash:
    """The part after the last `-`, or the whole text: `web-7c9d` and `7c9d` are the same revision."""
    return RevisionHash(revision[revision.rfind("-") + 1 :])


def format_pod_name(owner: str, instance_id: InstanceId) -> str:
    """`<owner>-<id>`."""
    return f"{owner}-{instance_id}"


def format_revision_name(owner: str, revision_hash: RevisionHash) -> RevisionName:
    """`<owner>-<hash>`, with the owner's name cut to the longest valid length."""
    return RevisionName(f"{owner[:LONGEST_REVISION_OWNER]}-{revision_hash}")
