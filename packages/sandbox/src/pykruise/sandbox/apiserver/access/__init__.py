"""Access: users, tokens, RBAC.

    token ──▶ tokens.py ──▶ User ──▶ impersonation.py ──▶ User
    method, path, query ──▶ attributes.py ──▶ Attributes ──▶ authorizer.py: may this user do that?
    a role or binding that is written ──▶ escalation.py: does who writes it hold all that it grants?

The rules of RBAC itself are rules.py; what every cluster begins with is bootstrap.py.
"""
