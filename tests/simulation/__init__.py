"""Deterministic simulation: a cluster and its manager under random deeds and faults, in virtual time.

generate(seed) ──▶ Script (deeds and faults, plain values) ──▶ run() ──▶ Outcome: trace, violations
                                                                └──▶ shrink() ──▶ the shortest script that fails
"""
