"""Objects of all kinds with wrong values, in a cluster: the manager must come to rest.

`make fuzz OBJECTS=2000`; test_fuzz.py runs a few objects.
"""
