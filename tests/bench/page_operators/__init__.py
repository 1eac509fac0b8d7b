"""Two implementations of one small operator: a Site owns a ConfigMap with its page, and has a status."""
