package chain_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tidwall/gjson"
	"golang.org/x/tools/txtar"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
)

// FuzzRequest passes arbitrary bytes to the decoder and the compiler. The answer is JSON, faults have a code of the closed list, and a
// request that compiles also compiles in its compact form.
func FuzzRequest(f *testing.F) {
	files, err := filepath.Glob("../testdata/chain/*.txtar")
	if err != nil || len(files) == 0 {
		f.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(f, err)
		for _, section := range txtar.Parse(text).Files {
			switch filepath.Base(section.Name) {
			case "chain":
				f.Add(section.Data)
			case "chains":
				for _, line := range lines(section.Data) {
					f.Add([]byte(line))
				}
			}
		}
	}
	e := engine(f, &world{}, chain.Options{MaxTotalTokens: 2000})
	check := &chain.Caller{Override: chain.Override{Check: true}}
	f.Fuzz(func(t *testing.T, request []byte) {
		if len(request) > 1<<16 {
			return
		}
		answer := e.Run(context.Background(), request, check)
		if !json.Valid(answer.JSON) {
			t.Fatalf("the answer is not JSON: %s", answer.JSON)
		}
		if answer.OK {
			return
		}
		known := fault.Codes()
		if code := answer.Error.Code; !slices.Contains(known, code) || code == fault.Internal {
			t.Fatalf("code %q, want one of the closed list other than internal: %s", code, answer.JSON)
		}
		for _, fault := range answer.Faults {
			if !slices.Contains(known, fault.Code) || fault.Message == "" {
				t.Fatalf("fault %+v, want a code of the closed list, and a message", fault)
			}
		}
		if limit := gjson.GetBytes(answer.JSON, "usage.limit").Int(); gjson.GetBytes(answer.JSON, "usage.tokens").Int() > max(limit, 2000) {
			t.Fatalf("the answer exceeds its budget: %s", answer.JSON)
		}
	})
}
