"""Stuck rollouts: the causes that `explain` must name, and objects that make an API server reject the manager's writes.

case.stage_it(stage) ──▶ named(): explain, until it names the cause ──▶ its text

On a real cluster no test waits for hours, so there `explain` runs until it names the cause, and once more shortly
after. In virtual time a minute and a half passes first.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

import msgspec

from pykruise.admission.configurations import VALIDATING
from pykruise.cli.explain import read_and_explain
from pykruise.cli.insight.explanation_text import format_explanation
from pykruise.cli.insight.explanations import Explanation
from pykruise.kube.client.transport import Request, Response, Transport, WrappedTransport
from pykruise.kube.documents import decode
from pykruise.kube.errors import AlreadyExistsError, ApiError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.resources import PODS, Resource
from pykruise.manager.roles import RBAC
from pykruise.plans.kind import Kind
from pykruise.pods.reasons import AT_REST, Code
from support.scenario import Object, Stage

__all__ = ["Refusal", "Stuck", "explain_until", "named", "used_up_quota"]

RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
_ADMISSION = "admissionregistration.k8s.io"
_POLICIES = Resource(
    _ADMISSION, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False
)
_BINDINGS = Resource(
    _ADMISSION,
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
)
_ROLES = Resource(RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
_ROLE_BINDINGS = Resource(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)


class Stuck(NamedTuple):
    """A staged case, the cause that `explain` must name first, and words that it must use."""

    stage_it: Callable[..., Awaitable[None]]
    cause: str
    says: str
    verdict: str = "waiting"
    ways: int = 1
    """Number of alternatives in its remedies."""
    useless: tuple[int, ...] = ()
    """Alternatives that do no harm, and do not help here."""


async def named(
    stage: Stage, kind: Kind, *, cause: str, verdict: str = "waiting", key: Key | None = None
) -> tuple[Explanation, str]:
    """The explanation that names this cause, and its text. Fails with the last text when it never does."""
    key = key or Key(stage.namespace, "web")
    await asyncio.sleep(min(90.0, stage.long_s / 5))
    explanation = await explain_until(
        stage, kind, key, lambda result: (result.cause, result.verdict) == (cause, verdict), within_s=60.0
    )
    await _condition_says_the_same(stage, kind, key, explanation)
    return explanation, format_explanation(explanation, now=stage.clock())


async def explain_until(
    stage: Stage,
    kind: Kind,
    key: Key,
    is_wanted: Callable[[Explanation], bool],
    *,
    within_s: float,
    lasts: bool = True,
) -> Explanation:
    """Return the first explanation of an object that `is_wanted` accepts; with `lasts`, it must accept the
    explanations for a second. Fails with the text of the last one."""
    latest: Explanation | None = None

    async def is_reached() -> bool:
        nonlocal latest
        latest = await read_and_explain(stage.client, key, now=stage.clock(), kind=kind)
        return is_wanted(latest)

    try:
        await stage.until(is_reached, within_s=min(stage.patience_s, within_s))
        if lasts:
            await asyncio.sleep(min(1.0, stage.long_s / 5))
            await stage.until(is_reached, within_s=5.0)
    except AssertionError as error:
        assert latest is not None
        text = format_explanation(latest, now=stage.clock())
        raise AssertionError(f"{latest.cause!r}, {latest.verdict!r}\n{text}") from error
    assert latest is not None
    return latest


_NOT_KNOWN_TO_IT: Final = frozenset({Code.NO_MANAGER, Code.NODE_LOST})
"""Causes that the object's manager cannot report: no manager runs; a node is lost (only DaemonSets read nodes)."""
_WORDS_OF: Final[Mapping[str, set[str]]] = {
    Code.REFUSED: {Code.REFUSED, Code.INVALID_SPEC, Code.SELECTOR_CHANGED, Code.SELECTING_ALL},
    Code.BROKEN_UPDATE: {Code.BROKEN_UPDATE, Code.BROKEN_UPDATE_STATE},
}
"""A code of `explain`, and all codes of the condition that have the same meaning."""


async def _condition_says_the_same(stage: Stage, kind: Kind, key: Key, explanation: Explanation) -> None:
    """Check that the object's conditions have the code of the first wait, if `explain` names a remedy for it.
    An object that is being deleted keeps its last conditions.
    """
    first = next(iter(explanation.waits), None)
    if kind.control is None or kind.control.standing is None or first is None or not first.remedy:
        return
    if explanation.cause in AT_REST or explanation.cause in _NOT_KNOWN_TO_IT:
        return
    if explanation.verdict == "terminating":
        return
    said = _WORDS_OF.get(explanation.cause, {explanation.cause})

    async def is_said() -> bool:
        document = decode(await stage.client.get(kind.resource, key.namespace, key.name))
        conditions = (document.get("status") or {}).get("conditions") or ()
        return bool(
            said & {condition.get("reason") for condition in conditions if condition["status"] == "True"}
        )

    if not await is_said():
        await stage.until(
            is_said, what=f"{explanation.cause} as a condition's reason"
        )  # the status is written after the plan


