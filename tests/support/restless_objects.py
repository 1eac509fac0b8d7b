"""Objects that admission rejects. Each of them kept an earlier manager busy forever.

STORED: the error ──▶ the kind's name, a spec
"""

from typing import Any, Final

__all__ = ["STORED"]

Object = dict[str, Any]

TEMPLATE: Final = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
}
WEB: Final = {"matchLabels": {"app": "web"}}
UNREADABLE: Final = {"matchExpressions": [{"key": "a", "operator": "WAT"}]}
ALWAYS: Final = {"type": "Always"}

STORED: Final[dict[str, tuple[str, Object]]] = {
    "a list of images for nodes that no job of it can select": (
        "ImageListPullJob",
        {"images": ["a:1", "b:1", "c:1"], "selector": UNREADABLE, "completionPolicy": ALWAYS},
    ),
    "a list with an image that no job of it can read": (
        "ImageListPullJob",
        {"images": ["A B"], "completionPolicy": ALWAYS},
    ),
    "a patch that is no object": (
        "UnitedDeployment",
        {
            "selector": WEB,
            "replicas": 2,
            "template": {
                "cloneSetTemplate": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"selector": WEB, "template": TEMPLATE},
                }
            },
            "topology": {"subsets": [{"name": "a", "patch": "x"}]},
        },
    ),
    "an operator that is none": (
        "SidecarSet",
        {"selector": UNREADABLE, "containers": [{"name": "a", "image": "a:1"}]},
    ),
    "a schedule that is none": (
        "AdvancedCronJob",
        {"schedule": "WAT", "template": {"broadcastJobTemplate": {"spec": {"template": TEMPLATE}}}},
    ),
    "a probe without a name": (
        "PodProbeMarker",
        {
            "selector": WEB,
            "probes": [{"name": "", "containerName": "main", "podConditionType": "a/b", "probe": {}}],
        },
    ),
}
