"""Mutations made by a tool: small changes of the files that decide, each of which some test has to notice."""
