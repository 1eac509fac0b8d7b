"""Server-side apply and managedFields: who owns which field.

shapes.py (what kinds of lists and maps there are) ──▶ values.py (compare, merge, remove)
                                                   ──▶ field_sets.py ──▶ owned.py ──▶ managers.py ──▶ ownership.py
"""
