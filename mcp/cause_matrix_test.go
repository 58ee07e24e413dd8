package mcp_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/syncbuf"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// failingServer is a server with failing sources, and its log.
type failingServer struct {
	*worldServer
	log           syncbuf.Buffer
	removed, sick []*matrixFunction
}

func newFailingServer(t *testing.T) *failingServer {
	t.Helper()
	w := &failingServer{}
	w.removed, w.sick = failingFunctions()
	w.worldServer = newWorld(t, func(spec *steps.Spec) bool { return spec.Source() == readsSource }, unwrapped, func(o *mcp.Options) {
		o.Log = slog.New(slog.NewJSONHandler(&w.log, nil))
		for name, source := range map[string]*failingSource{
			neverSource:   {status: steps.Status{State: steps.StateFailed, Error: sourceFault(fault.BadRequest, "")}},
			loginSource:   {status: steps.Status{State: steps.StateRetrying, Error: sourceFault(fault.Denied, ""), Retry: time.Now().Add(time.Minute)}},
			missingSource: {status: steps.Status{State: steps.StateRetrying, Error: sourceFault(fault.Unavailable, ""), Retry: time.Now().Add(time.Minute)}, tools: w.removed},
			sickSource:    {status: steps.Status{State: steps.StateReady}, tools: w.sick},
		} {
			if err := o.Catalog.Add(name, source); err != nil {
				t.Fatal(err)
			}
		}
		addPassthrough(t, o, unopenableUpstream{missingSource}, unopenableUpstream{sickSource})
	})
	return w
}

// sendPaths sends all paths by which a caller could learn of a source, and passes each answer to onAnswer.
func (w *failingServer) sendPaths(t *testing.T, c *rawClient, onAnswer func(what, answer string)) {
	t.Helper()
	usable := w.all[0]
	for _, m := range w.all {
		if m.source() == readsSource {
			usable = m
		}
	}
	n := 0
	call := func(p matrixPath, failing *matrixFunction) {
		n++
		tools := []string{p.tool}
		if p.tool == "DISPATCHER" {
			tools = []string{"things"}
		}
		for _, tool := range tools {
			p.tool = tool
			filled := p.filled(failing, usable, "oc1_x", n*len(variants)) // n chooses the unchanged spelling of the name
			onAnswer(filled.tool+" "+filled.text, c.call(t, filled.tool, filled.text))
		}
	}
	strangers := []*matrixFunction{newMarked(350, neverSource+".part", false, kindOfFunction{effect: steps.Read}),
		newMarked(351, loginSource+".part", false, kindOfFunction{effect: steps.Read}), newMarked(352, missingSource+".part", false,
			kindOfFunction{effect: steps.Read})}
	for _, list := range [][]*matrixFunction{w.removed, w.sick, strangers} {
		for i, m := range list {
			pick := func(paths []matrixPath) matrixPath { return paths[i%len(paths)] } // the others are tried with other functions
			for _, p := range []matrixPath{chainPaths[0], pick(chainPaths[1:]), flatPaths[0], groupPaths[0], pick(groupPaths), pick(lookups)} {
				call(p, m)
			}
		}
	}
	for i, p := range chainPaths {
		call(p, w.sick[i%len(w.sick)])
	}
	for _, p := range generalPaths {
		call(p, nil)
	}
	for method, list := range protocolPaths() {
		for _, params := range list {
			n++
			p := matrixPath{method, strings.ReplaceAll(params, "HIDDENUPSTREAM", missingSource)}.filled(w.removed[0], usable, "oc1_x", n)
			onAnswer(p.tool+" "+p.text, c.message(t, p.tool, p.text))
		}
	}
}

