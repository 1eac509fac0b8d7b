"""Manifests for a command: reads YAML into documents, and reports errors with file and line.

text ──▶ load_documents() ──▶ documents; CommandError when a document is not a Kubernetes object
document, -n ──▶ check_namespace() ──▶ CommandError when they name different namespaces
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from pykruise.cli.errors import CommandError
from pykruise.kube.yaml_documents import read_yaml_documents

_EXTENSIONS: Final = (".yaml", ".yml", ".json")


def read_documents(path: Path) -> list[dict[str, Any]]:
    """All objects of a YAML file, or of all files in a folder (not in its subfolders), sorted by file name.

    Raises CommandError with the file's name, and with the line when it is known.
    """
    if path.is_dir():
        files = sorted(item for item in path.iterdir() if item.suffix in _EXTENSIONS)
        if not files:
            raise CommandError(f"{path}: no file in it ends in {', '.join(_EXTENSIONS)}")
        return [document for file in files for document in read_documents(file)]
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise CommandError(f"{path}: not a text file (byte {error.start} is not UTF-8)") from error
    return load_documents(text, source=str(path))


def load_documents(text: str, *, source: str) -> list[dict[str, Any]]:
    """All objects of a YAML text, without empty documents. `source`: name of the text in errors."""
    try:
        documents = [document for document in read_yaml_documents(text) if document is not None]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        # If a text ends too early, the parser's mark is behind the last line.
        where = f"{source}, line {min(mark.line + 1, max(1, len(text.splitlines())))}" if mark else source
        raise CommandError(f"{where}: not valid YAML: {getattr(error, 'problem', None) or error}") from error
    documents = [item for document in documents for item in _list_items(document)]
    for number, document in enumerate(documents, start=1):
        _check_document(document, where=f"{source}, document {number}")
    return documents


def check_namespace(document: Mapping[str, Any], given: str) -> None:
    """Raise CommandError, in kubectl's words, if the manifest names a namespace, and `-n` (`given`) names another
    one.
    """
    own = document["metadata"].get("namespace") or ""
    if own and given and own != given:
        raise CommandError(
            f'the namespace from the provided object "{own}" does not match the namespace "{given}". You must pass'
            f" '--namespace={own}' to perform this operation."
        )


def _list_items(document: Any) -> list[Any]:
    """Items of a List, which `kubectl get -o yaml` prints for several objects; otherwise the document."""
    is_list = isinstance(document, dict) and document.get("kind") == "List"
    items = document.get("items") if is_list else None
    return items if isinstance(items, list) else [document]


_JSON_TYPES: Final[Mapping[type, str]] = {
    str: "string",
    list: "list",
    int: "number",
    float: "number",
    bool: "boolean",
}


def _check_document(document: object, *, where: str) -> None:
    if not isinstance(document, dict):
        raise CommandError(
            f"{where}: is a {_JSON_TYPES.get(type(document), type(document).__name__)}, not a Kubernetes object"
        )
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    for field, value in (
        ("apiVersion", document.get("apiVersion")),
        ("kind", document.get("kind")),
        ("metadata.name", name),
    ):
        if not isinstance(value, str) or not value:
            raise CommandError(f"{where}: {field} is missing or not a string")
