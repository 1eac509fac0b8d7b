"""Common parts of `plan`, `explain` and `simulate`: reading a workload, and simulating time in a copy of it."""
