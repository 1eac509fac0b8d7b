"""An operator with children and a webhook: each Site has a page, and pods that serve it.

python serving_operator.py --webhook-cert-dir=certs --leader-elect
"""

import hashlib
from collections.abc import Sequence

from pykruise.kube.documents import Document
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import make_invalid_error
from pykruise.kube.resources import CONFIG_MAPS, DEPLOYMENTS, Resource
from pykruise.operators import Child, Desired, Observed, main, operator, validating
from pykruise.runtime.plan import Note
from pykruise.runtime.reasons import Reason

SITES = Resource("example.com", "v1", "sites", "Site")


def plan(observed: Observed) -> Desired:
    """A page, pods that are rolled out when it changes, and a status that counts them."""
    site = observed.object
    html, replicas = str(site.spec["html"]), int(site.spec.get("replicas", 1))
    page = Child(CONFIG_MAPS, f"{site.name}-page", {"data": {"index.html": html}})
    pods = observed.child(DEPLOYMENTS, site.name)
    ready = pods.count("status", "readyReplicas") if pods else 0
    is_ready = ready >= replicas
    return Desired(
        children=[page, Child(DEPLOYMENTS, site.name, deployment(site.name, html, replicas))],
        status={"observedGeneration": site.generation, "ready": ready},
        events=(Note(reason="Served", message="all pods serve", again_after_s=3600.0),) if is_ready else (),
        waiting=None if is_ready else Reason("PodsNotReady", f"{ready} of {replicas} pods are ready"),
    )


def deployment(name: str, html: str, replicas: int) -> Document:
    """A Deployment of pods with the page. Another page changes the template, so the pods are rolled out."""
    labels, digest = {"site": name}, hashlib.sha256(html.encode()).hexdigest()[:16]
    volume = {"name": "page", "configMap": {"name": f"{name}-page"}}
    mounts = [{"name": "page", "mountPath": "/usr/local/apache2/htdocs"}]
    container = {"name": "web", "image": "httpd:2.4", "volumeMounts": mounts}
    template = {
        "metadata": {"labels": labels, "annotations": {"example.com/page": digest}},
        "spec": {"containers": [container], "volumes": [volume]},
    }
    return {"spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}}


def check(site: Document, old: Document | None) -> Sequence[Cause]:
    """All errors of a Site, each with its field."""
    html = site["spec"].get("html", "")
    return [] if "<" in html else [make_invalid_error("spec.html", html, "a page has at least one tag")]


WORK = operator(SITES, plan, owns=[CONFIG_MAPS, DEPLOYMENTS], finalizer="example.com/site")
WEBHOOKS = [validating(SITES, check)]

if __name__ == "__main__":
    main("serving-operator", WORK, webhooks=WEBHOOKS)
