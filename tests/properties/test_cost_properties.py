"""The work of every review, conversion, plan and explanation of every kind grows with the size of users' objects, and
never with its square.

Documents are generated from the CRDs' schemas, with more and more members in all lists and maps of one depth, longer
texts or larger numbers. Work is counted line by line (support/work_meter.py), so that a few dozen members show the
cost of thousands. A kind is tested as soon as it has a CRD, a webhook, a conversion or an explanation.
"""

import asyncio
import functools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import orjson
import pytest

from support.open_definitions import open_crds
from support.schema_documents import Growth, document_of
from support.stored_objects import StoredObjects
from support.work_meter import WorkMeter

SIZES: Final = (3, 6, 12)
DEPTHS: Final = (0, 1, 2)
"""Depths of the large lists. The deepest cause most of the work of these tests, so they run only with --exhaustive."""
STEEPEST: Final = 1.6
"""Maximum ratio of the cost of an additional byte at larger sizes to that at smaller sizes. n log n: 1.2; n²: 2."""
NOTICED: Final = 8
"""Minimum number of counts above proportional growth that is reported."""

NUMBERS: Final = (200_000, 1_000_000_000)
"""Numbers above LARGEST_SET (kinds/statefulset/limits.py): no cluster has as many pods, and no plan computes them."""
DIGITS: Final = 64
"""Maximum additional cost of a line for texts with larger numbers."""

LONGEST_S: Final = 600.0
"""Time limit of a review. It is long, because a busy machine must not end a review."""

IMMUTABLE: Final = ("containerrecreaterequests",)
"""Kinds whose changes are rejected immediately, so only creations are measured."""

METER: Final = WorkMeter()

LABELS: Final = {f"key-{number}": f"a-{number}" for number in range(2 * SIZES[-1])}
"""Labels that the selectors of generated documents select, in any size."""

Document = dict[str, Any]
Make = Callable[[int], bytes]
"""A function that returns a document of a size, as JSON: each use has its own copy."""
Use = Callable[[Document], None]


class Kind:
    """One version of a kind: its documents, and all functions that read them."""

    def __init__(self, name: str, resource: Document, version: Document, uses: Mapping[str, Use]) -> None:
        self.is_stored = version["storage"]
        self.name = name
        self._resource = resource
        self._schema = version["schema"]["openAPIV3Schema"]
        self.uses = uses
        is_read = "explain" in uses or sum(name.startswith("/") for name in uses) > 1
        self.opens = self.is_stored and is_read
        """Whether pod templates and similar parts are read. Other kinds only copy them."""

    def to_document(self, growth: Growth) -> Document:
        """A document of this size."""
        result: Document = document_of(self._schema, growth)
        labels = {"app": "web"}
        metadata = {"name": "web", "uid": "u-1", "resourceVersion": "7", "generation": 2, "labels": labels}
        if self._resource["namespaced"]:
            metadata["namespace"] = "default"
        return {
            **result,
            "apiVersion": self._resource["apiVersion"],
            "kind": self._resource["kind"],
            "metadata": metadata,
        }


def kinds() -> list[Kind]:
    """Every kind in every version. Only this function knows where kinds are registered."""
    with METER.instrumented():
        from pykruise.admission.reviewers import build_reviewers
        from pykruise.admission.settings import AdmissionSettings
        from pykruise.cli.insight.known_kinds import list_known_kinds
        from pykruise.kinds import list_conversions
        from pykruise.kinds.gates import GATES, Gates
        from pykruise.kube.webhooks.reviews import ReviewDispatcher

        rules = build_reviewers(AdmissionSettings(gates=Gates.of(**dict.fromkeys(GATES, True))))
        reviews = ReviewDispatcher(rules)
        kinds: list[Kind] = []
        for crd in open_crds():
            spec, group = crd["spec"], crd["spec"]["group"]
            versions = [version["name"] for version in spec["versions"]]
            for version in spec["versions"]:
                resource = {
                    "apiVersion": f"{group}/{version['name']}",
                    "kind": spec["names"]["kind"],
                    "namespaced": spec["scope"] == "Namespaced",
                }
                uses: dict[str, Use] = {}
                for rule in rules:
                    if any(
                        spec["names"]["plural"] in resource_rule.resources for resource_rule in rule.rules
                    ):
                        uses[rule.path] = _reviewed(reviews, rule.path, spec["names"]["plural"], resource)
                for other in versions:
                    if other != version["name"] and (group, spec["names"]["kind"]) in list_conversions():
                        uses[f"to {other}"] = _converted(f"{group}/{other}")
                if version["storage"]:
                    for kind in list_known_kinds():
                        if (kind.resource.group, kind.resource.plural) == (group, spec["names"]["plural"]):
                            uses["explain"] = _explained(kind)
                            uses["new pods"] = _new_pods()
                name = f"{spec['names']['plural']}.{version['name']}"
                kinds.append(Kind(name, resource, version, uses))
        return kinds


