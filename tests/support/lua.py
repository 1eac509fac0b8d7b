"""Lua scripts as Argo CD runs them: Lua 5.1 with few libraries; `obj` is the object, and the script returns the result.

script + document ──▶ run_lua() ──▶ the returned values
"""

from typing import Any

from lupa.lua51 import LuaRuntime, lua_type

__all__ = ["run_lua"]


_FEW_LIBRARIES = """
debug.setmetatable("", nil)
for _, name in ipairs({"string", "math", "io", "debug", "coroutine", "jit", "bit"}) do _G[name] = nil end
"""
"""Argo CD opens package, base, table, and the functions of os for times."""


def run_lua(script: str, obj: dict[str, Any], **values: Any) -> Any:
    """Return the result of the script. `values`: further globals, such as `actionParams`. Raises LuaError."""
    lua = LuaRuntime(unpack_returned_tuples=True, register_eval=False, register_builtins=False)
    lua.execute(_FEW_LIBRARIES)
    scope = lua.globals()
    for name, value in {"obj": obj, **values}.items():
        scope[name] = _to_lua(lua, value)
    return _to_python(lua.execute(script))


def _to_lua(lua: LuaRuntime, value: Any) -> Any:
    match value:
        case dict():
            return lua.table_from({name: _to_lua(lua, part) for name, part in value.items()})
        case list():
            return lua.table_from([_to_lua(lua, item) for item in value])
        case _:
            return value


def _to_python(value: Any) -> Any:
    if lua_type(value) != "table":
        return value
    result = {name: _to_python(part) for name, part in value.items()}
    return list(result.values()) if result and all(isinstance(name, int) for name in result) else result
