"""Mirrors of resources: list, watch, own writes."""
