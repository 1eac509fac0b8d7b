"""The operator of docs/operators.md, without a finalizer, like the operator in kopf."""

from pykruise.kube.resources import CONFIG_MAPS, Resource
from pykruise.operators import Child, Desired, Observed, main, operator

SITES = Resource("example.com", "v1", "sites", "Site")


def plan(observed: Observed) -> Desired:
    """Return the page of a Site."""
    site = observed.object
    page = Child(CONFIG_MAPS, f"{site.name}-page", {"data": {"index.html": site.spec["html"]}})
    return Desired(children=[page], status={"observedGeneration": site.generation})


WORK = operator(SITES, plan, owns=[CONFIG_MAPS])

if __name__ == "__main__":
    main("page-operator", WORK)
