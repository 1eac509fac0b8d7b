"""Common parts of `plan`, `explain` and `simulate`: reading a workload, and simulating a copy of it in virtual time."""