def _reviewed(reviews: Any, path: str, plural: str, resource: Document) -> Use:
    """A review of an update of the whole document, which includes the work for a creation."""
    group, _, version = resource["apiVersion"].partition("/")

    def use(doc: Document) -> None:
        request = {
            "uid": "u",
            "operation": "CREATE" if plural in IMMUTABLE else "UPDATE",
            "kind": {"group": group, "version": version, "kind": resource["kind"]},
            "resource": {"group": group, "version": version, "resource": plural},
            "namespace": doc["metadata"].get("namespace", ""),
            "name": doc["metadata"]["name"],
            "object": doc,
            "oldObject": {**doc, "spec": dict.fromkeys(doc["spec"])},
        }
        body = orjson.dumps(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        )
        answer = orjson.loads(asyncio.run(reviews.answer(path, body, timeout_s=LONGEST_S)))["response"]
        code = answer.get("status", {}).get("code", 200)
        refused = 400 if plural == "persistentpodstates" else 422  # according to each specification
        assert code in (200, refused), answer

    return use


def _converted(wanted: str) -> Use:
    """A conversion to the version and back."""
    from pykruise.kinds import list_conversions
    from pykruise.kube.schemas.conversion import convert

    def use(doc: Document) -> None:
        convert(convert(doc, wanted, list_conversions()), doc["apiVersion"], list_conversions())

    return use


class _Cluster:
    """The reads of pod admission in a cluster with one object."""

    def __init__(self, doc: Document) -> None:
        self._doc = doc

    async def list_sidecar_sets(self) -> list[Any]:
        from pykruise.kinds.sidecarset.view import project_sidecarset

        return [project_sidecarset(orjson.dumps(self._doc))] if self._doc["kind"] == "SidecarSet" else []

    async def list_spreads(self, namespace: str) -> list[Any]:
        from pykruise.kinds.workloadspread.view import SPREAD_VIEWS

        return (
            [SPREAD_VIEWS.project(orjson.dumps(self._doc))] if self._doc["kind"] == "WorkloadSpread" else []
        )

    async def read_fresh(self, key: Any) -> Any:
        return (await self.list_spreads(""))[0]

    async def write(self, view: Any, lists: Any) -> Any:
        return view

    async def _nothing(self, *_: Any, **__: Any) -> None:
        return None

    find_newest = read_fresh
    read_controller = read_target = read = read_pod = read_whitelist = read_white_list = _nothing

    async def read_namespace_labels(self, name: str) -> Mapping[str, str]:
        return LABELS

    async def list_revisions(self, name: str) -> list[Any]:
        return []

    async def read_replicas(self, view: Any) -> int:
        return 4


def _new_pods() -> Use:
    """Admission of a pod that the object may affect."""
    from pykruise.admission.reviewers import ReviewContext, build_reviewers
    from pykruise.kube.webhooks.reviews import ReviewDispatcher
    from pykruise.plans.review import Lookups

    def use(doc: Document) -> None:
        cluster: Any = _Cluster(doc)
        lookups = Lookups(
            readers={"sidecarset": cluster, "workloadspread": cluster}, clock=lambda: 1_800_000_000.0
        )
        context = ReviewContext(lookups=lookups, rng=random.Random(1))
        reviews = ReviewDispatcher(build_reviewers(context=context))
        pod = next(pods_of(_target_of(doc), 1))
        request = {
            "uid": "u",
            "operation": "CREATE",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": "default",
            "object": pod,
        }
        body = orjson.dumps(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        )
        answer = asyncio.run(reviews.answer("/mutate-pod", body, timeout_s=LONGEST_S))
        assert orjson.loads(answer)["response"]["allowed"], answer

    return use


