"""A whole operator: each Site gets a ConfigMap with its page. `python page_operator.py --help` lists the flags."""

from pykruise.kube.resources import CONFIG_MAPS, Resource
from pykruise.operators import Child, Desired, Observed, main, operator

SITES = Resource("example.com", "v1", "sites", "Site")


def plan(observed: Observed) -> Desired:
    """Decide: a pure function, so a test calls it with values."""
    site = observed.object
    page = Child(CONFIG_MAPS, f"{site.name}-page", {"data": {"index.html": site.spec["html"]}})
    return Desired(children=[page], status={"observedGeneration": site.generation})


WORK = operator(SITES, plan, owns=[CONFIG_MAPS], finalizer="example.com/page")

if __name__ == "__main__":
    main("page-operator", WORK)
