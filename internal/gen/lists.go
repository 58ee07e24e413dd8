package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/fault"
)

// lists are the closed lists in the schemas that are otherwise written by hand, by the file and the name that they stand
// under: their source is in the program.
func lists() map[string]map[string][]any {
	return map[string]map[string][]any{
		"chain/answer.schema.json": {
			"code":            anyOf(fault.Codes()),
			"available_modes": anyOf(budget.Modes()),
		},
	}
}

// filled is a schema with the lists put in: each is the first enum after its name.
func filled(root, file string, lists map[string][]any) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return nil, err
	}
	for name, list := range lists {
		words, err := json.Marshal(list)
		if err != nil {
			return nil, err
		}
		at := regexp.MustCompile(`(?s)\n *"` + name + `": \{.*?"enum": (\[[^]]*\])`).FindSubmatchIndex(text)
		if at == nil {
			return nil, fmt.Errorf("%s has no list of %s", file, name)
		}
		text = fmt.Appendf(nil, "%s%s%s", text[:at[2]], spaced.ReplaceAll(words, []byte("$1, ")), text[at[3]:])
	}
	return text, nil
}

// spaced finds the commas of a list of words.
var spaced = regexp.MustCompile(`(["l]),`)

func anyOf[T any](list []T) (all []any) {
	for _, one := range list {
		all = append(all, one)
	}
	return all
}
