package steps_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/cache"
)

// awaySource is a live source whose only function fails once release receives a value.
type awaySource struct {
	status  steps.Status
	release chan struct{}
	failure *fault.Error
	changed func()
}

func (a *awaySource) Functions() []steps.Function {
	return []steps.Function{{
		Spec: steps.Spec{Name: "away.read", Effect: steps.Read, EffectDeclared: true, CacheTTL: time.Hour},
		Call: func(context.Context, []byte) ([]byte, error) {
			<-a.release
			return nil, a.failure
		},
	}}
}

func (a *awaySource) Close() error          { return nil }
func (a *awaySource) Watch(changed func())  { a.changed = changed }
func (a *awaySource) Status() steps.Status  { return a.status }
func (a *awaySource) become(s steps.Status) { a.status = s; a.changed() }
func allFunctions(*steps.Spec) bool         { return true }
func contains(f error, word string) bool    { return f != nil && strings.Contains(f.Error(), word) }
func unreachable(why string) *fault.Error {
	return fault.New(fault.Unavailable, "cannot start /opt/%s", why)
}

// TestSharedCallHidesCause: if callers wait for the same call, each reads only the cause that it may know, whichever came first.
func TestSharedCallHidesCause(t *testing.T) {
	t.Parallel()
	for _, hidingFirst := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			cache := cache.New(nil)
			catalog, err := steps.NewCatalog(&steps.CatalogOptions{Wrap: func(r *steps.Registry) (*steps.Registry, error) {
				return cache.Wrap(r),
					nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer catalog.Close()
			source := &awaySource{status: steps.Status{State: steps.StateReady}, release: make(chan struct{}), failure: unreachable("secret")}
			if err := catalog.Add("away", source); err != nil {
				t.Fatal(err)
			}
			read, err := catalog.Registry().Resolve("away.read")
			if err != nil {
				t.Fatal(err)
			}
			var logged []string
			hiding := steps.WithoutCauses(t.Context(), func(_ context.Context, source string, cause *fault.Error) {
				logged = append(logged, source+": "+cause.Message)
			})
			errs := map[bool]chan error{}
			for _, is := range []bool{hidingFirst, !hidingFirst} {
				errs[is] = make(chan error, 1)
				ctx := t.Context()
				if is {
					ctx = hiding
				}
				go func() {
					_, err := read.Call(ctx, []byte(`{}`))
					errs[is] <- err
				}()
				synctest.Wait()
			}
			source.release <- struct{}{} // only once: both callers wait for one call
			first, second := <-errs[false], <-errs[true]
			if !contains(first, "secret") || contains(second, "secret") || !contains(second, "the source \"away\" is unavailable") ||
				fault.CodeOf(second) != fault.Unavailable {
				t.Errorf("hiding first %t: with causes got %v, without got %v; want secret only with causes", hidingFirst, first, second)
			}
			if len(logged) != 1 || logged[0] != "away: cannot start /opt/secret" {
				t.Errorf("got log %q, want away: cannot start /opt/secret", logged)
			}
		})
	}
}

