"""pytest loads this module through the entry point of the distribution, and with it `pykruise.fixtures`.

It stands beside the namespace package because pytest rewrites the modules of each distribution that has a plugin. A
distribution with folders alone looks to pytest like one whose first folder is no package: then `kinds`, `cli` or
`__main__` count as its modules, and a test run with `-W error` fails where one of that name is imported already.
PYTEST_DONT_REWRITE
"""

__all__ = ["pytest_plugins"]

pytest_plugins = ["pykruise.fixtures"]
