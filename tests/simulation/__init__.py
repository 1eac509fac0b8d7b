"""Deterministic simulation: a cluster and its manager under random operations and faults, in virtual time.

generate(seed) ──▶ Script (operations and faults, plain values) ──▶ run() ──▶ Outcome: trace, violations
                                                                     └──▶ shrink() ──▶ the shortest script that fails
"""
