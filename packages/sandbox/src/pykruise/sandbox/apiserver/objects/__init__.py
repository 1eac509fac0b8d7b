"""Stored objects: metadata, managed fields, storage."""
