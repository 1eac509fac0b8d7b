"""Children of an operator: events that enqueue their owner, the end of the owner, and the writes that they need."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest

from pykruise.kube.documents import encode
from pykruise.kube.resources import CONFIG_MAPS, DEPLOYMENTS, SECRETS, Resource
from pykruise.operators import Child, Desired, Observed, operator
from pykruise.operators.children import build_child_document, patch_of
from pykruise.runtime.actions import Patch, patch_object
from pykruise.runtime.objects import DocumentView, Seen, control_of, project_document
from pykruise.runtime.operator import Operator, Work
from pykruise.runtime.plan import Chain, Plan, Stage, Step
from pykruise.testing.sandbox import Sandbox

SITES: Final = Resource("example.com", "v1", "sites", "Site")
TEAMS: Final = Resource("example.com", "v1", "teams", "Team", namespaced=False)


def definition_of(resource: Resource) -> dict[str, Any]:
    """Return a CRD whose objects may have any spec and status."""
    any_fields = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {
            "openAPIV3Schema": {"type": "object", "properties": {"spec": any_fields, "status": any_fields}}
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": {"kind": resource.kind, "plural": resource.plural},
            "versions": [version],
        },
    }


def make_object(resource: Resource, name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def start(sandbox: Sandbox, *work: Work) -> None:
    """Serve the kinds of the works, and start one operator for all of them."""
    for resource in dict.fromkeys(item.resource for item in work):
        sandbox.apply(definition_of(resource))
    sandbox.start(Operator(sandbox.client, work).run())


def observe(document: dict[str, Any], *owned: DocumentView) -> Observed:
    """Return the snapshot of a stored object that owns these ConfigMaps."""
    metadata = {"uid": "1", "resourceVersion": "1", "namespace": "default", **document["metadata"]}
    view = project_document(encode({**document, "metadata": metadata}))
    return Observed(object=view, owned={CONFIG_MAPS: owned})


def make_child(name: str, **annotations: str) -> DocumentView:
    """Return a stored ConfigMap with these annotations of `pykruise.io`."""
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": name,
        "resourceVersion": "1",
        "annotations": {f"pykruise.io/{key.replace('_', '-')}": text for key, text in annotations.items()},
    }
    return project_document(encode({"metadata": metadata}))


def names_of(sandbox: Sandbox, kind: str, *, namespace: str = "default") -> Sequence[str]:
    return [item["metadata"]["name"] for item in sandbox.list(kind, namespace=namespace)]


def test_the_children_of_a_cluster_scoped_object_enqueue_it() -> None:
    # given
    def plan(_: Observed) -> Desired:
        return Desired(children=[Child(CONFIG_MAPS, "members", {"data": {"a": "b"}}, namespace="shop")])

    with Sandbox(nodes=0) as sandbox:
        start(sandbox, operator(TEAMS, plan, owns=[CONFIG_MAPS], finalizer="example.com/team"))
        sandbox.apply("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}", make_object(TEAMS, "red"))
        sandbox.until(lambda: "members" in names_of(sandbox, "configmaps", namespace="shop"))
        # when
        sandbox.delete("configmaps", "members", namespace="shop")
        # then it is created again
        sandbox.until(lambda: "members" in names_of(sandbox, "configmaps", namespace="shop"))
        # when
        sandbox.delete("teams", "red")
        # then the finalizer is removed after the child
        sandbox.until(lambda: not names_of(sandbox, "teams", namespace=""))
        assert "members" not in names_of(sandbox, "configmaps", namespace="shop")


def test_finalize_may_return_an_iterator_of_the_children_that_stay() -> None:
    # given
    def plan(_: Observed) -> Desired:
        return Desired(children=(Child(CONFIG_MAPS, name, {"data": {"x": ""}}) for name in ("a", "b")))

    def finalize(_: Observed) -> Desired:
        return Desired(children=(Child(CONFIG_MAPS, name, {"data": {"x": ""}}) for name in ("a",)))

    with Sandbox(nodes=0) as sandbox:
        work = operator(SITES, plan, owns=[CONFIG_MAPS], finalizer="example.com/site", finalize=finalize)
        start(sandbox, work)
        sandbox.apply(make_object(SITES, "hello"))
        sandbox.until(lambda: {"a", "b"} <= set(names_of(sandbox, "configmaps")))
        # when
        sandbox.delete("sites", "hello")
        # then
        sandbox.until(lambda: not names_of(sandbox, "sites"))


def test_a_plan_that_returns_a_child_twice_is_an_error() -> None:
    # given
    def plan(_: Observed) -> Desired:
        return Desired(children=[Child(CONFIG_MAPS, "a", {"data": {name: ""}}) for name in ("x", "y")])

    work = operator(SITES, plan, owns=[CONFIG_MAPS])
    # when, then
    with pytest.raises(ValueError, match="the plan for default/hello returned ConfigMap default/a twice"):
        work.control.plan(observe(make_object(SITES, "hello")))


def test_two_works_of_one_program_read_one_resource() -> None:
    # given
    def plan(_: Observed) -> Desired:
        return Desired(children=[Child(CONFIG_MAPS, "a", {"data": {"x": ""}})])

    def mark(seen: Seen) -> Plan:
        if seen.object.name != "a" or "marked" in seen.object.labels:
            return Plan()
        patch = patch_object(CONFIG_MAPS, seen.object, {"metadata": {"labels": {"marked": "true"}}})
        chain = Chain(subject="a", steps=(Step(action=patch, because="it needs the label"),))
        return Plan(stages=(Stage(purpose="mark", chains=(chain,)),))

    marker = Work(resource=CONFIG_MAPS, control=control_of(CONFIG_MAPS, mark))
    with Sandbox(nodes=0) as sandbox:
        sandbox.apply(definition_of(SITES), make_object(SITES, "hello"))
        # when
        work = [operator(SITES, plan, owns=[CONFIG_MAPS]), marker]
        sandbox.start(Operator(sandbox.client, work).run())
        # then
        sandbox.until(lambda: sandbox.get("configmaps", "a")["metadata"]["labels"] == {"marked": "true"})


def test_two_operators_of_one_object_keep_the_children_of_each_other() -> None:
    # given
    def plan_for(name: str) -> Callable[[Observed], Desired]:
        def plan(observed: Observed) -> Desired:
            wanted = observed.object.spec[name]
            return Desired(children=[Child(CONFIG_MAPS, item, {"data": {"x": ""}}) for item in wanted])

        return plan

    with Sandbox(nodes=0) as sandbox:
        start(
            sandbox, *(operator(SITES, plan_for(n), owns=[CONFIG_MAPS], name=n) for n in ("pages", "styles"))
        )
        sandbox.apply(make_object(SITES, "hello", pages=["a", "b"], styles=["c"]))
        # when
        sandbox.advance(10)
        # then
        assert {"a", "b", "c"} <= set(names_of(sandbox, "configmaps"))
        writes = [event["reason"] for event in sandbox.events("sites/hello")]
        assert set(writes) == {"Created"}
        # when
        sandbox.patch("sites", "hello", {"spec": {"pages": ["a"]}})
        sandbox.advance(10)
        # then
        assert {"a", "b", "c"} & set(names_of(sandbox, "configmaps")) == {"a", "c"}


def test_an_operator_deletes_only_children_that_it_wrote() -> None:
    # given
    work = operator(SITES, lambda _: Desired(), owns=[CONFIG_MAPS], name="pages")
    owned = (
        make_child("own", applied_fields="{}", applied_by="pages"),
        make_child("of-an-earlier-version", applied_fields="{}"),
        make_child("of-another-operator", applied_fields="{}", applied_by="styles"),
        make_child("of-another-program"),
    )
    # when
    plan = work.control.plan(observe(make_object(SITES, "hello"), *owned))
    # then
    assert [step.action.key.name for step in plan.steps] == ["own", "of-an-earlier-version"]


def test_a_finalizer_does_not_wait_for_objects_that_the_operator_did_not_write() -> None:
    # given
    work = operator(
        SITES, lambda _: Desired(), owns=[CONFIG_MAPS], name="pages", finalizer="example.com/site"
    )
    document = make_object(SITES, "hello")
    document["metadata"] |= {
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "finalizers": ["example.com/site", "example.com/other"],
    }
    other = make_child("of-another-operator", applied_fields="{}", applied_by="styles")
    # when
    (step,) = work.control.plan(observe(document, other)).steps
    # then
    assert isinstance(step.action, Patch)
    assert step.action.body == {"metadata": {"finalizers": ["example.com/other"]}}


# ── children that the API server stores in another form ──────────────────────


def list_writes(sandbox: Sandbox, owner: str) -> Sequence[str]:
    """Return the messages of the events about writes of children."""
    events = sandbox.events(owner)
    return [event["message"] for event in events if event["reason"] in ("Created", "Changed", "Deleted")]


POD_TEMPLATE: Final = {
    "metadata": {"labels": {"app": "web"}, "annotations": {}},
    "spec": {
        "hostNetwork": False,
        "containers": (
            {
                "name": "main",
                "image": "web:1",
                "env": [],
                "ports": None,
                "resources": {"requests": {"cpu": "0.5", "memory": "1024Mi"}, "limits": {}},
            },
            {"name": "side", "image": "side:1", "resources": None},
        ),
        "volumes": [{"name": "scratch", "emptyDir": {}}],
    },
}


@pytest.mark.parametrize(
    ("resource", "body"),
    [
        (SECRETS, {"stringData": {"password": "x"}, "data": {"user": "YQ=="}}),
        (CONFIG_MAPS, {"data": {}, "metadata": {"labels": {}}}),
        (
            DEPLOYMENTS,
            {
                "spec": {
                    "paused": False,
                    "replicas": 0,
                    "selector": {"matchLabels": {"app": "web"}},
                    "template": POD_TEMPLATE,
                }
            },
        ),
    ],
    ids=["Secret", "ConfigMap", "Deployment"],
)
def test_a_child_that_is_stored_in_another_form_is_written_once(
    resource: Resource, body: dict[str, Any]
) -> None:
    # given
    def plan(observed: Observed) -> Desired:
        return Desired(
            children=[Child(resource, "a", body)], status={"observedGeneration": observed.object.generation}
        )

    with Sandbox(nodes=0) as sandbox:
        start(sandbox, operator(SITES, plan, owns=[resource]))
        # when
        sandbox.apply(make_object(SITES, "hello"))
        sandbox.advance(30)
        sandbox.patch("sites", "hello", {"spec": {"x": 1}})
        sandbox.advance(30)
        # then
        assert list_writes(sandbox, "sites/hello") == [f"created {resource.kind} a"]
        assert sandbox.get("sites", "hello")["status"] == {"observedGeneration": 2}


def test_a_change_of_a_child_in_another_form_is_undone() -> None:
    # given
    def plan(observed: Observed) -> Desired:
        names = observed.object.spec["names"]
        return Desired(children=[Child(SECRETS, "a", {"stringData": dict.fromkeys(names, "x")})])

    with Sandbox(nodes=0) as sandbox:
        start(sandbox, operator(SITES, plan, owns=[SECRETS]))
        sandbox.apply(make_object(SITES, "hello", names=["user", "password"]))
        sandbox.until(lambda: sandbox.get("secrets", "a")["data"] == {"user": "eA==", "password": "eA=="})
        # when
        sandbox.patch("secrets", "a", {"data": {"password": "eQ=="}})
        # then
        sandbox.until(lambda: sandbox.get("secrets", "a")["data"] == {"user": "eA==", "password": "eA=="})
        # when
        sandbox.patch("sites", "hello", {"spec": {"names": ["user"]}})
        # then
        sandbox.until(lambda: sandbox.get("secrets", "a")["data"] == {"user": "eA=="})


def store(child: Child, **stored: Any) -> DocumentView:
    """Return the view of a child with these stored fields, and the annotations of its last write."""
    site = observe(make_object(SITES, "hello")).object
    document = build_child_document(child, SITES, site, operator="sites")
    metadata = {**document["metadata"], "uid": "2", "resourceVersion": "2"}
    return project_document(encode({**document, **stored, "metadata": metadata}))


def deployment(**container: Any) -> Child:
    spec = {"template": {"spec": {"containers": [{"name": "main", **container}]}}}
    return Child(DEPLOYMENTS, "a", {"spec": spec})


def containers_of(document: Any) -> Any:
    return document["spec"]["template"]["spec"]["containers"]


def test_values_of_built_in_kinds_are_compared_as_they_are_stored() -> None:
    # given
    wanted = {"env": [], "tty": False, "resources": {"limits": {"cpu": "0.5"}}}
    child = deployment(**wanted)
    kept = deployment(resources={"limits": {"cpu": "500m"}}, imagePullPolicy="Always").body
    changed = deployment(resources={"limits": {"cpu": "400m"}}).body
    filled = deployment(resources={"limits": {"cpu": "500m"}}, env=[{"name": "A"}], tty=True).body
    # when
    patches = [patch_of(child, store(child, **body), operator="sites") for body in (kept, changed, filled)]
    # then
    assert patches[0] is None
    assert containers_of(patches[1])[0]["resources"] == {"limits": {"cpu": "500m"}}
    assert containers_of(patches[2])[0]["env"] == []
    assert containers_of(patches[2])[0]["tty"] is False


def test_a_field_that_this_version_does_not_know_is_sent_unchanged() -> None:
    # given
    child = deployment(fieldOfTheFuture={"cpu": "0.5"}, resources={"limits": {"cpu": "0.5"}})
    same = deployment(fieldOfTheFuture={"cpu": "0.5"}, resources={"limits": {"cpu": "500m"}}).body
    other = deployment(fieldOfTheFuture={"cpu": "1"}, resources={"limits": {"cpu": "500m"}}).body
    # when
    patches = [patch_of(child, store(child, **body), operator="sites") for body in (same, other)]
    # then
    assert patches[0] is None
    assert containers_of(patches[1])[0]["fieldOfTheFuture"] == {"cpu": "0.5"}


def test_nulls_in_the_lists_of_a_custom_resource_are_no_difference() -> None:
    # given
    child = Child(SITES, "a", {"spec": {"members": [{"name": "x", "role": None}], "empty": {}}})
    kept = {"spec": {"members": [{"name": "x"}], "empty": {}}}
    changed = {"spec": {"members": [{"name": "x", "role": "owner"}]}}
    # when
    patches = [patch_of(child, store(child, **body), operator="sites") for body in (kept, changed)]
    # then
    assert patches == [None, child.body]


def test_two_works_of_one_program_need_two_names() -> None:
    def plan(_: Observed) -> Desired:
        return Desired()

    first, second = operator(SITES, plan), operator(SITES, plan)
    with Sandbox(nodes=0) as sandbox:
        with pytest.raises(ValueError, match="two works have the name 'sites': give each another name"):
            Operator(sandbox.client, [first, second])
        Operator(sandbox.client, [first, operator(SITES, plan, name="pages")])