// TestMatrixOfCauses sends all paths to sources that are unavailable. Administrators, and the only user of a server without tokens, read
// the cause. Other callers read nothing of it, but the log has it.
func TestMatrixOfCauses(t *testing.T) {
	t.Parallel()
	for i, test := range []struct {
		name      string
		caller    steps.Caller
		open      bool // callers have no tokens
		mentioned bool
	}{
		{name: "read", caller: matrixCaller("a", steps.TierRead, "")},
		{name: "read_write", caller: matrixCaller("b", steps.TierReadWrite, "")},
		{name: "some", caller: matrixCaller("d", steps.TierReadWrite, "gone.* sick.* never.* login.*")},
		{name: "admin", caller: matrixCaller("c", steps.TierAdmin, ""), mentioned: true},
		{name: "no token", caller: matrixCaller("e", steps.TierRead, ""), open: true, mentioned: true},
	} {
		for j, version := range []string{statefulVersion, statelessVersion} {
			for k, surface := range surfaces {
				if (i+j+k)%oneIn(2, 4) > 0 && test.name != "read" {
					continue // it is tried with other rights, in another version, or on another surface
				}
				t.Run(test.name+"/"+version+"/"+surface, func(t *testing.T) {
					t.Parallel()
					w := newFailingServer(t)
					access := &transport.Access{Anyone: test.caller}
					token := ""
					if !test.open {
						token = "t"
						access = &transport.Access{Callers: knownCallers{token: test.caller}}
					}
					c, hello := newRawClientWith(t, w.serveAs(t, access), surface, version, token)
					reported, failed, whole := 0, 0, strings.Builder{}
					w.sendPaths(t, c, func(what, answer string) {
						whole.WriteString(answer)
						if strings.Contains(answer, "unavailable") {
							failed++
						}
						if !strings.Contains(answer, causeWord) {
							return
						}
						if reported++; !test.mentioned {
							t.Errorf("the answer to %s shows the cause:\n%s", what, answer)
						}
					})
					if strings.Contains(hello, causeWord) || failed < 12 || test.mentioned && reported < 20 {
						t.Errorf("the cause is in %d answers (want at least 20 if the caller may see it: %t), unavailable in %d (want at least 12), and must not be in the greeting", reported, test.mentioned, failed)
					}
					logHints := strings.Count(whole.String(), "the operator's log has the cause")
					if test.mentioned != (logHints == 0) {
						t.Errorf("%d answers refer to the log, want any: %t", logHints, !test.mentioned)
					}
					if logged := w.log.String(); !test.mentioned && !(strings.Contains(logged, `"source":"`+sickSource+`","code":"`) &&
						strings.Contains(logged, causeWord)) {
						t.Errorf("the log lacks the cause:\n%s", logged)
					}
					t.Logf("%d answers show the cause, %d say unavailable, %d refer to the log", reported, failed, logHints)
				})
			}
		}
	}
}

// TestCausesOfUpstream: if a real upstream is lost, only administrators read its address, whatever they ask for.
func TestCausesOfUpstream(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, openUpstream, false)
	w := newWorld(t, func(*steps.Spec) bool { return false }, unwrapped, func(o *mcp.Options) {
		addUpstream(t, o, up)
		steps.Await(t.Context(), o.Catalog, nil)
	})
	url := w.testServer.serveAs(t, &transport.Access{Callers: knownCallers{"r": matrixCaller("r", steps.TierRead, ""),
		"a": matrixCaller("a", steps.TierAdmin, "")}})
	address := strings.TrimPrefix(up.front.URL, "http://")
	up.front.CloseClientConnections()
	_ = up.front.Listener.Close()
	for token, want := range map[string]bool{"r": false, "a": true} {
		for _, version := range []string{statefulVersion, statelessVersion} {
			c, _ := newRawClientWith(t, url, "flat", version, token)
			for _, answer := range []string{
				c.call(t, "chain", `{"steps":[{"fn":"opened.opened_exact"}]}`),
				c.call(t, "opened_exact", `{}`),
				c.message(t, "resources/read", `{"uri":"only://opened"}`),
				c.message(t, "prompts/get", `{"name":"same"}`),
				c.message(t, "prompts/list", `{}`),
			} {
				if strings.Contains(answer, address) != want || strings.Contains(answer, "the operator's log") == want {
					t.Errorf("caller %s in %s: want the address shown: %t:\n%s", token, version, want, answer)
				}
			}
		}
	}
}

