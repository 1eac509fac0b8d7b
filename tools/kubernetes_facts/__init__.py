"""Facts about the minor versions of Kubernetes, read from its own Go modules. Run: python -m tools.kubernetes_facts"""
