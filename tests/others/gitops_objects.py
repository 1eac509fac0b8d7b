"""Objects of every kind for tools that apply documents: at rest, and workloads in several states.

place.work() ──▶ samples(place, name): one of each kind ──▶ states(place): workloads with the result of a wait
"""

import json
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from others.client_work import NAMESPACE, Document, Place
from others.cluster import FAILS, NEVER_READY
from pykruise.kube.documents import deep_copy
from support.phase_objects import KINDS

__all__ = [
    "WAITING",
    "State",
    "delete",
    "every_sample",
    "is_observed",
    "key",
    "samples",
    "states",
    "with_image",
]

WAITING: Final = ("BroadcastJob", "EphemeralJob")
"""Jobs whose samples wait for nodes and pods that do not exist."""


def samples(place: Place, client: str) -> list[Document]:
    """A small object of every kind that users create, except jobs that wait."""
    return [document for document in every_sample(place, client) if document["kind"] not in WAITING]


def every_sample(place: Place, client: str) -> list[Document]:
    """A small object of every kind that users create, in its hub version."""
    hubs = {kind.resource.kind: kind.resource.api_version for kind in KINDS.values()}
    work = [item for item in place.work(client) if item.is_created]
    return [
        {"apiVersion": item.api_version, "kind": item.kind, **deep_copy(item.document)}
        for item in work
        if item.api_version == hubs[item.kind]
    ]


def key(document: Document) -> str:
    return f"{document['kind']}/{document['metadata']['name']}"


class State(NamedTuple):
    """A document in a state, and the result of a wait for it; "" means success."""

    name: str
    document: Document
    ends: str


def workloads(place: Place, state: str) -> Iterator[Document]:
    """A workload of each kind that has pods, with a pod on any node."""
    for document in every_sample(place, "wait"):
        spec = document["spec"]
        templates = [
            spec.get("template", {}),
            spec.get("template", {}).get("cloneSetTemplate", {}).get("spec", {}).get("template", {}),
        ]
        if not any("spec" in template for template in templates) or document["kind"] == "AdvancedCronJob":
            continue
        name = f"{state}-{document['kind'].lower()}"
        yield _with_pods(document, name)


def _with_pods(document: Document, name: str) -> Document:
    text = json.dumps(document)
    text = text.replace('"none"', f'"{name}"').replace('"once"', f'"{name}"')
    made: Document = json.loads(
        text.replace('"nodeSelector": {"example.com/no": "node"}', '"nodeSelector": {}')
    )
    made["metadata"]["name"] = name
    if "replicas" in made["spec"]:
        made["spec"]["replicas"] = 1
    if made["kind"] == "BroadcastJob":
        made["spec"]["completionPolicy"] = {"type": "Always"}
        made["spec"]["failurePolicy"] = {"type": "FailFast", "restartLimit": 0}
    return made


def with_image(document: Document, image: str) -> Document:
    made: Document = json.loads(json.dumps(document).replace('"web:1"', f'"{image}"'))
    return made


def states(place: Place) -> Iterator[State]:
    for document in workloads(place, "healthy"):
        yield State("healthy", document, "")
    for document in workloads(place, "slow"):
        if document["kind"] != "BroadcastJob":  # simulated pods of jobs always end
            yield State("progressing", with_image(document, NEVER_READY), "InProgress")
    for document in workloads(place, "failed"):
        if document["kind"] == "BroadcastJob":
            yield State("failed", with_image(document, FAILS), "Failed")
        if document["kind"] == "CloneSet":
            late = with_image(document, NEVER_READY)
            late["spec"]["progressDeadlineSeconds"] = 1
            yield State("deadline passed", late, "Failed")
    for document in workloads(place, "paused"):
        if document["kind"] == "CloneSet":
            document["spec"]["updateStrategy"] = {"rollingUpdate": {"paused": True}}
            yield State("paused", document, "")


def is_observed(place: Place, document: Document) -> None:
    """Return when the object has a status. Before, kstatus takes any object for ready."""
    group = document["apiVersion"].partition("/")[0]
    resource = f"{document['kind'].lower()}s.{group}/{document['metadata']['name']}"
    place.kubectl("wait", "-n", NAMESPACE, resource, "--for=jsonpath={.status.conditions}", "--timeout=60s")


def delete(place: Place, documents: Iterable[Document]) -> None:
    kept = [{**document, "metadata": {**document["metadata"]}} for document in documents]
    place.kubectl(
        "delete",
        "--wait=false",
        "--ignore-not-found",
        "-f",
        "-",
        text=json.dumps({"apiVersion": "v1", "kind": "List", "items": kept}),
    )
