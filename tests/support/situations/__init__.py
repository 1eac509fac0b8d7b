"""Situations that users meet, and the results that every output must show.

table of a kind ──▶ Situation ──stage──▶ World ──▶ explain, its exit code, the dashboard's row, the object's phase

Each row creates one situation of one object in virtual time. A new kind must have at least SIX rows
(tests/scenarios/test_situations.py).
"""
