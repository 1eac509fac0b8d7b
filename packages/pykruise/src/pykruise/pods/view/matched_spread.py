"""The annotation with which a WorkloadSpread marks its pods: the WorkloadSpread and the subset of the pod.

annotation ──▶ read_matched() ──▶ Matched ──▶ to_text() ──▶ annotation

Pure.
"""

import msgspec


class Matched(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Value of a pod's annotation: the pod's WorkloadSpread and subset."""

    name: str = ""
    subset: str = ""
    uid: str = ""
    """Key of the pod's slot, if the pod had no name when the slot was allocated."""

    def to_text(self) -> str:
        """Text of the annotation."""
        return msgspec.json.encode(self).decode()


def read_matched(text: str | None) -> Matched | None:
    """Parse the annotation; None: it is absent or cannot be read."""
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=Matched)
    except msgspec.DecodeError:
        return None
