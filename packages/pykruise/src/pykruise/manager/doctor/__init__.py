"""`pykruise doctor`: what is wrong with an installation, one line each, with what to do about it.

a cluster ──read-only requests, dry runs──▶ CHECKS ──▶ Findings ──▶ lines and an exit code

Every check answers for itself: one that cannot be carried out (a missing right of the asker, an error) says so and
the others go on. Nothing is stored: what has to be tried is tried as a dry run, which calls webhooks all the same.
"""
