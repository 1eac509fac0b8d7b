"""Output for programs: JSON and YAML of the same document. Warnings are lines on standard error.

document ──▶ format_document() ──▶ text
warnings ──▶ warning_lines() ──▶ lines on standard error

Pure.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from pykruise.cli.errors import CommandLineError


def check_output(output: str) -> None:
    """Raise CommandError for a format other than `text`, `json` and `yaml`."""
    if output not in ("text", "json", "yaml"):
        raise CommandLineError(f"-o {output}: must be text, json or yaml")


def format_document(document: Any, output: str) -> str:
    """The document as `json` or `yaml`, without the last line end."""
    if output == "yaml":
        from pykruise.kube.yaml_documents import format_yaml

        return format_yaml(document, allow_unicode=True, width=2**30).rstrip("\n")
    return json.dumps(document, indent=2)


def warning_lines(warnings: Iterable[str]) -> Iterator[str]:
    """Yield a line for each warning, once for each text, as kubectl prints them."""
    return (f"Warning: {text}" for text in dict.fromkeys(warnings))
