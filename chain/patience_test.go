package chain_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// TestProgressPutsOffDefaultLimits: progress puts off the limit of the server or of a source, never a timeoutMs, and never the chain's
// time.
func TestProgressPutsOffDefaultLimits(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spec   steps.Spec
		fields string        // of the step or the chain
		works  time.Duration // with progress each 10 s
		code   fault.Code    // "": it succeeds
		took   time.Duration
	}{
		"progress":                   {steps.Spec{Patient: true}, `}]`, 100 * time.Second, "", 100 * time.Second},
		"ten times the limit":        {steps.Spec{Patient: true}, `}]`, time.Hour, fault.Timeout, 300 * time.Second},
		"the source's limit":         {steps.Spec{Patient: true, DefaultTimeout: 15 * time.Second}, `}]`, time.Hour, fault.Timeout, 150 * time.Second},
		"a source without progress":  {steps.Spec{DefaultTimeout: 15 * time.Second}, `}]`, time.Hour, fault.Timeout, 15 * time.Second},
		"timeoutMs of functions":     {steps.Spec{Patient: true, Timeout: 25 * time.Second}, `}]`, time.Hour, fault.Timeout, 25 * time.Second},
		"timeoutMs of the step":      {steps.Spec{Patient: true}, `,"timeoutMs":40000}]`, time.Hour, fault.Timeout, 40 * time.Second},
		"the step's over functions'": {steps.Spec{Patient: true, Timeout: 25 * time.Second}, `,"timeoutMs":40000}]`, time.Hour, fault.Timeout, 40 * time.Second},
		"maxDurationMs":              {steps.Spec{Patient: true}, `}],"budget":{"maxDurationMs":70000}`, time.Hour, fault.Timeout, 70 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				test.spec.Name, test.spec.Effect = "test.work", steps.Read
				work := steps.Function{Spec: test.spec, Call: func(ctx context.Context, _ []byte) ([]byte, error) {
					alive := steps.Alive(ctx)
					for began := time.Now(); time.Since(began) < test.works; {
						select {
						case <-time.After(10 * time.Second):
						case <-ctx.Done():
							return nil, ctx.Err()
						}
						if alive != nil {
							alive()
						}
					}
					return []byte(`"done"`), nil
				}}
				e := engineOf(t, []steps.Function{work}, chain.Options{StepTimeout: 30 * time.Second}, true)
				began := time.Now()
				answer := e.Run(context.Background(), fmt.Appendf(nil, `{"steps":[{"fn":"test.work"%s}`, test.fields), nil)
				if took := time.Since(began); took != test.took || answer.OK != (test.code == "") || !answer.OK && codeOf(answer) != test.code {
					t.Errorf("after %v: %s, want code %q after %v", took, answer.JSON, test.code, test.took)
				}
			})
		})
	}
}
