"""Outcomes of OpenKruise's own manager, recorded once on a real control plane, and compared with pykruise's.

scenarios/<kind>.py: steps as data ──▶ playing.py ──▶ views.py (names, times, hashes taken out) ──▶ an Outcome
                    a release's manager, `make record-original` ──▶ recordings/<release>/<kind>.json
                    pykruise in the sandbox, in virtual time ──▶ comparing.py ──▶ what differs and is not declared

Only outcomes are recorded: what API server and manager stored, and what they answered.
"""
