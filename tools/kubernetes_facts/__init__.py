"""Facts about the minors of Kubernetes, read from its own Go modules. Run: python -m tools.kubernetes_facts"""
