"""UnitedDeployments in explain, plan and simulate, including the workloads of their subsets."""
