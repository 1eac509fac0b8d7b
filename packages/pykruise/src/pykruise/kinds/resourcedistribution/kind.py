"""The ResourceDistribution kind, as the rest of the program uses it.

KIND ──▶ definitions, conversion, roles, caches, controllers, admission, doctor, explain, plan (plans/kind.py)
"""

from typing import Final

from pykruise.kinds.resourcedistribution.admission import SPOKE_RULES, build_validating_review
from pykruise.kinds.resourcedistribution.conversion import CONVERSION
from pykruise.kinds.resourcedistribution.insight import INSIGHT
from pykruise.kinds.resourcedistribution.plan import plan_distribution
from pykruise.kinds.resourcedistribution.shown import SHOWN
from pykruise.kinds.resourcedistribution.snapshot import DistributionSettings, learn, read_snapshot
from pykruise.kinds.resourcedistribution.types import RESOURCE_DISTRIBUTIONS, ResourceDistribution
from pykruise.kinds.resourcedistribution.v1alpha1 import ResourceDistributionV1Alpha1
from pykruise.kinds.resourcedistribution.validation import find_stored_errors
from pykruise.kinds.resourcedistribution.view import COPY_VIEWS, DISTRIBUTED, DISTRIBUTION_VIEWS
from pykruise.kinds.resourcedistribution.wakes import list_wakes
from pykruise.kube.rbac import READ, WRITE, make_right
from pykruise.kube.resources import CONFIG_MAPS, NAMESPACES, SECRETS
from pykruise.kube.schemas.crds import Column
from pykruise.plans.kind import Kind, make_two_versions
from pykruise.plans.review import Reviews
from pykruise.plans.stored_values import StoredSpec, add_judgement
from pykruise.plans.views import NAMESPACE_VIEWS
from pykruise.runtime.control import Control

_COLUMNS = (
    Column("TOTAL", "integer", ".status.desired"),
    Column("SUCCEED", "integer", ".status.succeeded"),
    Column("FAILED", "integer", ".status.failed"),
)


_STORED: Final = StoredSpec(errors=find_stored_errors)

KIND = Kind(
    resource=RESOURCE_DISTRIBUTIONS,
    versions=make_two_versions(ResourceDistribution, ResourceDistributionV1Alpha1, columns=_COLUMNS),
    short_names=("distributor",),
    conversion=CONVERSION,
    gates=("ResourceDistributionGate",),
    settings=DistributionSettings,
    reviews=Reviews(
        validating=lambda _, lookups: build_validating_review(lookups.trial),
        spoke=lambda *_: SPOKE_RULES,
        rights=tuple(
            make_right(
                resource,
                "create",
                in_namespace=True,
                why="ResourceDistribution: to check that a resource could be created (dry run)",
            )
            for resource in (SECRETS, CONFIG_MAPS)
        ),
    ),
    stored=_STORED,
    control=add_judgement(
        Control(
            name="resourcedistribution",
            component="resourcedistribution-controller",
            objects=DISTRIBUTION_VIEWS,
            reads=lambda _: (NAMESPACE_VIEWS, *COPY_VIEWS.values()),
            wakes=list_wakes,
            snapshot=read_snapshot,
            object_of=lambda snapshot: snapshot.distribution,
            plan=plan_distribution,
            learn=learn,
            # Changes of an object's own status do not enqueue the object, so nothing would correct an outdated status.
            is_status_shared=True,
        ),
        _STORED,
    ),
    rights=(
        make_right(RESOURCE_DISTRIBUTIONS, *READ, why="ResourceDistribution: to watch its objects"),
        make_right(
            RESOURCE_DISTRIBUTIONS,
            "patch",
            subresource="status",
            why="ResourceDistribution: to report the status of its objects",
        ),
        # The admission plugin OwnerReferencesPermissionEnforcement requires this permission for owner references with
        # blockOwnerDeletion.
        make_right(
            RESOURCE_DISTRIBUTIONS,
            "update",
            subresource="finalizers",
            why="ResourceDistribution: to set owner references with blockOwnerDeletion on copies",
        ),
        make_right(NAMESPACES, *READ, why="ResourceDistribution: to watch namespaces"),
        *(
            make_right(resource, *READ, *WRITE, why="ResourceDistribution: to read and write copies")
            for resource in DISTRIBUTED.values()
        ),
    ),
    insight=INSIGHT,
    shown=SHOWN,
)
