"""Package of `kubectl kruise`: kubectl's verbs that support only built-in kinds, extended to every kind.

argv ──▶ entry.py ──tree.py, flags.py──▶ a function of the verb: (session, call) ──▶ exit code
                                             │ pure: (object, arguments) ──▶ change or lines
         session.py: client, discovery, resource arguments, printing ◀──┘

A verb's module is imported when the verb is called, because a short command needs most of its time to start.
"""
