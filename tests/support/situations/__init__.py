"""Staged situations: what a user meets, and what every place has to say of it.

table of a kind ──▶ Situation ──stage──▶ World ──▶ explain, its exit code, the dashboard's row, the object's phase

Each row stages one situation of one object in virtual time. A new kind has to have at least SIX rows
(tests/scenarios/test_situations.py).
"""
