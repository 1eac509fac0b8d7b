"""Pod admission: the chain of the steps that kinds declare (plans/pod_steps.py), their readers and their reports."""
