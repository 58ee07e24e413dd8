package chain_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// backgroundEngine returns an engine whose function job.run takes a minute, and a caller whose runs may continue in the background. ended
// receives the answers of the runs that did.
func backgroundEngine(t *testing.T) (e *chain.Engine, c *chain.Caller, ended chan *chain.Answer, tokens chan string) {
	t.Helper()
	e = engineOf(t, []steps.Function{{
		Spec: steps.Spec{Name: "job.run", Input: json.RawMessage(`{"type":"object"}`), Effect: steps.Read},
		Call: func(ctx context.Context, _ []byte) ([]byte, error) {
			select {
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			case <-time.After(time.Minute):
				return []byte(`"done"`), nil
			}
		},
	}}, chain.Options{Journal: newJournal(t, nil), StepTimeout: time.Hour, MaxDuration: time.Hour}, true)
	ended, tokens = make(chan *chain.Answer, 1), make(chan string, 1)
	return e, &chain.Caller{ID: "ann", Background: func(ctx context.Context, run chain.BackgroundRun) (*chain.Background, *fault.Error) {
		if run.ID == "" || run.Steps != 1 {
			t.Errorf("background run %+v, want one step and an id", run)
		}
		return &chain.Background{Context: context.WithoutCancel(ctx), Progress: func(chain.Progress) {},
			End: func(a *chain.Answer, stored chain.StoredAnswer) {
				ended <- a
				tokens <- stored.Token
			}}, nil
	}}, ended, tokens
}

// TestAnsweredBeforeItsEnd: an async chain is answered at once, and one with asyncAfterMs after that time. Both continue after their
// request has ended, and their answers are stored for their caller only.
func TestAnsweredBeforeItsEnd(t *testing.T) {
	t.Parallel()
	published := compileSchema(t, chain.AnswerSchema(), "")
	for field, after := range map[string]time.Duration{`"async":true`: 0, `"asyncAfterMs":20000`: 20 * time.Second, `"asyncAfterMs":0`: 0} {
		synctest.Test(t, func(t *testing.T) {
			e, c, ended, tokens := backgroundEngine(t)
			ctx, cancel := context.WithCancel(t.Context())
			began := time.Now()
			a := e.Run(ctx, []byte(`{"steps":[{"fn":"job.run"}],"lite":true,`+field+`}`), c)
			cancel()
			if took := time.Since(began); took != after || a.Run == "" || !a.OK || gjson.GetBytes(a.JSON, "run").Str != a.Run {
				t.Errorf("%s: answered after %v: %s, want a run after %v", field, took, a.JSON, after)
			}
			var document any
			if err := json.Unmarshal(a.JSON, &document); err != nil || published.Validate(document) != nil {
				t.Errorf("%s does not match the published schema: %v, %v", a.JSON, err, published.Validate(document))
			}
			end, token := <-ended, <-tokens
			if took := time.Since(began); took != time.Minute || end == nil || string(end.JSON) != `"done"` {
				t.Errorf("%s: ended after %v with %v, want \"done\" after 1m", field, took, end)
			}
			if stored, _, err := e.StoredResult(t.Context(), token, c); err != nil || string(stored) != `"done"` {
				t.Errorf("stored answer %s, %v; want \"done\"", stored, err)
			}
			if _, _, err := e.StoredResult(t.Context(), token, &chain.Caller{ID: "bob"}); fault.CodeOf(err) != fault.TokenExpired {
				t.Errorf("another caller fetches the stored answer: %v, want token_expired", err)
			}
		})
	}
}

// TestAnsweredAtItsEnd: a chain with asyncAfterMs that ends in time, or that is cancelled, is answered like any other, and so is an async
// chain of a caller without Background.
func TestAnsweredAtItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c, ended, tokens := backgroundEngine(t)
		const patient = `{"steps":[{"fn":"job.run"}],"lite":true,"asyncAfterMs":3600000}`
		a := e.Run(t.Context(), []byte(patient), c)
		if end := <-ended; string(a.JSON) != `"done"` || a.Run != "" || end != nil || <-tokens != "" {
			t.Errorf("answer %s, background answer %v; want \"done\" and none", a.JSON, end)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if a = e.Run(ctx, []byte(patient), c); a.Error == nil || a.Error.Code != fault.Timeout || <-ended != nil {
			t.Errorf("answer of a cancelled request: %s, want timeout", a.JSON)
		}
		<-tokens
		if a = e.Run(t.Context(), []byte(`{"steps":[{"fn":"job.run"}],"lite":true,"async":true}`), nil); string(a.JSON) != `"done"` {
			t.Errorf("answer to a caller without Background: %s, want \"done\"", a.JSON)
		}
	})
}

// TestRefusedBackground: a run that is refused a background has done nothing, and can be resumed.
func TestRefusedBackground(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c, _, _ := backgroundEngine(t)
		c.Background = func(context.Context, chain.BackgroundRun) (*chain.Background, *fault.Error) {
			return nil, fault.New(fault.Busy, "enough")
		}
		a := e.Run(t.Context(), []byte(`{"steps":[{"fn":"job.run"}],"async":true}`), c)
		resume := gjson.GetBytes(a.JSON, "resume").Str
		if a.Error == nil || a.Error.Code != fault.Busy || resume == "" {
			t.Fatalf("got %s, want busy and a resume", a.JSON)
		}
		if a = e.Run(t.Context(), []byte(`{"resume":"`+resume+`","async":false,"lite":true}`), c); string(a.JSON) != `"done"` {
			t.Errorf("resume: %s, want \"done\"", a.JSON)
		}
	})
}
