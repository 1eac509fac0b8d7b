"""Built-in admission: quotas, limits, service accounts, and the order of reviewers."""
