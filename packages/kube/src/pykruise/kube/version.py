"""The version of all distributions of this repository: they are released together."""

__all__ = ["__version__"]

__version__ = "0.1.0"
