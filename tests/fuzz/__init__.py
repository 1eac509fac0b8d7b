"""Objects of all kinds with wrong values, in a cluster: does the manager come to rest?

`make fuzz OBJECTS=2000`; test_fuzz.py has a brief run.
"""
