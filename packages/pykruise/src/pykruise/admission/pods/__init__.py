"""Pod admission: the chain of steps that kinds declare (plans/pod_steps.py), the readers of steps, and their
reports.
"""
