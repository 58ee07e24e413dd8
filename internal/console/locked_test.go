package console_test

import (
	"net/url"
	"testing"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/console"
	"github.com/onecall-mcp/onecall/steps"
)

// tenants are credentials for the source crm, which clients bring and browsers do not.
type tenants struct{}

func (tenants) Find(name, digest string) *steps.Credential {
	return &steps.Credential{Name: name, Digest: digest}
}

func (tenants) Refresh(string) {}

func (tenants) Missing(name string) *fault.Error {
	if name != "crm" {
		return nil
	}
	return fault.New(fault.Denied, "crm is called with your own credential: send the header X-Tenant")
}

// TestLockedRun: viewers decide about calls that are made with a credential of the run's caller if their rights would do, without having
// it. What only the caller's client can do is not offered.
func TestLockedRun(t *testing.T) {
	t.Parallel()
	dan, sue := doer("token:dan", steps.TierReadWrite), doer("token:sue", steps.TierRead)
	dan.DecidesFor, sue.DecidesFor = "token:ann", "token:ann"
	all := actor("all")
	all.All = true
	s := newShop(t, map[string]*console.Viewer{"ann": doer("token:ann", steps.TierReadWrite), "dan": dan, "sue": sue, "all": all},
		func(b *console.Backend) { b.Serves = true })
	call := s.call("crm.send")
	for name, source := range map[string]functionList{
		"crm": {{Call: call, Spec: steps.Spec{Name: "crm.send", EffectDeclared: true, Effect: steps.Write, Approve: steps.ApproveWrite, Needs: "crm"}}},
		steps.ChainSource: {{Call: call, Spec: steps.Spec{Name: "chain.mailit",
			Saved: &steps.SavedChain{Text: []byte(`{"steps":[{"crm.send":{}}]}`), Names: []string{"crm.send"}}}}},
	} {
		if err := s.catalog.Add(name, source); err != nil {
			t.Fatal(err)
		}
	}
	ann := &steps.Caller{ID: "token:ann", Rights: steps.Rights{Tier: steps.TierReadWrite, Credentials: "crm=1"}}
	caller := chain.NewCaller(ann, false)
	caller.Functions = ann.View(s.catalog)
	s.engine.Run(t.Context(), []byte(`{"steps":[{"fn":"crm.send","args":{"k":1}}]}`), caller)
	rows, err := s.journal.List(t.Context(), &journal.Filter{Callers: []string{"token:ann"}, Limit: 1})
	if err != nil || len(rows) != 1 {
		t.Fatalf("%v, %v", rows, err)
	}
	run := rows[0].ID

	_, page := s.browser(t, "sue").get("runs/" + run + "/approve")
	wantText(t, page, "1 more is of a function that you may not use", "!crm.send")
	_, page = s.browser(t, "sue").get("chains")
	wantText(t, page, "!mailit")
	for _, name := range []string{"ann", "dan", "all"} {
		b := s.browser(t, name)
		_, page = b.get("runs/" + run + "/approve")
		wantText(t, page, "crm.send", "1 call", "!you may not use")
		_, page = b.get("chains")
		wantText(t, page, "<code>chain.mailit</code> is not run here: crm is called with your own credential")
		_, page = b.get("sources")
		wantText(t, page, "crm is called with your own credential", "!auth login")
	}
	b := s.browser(t, "dan")
	_, page = b.get("runs/" + run + "/approve")
	if status, page := b.send(page, "runs/"+run+"/approve", url.Values{"decision": {"approve-all"}}); status != 200 {
		t.Fatalf("approving: status %d: %s", status, page)
	}
	for _, name := range []string{"ann", "all"} {
		_, page = s.browser(t, name).get("runs/" + run)
		wantText(t, page, "with its caller's own credential", `{"resume": "`+run+`"}`, "!/resume\"", "!onecall resume", "!/fix\"")
		_, page = s.browser(t, name).get("runs/" + run + "/undo")
		wantText(t, page, "with its caller's own credential", "!<button>Undo")
	}
	s.wantCalls(t)
}