# ── refusals by real API servers ─────────────────────────────────────────────


async def used_up_quota(stage: Stage, *, pods: int) -> None:
    """Create a ResourceQuota that allows this many pods, and wait until API servers know it."""
    body = {"metadata": {"name": "team"}, "spec": {"hard": {"pods": str(pods)}}}
    await stage.create(body, resource=RESOURCE_QUOTAS)

    async def is_counted() -> bool:
        status = (await stage.get("team", resource=RESOURCE_QUOTAS)).get("status") or {}
        return bool(status.get("hard"))

    await stage.until(is_counted)


class Refusal:
    """Makes an API server reject a manager's new pods in one namespace, and is removed at the end."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._name = f"refuse-{stage.namespace}"
        self._made: list[tuple[Resource, str]] = []

    async def by_dead_webhook(self, configuration: Resource = VALIDATING) -> None:
        """A required webhook that does not respond."""
        hook = {
            "name": "pods.example.com",
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [_NEW_PODS],
            "namespaceSelector": self._here(),
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 1,
        }
        await self._make(configuration, webhooks=[hook])
        await self._until_refused()

    async def by_policy(self, message: str, *, updates: bool = False) -> None:
        """A ValidatingAdmissionPolicy that no new pod satisfies; with `updates`, no updated pod either."""
        operations = ["CREATE", *(["UPDATE"] if updates else [])]
        rules = {"resourceRules": [{**_NEW_PODS, "operations": operations}]}
        validations = [{"expression": "false", "message": message}]
        await self._make(
            _POLICIES,
            spec={"failurePolicy": "Fail", "matchConstraints": rules, "validations": validations},
        )
        bound = {"namespaceSelector": self._here()}
        await self._make(
            _BINDINGS,
            spec={"policyName": self._name, "validationActions": ["Deny"], "matchResources": bound},
        )
        await self._until_refused()

    async def by_rights(self) -> Transport:
        """The transport of a manager that may do everything except create and change pods."""
        read = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}
        groups = ["", "apps", "apps.kruise.io", "policy.kruise.io", "events.k8s.io"]
        written = ["*/status", "*/finalizers", "controllerrevisions", "events"]
        write = {"apiGroups": groups, "resources": written, "verbs": ["create", "patch", "update"]}
        await self._make(_ROLES, rules=[read, write])
        user = {"apiGroup": RBAC, "kind": "User", "name": self._name}
        role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": self._name}
        await self._make(_ROLE_BINDINGS, subjects=[user], roleRef=role)
        return _As(self._stage.client.transport, self._name)

    async def end(self) -> None:
        """Remove all rejections."""
        for resource, name in reversed(self._made):
            with suppress(NotFoundError):
                await self._stage.client.delete(resource, "", name)

    def _here(self) -> Object:
        return {"matchLabels": {"kubernetes.io/metadata.name": self._stage.namespace}}

    async def _make(self, resource: Resource, **fields: Any) -> None:
        self._made.append((resource, self._name))
        body = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": self._name},
            **fields,
        }
        with suppress(AlreadyExistsError):
            await self._stage.client.create(resource, "", body)

    async def _until_refused(self) -> None:
        """Wait until API servers have loaded the new rules."""
        pod = {
            "metadata": {"name": "try"},
            "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
        }

        async def is_refused() -> bool:
            try:
                await self._stage.client.create(PODS, self._stage.namespace, pod, dry_run=True)
            except ApiError:
                return True
            return False

        await self._stage.until(is_refused)


_NEW_PODS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}


class _As(WrappedTransport):
    """Requests in the name of another user, as with `kubectl --as`. The stage closes the inner transport."""

    def __init__(self, inner: Transport, user: str) -> None:
        super().__init__(inner)
        self._user = {"Impersonate-User": user}

    async def request(self, request: Request, /) -> Response:
        return await self._inner.request(self._as_user(request))

    def stream(self, request: Request, /) -> Any:
        return self._inner.stream(self._as_user(request))

    def _as_user(self, request: Request) -> Request:
        return msgspec.structs.replace(request, headers={**request.headers, **self._user})

    async def close(self) -> None:
        """Close nothing."""
