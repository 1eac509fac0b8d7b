"""What `plan`, `explain` and `simulate` share: looking at a workload, and letting time run in a copy of it."""
