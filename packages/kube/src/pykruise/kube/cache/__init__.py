"""Caches of resources: list, watch and own writes."""
