"""Schemas of resources: one module each for the schema, its checks, its defaults and the removal of unknown fields."""