def _explained(known: Any) -> Use:
    """An explanation, which contains the plan of the manager."""
    from pykruise.cli.explain import read_and_explain
    from pykruise.kube.errors import KubeError
    from pykruise.kube.ids import Key

    def use(doc: Document) -> None:
        workload = doc if "targetRef" not in doc["spec"] else _target_of(doc)
        stored = {"clonesets": [workload], known.resource.plural: [doc], "pods": list(pods_of(workload))}
        client: Any = StoredObjects(stored)
        key = Key(doc["metadata"].get("namespace", ""), doc["metadata"]["name"])
        with suppress(KubeError):  # the kind of its workload is not supported
            asyncio.run(read_and_explain(client, key, now=1_800_000_000.0, kind=known))

    return use


def _target_of(doc: Document) -> Document:
    """The workload that an object refers to."""
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "main", "image": "b"}]}}
    name = (doc["spec"].get("targetRef") or {}).get("name", "web")
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "CloneSet",
        "metadata": {"name": name, "namespace": "default", "uid": "u-2"},
        "spec": {"replicas": 4, "selector": {"matchLabels": LABELS}, "template": template},
    }


def pods_of(owner: Document, count: int = 3) -> Iterator[Document]:
    """Some pods of a workload."""
    template = (owner.get("spec") or {}).get("template") or {}
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    for number in range(count):
        labels = {**((template.get("metadata") or {}).get("labels") or {}), "controller-revision-hash": "old"}
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{owner['metadata']['name']}-{number}",
                "namespace": "default",
                "uid": f"pod-{number}",
                "resourceVersion": "8",
                "labels": labels,
                "ownerReferences": [reference],
            },
            "spec": template.get("spec") or {"containers": [{"name": "a"}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        }


_WARM: Final[set[Use]] = set()
"""Uses that have already filled their caches."""


def steep_lines(use: Use, make: Make) -> dict[str, list[int]]:
    """Lines whose work grows faster than the documents, with their counts. The result of larger documents decides,
    because a line that only starts to work at some size seems to grow."""
    documents = [make(size) for size in SIZES]
    sizes = [len(document) for document in documents]
    if sizes[-1] == sizes[0]:
        return {}
    with METER.instrumented():
        if use not in _WARM:
            _WARM.add(use)
            use(orjson.loads(documents[0]))
        counts = [_count(use, document) for document in documents]
        if not (steep := _steep(counts[:3], sizes[:3])):
            return {}
        further = make(2 * SIZES[-1])
        counts.append(_count(use, further))
        sizes.append(len(further))
    confirmed = _steep(counts[1:], sizes[1:])
    return {line: [count.get(line, 0) for count in counts] for line in sorted(steep & confirmed)}


def _count(use: Use, document: bytes) -> dict[str, int]:
    """The work on a document, by line; within `METER.instrumented()`."""
    given = orjson.loads(document)
    return METER.measured(lambda: use(given))


def _measured(use: Use, document: Document) -> dict[str, int]:
    with METER.instrumented():
        return _count(use, orjson.dumps(document))


def _steep(counts: Sequence[Mapping[str, int]], sizes: Sequence[int]) -> set[str]:
    small, middle, large = counts
    share = (sizes[2] - sizes[1]) / max(sizes[1] - sizes[0], 1)
    steep: set[str] = set()
    for line, count in large.items():
        first, second = middle.get(line, 0) - small.get(line, 0), count - middle.get(line, 0)
        if second > STEEPEST * share * max(first, 0) + NOTICED + count / 16:
            steep.add(line)
    return steep


STORAGE: Final = {
    f"{crd['spec']['names']['plural']}.{version['name']}": version["storage"]
    for crd in open_crds()
    for version in crd["spec"]["versions"]
}
"""The versions of all kinds, and whether objects are stored in this version."""
STORED: Final = [name for name, is_stored in STORAGE.items() if is_stored]
"""Names of the stored versions. The other versions are measured only with --exhaustive, because their reviews convert
the object to the stored version."""

GROWTHS: Final = [
    pytest.param(
        name, part, depth, marks=[] if STORAGE[name] and depth != DEPTHS[-1] else [pytest.mark.exhaustive]
    )
    for name in STORAGE
    for part in ("spec", "status")
    for depth in DEPTHS
]


@pytest.fixture(scope="module")
def by_name() -> Mapping[str, Kind]:
    """Kinds by name, created once, because importing all instrumented modules takes seconds."""
    return {kind.name: kind for kind in kinds()}


def _fields_of() -> Any:
    from pykruise.kube.schemas.builtin_types import fields_of

    return fields_of


def assert_no_steep_line(kind: Kind, growth: Callable[[int], Growth], uses: Mapping[str, Use]) -> None:
    @functools.cache
    def make(size: int) -> bytes:
        return orjson.dumps(kind.to_document(growth(size)))

    steep = {name: steep_lines(use, make) for name, use in uses.items()}
    result = [f"{name}: {line} {counts}" for name, lines in steep.items() for line, counts in lines.items()]
    assert not result, "\n".join(result)


@pytest.mark.parametrize(("kind", "part", "depth"), GROWTHS)
def test_work_grows_with_the_members_of_lists_and_maps(
    by_name: Mapping[str, Kind], kind: str, part: str, depth: int
) -> None:
    # given
    item = by_name[kind]
    # then
    assert_no_steep_line(
        item,
        lambda size: Growth(depth=depth, size=size, part=part, opens=item.opens, fields=_fields_of()),
        item.uses,
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", STORED)
def test_work_grows_linearly_with_identical_members(by_name: Mapping[str, Kind], kind: str) -> None:
    # given
    item = by_name[kind]
    # then
    assert_no_steep_line(
        item,
        lambda size: Growth(depth=0, size=size, same=True, opens=item.opens, fields=_fields_of()),
        item.uses,
    )


@pytest.mark.parametrize("kind", STORED)
def test_work_grows_with_the_length_of_texts(by_name: Mapping[str, Kind], kind: str) -> None:
    # given
    item = by_name[kind]
    # then
    assert_no_steep_line(item, lambda size: Growth(text=24 * size, fields=_fields_of()), item.uses)


@pytest.mark.parametrize("kind", STORED)
def test_the_value_of_a_number_costs_nothing(by_name: Mapping[str, Kind], kind: str) -> None:
    # given
    item = by_name[kind]
    # then
    for name, use in item.uses.items():
        small, large = (
            _measured(use, item.to_document(Growth(number=number, fields=_fields_of()))) for number in NUMBERS
        )
        assert [line for line, count in large.items() if count > 2 * small.get(line, 0) + DIGITS] == [], name


# Small objects with many pods that have a problem.

TROUBLES: Final[Mapping[str, Document]] = {
    "cannot pull the image": {"reason": "ImagePullBackOff"},
    "cannot be scheduled": {"reason": "Unschedulable"},
    "terminate": {"deletionTimestamp": "2026-11-30T00:00:00Z"},
    "serve the old revision": {},
    "are blocked by a finalizer": {
        "deletionTimestamp": "2026-11-30T00:00:00Z",
        "finalizers": ["example.com/hold"],
    },
}
"""Problems of the pods: a description, and the fields of a pod with this problem."""
OWNERS: Final = ("clonesets", "statefulsets", "daemonsets", "broadcastjobs")


def _pods_in_trouble(owner: Document, count: int, trouble: Document) -> Iterator[Document]:
    unready = {"type": "Ready", "status": "True" if not trouble else "False"}
    for number, pod in enumerate(pods_of(owner, count)):
        scheduled = {"type": "PodScheduled", "status": "True"}
        container: Document = {"name": "main", "image": "b", "imageID": "", "ready": False, "restartCount": 0}
        node = {"nodeName": f"node-{number}"}
        if reason := trouble.get("reason"):
            container["state"] = {"waiting": {"reason": reason}}
        if trouble.get("reason") == "Unschedulable":
            message = f"0/{count} nodes are available: {count} node(s) didn't have free ports."
            scheduled = {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": message,
            }
            node = {"nodeName": f"node-{number}"} if number < count / 2 else {}
        metadata = {key: value for key, value in trouble.items() if key != "reason"}
        yield {
            **pod,
            "metadata": {**pod["metadata"], **metadata},
            "spec": {**pod["spec"], **node},
            "status": {
                "phase": "Running",
                "conditions": [unready, scheduled],
                "containerStatuses": [container],
            },
        }


def _owner_of_pods(known: Any, count: int) -> Document:
    container = {"name": "main", "image": "b", "ports": [{"containerPort": 1, "hostPort": 1}]}
    labels = {"app": "web"}
    return {
        "apiVersion": f"{known.resource.group}/{known.resource.version}",
        "kind": known.resource.kind,
        "metadata": {"name": "web", "namespace": "default", "uid": "u-1", "generation": 1},
        "spec": {
            "replicas": count,
            "parallelism": count,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            "updateStrategy": STRATEGIES.get(known.resource.plural, {}),
        },
        "status": {"observedGeneration": 1},
    }


STRATEGIES: Final[Mapping[str, Document]] = {
    "clonesets": {"rollingUpdate": {"maxSurge": "50%"}},
    "daemonsets": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "50%", "maxUnavailable": 0}},
}


