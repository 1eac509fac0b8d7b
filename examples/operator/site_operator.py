"""An operator for a custom resource: a Site has a page, and a number of pods that serve it.

    python site_operator.py            until Ctrl-C, against the cluster of $KUBECONFIG

Site ──▶ snapshot() ──▶ Snapshot ──▶ plan_site() ──▶ Plan ──▶ a ConfigMap, a Deployment, the Site's status

The decision is a plain function: test_site_operator.py tests it without a cluster, and then tests the operator on a
cluster in its own process.
"""

import asyncio
import hashlib
from typing import Any

import msgspec

from pykruise.kube.documents import Document, encode
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CONFIG_MAPS, DEPLOYMENTS, Resource
from pykruise.runtime.actions import Action, Create, Patch
from pykruise.runtime.control import Control
from pykruise.runtime.objects import DocumentView, build_owner_reference_to, make_object_views
from pykruise.runtime.operator import Work
from pykruise.runtime.plan import Chain, Note, Plan, Stage, Step
from pykruise.runtime.read import Read
from pykruise.runtime.reasons import Reason
from pykruise.runtime.serving import serve
from pykruise.runtime.wakes import wake_itself, wake_owner

SITES = Resource("example.com", "v1", "sites", "Site")
SITE_VIEWS, PAGE_VIEWS, DEPLOYMENT_VIEWS = map(make_object_views, (SITES, CONFIG_MAPS, DEPLOYMENTS))

DIGEST = "example.com/digest"
"""Annotation: the digest of the wanted content. API servers add defaults, so objects themselves cannot be compared."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All that a decision about one Site needs."""

    site: DocumentView
    page: DocumentView | None
    deployment: DocumentView | None
    now: float


async def snapshot(site: DocumentView, read: Read[Any]) -> Snapshot:
    """Read the Site's objects from caches, without a request."""
    return Snapshot(
        site=site,
        page=read.get(PAGE_VIEWS, Key(site.namespace, f"{site.name}-page")),
        deployment=read.get(DEPLOYMENT_VIEWS, site.key),
        now=read.now(),
    )


def plan_site(snapshot: Snapshot) -> Plan:
    """Decide the writes, their reasons and the status."""
    site = snapshot.site
    if site.is_deleting:
        return Plan()  # the garbage collector deletes the objects that it owns
    page, deployment = page_of(site), deployment_of(site)
    wanted = ((CONFIG_MAPS, page, snapshot.page), (DEPLOYMENTS, deployment, snapshot.deployment))
    for resource, _, stored in wanted:
        if stored is not None and stored.owner_uid != site.uid:
            return name_taken(site, resource, stored)
    steps = [
        Step(
            action=action,
            because="the Site asks for it",
            done=Note(reason="Applied", message=f"applied {resource.kind} {body['metadata']['name']}"),
        )
        for resource, body, stored in wanted
        if (action := written(resource, body, stored)) is not None
    ]
    ready = snapshot.deployment.count("status", "readyReplicas") if snapshot.deployment else 0
    stage = Stage(purpose="serve the page", chains=(Chain(subject=site.name, steps=tuple(steps)),))
    return Plan(stages=(stage,) if steps else (), status=status_of(site, ready=ready))


def name_taken(site: DocumentView, resource: Resource, stored: DocumentView) -> Plan:
    """A plan that leaves an object that the Site does not own as it is."""
    message = f"{resource.kind} {stored.name} exists, and the Site {site.name} does not own it"
    reason = Reason("NameTaken", message, f"delete it, or give the Site {site.name} another name")
    note = Note(reason=reason.code, message=reason.full_message, warning=True, again_after_s=300.0)
    return Plan(status=status_of(site, ready=0, problem=reason.full_message), waiting=reason, notes=(note,))


def status_of(site: DocumentView, *, ready: int, problem: str = "") -> Document:
    """The whole status. It is written only if it differs from the stored status."""
    result: Document = {"observedGeneration": site.generation, "ready": ready}
    return {**result, "problem": problem} if problem else result


def page_of(site: DocumentView) -> Document:
    """The ConfigMap that the pods serve."""
    data = {"index.html": str(site.spec.get("html", ""))}
    return owned(site, {"metadata": {"name": f"{site.name}-page"}, "data": data})


def deployment_of(site: DocumentView) -> Document:
    """A Deployment of pods that read the page. Another page changes the template, so the pods are rolled out."""
    labels = {"site": site.name}
    volume = {"name": "page", "configMap": {"name": f"{site.name}-page"}}
    mount = {"name": "page", "mountPath": "/www"}
    container = {"name": "web", "image": "httpd:2.4", "volumeMounts": [mount]}
    template = {
        "metadata": {"labels": labels, "annotations": {DIGEST: digest_of(site.spec.get("html", ""))}},
        "spec": {"containers": [container], "volumes": [volume]},
    }
    spec = {
        "replicas": site.spec.get("replicas", 1),
        "selector": {"matchLabels": labels},
        "template": template,
    }
    return owned(site, {"metadata": {"name": site.name}, "spec": spec})


def owned(site: DocumentView, body: Document) -> Document:
    """The object with the Site as its owner, and with the digest of its content."""
    metadata = {
        **body["metadata"],
        "namespace": site.namespace,
        "ownerReferences": [build_owner_reference_to(SITES, site)],
        "annotations": {DIGEST: digest_of(body)},
    }
    return {**body, "metadata": metadata}


def written(resource: Resource, body: Document, stored: DocumentView | None) -> Action | None:
    """The write that gives the stored object the wanted content; None if it already has this content."""
    metadata = body["metadata"]
    key = Key(metadata["namespace"], metadata["name"])
    if stored is None:
        return Create(resource=resource, key=key, body=body)
    if stored.annotations.get(DIGEST) == metadata["annotations"][DIGEST]:
        return None
    return Patch(resource=resource, key=key, patch_type=PatchType.STRATEGIC, body=body, uid=stored.uid)


def digest_of(value: Any) -> str:
    """A digest that is the same for equal values."""
    return hashlib.sha256(encode(value)).hexdigest()[:16]


CONTROL = Control(
    name="site",
    component="site-operator",
    objects=SITE_VIEWS,
    reads=lambda _: (PAGE_VIEWS, DEPLOYMENT_VIEWS),
    wakes=lambda _: (
        wake_itself(SITE_VIEWS),
        wake_owner(PAGE_VIEWS, SITES),
        wake_owner(DEPLOYMENT_VIEWS, SITES),
    ),
    snapshot=snapshot,
    object_of=lambda snapshot: snapshot.site,
    plan=plan_site,
)

WORK = Work(resource=SITES, control=CONTROL)

if __name__ == "__main__":
    asyncio.run(serve([WORK]))
