"""An MCP server for assistants: `pykruise mcp` answers their questions about workloads, and writes nothing.

assistant ──stdio──▶ server.py (the SDK) ──▶ tools.py: one function per tool ──▶ explain, plan, simulate, doctor
                                                   └──▶ read_only.py ──▶ API server, with the caller's kubeconfig

tools.py knows nothing of the SDK; server.py alone imports it (the extra `mcp`). answers.py has the types of the
answers, whose JSON schemas clients get. bounds.py shortens what a cluster can make long.
"""
