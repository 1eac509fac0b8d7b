"""The dashboard: a web page that shows rollouts, waits and their reasons. By default, it only reads. With --actions,
it also writes, with the user's permissions.

API server ──one watch per resource──▶ caches (objects.py) ──▶ view models (pure: rollouts.py, waiting.py, jobs.py,
    workload.py) ──▶ boards (board.py) ──▶ streams (streams.py), filtered by permissions (access.py) ──▶ static/*.js

The dashboard runs in a process of its own, never in the manager's process. All browsers share one set of caches.
"""
