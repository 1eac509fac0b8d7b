"""Patches: apply them as an API server does, and make the smallest patch between two documents.

types.py names the kinds of patch; merge.py, json_patch.py and strategic.py apply and make them; schemas.py knows how
the fields of built-in kinds merge; errors.py has the errors.
"""

from pykruise.kube.patches.errors import JsonPatchTestFailed, PatchError
from pykruise.kube.patches.json_patch import apply_json_patch, diff_json, escape_pointer, format_pointer
from pykruise.kube.patches.merge import apply_merge_patch, diff_merge
from pykruise.kube.patches.schemas import find_definition
from pykruise.kube.patches.strategic import apply_strategic_merge, diff_strategic
from pykruise.kube.patches.types import PatchType

__all__ = [
    "JsonPatchTestFailed",
    "PatchError",
    "PatchType",
    "apply_json_patch",
    "apply_merge_patch",
    "apply_strategic_merge",
    "diff_json",
    "diff_merge",
    "diff_strategic",
    "escape_pointer",
    "find_definition",
    "format_pointer",
]
