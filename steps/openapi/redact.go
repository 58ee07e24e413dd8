package openapi

import (
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/secret"
)

// secretArguments are the arguments that recordings and traces must not show: those that the document marks as passwords,
// and those with the names of credentials.
func secretArguments(input []byte) map[string]bool {
	secrets := map[string]bool{}
	gjson.GetBytes(input, "properties").ForEach(func(name, schema gjson.Result) bool {
		marked := schema.Get("format").Str == "password" || secret.Name(name.Str)
		if kind := schema.Get("type").Str; marked && kind != "boolean" && kind != "integer" && kind != "number" {
			secrets[name.Str] = true
		}
		return true
	})
	return secrets
}

// redaction hides the secret arguments of a function, and what a result repeats of them; nil where there are none.
func redaction(input []byte) (redact func(args []byte) []byte, redactResult func(args, result []byte) []byte) {
	secrets := secretArguments(input)
	if len(secrets) == 0 {
		return nil, nil
	}
	redact = func(args []byte) []byte {
		out := []byte{'{'}
		gjson.ParseBytes(args).ForEach(func(name, value gjson.Result) bool {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(append(out, name.Raw...), ':')
			if secrets[name.Str] {
				out = append(append(append(out, '"'), hidden...), '"')
			} else {
				out = append(out, value.Raw...)
			}
			return true
		})
		return append(out, '}')
	}
	redactResult = func(args, result []byte) []byte {
		var values []string
		gjson.ParseBytes(args).ForEach(func(name, value gjson.Result) bool {
			if secrets[name.Str] {
				values = append(values, value.String())
			}
			return true
		})
		return secret.New(values).JSON(result)
	}
	return redact, redactResult
}
