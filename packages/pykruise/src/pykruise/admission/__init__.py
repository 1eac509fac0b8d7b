"""Admission: which reviews an API server asks for, and who answers them."""
