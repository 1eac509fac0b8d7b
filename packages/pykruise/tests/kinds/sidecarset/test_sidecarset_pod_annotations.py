"""Annotations of pods that SidecarSets patch."""

import pytest

from pykruise.kinds.sidecarset.pod_annotations import MetadataPatchError, apply_patches
from pykruise.kinds.sidecarset.types import PatchPodMetadata


def patched(old: str | None, new: str, policy: str) -> str:
    """The patched value of an annotation."""
    entry = PatchPodMetadata(annotations={"key": new}, patch_policy=policy)
    return apply_patches({"key": old} if old is not None else {}, [entry])["key"]


@pytest.mark.parametrize(
    ("old", "new", "policy", "expected"),
    [
        (None, "new", "Retain", "new"),
        ("old", "new", "Retain", "old"),
        ("", "new", "Retain", ""),
        ("old", "new", "", "old"),
        ("old", "new", "Overwrite", "new"),
        (None, "no json", "MergePatchJson", "no json"),
        ("", "no json", "MergePatchJson", "no json"),
        ('{"b":1}', '{"a":2}', "MergePatchJson", '{"a":2,"b":1}'),
        ('{"b":{"c":1,"d":2}}', '{"b":{"c":null},"e":null}', "MergePatchJson", '{"b":{"d":2}}'),
        # a value that is no object is replaced by an object, and an object by such a value
        ("1", '{"a":2}', "MergePatchJson", '{"a":2}'),
        ('{"b":[1]}', '{"b":{"c":1}}', "MergePatchJson", '{"b":{"c":1}}'),
        ('{"b":1}', "[2]", "MergePatchJson", "[2]"),
    ],
)
def test_the_policy_decides_how_an_annotation_is_patched(
    old: str | None, new: str, policy: str, expected: str
) -> None:
    """section 6.5"""
    assert patched(old, new, policy) == expected


@pytest.mark.parametrize(("old", "new"), [("abc", "{}"), ("{}", "abc")])
def test_only_json_can_be_merged(old: str, new: str) -> None:
    """sidecarset case 47"""
    with pytest.raises(MetadataPatchError, match="is not JSON and cannot be merged"):
        patched(old, new, "MergePatchJson")


def test_entries_apply_one_after_another_and_one_may_be_empty() -> None:
    entries = [
        PatchPodMetadata(annotations={"key": "1"}, patch_policy="Overwrite"),
        PatchPodMetadata(annotations=None, patch_policy="Overwrite"),
        PatchPodMetadata(annotations={"key": "2", "other": "3"}, patch_policy="Retain"),
    ]
    assert apply_patches({"key": "0", "own": "4"}, entries) == {"key": "1", "own": "4", "other": "3"}
