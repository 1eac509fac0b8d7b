"""The workloads, one folder a kind.

crds() ──▶ what a cluster must know     conversions() ──▶ how objects go between their versions

A kind's folder is loaded when something of it is asked for: who works on one kind does not wait for twenty.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from functools import cache
from importlib import import_module
from typing import Any, Final

import orjson

from pykruise.kube import descriptions
from pykruise.kube.conversion import Conversion, Conversions
from pykruise.kube.documents import Document, deep_copy
from pykruise.kube.resources import Resource

__all__ = ["conversions", "crds", "crds_of"]

_CRDS: Final[Mapping[str, str]] = {
    "broadcastjobs": "broadcastjob",
    "clonesets": "cloneset",
    "containerrecreaterequests": "containerrecreaterequest",
    "daemonsets": "daemonset",
    "ephemeraljobs": "ephemeraljob",
    "imagelistpulljobs": "imagelistpulljob",
    "imagepulljobs": "imagepulljob",
    "nodeimages": "nodeimage",
    "nodepodprobes": "nodepodprobe",
    "persistentpodstates": "persistentpodstate",
    "podprobemarkers": "podprobemarker",
    "podunavailablebudgets": "podunavailablebudget",
    "resourcedistributions": "resourcedistribution",
    "sidecarsets": "sidecarset",
    "statefulsets": "statefulset",
    "workloadspreads": "workloadspread",
}
"""By plural: the folder whose `crd.crd()` makes it."""

_APPS: Final = "apps.kruise.io"

_CONVERSIONS: Final[Mapping[tuple[str, str], str]] = {
    (_APPS, "AdvancedCronJob"): "advancedcronjob",
    (_APPS, "BroadcastJob"): "broadcastjob",
    (_APPS, "CloneSet"): "cloneset",
    (_APPS, "ContainerRecreateRequest"): "containerrecreaterequest",
    (_APPS, "DaemonSet"): "daemonset",
    (_APPS, "ImageListPullJob"): "imagelistpulljob",
    (_APPS, "ImagePullJob"): "imagepulljob",
    (_APPS, "NodeImage"): "nodeimage",
    (_APPS, "PersistentPodState"): "persistentpodstate",
    ("policy.kruise.io", "PodUnavailableBudget"): "podunavailablebudget",
    (_APPS, "ResourceDistribution"): "resourcedistribution",
    (_APPS, "SidecarSet"): "sidecarset",
    (_APPS, "StatefulSet"): "statefulset",
    (_APPS, "UnitedDeployment"): "uniteddeployment",
    (_APPS, "WorkloadSpread"): "workloadspread",
}
"""By group and kind: the folder whose `conversion.CONVERSION` says how."""


def crds(conversion: Mapping[str, Any] | None = None) -> list[Document]:
    """The CustomResourceDefinitions of every kind there is, by name.

    `conversion` is the stanza of that name for the kinds with two versions (kube/crds.py: `webhook_conversion`);
    without it the API server only changes the apiVersion, which loses what is called differently.
    """
    found: list[Document] = orjson.loads(_made())
    for crd in found:
        if conversion is not None and len(crd["spec"]["versions"]) > 1:
            crd["spec"]["conversion"] = deep_copy(dict(conversion))
    return found


def crds_of(resources: Iterable[Resource], *, described: bool = True) -> list[Document]:
    """Those of some kinds alone, which is sooner made than all; without descriptions, where nobody reads them,
    sooner still."""
    plurals = sorted({one.plural for one in resources})
    return [orjson.loads(_made_alone(plural, described=described)) for plural in plurals]


@cache
def _made_alone(plural: str, *, described: bool) -> bytes:
    with nullcontext() if described else descriptions.left_out():
        return orjson.dumps(_crd(plural))


def _crd(plural: str) -> Document:
    made: Document = import_module(f"{__name__}.{_CRDS[plural]}.crd").crd()
    return made


@cache
def _made() -> bytes:
    """As JSON, so that every caller gets documents of its own for little."""
    from pykruise.kinds.advancedcronjob.crd import crd as advanced_cron_job_crd
    from pykruise.kinds.broadcastjob.types import BroadcastJobSpec
    from pykruise.kinds.cloneset.types import CloneSetSpec
    from pykruise.kinds.imagelistpulljob.types import ImageListPullJobSpec
    from pykruise.kinds.statefulset.types import StatefulSetSpec
    from pykruise.kinds.uniteddeployment.crd import crd as united_deployment_crd
    from pykruise.kube.crds import structural_schema

    found = [_crd(plural) for plural in _CRDS]
    # These have specs of other kinds in them; kinds do not know each other, so their schemas are handed over.
    found += [
        advanced_cron_job_crd(
            broadcast_job_spec=structural_schema(BroadcastJobSpec),
            image_list_pull_job_spec=structural_schema(ImageListPullJobSpec),
        ),
        united_deployment_crd(
            clone_set_spec=structural_schema(CloneSetSpec),
            stateful_set_spec=structural_schema(StatefulSetSpec),
        ),
    ]
    return orjson.dumps(sorted(found, key=lambda crd: str(crd["metadata"]["name"])))


def conversions() -> Conversions:
    """How the objects of every kind with two versions are converted, by group and kind."""
    return _TABLE


class _Table(Mapping[tuple[str, str], Conversion]):
    """All of them; what one is not asked for is not loaded."""

    def __getitem__(self, key: tuple[str, str]) -> Conversion:
        return _conversion(_CONVERSIONS[key])

    def __contains__(self, key: object) -> bool:
        return key in _CONVERSIONS

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(_CONVERSIONS)

    def __len__(self) -> int:
        return len(_CONVERSIONS)


@cache
def _conversion(folder: str) -> Conversion:
    found: Conversion = import_module(f"{__name__}.{folder}.conversion").CONVERSION
    return found


_TABLE: Final = _Table()