ABOUT: Final[Mapping[str, Document]] = {
    "sidecarsets": {
        "selector": {"matchLabels": {"app": "web"}},
        "containers": [{"name": "main", "image": "new"}],
        "updateStrategy": {"type": "RollingUpdate"},
    },
    "podunavailablebudgets": {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": "90%"},
    "workloadspreads": {
        "targetRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"},
        "subsets": [{"name": "a", "maxReplicas": 1}, {"name": "b"}],
    },
    "persistentpodstates": {
        "targetRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "web"},
        "requiredPersistentTopology": {"keys": ["kubernetes.io/hostname"]},
    },
    "podprobemarkers": {
        "selector": {"matchLabels": {"app": "web"}},
        "probes": [
            {
                "name": "a",
                "containerName": "main",
                "podConditionType": "example.com/a",
                "probe": {"exec": {"command": ["true"]}},
            }
        ],
    },
}
"""Specs of objects that affect the pods of other objects."""


def _explained_pods(plural: str, trouble: Document) -> Use:
    """`explain` of an object with as many pods as the document has names."""
    from pykruise.cli.explain import read_and_explain
    from pykruise.cli.insight.known_kinds import list_known_kinds
    from pykruise.kube.ids import Key

    by_plural: dict[str, Any] = {kind.resource.plural: kind for kind in list_known_kinds()}
    known = by_plural[plural]
    owning = (
        plural if plural in OWNERS else "statefulsets" if plural == "persistentpodstates" else "clonesets"
    )

    def use(doc: Document) -> None:
        count = len(doc["names"])
        owner = _owner_of_pods(by_plural[owning], count)
        explained = owner
        if plural in ABOUT:
            version = f"{known.resource.group}/{known.resource.version}"
            metadata = {"name": "web", "namespace": "default", "uid": "u-3", "generation": 1}
            explained = {
                "apiVersion": version,
                "kind": known.resource.kind,
                "metadata": metadata,
                "spec": ABOUT[plural],
                "status": {"observedGeneration": 1},
            }
        nodes = [
            {
                "metadata": {
                    "name": f"node-{number}",
                    "labels": {"kubernetes.io/hostname": f"node-{number}"},
                },
                "spec": {},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            }
            for number in range(count)
        ]
        pods = list(_pods_in_trouble(owner, count, trouble))
        client: Any = StoredObjects({owning: [owner], plural: [explained], "pods": pods, "nodes": nodes})
        said = asyncio.run(read_and_explain(client, Key("default", "web"), now=1_800_000_000.0, kind=known))
        assert not {"InvalidSpec", "NoManager"} & {wait.code for wait in said.waits}, said.waits

    return use


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("plural", [*OWNERS, *ABOUT])
def test_explaining_grows_linearly_with_the_number_of_pods(plural: str, trouble: str) -> None:
    # given
    with METER.instrumented():
        use = _explained_pods(plural, TROUBLES[trouble])
    # then
    assert steep_lines(use, _names) == {}


