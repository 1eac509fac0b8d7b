"""Caches of resources: lists, watches and the writes of this process."""
