"""`pykruise-kube models FILE…`: prints typed models of custom resources.

files or standard input ──▶ documents ──▶ models_module() ──▶ standard output, or the file of -o
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from pykruise.kube.documents import Document
from pykruise.kube.models.generate import GenerationError, models_module
from pykruise.kube.yaml_documents import read_yaml_documents

__all__ = ["main"]

_DESCRIPTION = "Tools for operators in Python."
_MODELS = """Print a module with typed models of custom resources. Documents other than CustomResourceDefinitions are
left out."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line, and exit: 0 after success, 1 for a file that cannot be used, 2 for a wrong command line.

    `arguments`: None means the arguments of the process.
    """
    parser = argparse.ArgumentParser(prog="pykruise-kube", description=_DESCRIPTION)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    models = commands.add_parser(
        "models", help="typed models from CustomResourceDefinitions", description=_MODELS
    )
    models.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="file with CustomResourceDefinitions in YAML or JSON; - reads standard input",
    )
    models.add_argument("--version", default="", help="version of each kind (default: the stored version)")
    models.add_argument("-o", "--output", type=Path, help="file to write (default: standard output)")
    asked = parser.parse_args(arguments)
    try:
        documents = [document for file in asked.files for document in _read_definitions(file)]
        source = models_module(documents, version=asked.version)
        if asked.output:
            asked.output.write_text(source, "utf-8")
        else:
            sys.stdout.write(source)
    except (GenerationError, OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(1)


def _read_definitions(file: str) -> Iterator[Document]:
    """Return the definitions of a file, also those inside a List."""
    text = sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")
    for document in read_yaml_documents(text):
        if not isinstance(document, dict):
            continue
        items = document["items"] if isinstance(document.get("items"), list) else [document]
        yield from (
            item
            for item in items
            if isinstance(item, dict) and item.get("kind") == "CustomResourceDefinition"
        )
