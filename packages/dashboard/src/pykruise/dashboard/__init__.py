"""The dashboard: what moves, what waits, and why, in a browser. It reads; writing is an option, with the user's rights.

API server ──one watch a resource──▶ caches (objects.py) ──▶ view models (pure: rollouts.py, waiting.py, jobs.py,
    workload.py) ──▶ boards (board.py) ──▶ streams (streams.py), filtered by rights (access.py) ──▶ static/*.js

One process, never the manager's. There is one set of caches, however many browsers look.
"""
