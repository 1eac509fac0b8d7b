"""Lists: selectors, pages, versions, and the metadata of lists."""

from conformance.builders import config_map, crd, labelled, pod
from conformance.dsl import case, create, define, delete, forget, get

_THREE = (
    create("configmaps", labelled(config_map("a"), app="web", tier="front")),
    create("configmaps", labelled(config_map("b"), app="web")),
    create("configmaps", labelled(config_map("c"), app="db")),
)
_NAMES = (
    "code",
    "message",
    "reason",
    "items.0.metadata.name",
    "items.1.metadata.name",
    "items.2.metadata.name",
)


def _select(selector: str) -> object:
    return get("configmaps", only=_NAMES, labelSelector=selector)


def _fields(selector: str, what: str = "configmaps") -> object:
    return get(what, only=_NAMES, fieldSelector=selector)


CASES = [
    case("a list holds whole objects", *_THREE, get("configmaps"), get("secrets"), get("deployments")),
    case(
        "label selectors choose",
        *_THREE,
        *(
            _select(each)
            for each in (
                "app=web",
                "app==web",
                "app!=web",
                "tier",
                "!tier",
                "app in (web, db)",
                "app notin (web)",
                "app=web,tier=front",
                " app = web , !tier ",
                "app in (web,),tier",
                "app=",
                "none",
                "",
                "app>1",
                "app",
            )
        ),
    ),
    case(
        "label selectors that cannot be read are bad requests",
        *(
            _select(each)
            for each in (
                "app in",
                "app in (web",
                "app in ()",
                "app=web,",
                ",app",
                "=web",
                "app=we b",
                "app===web",
                "!",
                "a b",
                "app=%%",
                "x" * 64,
                "app=" + "y" * 64,
                "app>text",
                "app in web",
                "-app",
                "a/b/c=d",
            )
        ),
    ),
    case(
        "label selectors compare numbers",
        create("configmaps", labelled(config_map("a"), n="1")),
        create("configmaps", labelled(config_map("b"), n="10")),
        create("configmaps", labelled(config_map("c"), n="x")),
        _select("n>5"),
        _select("n<5"),
        _select("n>0,n<100"),
    ),
    case(
        "field selectors choose by name, and pods by more",
        *_THREE,
        _fields("metadata.name=a"),
        _fields("metadata.name!=a"),
        _fields("metadata.namespace=$ns"),
        _fields("metadata.name=a,metadata.namespace=elsewhere"),
        _fields("metadata.name==b"),
        create("pods", pod("p", restartPolicy="Never")),
        create("pods", pod("q", nodeName="n1")),
        _fields("spec.nodeName=", "pods"),
        _fields("spec.nodeName=n1", "pods"),
        _fields("status.phase=Pending", "pods"),
        _fields("status.phase!=Pending", "pods"),
        _fields("spec.restartPolicy=Never", "pods"),
        _fields("spec.nodeName!=,status.phase=Pending", "pods"),
        _fields("spec.schedulerName=default-scheduler,spec.serviceAccountName=", "pods"),
    ),
    case(
        "field selectors that cannot be read or are not known are bad requests",
        _fields("metadata.labels=a"),
        _fields("spec.nodeName=x"),
        _fields("metadata.name"),
        _fields("metadata.name>a"),
        _fields("metadata.name=a,"),
        _fields("=a"),
        _fields("spec.containers=x", "pods"),
        _fields("metadata.name=a\\b"),
        _fields("metadata.name in (a)"),
        _fields("status.phase=x", "deployments"),
        get("configmaps/a", fieldSelector="metadata.name=b"),
    ),
    case(
        "a list comes in pages",
        *_THREE,
        get("configmaps", limit="2", only=(*_NAMES, "metadata")),
        get("configmaps", only=(*_NAMES, "metadata"), limit="2", **{"continue": "${4.metadata.continue}"}),
        get("configmaps", only=(*_NAMES, "metadata"), limit="3"),
        get("configmaps", only=(*_NAMES, "metadata"), limit="0"),
        get("configmaps", only=(*_NAMES, "metadata"), limit="1", labelSelector="app=web"),
        get(
            "configmaps",
            only=(*_NAMES, "metadata"),
            limit="1",
            labelSelector="app=web",
            **{"continue": "${8.metadata.continue}"},
        ),
        get(
            "configmaps",
            only=(*_NAMES, "metadata"),
            resourceVersion="${1.metadata.resourceVersion}",
            limit="1",
            **{"continue": "${4.metadata.continue}"},
        ),
    ),
    case(
        "later pages are of the same moment as the first",
        *_THREE,
        get("configmaps", limit="1", only=(*_NAMES, "metadata")),
        delete("configmaps/b"),
        create("configmaps", config_map("d")),
        get("configmaps", only=(*_NAMES, "metadata"), limit="1", **{"continue": "${4.metadata.continue}"}),
        get("configmaps", only=(*_NAMES, "metadata"), **{"continue": "${7.metadata.continue}"}),
        get("configmaps", only=_NAMES),
    ),
    case(
        "the pages after a moment that was compacted away are gone and a new token goes on from now",
        *_THREE,
        get("configmaps", limit="1", only=(*_NAMES, "metadata")),
        delete("configmaps/a"),
        create("configmaps", config_map("d")),
        create("configmaps", config_map("e")),
        forget(),
        get("configmaps", limit="1", **{"continue": "${4.metadata.continue}"}),
        get("configmaps", limit="2", only=(*_NAMES, "metadata"), **{"continue": "${9.metadata.continue}"}),
        create("configmaps", config_map("f")),
        get("configmaps", only=(*_NAMES, "metadata"), **{"continue": "${10.metadata.continue}"}),
        get("configmaps", only=(*_NAMES, "metadata"), **{"continue": "${9.metadata.continue}"}),
        get(
            "configmaps",
            resourceVersion="${2.metadata.resourceVersion}",
            resourceVersionMatch="Exact",
        ),
        get("configmaps", resourceVersion="${2.metadata.resourceVersion}", limit="2"),
    ),
    case(
        "a list can be of a version",
        *_THREE,
        get("configmaps", only=_NAMES),  # afterwards the watch cache has all three objects
        get("configmaps", only=_NAMES, resourceVersion="0"),
        get("configmaps", only=_NAMES, resourceVersion="${2.metadata.resourceVersion}"),
        get(
            "configmaps",
            only=_NAMES,
            resourceVersion="${2.metadata.resourceVersion}",
            resourceVersionMatch="NotOlderThan",
        ),
        get(
            "configmaps",
            only=(*_NAMES, "metadata"),
            resourceVersion="${2.metadata.resourceVersion}",
            resourceVersionMatch="Exact",
        ),
        get(
            "configmaps",
            only=(*_NAMES, "metadata"),
            resourceVersion="${2.metadata.resourceVersion}",
            limit="5",
        ),
        get("configmaps/a", only=("metadata.name",), resourceVersion="0"),
        get("configmaps/a", only=("metadata.name",), resourceVersion="${3.metadata.resourceVersion}"),
    ),
    case(
        "a list over all namespaces is chosen by label",
        create("pods", labelled(pod("a"), **{"$ns": "x"})),
        create("namespaces", {"metadata": {"name": "$ns-2"}}),
        create("/api/v1/namespaces/$ns-2/pods", labelled(pod("a"), **{"$ns": "y"})),
        get(
            "/api/v1/pods",
            labelSelector="$ns",
            only=("items.0.metadata.namespace", "items.1.metadata.namespace", "items.2", "kind"),
        ),
        get(
            "/api/v1/pods",
            fieldSelector="metadata.namespace=$ns-2",
            only=("items.0.metadata.namespace", "items.1"),
        ),
    ),
    case(
        "deletecollection deletes what is chosen",
        *_THREE,
        delete("configmaps", labelSelector="app=web"),
        get("configmaps", only=_NAMES),
        delete("configmaps", labelSelector="app in"),
        delete("configmaps", {"dryRun": ["All"]}),
        delete("configmaps", fieldSelector="metadata.name=c"),
        get("configmaps", only=_NAMES),
        delete("configmaps"),
    ),
    case(
        "selectors work on custom resources",
        define(crd()),
        create(
            "widgets@v1",
            {
                "apiVersion": "$ns.example.com/v1",
                "kind": "Widget",
                "metadata": {"name": "a", "labels": {"x": "y"}},
            },
        ),
        get("widgets@v1", labelSelector="x=y", only=_NAMES),
        get("widgets@v1", labelSelector="x!=y", only=_NAMES),
        get("widgets@v1", fieldSelector="metadata.name=a", only=_NAMES),
        get("widgets@v1", fieldSelector="spec.x=a", only=_NAMES),
        get("widgets@v1", limit="1", only=("metadata",)),
    ),
]
