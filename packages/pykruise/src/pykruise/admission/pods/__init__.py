"""Pod admission: the ordered steps that change a new pod, and those that judge what happens to it.

chain.py runs them; each other module is one step.
"""
