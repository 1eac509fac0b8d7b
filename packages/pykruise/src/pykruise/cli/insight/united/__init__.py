"""UnitedDeployments, as explain, plan and simulate see them: through to the workloads of their subsets."""
