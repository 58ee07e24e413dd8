package openapi

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/steps"
)

// secretParts make an argument secret where its name, in small letters and without separators, holds one of them.
var secretParts = []string{"password", "passwd", "passphrase", "secret", "token", "apikey", "accesskey", "privatekey", "credential", "otp"}

// secretArguments are the arguments that recordings and traces must not show: those that the document marks as passwords,
// and those with the names of credentials.
func secretArguments(input []byte) map[string]bool {
	secret := map[string]bool{}
	gjson.GetBytes(input, "properties").ForEach(func(name, schema gjson.Result) bool {
		folded := strings.NewReplacer("_", "", "-", "", ".", "").Replace(strings.ToLower(name.Str))
		marked := schema.Get("format").Str == "password"
		for _, part := range secretParts {
			marked = marked || strings.Contains(folded, part)
		}
		if kind := schema.Get("type").Str; marked && kind != "boolean" && kind != "integer" && kind != "number" {
			secret[name.Str] = true
		}
		return true
	})
	return secret
}

// redaction hides the secret arguments of a function, and what a result repeats of them; nil where there are none.
func redaction(input []byte) (redact func(args []byte) []byte, redactResult func(args, result []byte) []byte) {
	secret := secretArguments(input)
	if len(secret) == 0 {
		return nil, nil
	}
	redact = func(args []byte) []byte {
		out := []byte{'{'}
		gjson.ParseBytes(args).ForEach(func(name, value gjson.Result) bool {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(append(out, name.Raw...), ':')
			if secret[name.Str] {
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
			if secret[name.Str] {
				values = append(values, value.String())
			}
			return true
		})
		return steps.NewScrubber(values).JSON(result)
	}
	return redact, redactResult
}
