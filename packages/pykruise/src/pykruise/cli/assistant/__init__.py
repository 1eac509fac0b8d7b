"""An MCP server for assistants: `pykruise mcp` answers questions about workloads and writes nothing.

assistant ──stdio──▶ server.py (the SDK) ──▶ tools.py: one function per tool ──▶ explain, plan, simulate, doctor
                                                   └──▶ read_only.py ──▶ API server, with the caller's kubeconfig

Only server.py imports the SDK (the extra `mcp`). answers.py has the types of the answers; clients get their JSON
schemas. bounds.py shortens long lists and long texts.
"""