// TestViewWithoutCauses checks what a view without causes reports of an unavailable source, and since when.
func TestViewWithoutCauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		catalog, err := steps.NewCatalog(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer catalog.Close()
		source := &awaySource{status: steps.Status{State: steps.StateReady}}
		if err := catalog.Add("away", source); err != nil {
			t.Fatal(err)
		}
		view := steps.NewView(catalog, allFunctions)
		hiding := view.WithoutCauses()
		if view.Registry() != hiding.Registry() || steps.Unavailable(view, "away.x") != nil ||
			steps.Unavailable(hiding, "away.x") != nil || !view.Sources()[0].Since.IsZero() {
			t.Errorf("a ready source counts as unavailable: %+v", hiding.Sources()[0])
		}
		time.Sleep(time.Hour)
		deadline := time.Now()
		source.become(steps.Status{State: steps.StateRetrying, Error: unreachable("secret"), Retry: deadline.Add(time.Minute)})
		view.Registry()
		time.Sleep(time.Hour)
		for i := range 3 { // the state stays the same
			if one := hiding.Sources()[0]; !one.Since.Equal(deadline) || contains(one.Error, "secret") ||
				!contains(one.Error, "the source \"away\" is unavailable; the operator's log has the cause") {
				t.Errorf("%d: without causes: since %v, %v, want %v, no secret and the hint at the log", i, one.Since, one.Error, deadline)
			}
			if one := view.Sources()[0]; !one.Since.Equal(deadline) || !contains(one.Error, "secret") {
				t.Errorf("%d: with causes: since %v, %v, want %v and secret", i, one.Since, one.Error, deadline)
			}
			if f := steps.Unavailable(hiding, "away.x"); contains(f, "secret") || !contains(f, `the source "away" is retrying`) ||
				!contains(f, "; the operator's log has the cause") {
				t.Errorf("%d: the fault without causes is %v, want retrying without secret, and the hint at the log", i, f)
			}
			if f := steps.Unavailable(view, "away.x"); !contains(f, `the source "away" is retrying: cannot start /opt/`) {
				t.Errorf("%d: the fault with causes is %v, want retrying: cannot start /opt/", i, f)
			}
			source.become(steps.Status{State: steps.StateRetrying, Error: unreachable("another secret")})
			time.Sleep(time.Minute)
		}
		source.become(steps.Status{State: steps.StateReady})
		if one := hiding.Sources()[0]; one.Error != nil || !one.Since.IsZero() {
			t.Errorf("a source that is ready again has an error: %+v", one)
		}
		source.become(steps.Status{State: steps.StateFailed, Error: unreachable("secret"), Since: deadline})
		if one := hiding.Sources()[0]; !one.Since.Equal(deadline) || !contains(one.Error, "the source \"away\" is unavailable") {
			t.Errorf("failed source: since %v, %v, want %v and unavailable", one.Since, one.Error, deadline)
		}
	})
}

// TestHideCauseOfEndedCall: the reason why a chain has ended is not hidden.
func TestHideCauseOfEndedCall(t *testing.T) {
	t.Parallel()
	ourFault := fault.New(fault.Timeout, "the chain's time of 5 ms is over")
	ended, cancel := context.WithCancelCause(steps.WithoutCauses(t.Context(), func(context.Context, string, *fault.Error) {}))
	cancel(ourFault)
	given := *ourFault
	given.Outcome = fault.NotSent
	if got := steps.HideCause(ended, "away", &given); got.Message != ourFault.Message {
		t.Errorf("the reason why the chain ended is hidden: %v", got)
	}
	if got := steps.HideCause(ended, "away", fault.New(fault.Timeout, "no answer from secret.internal")); contains(got, "secret") ||
		got.Code != fault.Timeout {
		t.Errorf("the text of a source's timeout is shown: %v", got)
	}
	if got := steps.HideCause(t.Context(), "away", unreachable("secret")); !contains(got, "secret") {
		t.Errorf("the cause is hidden from a caller that may read it: %v", got)
	}
}

// TestHideCauseOfTimeout: a source's timeout is reported and logged, but its text is hidden.
func TestHideCauseOfTimeout(t *testing.T) {
	t.Parallel()
	logged := 0
	hiding := steps.WithoutCauses(t.Context(), func(context.Context, string, *fault.Error) { logged++ })
	for _, outcome := range []fault.Outcome{"", fault.NotSent, fault.SentUnknown} {
		f := fault.New(fault.Timeout, "secret.internal had not answered")
		f.Outcome = outcome
		got := steps.HideCause(hiding, "away", f)
		if contains(got, "secret") || !contains(got, "the source \"away\" did not answer in time") || !contains(got, "; the operator's log") ||
			contains(got, "not known") != (outcome == fault.SentUnknown) || got.Err != nil ||
			got.Code != fault.Timeout || got.Outcome != outcome || logged != 1 {
			t.Errorf("outcome %q: got %v, logged %d times, want its code and outcome without secret, and once", outcome, got, logged)
		}
		logged = 0
	}
	expired, cancel := context.WithTimeout(hiding, 0)
	defer cancel()
	got := steps.HideCause(expired, "away", fault.New(fault.Timeout, "secret.internal had not answered"))
	if contains(got, "secret") || contains(got, "log") || !contains(got, "the source \"away\" did not answer in time") || logged > 0 {
		t.Errorf("the call's own timeout: got %v, logged %d times, want neither secret nor log, and none", got, logged)
	}
}
