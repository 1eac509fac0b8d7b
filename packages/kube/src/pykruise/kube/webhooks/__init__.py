"""Admission webhooks of a program: reviews as bytes (reviews.py), and the HTTPS server that receives them.

API server ──▶ server.py ──▶ reviews.py ──▶ a Reviewer (kube/admission.py)
"""
