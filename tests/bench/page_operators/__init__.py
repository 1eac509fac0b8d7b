"""The same small operator twice: each Site owns a ConfigMap with its page, and its status has the generation."""
