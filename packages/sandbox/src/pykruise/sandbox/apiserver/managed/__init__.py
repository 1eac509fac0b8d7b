"""Server-side apply and managedFields: who owns which field.

shapes.py (what kinds of lists and maps there are) ──▶ values.py (compare, merge, remove)
                                                   ──▶ field_sets.py ──▶ owned.py
state.py (managers as they are kept) ──┬▶ managers.py (writes and reads) ──┬▶ ownership.py
                                       └▶ applies.py (applies) ────────────┘
"""
