"""pytest loads this module through the entry point of the distribution, and with it `pykruise.testing`.

The module is beside the namespace package because pytest rewrites the modules of each distribution with a plugin. In a
distribution that has only folders, pytest does not recognize the first folder as a package. Then it treats `kube`,
`testing` or `__main__` as top-level modules, and a test run with `-W error` fails if a module of that name is already
imported. PYTEST_DONT_REWRITE
"""

__all__ = ["pytest_plugins"]

pytest_plugins = ["pykruise.testing"]
