"""Failed writes of a plan, in the form in which the next status gets them."""

from pykruise.kube.errors import ErrorStatus, ForbiddenError
from pykruise.kube.ids import Key
from pykruise.kube.resources import PODS
from pykruise.plans.purposes import Purpose
from pykruise.runtime.actions import Create
from pykruise.runtime.execute import Failure
from pykruise.runtime.plan import Step

POD = "web-x7k2p"
"""The pod that was to be created."""

QUOTA, RAISE_QUOTA = "exceeded quota", "raise the ResourceQuota, or free resources that it counts"
"""A message of an API server, and its remedy."""


def failure(purpose: str, message: str = QUOTA) -> Failure:
    """A rejected creation of a pod for this purpose, with this message."""
    action = Create(resource=PODS, key=Key("shop", POD), body={"metadata": {"name": POD}})
    error = ForbiddenError(ErrorStatus(code=403, reason="Forbidden", message=message))
    return Failure(Purpose(purpose), POD, Step(action=action, because="too few"), error)
