"""What commands print for programs: JSON and YAML of the same document.

document ──▶ rendered() ──▶ text

Pure.
"""

import json
from typing import Any

__all__ = ["rendered"]


def rendered(document: Any, output: str) -> str:
    """`json` or `yaml`, without the last line end."""
    if output == "yaml":
        import yaml

        text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=2**30)
        return text.rstrip("\n")
    return json.dumps(document, indent=2)
