"""A manager that applies the same document again changes nothing, as Flux and Argo CD do every few minutes."""

import json
from typing import Final

import pytest

from others.client_work import NAMESPACE, Document, Place

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(300)]

APPLY: Final = ("apply", "--server-side", "--field-manager=gitops", "-o", "json", "-f", "-")


@pytest.mark.program(
    "kubectl",
    "1.37",
    "every kind in every version: a repeated server-side apply is accepted and changes nothing",
)
def test_a_repeated_server_side_apply_changes_nothing(place: Place) -> None:
    work = [item for item in place.work("again") if item.is_created]
    for item in work:
        document = {"apiVersion": item.api_version, "kind": item.kind, **item.document}
        # given
        first = applied(place, document)
        # when
        second = applied(place, document)
        # then nothing that admission or a controller has written is removed
        assert second["metadata"]["generation"] == first["metadata"]["generation"], document
        assert second["spec"] == first["spec"]
        where = () if item.namespace is None else ("-n", NAMESPACE)
        place.kubectl("delete", "--wait=false", f"{item.plural}.{item.group}", item.name, *where)


def applied(place: Place, document: Document) -> Document:
    answer: Document = json.loads(place.kubectl(*APPLY, text=json.dumps(document)))
    return answer
