"""Results of OpenKruise's own manager, recorded once on a real control plane, and compared with those of pykruise.

scenarios/<kind>.py: steps as data ──▶ playing.py ──▶ views.py (without names, times, hashes) ──▶ an Outcome
                    a release's manager, `make record-original` ──▶ recordings/<release>/<kind>.json
                    pykruise in the sandbox, in virtual time ──▶ comparing.py ──▶ differences that are not declared

Only results are recorded: objects that API server and manager stored, and their responses.
"""
