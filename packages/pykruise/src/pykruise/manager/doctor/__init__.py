"""`pykruise doctor`: problems of an installation, one line each, with the remedy.

a cluster ──read-only requests, dry runs──▶ CHECKS ──▶ Findings ──▶ lines and an exit code

Each check is independent: a check that cannot run (a missing permission of the user, an error) reports this, and the
other checks continue. Nothing is stored: trial writes are dry runs, and API servers call webhooks for dry runs too.
"""
