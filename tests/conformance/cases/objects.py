"""What happens to any object: create, read, replace, delete; metadata, versions and generations."""

from conformance.builders import config_map, container, deployment, pod, with_
from conformance.dsl import MERGE, based_on, case, create, delete, get, patch, post_text, put, raw

CASES = [
    case(
        "an object is created, read, replaced and deleted",
        create("configmaps", config_map("a", x="1")),
        get("configmaps/a"),
        put("configmaps/a", based_on(2, {"data": {"x": "2"}})),
        get("configmaps/a"),
        delete("configmaps/a"),
        get("configmaps/a"),
    ),
]
