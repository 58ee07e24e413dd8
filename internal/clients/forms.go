package clients

import (
	"encoding/json"
	"regexp"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// form converts an entry of a client to the fields of an entry of mcpServers, or returns why it must be skipped.
type form func(server gjson.Result) (fields []field, skip string)

// value returns a field whose value is marshaled to JSON.
func value(key string, of any) field {
	text, _ := rawjson.Marshal(of) // never fails, as of is a text, a number or a list of them
	return field{key, text}
}

// members returns the fields of an object.
func members(object gjson.Result) (fields []field) {
	for key, member := range ordered(object) {
		fields = append(fields, field{key, json.RawMessage(member.Raw)})
	}
	return fields
}

// renameFields returns the fields of an entry under onecall's keys. names maps the keys that differ, with "" for those that are dropped.
func renameFields(server gjson.Result, names map[string]string) (fields []field) {
	for _, one := range members(server) {
		name, known := names[one.key]
		switch {
		case !known:
			fields = append(fields, one)
		case name != "":
			fields = append(fields, field{name, one.value})
		}
	}
	return fields
}

// sseForm adds the type sse to a url without one.
func sseForm(server gjson.Result) ([]field, string) {
	fields := members(server)
	if server.Get("url").Exists() && !server.Get("type").Exists() && !server.Get("transport").Exists() {
		fields = append(fields, value("type", "sse"))
	}
	return fields, ""
}

var codexNames = map[string]string{
	"enabled_tools": "includeTools", "disabled_tools": "excludeTools", "startup_timeout_ms": "startTimeoutMs",
	"tool_timeout_sec": "", "required": "", "tools": "", "default_tools_approval_mode": "", "supports_parallel_tool_calls": "",
	// codexForm combines these.
	"startup_timeout_sec": "", "http_headers": "", "env_http_headers": "", "bearer_token_env_var": "", "env": "", "env_vars": "",
}

// codexForm converts an entry of Codex, whose headers and environment may name variables to read the values from.
func codexForm(server gjson.Result) ([]field, string) {
	fields := renameFields(server, codexNames)
	headers, env := members(server.Get("http_headers")), members(server.Get("env"))
	for name, variable := range ordered(server.Get("env_http_headers")) {
		headers = append(headers, value(name, "${"+variable.String()+"}"))
	}
	if variable := server.Get("bearer_token_env_var"); variable.Exists() {
		headers = append(headers, value("Authorization", "Bearer ${"+variable.String()+"}"))
	}
	for _, variable := range server.Get("env_vars").Array() {
		name := variable.String()
		if variable.IsObject() {
			name = variable.Get("name").String()
		}
		env = append(env, value(name, "${"+name+"}"))
	}
	if seconds := server.Get("startup_timeout_sec"); seconds.Exists() {
		fields = append(fields, value("startTimeoutMs", int(seconds.Float()*1000)))
	}
	return append(fields, objectField("headers", headers), objectField("env", env)), ""
}

// objectField returns a field whose value is an object.
func objectField(key string, members []field) field {
	object := []byte{'{'}
	for i, member := range members {
		if i > 0 {
			object = append(object, ',')
		}
		object = append(rawjson.AppendQuote(object, member.key), ':')
		object = append(object, member.value...)
	}
	return field{key, append(object, '}')}
}

// zedForm converts an entry of Zed. An entry without a command or a url is skipped.
func zedForm(server gjson.Result) ([]field, string) {
	if !server.Get("command").Exists() && !server.Get("url").Exists() {
		return nil, "it belongs to an extension of Zed"
	}
	fields := renameFields(server, map[string]string{"source": "", "settings": ""})
	for i := len(fields) - 1; i >= 0; i-- { // until 2025, command was an object of path, args and env
		if command := gjson.ParseBytes(fields[i].value); fields[i].key == "command" && command.IsObject() {
			fields = append(fields[:i:i], append(renameFields(command, map[string]string{"path": "command"}), fields[i+1:]...)...)
		}
	}
	return fields, ""
}

var gooseNames = map[string]string{
	"cmd": "command", "envs": "env", "uri": "url", "available_tools": "includeTools",
	"timeout": "", "bundled": "", "display_name": "", "description": "", "name": "",
}

// gooseForm converts an entry of Goose. An entry of one of Goose's own types is skipped, and one whose secrets only Goose has.
func gooseForm(server gjson.Result) ([]field, string) {
	switch kind := server.Get("type").String(); {
	case config.Transport(kind) == "":
		return nil, "it is part of Goose"
	case len(server.Get("env_keys").Array()) > 0:
		return nil, "Goose keeps its secrets: " + server.Get("env_keys").Raw
	}
	names := map[string]string{"env_keys": ""}
	for key, name := range gooseNames {
		names[key] = name
	}
	return renameFields(server, names), ""
}

// opencodeVariable matches an environment variable as written for OpenCode.
var opencodeVariable = regexp.MustCompile(`\{env:([A-Za-z_][A-Za-z0-9_]*)\}`)

// opencodeForm converts an entry of OpenCode, whose command is a list of the program and its arguments.
func opencodeForm(server gjson.Result) ([]field, string) {
	server = gjson.Parse(opencodeVariable.ReplaceAllString(server.Raw, "$${$1}"))
	fields := renameFields(server, map[string]string{"environment": "env", "timeout": "", "command": ""})
	if words := server.Get("command").Array(); len(words) > 0 {
		var args []json.RawMessage
		for _, word := range words[1:] {
			args = append(args, json.RawMessage(word.Raw))
		}
		fields = append(fields, field{"command", json.RawMessage(words[0].Raw)}, value("args", args))
	}
	return fields, ""
}
