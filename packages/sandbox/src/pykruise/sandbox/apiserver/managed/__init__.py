"""Server-side apply and managedFields: the owner of each field.

shapes.py (which kinds of lists and maps a type has) ──▶ values.py (compare, merge, remove)
                                                     ──▶ field_sets.py ──▶ owned.py
state.py (managers as they are stored) ──┬▶ managers.py (writes and reads) ──┬▶ ownership.py
                                         └▶ applies.py (applies) ────────────┘
"""
