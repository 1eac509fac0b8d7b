"""`kubectl kruise`: the verbs of kubectl that know only built-in kinds, for every kind.

argv ──▶ entry.py ──tree.py, flags.py──▶ a verb(session, call) ──▶ exit code
                                             │ pure: (object, arguments) ──▶ change or lines
         session.py: client, discovery, resource arguments, printing ◀──┘

A verb is loaded when it is called: most of what a short command costs is its start.
"""
