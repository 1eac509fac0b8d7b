"""Reviews of StatefulSets: documents that admission accepts, and the errors of others.

fields(document(parallel=True, replicas=-1)) == ["spec.replicas"]
"""

import asyncio
import copy
from collections.abc import Sequence
from typing import Any

from pykruise.kinds.statefulset.admission import build_validating_review
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kube.admission import AdmissionAnswer, Reviewer
from pykruise.kube.documents import Document
from pykruise.kube.errors import Cause
from support.reviews import request
from support.statefulset_builder import statefulset

BLOCK = "spec.updateStrategy.rollingUpdate"
VALIDATE = build_validating_review()


def document(*, parallel: bool = False, rolling: Document | None = None, **spec: Any) -> Document:
    """A valid document with its defaults, these fields of rollingUpdate, and these of the spec."""
    document = copy.deepcopy(statefulset(3, parallel=parallel).document)
    block = {"maxUnavailable": 1, "podUpdatePolicy": "ReCreate", **(rolling or {})}
    document["spec"] |= {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": block}, **spec}
    document["spec"] = {field: value for field, value in document["spec"].items() if value is not None}
    return document


def review(
    reviewer: Reviewer, doc: Document | None, *, old: Document | None = None, **fields: Any
) -> AdmissionAnswer:
    """The response to the write of a document; without a document, to the deletion of the old one."""
    asked = request(ADVANCED_STATEFUL_SETS, doc, old=old, **fields)

    async def answer() -> AdmissionAnswer:
        return await reviewer(asked)

    return asyncio.run(answer())


def causes(doc: Document, *, old: Document | None = None, reviewer: Reviewer = VALIDATE) -> Sequence[Cause]:
    """All errors of a document."""
    refused = review(reviewer, doc, old=old).refusal
    if refused is None:
        return ()
    assert refused.code == 422
    assert refused.details is not None
    return refused.details.causes or ()


def fields(doc: Document, **more: Any) -> list[str]:
    """Paths of the errors."""
    return [cause.field for cause in causes(doc, **more)]
