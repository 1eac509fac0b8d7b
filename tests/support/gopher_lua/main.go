// Program gopherlua runs scripts in the Lua that Argo CD has (gopher-lua), with the libraries that Argo CD opens.
//
// standard input (JSON): scripts with their objects ──▶ standard output (JSON): the result of each
package main

import (
	"encoding/json"
	"log"
	"os"

	lua "github.com/yuin/gopher-lua"
)

type script struct {
	Script string                 `json:"script"`
	Values map[string]interface{} `json:"values"`
}

type answer struct {
	Error  string      `json:"error"`
	Result interface{} `json:"result"`
}

func main() {
	var scripts []script
	if err := json.NewDecoder(os.Stdin).Decode(&scripts); err != nil {
		log.Fatal(err)
	}
	said := []answer{}
	for _, one := range scripts {
		said = append(said, run(one))
	}
	if err := json.NewEncoder(os.Stdout).Encode(said); err != nil {
		log.Fatal(err)
	}
}

func run(one script) answer {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for _, library := range []struct {
		name string
		open lua.LGFunction
	}{
		{lua.LoadLibName, lua.OpenPackage},
		{lua.BaseLibName, lua.OpenBase},
		{lua.TabLibName, lua.OpenTable},
		{lua.OsLibName, lua.OpenOs}, // Argo CD opens only the functions for times
	} {
		open := lua.P{Fn: state.NewFunction(library.open), NRet: 0, Protect: true}
		err := state.CallByParam(open, lua.LString(library.name))
		if err != nil {
			return answer{Error: err.Error()}
		}
	}
	for name, value := range one.Values {
		state.SetGlobal(name, toLua(state, value))
	}
	if err := state.DoString(one.Script); err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Result: fromLua(state.Get(-1))}
}

func toLua(state *lua.LState, value interface{}) lua.LValue {
	switch known := value.(type) {
	case bool:
		return lua.LBool(known)
	case float64:
		return lua.LNumber(known)
	case string:
		return lua.LString(known)
	case []interface{}:
		table := state.NewTable()
		for _, item := range known {
			table.Append(toLua(state, item))
		}
		return table
	case map[string]interface{}:
		table := state.NewTable()
		for name, item := range known {
			table.RawSetString(name, toLua(state, item))
		}
		return table
	}
	return lua.LNil
}

func fromLua(value lua.LValue) interface{} {
	switch known := value.(type) {
	case lua.LBool:
		return bool(known)
	case lua.LNumber:
		return float64(known)
	case lua.LString:
		return string(known)
	case *lua.LTable:
		if length := known.MaxN(); length > 0 {
			items := []interface{}{}
			for number := 1; number <= length; number++ {
				items = append(items, fromLua(known.RawGetInt(number)))
			}
			return items
		}
		members := map[string]interface{}{}
		known.ForEach(func(name, item lua.LValue) { members[name.String()] = fromLua(item) })
		return members
	}
	return nil
}
