"""An object with which checks try admission and conversion, always as a dry run."""

from pykruise.kube.documents import Document
from pykruise.kube.resources import Resource


def make_trial_cloneset(resource: Resource) -> Document:
    """Return a CloneSet with no pods."""
    labels = {"pykruise.io/doctor": "trial"}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"generateName": "pykruise-doctor-"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "none"}]},
            },
        },
    }
