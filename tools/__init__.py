"""Generators of pages, charts and tables. `make docs` runs them; none of them is installed."""
