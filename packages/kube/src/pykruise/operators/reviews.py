"""Webhooks of an operator, and the configurations with which an API server calls them.

check(new, old) ──▶ validating() ─┐
default(document) ─▶ defaulting() ─┴▶ ReviewRule ──▶ webhook_configurations() ──▶ documents to apply
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pykruise.kube.admission import (
    ALLOWED,
    AdmissionAnswer,
    AdmissionRequest,
    ResourceRule,
    ReviewRule,
    is_on_its_way_out,
)
from pykruise.kube.documents import Document, deep_copy
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import build_refusal
from pykruise.kube.resources import Resource

__all__ = ["defaulting", "validating", "webhook_configurations"]

_WRITES = ("CREATE", "UPDATE")


def validating(
    resource: Resource, check: Callable[[Document, Document | None], Sequence[Cause]], *, path: str = ""
) -> ReviewRule:
    """Return the webhook that rejects objects with errors.

    `check`: gets the new object and the old one (None: a creation) and returns all errors, each with its field
    (`pykruise.kube.pod_rules.field_errors.make_invalid_error`). `path`: empty for `/validate-<plural>`. Updates of a
    terminating object that leave its spec unchanged are not checked.
    """

    async def review(request: AdmissionRequest) -> AdmissionAnswer:
        if request.object is None or is_on_its_way_out(request):
            return ALLOWED
        causes = check(request.object, request.old_object)
        return AdmissionAnswer(refusal=build_refusal(resource, request.name, causes)) if causes else ALLOWED

    return _build_rule(resource, review, path=path or f"/validate-{resource.plural}", mutating=False)


def defaulting(resource: Resource, default: Callable[[Document], None], *, path: str = "") -> ReviewRule:
    """Return the webhook that fills in fields. `default` changes the document that it gets, which is a copy. `path`:
    empty for `/default-<plural>`.
    """

    async def review(request: AdmissionRequest) -> AdmissionAnswer:
        if request.object is None or is_on_its_way_out(request):
            return ALLOWED
        document = deep_copy(request.object)
        default(document)
        return AdmissionAnswer(object=document)

    return _build_rule(resource, review, path=path or f"/default-{resource.plural}", mutating=True)


def webhook_configurations(
    name: str, webhooks: Sequence[ReviewRule], *, ca: bytes, url: str = "", service: str = ""
) -> list[Document]:
    """Return the configurations for webhooks, to be applied to a cluster.

    `ca`: PEM of the CA that signed the server's certificate. `service`: `namespace/name`, or `url`:
    `https://host:port`. Raises ValueError unless exactly one of them is given.
    """
    if bool(url) == bool(service):
        raise ValueError("give either url or service")
    result = []
    for kind, is_mutating in (
        ("MutatingWebhookConfiguration", True),
        ("ValidatingWebhookConfiguration", False),
    ):
        entries = [
            rule.to_document(_build_client_config(rule.path, ca=ca, url=url, service=service))
            for rule in webhooks
            if rule.mutating == is_mutating
        ]
        if entries:
            document = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind}
            result.append({**document, "metadata": {"name": name}, "webhooks": entries})
    return result


def _build_client_config(path: str, *, ca: bytes, url: str, service: str) -> Mapping[str, Any]:
    bundle = base64.b64encode(ca).decode()
    if url:
        return {"url": url.rstrip("/") + path, "caBundle": bundle}
    namespace, _, name = service.partition("/")
    return {"service": {"namespace": namespace, "name": name, "path": path}, "caBundle": bundle}


def _build_rule(resource: Resource, review: Any, *, path: str, mutating: bool) -> ReviewRule:
    rule = ResourceRule(
        groups=(resource.group,),
        versions=(resource.version,),
        resources=(resource.plural,),
        operations=_WRITES,
    )
    verb = "default" if mutating else "validate"
    return ReviewRule(
        name=f"{verb}.{resource.plural}.{resource.group or 'core.k8s.io'}",
        reviewer=review,
        mutating=mutating,
        rules=(rule,),
        path=path,
    )