# Inputs that schemas do not generate, but users can write. Each once took seconds or minutes.


def _strategic(field: str, directive: Document) -> Use:
    from pykruise.kube.patches import apply_strategic_merge, find_definition
    from pykruise.kube.resources import PODS

    definition = find_definition(PODS)

    def use(doc: Document) -> None:
        names = doc["names"]
        pod = {"spec": {field: [{"name": name} for name in names]}}
        patch = {
            "spec": {field: [{"name": name, **directive} for name in reversed(names)] + [{"name": "new"}]}
        }
        apply_strategic_merge(pod, patch, definition=definition)

    return use


def _scalars_deleted() -> Use:
    from pykruise.kube.patches import apply_strategic_merge

    def use(doc: Document) -> None:
        patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": doc["names"]}}
        pod = {"metadata": {"finalizers": doc["names"]}}
        apply_strategic_merge(pod, patch, definition="io.k8s.api.core.v1.Pod")

    return use


def _selected() -> Use:
    from pykruise.kube.values.selectors import parse_selector

    def use(doc: Document) -> None:
        names = doc["names"]
        expressions = [{"key": name, "operator": "DoesNotExist"} for name in names]
        expressions.append({"key": "app", "operator": "NotIn", "values": names})
        selector = parse_selector({"matchExpressions": expressions})
        assert all(selector.matches({"app": "web", "pod": name}) for name in names)

    return use


