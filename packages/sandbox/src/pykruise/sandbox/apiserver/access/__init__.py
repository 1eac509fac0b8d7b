"""Access: users, tokens, RBAC.

    token ──▶ tokens.py ──▶ User ──▶ impersonation.py ──▶ User
    method, path, query ──▶ attributes.py ──▶ Attributes ──▶ authorizer.py: may this user do that?
    a role or binding that is written ──▶ escalation.py: does the writer have all permissions that the role grants?

rules.py has the rules of RBAC; bootstrap.py creates the roles that every cluster begins with.
"""
