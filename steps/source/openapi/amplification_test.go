package openapi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

// A document that multiplies itself by references ends in a fault: each of its operations reads six thousand references.
func TestAmplification(t *testing.T) {
	t.Parallel()
	withoutRace(t)
	refs := func(name string) string { return strings.Repeat(`{"$ref":"#/components/schemas/`+name+`"},`, 3000) }
	var b strings.Builder
	b.WriteString(`{"openapi":"3.0.0","components":{"schemas":{"A":{"allOf":[` + refs("B") + `{}]},"B":{"allOf":[` + refs("C") +
		`{}]},"C":{"type":"object","properties":{"a":{}}}}},"paths":{`)
	for i := range 5000 {
		fmt.Fprintf(&b, `"/a%d":{"post":{"requestBody":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/A"}}}}}},`, i)
	}
	b.WriteString(`"/z":{}}}`)
	if _, err := load([]byte(b.String()), nil); fault.CodeOf(err) != fault.LimitExceeded {
		t.Errorf("got %v, want limit_exceeded", err)
	}
}
