"""Remedies of an object that another object has created: the user corrects the creator.

a document ──▶ find_creation() ──▶ InsightChild, with the correction that the creator's explanation names
an Explanation ──▶ redirect_remedies() ──▶ the remedies with the creator

This module only reads. A workload creates jobs that pull the images of its template. An AdvancedCronJob and an
ImageListPullJob create jobs from their spec, and list these jobs as their children.
"""

from typing import Final

import msgspec

from pykruise.cli.insight.children import redirect_remedy
from pykruise.cli.insight.cluster_reading import look
from pykruise.cli.insight.explanations import Explanation, Wait
from pykruise.cli.insight.known_kinds import insight_of, is_of, list_known_kinds
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.kube.errors import ApiError
from pykruise.kube.ids import Key
from pykruise.kube.values.owners import controller_of
from pykruise.manager.settings import ManagerSettings
from pykruise.plans.insight import InsightChild, WorkloadInsight
from pykruise.plans.kind import Kind
from pykruise.pods.reasons import OF_A_SPEC, Code

_OF_THE_IMAGE: Final = frozenset({Code.IMAGE_PULL, Code.IMAGE_PULLING})


async def find_creation(
    client: Client, kind: Kind, document: Document, now: Instant, settings: ManagerSettings | None
) -> InsightChild | None:
    """Return the object as a child of the object that created it; None if no known object lists it as its child, or if
    the user may not read the creator.
    """
    creator = _find_creator(document)
    if creator is None:
        return None
    parent, key = creator
    list_children = insight_of(parent).children
    if list_children is None:
        return None
    own = Key(key.namespace, document["metadata"]["name"])
    try:
        sight = await look(client, parent, key, now=now, settings=settings)
    except ApiError:
        return None
    children = list_children(sight.snapshot)
    return next((child for child in children if (child.resource, child.key) == (kind.resource, own)), None)


def redirect_remedies(
    explanation: Explanation, kind: Kind, document: Document, creation: InsightChild | None
) -> Explanation:
    """Return the explanation with remedies that correct the creator. `creation`: from `find_creation()`."""
    if creation is not None:
        waits = [
            msgspec.structs.replace(wait, remedy=redirect_remedy(creation, wait))
            for wait in explanation.waits
        ]
        return msgspec.structs.replace(explanation, waits=tuple(waits))
    creator = _find_creator(document)
    if creator is None or insight_of(kind).containers or not isinstance(creator[0].insight, WorkloadInsight):
        return explanation
    waits = [
        msgspec.structs.replace(wait, remedy=_correct_workload(*creator, wait))
        if wait.code in OF_A_SPEC and wait.remedy
        else wait
        for wait in explanation.waits
    ]
    return msgspec.structs.replace(explanation, waits=tuple(waits))


def _correct_workload(kind: Kind, key: Key, wait: Wait) -> str:
    """Return the remedy for a job that a workload creates for the images of its template."""
    name, resource = f"{kind.resource.kind} {key.name}", f"{kind.resource}/{key.name}"
    where = f"spec.template of {name}, which creates the job (kubectl kruise explain {resource} -n {key.namespace})"
    if wait.code in _OF_THE_IMAGE:
        return f"correct the image or its pull secrets in {where}; or make the image and its pull secrets available"
    return f"correct the cause in {where}"


def _find_creator(document: Document) -> tuple[Kind, Key] | None:
    """Return the controller of the object, if its kind is known; otherwise None."""
    owner = controller_of(document)
    if owner is None:
        return None
    of_kind = {"apiVersion": owner.api_version, "kind": owner.kind}
    kind = next((kind for kind in list_known_kinds() if is_of(kind, of_kind)), None)
    return None if kind is None else (kind, Key(document["metadata"].get("namespace", ""), owner.name))
