"""Plugin module for pytest: the entry point of the distribution loads it, and it loads `pykruise.fixtures`.

It is next to the namespace package because pytest rewrites the modules of each distribution that has a plugin. When a
distribution has only folders, pytest does not recognize the first folder as a package. Then it treats `kinds`, `cli` or
`__main__` as top-level modules, and a test run with `-W error` fails when a module with such a name is already
imported. PYTEST_DONT_REWRITE
"""

__all__ = ["pytest_plugins"]

pytest_plugins = ["pykruise.fixtures"]
