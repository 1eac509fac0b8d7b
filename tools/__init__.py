"""Generators of pages, charts and tables: what `make docs` runs, and nothing that is installed."""
