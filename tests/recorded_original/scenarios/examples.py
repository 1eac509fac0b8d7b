"""The examples of the repository: what is stored of each."""

from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from pykruise.testing.contents import documents_of
from recorded_original.language import Document, Group, Try
from recorded_original.scenarios.documents import build_scenario

__all__ = ["with_examples"]

_FOLDER: Final = Path(__file__).parents[3] / "examples"


def with_examples(group: Group) -> Group:
    """The group, and one more scenario: a dry run of each example of the kind."""
    documents = [
        example
        for example in _examples()
        if example["kind"] == group.kind and "kruise.io" in example["apiVersion"]
    ]
    if not documents:
        return group
    scenario = build_scenario("what is stored of the examples", *map(Try, documents))
    return msgspec.structs.replace(group, scenarios=(*group.scenarios, scenario))


@cache
def _examples() -> tuple[Document, ...]:
    return tuple(documents_of(sorted(_FOLDER.glob("**/*.yaml"))))
