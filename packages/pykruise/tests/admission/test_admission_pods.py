"""Pod admission: the steps that change a new pod, their order, and their changes."""

from typing import Any

import msgspec
import orjson
import pytest

from pykruise.admission.pods import chain
from pykruise.admission.pods.chain import NamedStep
from pykruise.kinds.gates import Gates
from pykruise.kube.admission import ALLOWED, AdmissionAnswer, AdmissionRequest, Reviewer
from pykruise.kube.documents import Document, deep_copy
from pykruise.kube.errors import ErrorStatus
from pykruise.kube.resources import PODS
from pykruise.kube.values.cel import ALWAYS, Interests, LabelSelection
from pykruise.kube.values.selectors import EVERYTHING, parse_selector
from pykruise.plans.pod_steps import PodStep, StepError
from pykruise.pods.view.owners import OF_KRUISE_WORKLOAD
from support.pod_chains import chain_of
from support.reviews import at_once, request

KRUISE = "apps.kruise.io/v1beta1"
ORDER = "apps.kruise.io/container-launch-priority"
LIVENESS = "apps.kruise.io/using-enhanced-liveness"
PROBES = "apps.kruise.io/container-probe-context"


def pod(
    *names: str,
    owner: tuple[str, str] | None = None,
    priorities: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    metadata: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A pod with one container per name (default: one container)."""
    result: dict[str, Any] = {"name": "web-x", "annotations": annotations or {}, **(metadata or {})}
    if owner is not None:
        api_version, kind = owner
        reference = {"apiVersion": api_version, "kind": kind, "name": "web", "uid": "u", "controller": True}
        result["ownerReferences"] = [reference]
    containers: list[dict[str, Any]] = [{"name": name, "image": "nginx"} for name in names or ("main",)]
    for container in containers:
        value = (priorities or {}).get(container["name"])
        if value is not None:
            container["env"] = [{"name": "KRUISE_CONTAINER_PRIORITY", "value": value}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": result,
        "spec": {"containers": containers, **spec},
    }


def answer(doc: dict[str, Any] | None, gates: Gates | None = None, **asked: Any) -> AdmissionAnswer:
    steps = chain_of(gates).changing
    before = deep_copy(doc)
    admission_answer = at_once(
        chain.build_mutating_review(steps),
        request(PODS, doc, operation=asked.pop("operation", "CREATE"), **asked),
    )
    assert doc == before, "what came in is not changed"
    return admission_answer


def changed(doc: dict[str, Any], gates: Gates | None = None) -> Document:
    result = answer(doc, gates).object
    assert result is not None
    return result


def barriers(doc: Document) -> list[dict[str, str]]:
    refs = [container["env"][-1] for container in doc["spec"]["containers"]]
    assert {ref["name"] for ref in refs} == {"KRUISE_CONTAINER_BARRIER"}
    return [ref["valueFrom"]["configMapKeyRef"] for ref in refs]


# ── readiness gate ───────────────────────────────────────────────────────────


def test_a_pod_of_a_kruise_workload_gets_the_readiness_gate_once() -> None:
    """admission case 17"""
    result = changed(pod(owner=(KRUISE, "CloneSet"), readinessGates=[{"conditionType": "mine"}]))
    assert result["spec"]["readinessGates"] == [
        {"conditionType": "mine"},
        {"conditionType": "KruisePodReady"},
    ]
    listed = pod(owner=(KRUISE, "CloneSet"), readinessGates=[{"conditionType": "KruisePodReady"}])
    assert answer(listed) == ALLOWED


@pytest.mark.parametrize(
    "owner", [None, ("apps/v1", "ReplicaSet"), ("apps.kruise.io.example/v1", "CloneSet"), ("v1", "Node")]
)
def test_other_pods_get_no_readiness_gate(owner: tuple[str, str] | None) -> None:
    """admission case 18; pitfall 8; inplace-update case 55"""
    assert answer(pod(owner=owner)) == ALLOWED
    for_all = Gates.of(KruisePodReadinessGate=True)
    assert changed(pod(owner=owner), for_all)["spec"]["readinessGates"] == [
        {"conditionType": "KruisePodReady"}
    ]


def test_an_owner_that_does_not_control_the_pod_does_not_count() -> None:
    doc = pod(owner=(KRUISE, "CloneSet"))
    del doc["metadata"]["ownerReferences"][0]["controller"]
    assert answer(doc) == ALLOWED


# ── launch priority ──────────────────────────────────────────────────────────


def test_ordered_containers_wait_for_keys_that_count_down() -> None:
    """admission case 20; inplace-update case 57"""
    doc = pod("a", "b", "c", annotations={ORDER: "Ordered"}, priorities={"a": "nonsense"})
    assert barriers(changed(doc)) == [
        {"name": "web-x-barrier", "key": "p_0"},
        {"name": "web-x-barrier", "key": "p_-1"},
        {"name": "web-x-barrier", "key": "p_-2"},
    ]


def test_a_pod_with_a_generated_name_gets_it_together_with_its_barriers() -> None:
    """admission case 21; inplace-update case 61"""
    doc = pod("a", "b", priorities={"a": "1"}, metadata={"name": "", "generateName": "web-"})
    result = changed(doc)
    name = result["metadata"]["name"]
    assert name.startswith("web-")
    assert len(name) == len("web-") + 5
    assert set(name[4:]) <= set("bcdfghjklmnpqrstvwxz2456789")
    assert barriers(result) == [{"name": f"{name}-barrier", "key": key} for key in ("p_1", "p_0")]
    long = changed(pod("a", "b", priorities={"a": "1"}, metadata={"name": None, "generateName": "x" * 80}))
    assert len(long["metadata"]["name"]) == 63


@pytest.mark.parametrize("value", ["high", "", "1.5", "١", "0x1", " 1", "9" * 30, "--1"])
def test_a_priority_that_is_not_an_integer_is_refused_with_500(value: str) -> None:
    """admission case 22; inplace-update case 59"""
    refusal = answer(pod("a", "b", priorities={"b": value})).refusal
    assert refusal is not None
    assert refusal.code == 500
    assert "spec.containers[1].env" in refusal.message
    assert repr(value) in refusal.message


@pytest.mark.parametrize("priorities", [{"a": "5", "b": "5"}, {"a": "0"}, {"a": "+0", "b": "-0"}, {}])
def test_equal_priorities_need_no_barrier(priorities: dict[str, str]) -> None:
    """admission case 23; inplace-update case 58"""
    assert answer(pod("a", "b", priorities=priorities)) == ALLOWED


def test_a_single_container_has_nothing_to_wait_for() -> None:
    """inplace-update case 60"""
    assert answer(pod("a", annotations={ORDER: "Ordered"}, initContainers=[{"name": "i"}])) == ALLOWED


def test_signs_count_and_the_last_of_several_values_too() -> None:
    doc = pod("a", "b", "c", priorities={"a": "+7", "b": "-3"})
    doc["spec"]["containers"][2]["env"] = [
        {"name": "KRUISE_CONTAINER_PRIORITY", "value": "9"},
        {"name": "KRUISE_CONTAINER_PRIORITY", "value": "2"},
    ]
    assert [barrier["key"] for barrier in barriers(changed(doc))] == ["p_7", "p_-3", "p_2"]


def test_a_container_that_has_its_barrier_gets_no_second_one() -> None:
    once = changed(pod("a", "b", annotations={ORDER: "Ordered"}))
    assert answer(once) == ALLOWED


class Sidecar:
    """A step that injects a container, as SidecarSet does."""

    def build_match_condition(self, interests: Interests) -> str:
        return ALWAYS

    async def change(self, pod: Document, request: AdmissionRequest) -> Document | None:
        containers = [*pod["spec"]["containers"], {"name": "sidecar", "image": "envoy"}]
        return {**pod, "spec": {**pod["spec"], "containers": containers}}


def test_injected_containers_take_part_in_the_order() -> None:
    """admission case 24"""
    # given a step between the gate and the barriers
    gate, *later = chain_of().changing
    review = chain.build_mutating_review([gate, NamedStep("sidecar", Sidecar()), *later])
    # when
    result = at_once(review, request(PODS, pod("app", annotations={ORDER: "Ordered"}))).object
    # then
    assert result is not None
    assert [barrier["key"] for barrier in barriers(result)] == ["p_0", "p_-1"]


# ── enhanced liveness ────────────────────────────────────────────────────────


def test_liveness_probes_move_to_the_annotation_in_their_order() -> None:
    """admission case 29"""
    # given
    doc = pod("a", "b", "c", owner=(KRUISE, "CloneSet"), annotations={LIVENESS: "true", "mine": "x"})
    probes = [{"httpGet": {"port": 80}}, {"exec": {"command": ["true"]}, "periodSeconds": 3}]
    doc["spec"]["containers"][0]["livenessProbe"] = probes[0]
    doc["spec"]["containers"][2]["livenessProbe"] = probes[1]
    # when
    result = changed(doc, Gates.of(EnhancedLivenessProbe=True))
    # then
    assert all("livenessProbe" not in container for container in result["spec"]["containers"])
    assert result["metadata"]["annotations"]["mine"] == "x"
    assert orjson.loads(result["metadata"]["annotations"][PROBES]) == [
        {"name": "a", "livenessProbe": probes[0]},
        {"name": "c", "livenessProbe": probes[1]},
    ]


@pytest.mark.parametrize(
    ("owner", "value", "gate"),
    [
        (("apps/v1", "ReplicaSet"), "true", True),
        ((KRUISE, "CloneSet"), "True", True),
        ((KRUISE, "CloneSet"), "true", False),
    ],
)
def test_probes_stay_where_they_are_otherwise(owner: tuple[str, str], value: str, gate: bool) -> None:
    """admission case 30"""
    doc = pod("a", owner=owner, annotations={LIVENESS: value})
    doc["spec"]["containers"][0]["livenessProbe"] = {"httpGet": {"port": 80}}
    result = answer(doc, Gates.of(EnhancedLivenessProbe=gate)).object or doc
    assert result["spec"]["containers"] == doc["spec"]["containers"]


# ── the chain ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("operation", "subresource"),
    [("UPDATE", ""), ("DELETE", ""), ("CREATE", "eviction"), ("CREATE", "binding")],
)
def test_only_new_pods_are_changed(operation: str, subresource: str) -> None:
    doc = pod(owner=(KRUISE, "CloneSet"))
    assert answer(doc, operation=operation, subresource=subresource) == ALLOWED


class Stumbling:
    """A step that raises TypeError for every document except one with an empty container."""

    def build_match_condition(self, _: Interests) -> str:
        return ALWAYS

    async def change(self, pod: Document, request: AdmissionRequest) -> Document | None:
        if (pod.get("spec") or {}).get("containers") == [{}]:
            return None
        raise TypeError("no pod")


def stumbled(doc: dict[str, Any] | None) -> AdmissionAnswer:
    return by_step(Stumbling(), doc)


def by_step(step: PodStep, doc: dict[str, Any] | None) -> AdmissionAnswer:
    return at_once(
        chain.build_mutating_review([NamedStep("step", step)]), request(PODS, doc, operation="CREATE")
    )


@pytest.mark.parametrize(
    "doc",
    [
        None,
        {"metadata": []},
        {"metadata": {"labels": {"a": 1}}},
        {"metadata": {"ownerReferences": [{"controller": "yes"}]}},
        {"spec": {"containers": {}}},
        {"spec": {"containers": [{"env": [{"name": 1}]}]}},
        {"spec": {"readinessGates": [3]}},
        {"spec": {"tolerations": [{"tolerationSeconds": "1"}]}},
    ],
)
def test_a_body_that_is_not_a_pod_is_a_bad_request(doc: dict[str, Any] | None) -> None:
    refusal = stumbled(doc).refusal
    assert refusal is not None
    assert refusal.code == 400


def test_a_failing_step_reviews_the_pod_again_only_with_null_items() -> None:
    with pytest.raises(TypeError):
        stumbled(pod())
    assert stumbled({"spec": {"containers": [None]}}) == ALLOWED


@pytest.mark.parametrize(
    "doc",
    [
        {},
        {"metadata": None, "spec": None},
        {"metadata": {}, "spec": {"containers": None}},
        {"metadata": {"annotations": {ORDER: "Ordered"}}, "spec": {"containers": []}},
    ],
)
def test_a_pod_without_name_namespace_or_owner_passes(doc: dict[str, Any]) -> None:
    """pitfall 7"""
    assert answer(doc) == ALLOWED


def test_a_step_without_a_change_produces_no_patch() -> None:
    """pitfall 19"""

    class Same:
        def build_match_condition(self, interests: Interests) -> str:
            return ALWAYS

        async def change(self, pod: Document, request: AdmissionRequest) -> Document | None:
            return deep_copy(pod)  # type: ignore[no-any-return]

    assert at_once(chain.build_mutating_review([NamedStep("same", Same())]), request(PODS, pod())) == ALLOWED


def test_steps_have_the_order_of_openkruise_and_run_only_with_their_gates() -> None:
    """admission, pod webhooks"""
    gates = (
        *("WorkloadSpread", "PodUnavailableBudgetDeleteGate", "EnhancedLivenessProbe"),
        "EnablePodProbeMarkerOnServerless",
    )

    def names(is_on: bool) -> tuple[list[str], list[str]]:
        steps = chain_of(Gates.of(**dict.fromkeys(gates, is_on)))
        return [step.name for step in steps.changing], [step.name for step in steps.judging]

    assert names(is_on=True) == (
        [
            "readiness-gate",
            "workloadspread",
            "sidecarset",
            "container-launch-priority",
            "podunavailablebudget",
            "persistentpodstate",
            "enhanced-liveness",
            "podprobemarker",
        ],
        ["workloadspread", "podunavailablebudget"],
    )
    assert names(is_on=False) == (
        ["readiness-gate", "sidecarset", "container-launch-priority", "persistentpodstate"],
        [],
    )


def asked_about(interests: Interests, **gates: bool) -> list[str]:
    steps = chain_of(Gates.of(**gates)).changing
    return [match_condition.expression for match_condition in chain.condition_of(steps, interests)]


NO_INTERESTS: Interests = {"SidecarSet": (), "WorkloadSpread": (), "PodUnavailableBudget": ()}


def test_api_servers_review_the_pods_that_some_step_selects() -> None:
    [both] = asked_about(NO_INTERESTS)
    assert 'o.apiVersion.startsWith("apps.kruise.io/")' in both
    assert "KRUISE_CONTAINER_PRIORITY" in both
    assert 'g.conditionType == "KruisePodReady"' in both, "not about pods that come with the gate"
    [with_liveness] = asked_about(NO_INTERESTS, EnhancedLivenessProbe=True)
    assert 'annotations["apps.kruise.io/using-enhanced-liveness"] == "true"' in with_liveness
    [for_all] = asked_about(NO_INTERESTS, KruisePodReadinessGate=True)
    assert 'g.conditionType == "KruisePodReady"' in for_all
    assert OF_KRUISE_WORKLOAD not in for_all


def test_api_servers_review_the_pods_that_sidecarsets_and_workloadspreads_select() -> None:
    # given
    [without_interests] = asked_about(NO_INTERESTS)
    web = LabelSelection(selector=parse_selector({"matchLabels": {"app": "web"}}))
    shop = LabelSelection(selector=EVERYTHING, namespaces=("shop",))
    # then by the labels of a SidecarSet, and by the namespace of a WorkloadSpread
    [meant] = asked_about({"SidecarSet": [web], "WorkloadSpread": (), "PodUnavailableBudget": ()})
    assert OF_KRUISE_WORKLOAD in meant
    assert 'object.metadata.labels["app"] in ["web"]' in meant
    [tied] = asked_about({"SidecarSet": (), "WorkloadSpread": (), "PodUnavailableBudget": [web]})
    assert 'object.metadata.labels["app"] in ["web"]' in tied
    [spread] = asked_about({"SidecarSet": (), "WorkloadSpread": [shop], "PodUnavailableBudget": ()})
    assert 'request.namespace in ["shop"]' in spread
    assert asked_about(
        {"SidecarSet": (), "WorkloadSpread": [shop], "PodUnavailableBudget": ()}, WorkloadSpread=False
    ) == [without_interests]
    # and with the gate for them, also the pods that a PodProbeMarker selects
    [probed] = asked_about({**NO_INTERESTS, "PodProbeMarker": [web]}, EnablePodProbeMarkerOnServerless=True)
    assert 'object.metadata.labels["app"] in ["web"]' in probed
    assert asked_about({**NO_INTERESTS, "PodProbeMarker": [web]}) == [without_interests]
    # and all pods while the selections are unknown
    assert asked_about({}) == []
    assert asked_about({"WorkloadSpread": (), "PodUnavailableBudget": ()}) == []


def test_evictions_are_reviewed_in_namespaces_with_workloadspreads_and_for_noted_pods() -> None:
    def asked(interests: Interests) -> str:
        [condition] = chain.condition_of(chain_of().judging, interests)
        return condition.expression

    noted = '"apps.kruise.io/matched-workloadspread" in oldObject.metadata.annotations'
    assert noted in asked(NO_INTERESTS)
    assert "CREATE" not in asked(NO_INTERESTS)
    shop = asked(
        {
            "WorkloadSpread": [LabelSelection(selector=EVERYTHING, namespaces=("shop",))],
            "PodUnavailableBudget": (),
        }
    )
    assert noted in shop
    assert '(request.namespace in ["shop"]) && (request.operation == "CREATE")' in shop
    assert 'request.operation == "CREATE"' in asked({})


# ── judging ──────────────────────────────────────────────────────────────────


class Judge:
    """A step with a fixed verdict."""

    def build_match_condition(self, interests: Interests) -> str:
        return ALWAYS

    def __init__(self, verdict: ErrorStatus | Exception | None = None) -> None:
        self.seen: list[str] = []
        self._verdict = verdict

    async def judge(self, request: AdmissionRequest) -> ErrorStatus | None:
        self.seen.append(f"{request.operation} {request.subresource}".strip())
        if isinstance(self._verdict, Exception):
            raise self._verdict
        return self._verdict


def review_by(*judges: Judge) -> Reviewer:
    """The review of `/validate-pod` with these steps."""
    return chain.build_judging_review([NamedStep("judge", judge) for judge in judges])


def test_judges_see_updates_resizes_deletions_and_evictions() -> None:
    """pitfall 11"""
    judge = Judge()
    review = review_by(judge)
    old = pod()
    for asked in (
        request(PODS, old, old=old),
        request(PODS, old, old=old, subresource="resize"),
        request(PODS, None, old=old),
        request(PODS, {"metadata": {"name": "x"}}, operation="CREATE", subresource="eviction"),
        request(PODS, old, old=old, subresource="status"),
        request(PODS, old, operation="CREATE"),
        request(PODS, {}, operation="CREATE", subresource="binding"),
    ):
        assert at_once(review, asked) == ALLOWED
    assert judge.seen == ["UPDATE", "UPDATE resize", "DELETE", "CREATE eviction"]


def test_a_deletion_without_the_old_object_is_allowed() -> None:
    """admission case 32"""
    judge = Judge(ErrorStatus(code=403))
    assert at_once(review_by(judge), request(PODS, None)) == ALLOWED
    assert judge.seen == []


def test_updates_of_pods_are_allowed_without_reading_budgets_while_their_gate_is_off() -> None:
    """admission case 33"""
    review = chain.build_judging_review(chain_of().judging)
    assert at_once(review, request(PODS, pod(), old=pod())) == ALLOWED


def test_the_first_refusal_counts_and_an_error_is_a_bad_request() -> None:
    no, never = ErrorStatus(code=429, message="budget"), Judge()
    asked = request(PODS, None, old=pod())
    assert at_once(review_by(Judge(), Judge(no), never), asked).refusal == no
    assert never.seen == []
    refusal = at_once(review_by(Judge(StepError("no cache"))), asked).refusal
    assert refusal is not None
    assert (refusal.code, refusal.message) == (400, "no cache")


@pytest.mark.parametrize("plural", ["podtemplates", "nodes"])
def test_only_pods_are_mutated_and_reviewed(plural: str) -> None:
    other = msgspec.structs.replace(PODS, plural=plural)
    judge = Judge(ErrorStatus(code=403))
    assert at_once(review_by(judge), request(other, None, old=pod())) == ALLOWED
    steps = chain_of().changing
    assert (
        at_once(chain.build_mutating_review(steps), request(other, pod(owner=(KRUISE, "CloneSet"))))
        == ALLOWED
    )


class Failing:
    """A step that fails."""

    def __init__(self, error: StepError) -> None:
        self._error = error

    def build_match_condition(self, interests: Interests) -> str:
        return ALWAYS

    async def change(self, pod: Document, request: AdmissionRequest) -> Document | None:
        raise self._error


@pytest.mark.parametrize(
    ("code", "changing", "judging"),
    [
        (500, (500, "InternalError"), (400, "BadRequest")),
        (403, (403, "InternalError"), (400, "BadRequest")),
        (429, (429, "TooManyRequests"), (429, "TooManyRequests")),
    ],
)
def test_a_failing_step_refuses_the_request_with_a_retryable_code_or_not(
    code: int, changing: tuple[int, str], judging: tuple[int, str]
) -> None:
    error = StepError("no cache", code=code)
    steps = [NamedStep("failing", Failing(error)), NamedStep("sidecar", Sidecar())]
    result = (
        at_once(chain.build_mutating_review(steps), request(PODS, pod())),
        at_once(review_by(Judge(error), Judge()), request(PODS, None, old=pod())),
    )
    refusals = [
        admission_answer.refusal for admission_answer in result if admission_answer.refusal is not None
    ]
    assert [(refusal.code, refusal.reason) for refusal in refusals] == [changing, judging]
    assert {(refusal.status, refusal.message) for refusal in refusals} == {("Failure", "no cache")}


@pytest.mark.parametrize(("code", "answered"), [(500, 400), (403, 403), (429, 429)])
def test_an_invalid_pod_is_reported_in_place_of_an_internal_failure_only(code: int, answered: int) -> None:
    wrong = {"metadata": {"labels": {"a": 1}}}
    refusal = by_step(Failing(StepError("no cache", code=code)), wrong).refusal
    assert refusal is not None
    assert refusal.code == answered


def test_a_pod_is_validated_as_a_whole_only_after_a_failure() -> None:
    """API servers send no unreadable pod"""
    assert answer({"metadata": {"labels": {"a": 1}}}) == ALLOWED