def _ordered() -> Use:
    from pykruise.pods.lifecycle.ordering import OrderTerm, scatter, sort_by_ordered_keys, sort_for_deletion
    from pykruise.pods.view.decoding import PodProjector

    def use(doc: Document) -> None:
        names = doc["names"]
        project = PodProjector()
        labels = {"all": "a"}
        pods = [
            project(orjson.dumps({"metadata": {"name": name, "uid": name, "labels": {**labels, "of": name}}}))
            for name in names
        ]
        scatter(pods, pods, [OrderTerm("of", name) for name in names])
        sort_by_ordered_keys(pods, names)
        sort_for_deletion(pods, available=lambda _: True, topology_keys=names, node_labels={"n": labels})

    return use


def _numbered() -> Use:
    from pykruise.kinds.workloadspread.ordinals import numbering_of, rank_of
    from pykruise.pods.workload.ordinals import list_wanted_ordinals, reserved_of

    def use(doc: Document) -> None:
        entries = [f"{10 * number}-{10 * number + 5}" for number, _ in enumerate(doc["names"])]
        reserved = reserved_of(entries)
        numbering = numbering_of({"spec": {"reserveOrdinals": entries}})
        for number, _ in enumerate(doc["names"]):
            assert 10 * number in reserved.ranges
            rank_of(10 * number, numbering)
        list_wanted_ordinals(start=0, replicas=len(entries), reserved=reserved)

    return use


def _masked_lines() -> Use:
    from pykruise.kube.program.logs import mask_secrets

    def use(doc: Document) -> None:
        mask_secrets("eyJ-" * len(doc["names"]))
        mask_secrets("eyJhbGciOiJI." * len(doc["names"]))

    return use


def _contradicted() -> Use:
    from pykruise.kinds import list_conversions
    from pykruise.kube.schemas.conversion import KEPT_PREFIX, convert

    def use(doc: Document) -> None:
        containers = [{"name": name, "image": "new"} for name in doc["names"]]
        kept = [{"name": name, "image": "old"} for name in doc["names"]]
        annotation = orjson.dumps({"spec": {"template": {"spec": {"containers": kept}}}}).decode()
        written = {
            "apiVersion": "apps.kruise.io/v1alpha1",
            "kind": "CloneSet",
            "metadata": {"name": "web", "annotations": {f"{KEPT_PREFIX}v1beta1": annotation}},
            "spec": {"template": {"spec": {"containers": containers}}},
        }
        result = convert(written, "apps.kruise.io/v1beta1", list_conversions())
        assert result["spec"]["template"]["spec"]["containers"] == containers

    return use


FOUND_ONCE: Final[Mapping[str, Callable[[], Use]]] = {
    "containers merged": lambda: _strategic("containers", {"image": "b"}),
    "containers deleted": lambda: _strategic("containers", {"$patch": "delete"}),
    "volumes merged": lambda: _strategic("volumes", {"emptyDir": {}}),
    "scalars deleted": _scalars_deleted,
    "selectors over pods": _selected,
    "orders of pods": _ordered,
    "reserved ordinals": _numbered,
    "log lines": _masked_lines,
    "kept fields that contradict": _contradicted,
}


@pytest.mark.parametrize("name", FOUND_ONCE)
def test_formerly_slow_functions_grow_linearly_with_their_input(name: str) -> None:
    # given
    with METER.instrumented():
        use = FOUND_ONCE[name]()
    # then
    assert steep_lines(use, _names) == {}


def _names(size: int) -> bytes:
    return orjson.dumps({"names": [f"name-{number:04}" for number in range(8 * size)]})


def test_the_meter_detects_work_that_no_call_shows() -> None:
    """The meter detects such a line. If it never did, the tests above would always pass."""

    # given a function that counts names one by one
    with METER.instrumented():
        from pykruise.kube.documents import is_same

    def use(doc: Document) -> None:
        for name in doc["names"]:
            is_same([name] * len(doc["names"]), [name] * len(doc["names"]))

    # then
    assert steep_lines(use, lambda size: orjson.dumps({"names": ["a"] * size}))
