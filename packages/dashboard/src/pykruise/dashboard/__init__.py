"""The dashboard: a web page that shows rollouts, waits and their reasons. It only reads; actions are an option and use
the user's permissions.

API server ──one watch per resource──▶ caches (objects.py) ──▶ view models (pure: rollouts.py, waiting.py, jobs.py,
    workload.py) ──▶ boards (board.py) ──▶ streams (streams.py), filtered by rights (access.py) ──▶ static/*.js

The dashboard runs in one process, never in the manager's. All browsers share one set of caches.
"""