// TestHiddenCauseMessages: a caller that may not see causes reads the state of an unavailable source, since when it is unavailable, the
// outcome of the call, and that the operator's log has the cause.
func TestHiddenCauseMessages(t *testing.T) {
	t.Parallel()
	w := newFailingServer(t)
	client := connectAs(t, w.serveAs(t, &transport.Access{Callers: mcptest.Staff}), "ann", statelessVersion)
	info, _ := mcptest.Ask(t, client, "info", `{}`)
	const inLog = "; the operator's log has the cause"
	for name, state := range map[string]string{neverSource: "failed", loginSource: "retrying", missingSource: "retrying"} {
		want := `the source "` + name + `" is unavailable` + inLog
		one := gjson.Get(info, `sources.#(name="`+name+`")`)
		since, err := time.Parse(time.RFC3339, one.Get("since").Str)
		if one.Get("error").Str != want || one.Get("state").Str != state || err != nil || time.Since(since).Abs() > mcptest.Patience {
			t.Errorf("source %s: got %s, want %s and %q", name, one.Raw, state, want)
		}
	}
	if one := gjson.Get(info, `sources.#(name="`+sickSource+`")`); one.Get("since").Exists() || one.Get("error").Exists() {
		t.Errorf("a source that is ready: %s, want neither since nor error", one.Raw)
	}
	down, _ := mcptest.Ask(t, client, "chain", `{"steps":[{"fn":"never.x"}]}`)
	message := gjson.Get(down, "error.faults.0.message").Str
	if message != `the source "never" is failed, its functions are not known`+inLog {
		t.Errorf("a call of an unavailable source: %s, want that never is failed, with the cause in the log", down)
	}
	removed, sick := failingFunctions()
	for i, f := range sourceFaults() {
		for _, m := range []*matrixFunction{removed[i], sick[i]} {
			text, _ := mcptest.Ask(t, client, "chain", fmt.Sprintf(`{"steps":[{"fn":%q,"args":%s}]}`, m.Spec.Name, m.validArgs()))
			message := gjson.Get(text, "error.message").Str
			if gjson.Get(text, "error.code").Str != string(f.Code) || gjson.Get(text, "error.outcome").Str != string(f.Outcome) ||
				!strings.HasPrefix(message, `the source "`+m.Spec.Source()+`" `) || strings.Contains(message, "not known whether") != (f.Outcome == fault.SentUnknown) || !strings.HasSuffix(message, inLog) {
				t.Errorf("got %s, want code %s, outcome %q, the source and the hint at the log", text, f.Code, f.Outcome)
			}
		}
	}
}

// TestAnswersOfSourcesAreShown: every caller reads what a source has answered to its call.
func TestAnswersOfSourcesAreShown(t *testing.T) {
	t.Parallel()
	newFault := func(code fault.Code, change func(*fault.Error)) *fault.Error {
		f := fault.New(code, "it says %s", answerWord)
		change(f)
		return f
	}
	answers := []*fault.Error{
		newFault(fault.FunctionFailed, func(*fault.Error) {}),
		newFault(fault.FunctionFailed, func(f *fault.Error) { f.Outcome = fault.SentUnknown }),
		newFault(fault.BadArguments, func(f *fault.Error) { f.Outcome = fault.NotSent }),
		newFault(fault.Busy, func(f *fault.Error) { f.Outcome = fault.NotSent }),
		newFault(fault.LimitExceeded, func(*fault.Error) {}),
		newFault(fault.Denied, func(f *fault.Error) { f.Status = 403 }),
		newFault(fault.Unavailable, func(f *fault.Error) { f.Status, f.Outcome = 503, fault.SentUnknown }),
	}
	var tools []*matrixFunction
	for i, f := range answers {
		m := newMarked(360+i, "speaks.part", false, kindOfFunction{effect: steps.Read})
		m.Call = func(context.Context, []byte) ([]byte, error) { return nil, f }
		tools = append(tools, m)
	}
	plain := newMarked(370, "plain.part", false, kindOfFunction{effect: steps.Read}) // a function of a source that is always ready
	plain.Call = func(context.Context, []byte) ([]byte, error) {
		return nil, newFault(fault.Unavailable, func(f *fault.Error) { f.Outcome = fault.NotSent })
	}
	w := newWorld(t, func(*steps.Spec) bool { return false }, unwrapped, func(o *mcp.Options) {
		if err := o.Catalog.Add("speaks", &failingSource{steps.Status{State: steps.StateReady}, tools}); err != nil {
			t.Fatal(err)
		}
		if err := o.Catalog.Add("plain", markedSource{plain}); err != nil {
			t.Fatal(err)
		}
	})
	client := connectAs(t, w.serveAs(t, &transport.Access{Callers: mcptest.Staff}), "ann", statelessVersion)
	for _, m := range append(tools, plain) {
		if text, _ := mcptest.Ask(t, client, "chain", fmt.Sprintf(`{"steps":[{"fn":%q,"args":%s}]}`, m.Spec.Name,
			m.validArgs())); !strings.Contains(text, answerWord) {
			t.Errorf("%s: the answer lacks the words of the source: %s", m.Spec.Name, text)
		}
	}
}

// TestCausesOverStdio: the only user of a server over stdio reads why sources are unavailable, whatever its tier.
func TestCausesOverStdio(t *testing.T) {
	t.Parallel()
	w := newFailingServer(t)
	client := legacyStdio(t, w.testServer, nil)
	for _, args := range []string{`{"steps":[{"fn":"never.x"}]}`, fmt.Sprintf(`{"steps":[{"fn":%q,"args":%s}]}`, w.sick[0].Spec.Name,
		w.sick[0].validArgs())} {
		if text, _ := mcptest.Ask(t, client, "chain", args); !strings.Contains(text, causeWord) {
			t.Errorf("the answer lacks the cause: %s", text)
		}
	}
}
