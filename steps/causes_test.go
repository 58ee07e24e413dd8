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

// away is a live source whose only function fails once goOn receives a value.
type away struct {
	status  steps.Status
	goOn    chan struct{}
	failure *fault.Error
	changed func()
}

func (a *away) Functions() []steps.Function {
	return []steps.Function{{
		Spec: steps.Spec{Name: "away.read", Effect: steps.Read, EffectDeclared: true, CacheTTL: time.Hour},
		Call: func(context.Context, []byte) ([]byte, error) {
			<-a.goOn
			return nil, a.failure
		},
	}}
}

func (a *away) Close() error          { return nil }
func (a *away) Watch(changed func())  { a.changed = changed }
func (a *away) Status() steps.Status  { return a.status }
func (a *away) become(s steps.Status) { a.status = s; a.changed() }
func everything(*steps.Spec) bool     { return true }
func holds(f error, word string) bool { return f != nil && strings.Contains(f.Error(), word) }
func unreachable(why string) *fault.Error {
	return fault.New(fault.Unavailable, "cannot start /opt/%s", why)
}

// TestCallersShareACall: if callers wait for the same call, each reads only the cause that it may know, whichever came first.
func TestCallersShareACall(t *testing.T) {
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
			source := &away{status: steps.Status{State: steps.StateReady}, goOn: make(chan struct{}), failure: unreachable("secret")}
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
			source.goOn <- struct{}{} // only once: both callers wait for one call
			first, second := <-errs[false], <-errs[true]
			if !holds(first, "secret") || holds(second, "secret") || !holds(second, "the source \"away\" is unavailable") ||
				fault.CodeOf(second) != fault.Unavailable {
				t.Errorf("hiding first %v: told %v, the other %v", hidingFirst, first, second)
			}
			if len(logged) != 1 || logged[0] != "away: cannot start /opt/secret" {
				t.Errorf("logged %q", logged)
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
		source := &away{status: steps.Status{State: steps.StateReady}}
		if err := catalog.Add("away", source); err != nil {
			t.Fatal(err)
		}
		view := steps.NewView(catalog, everything)
		hiding := view.WithoutCauses()
		if view.Registry() != hiding.Registry() || steps.Unavailable(view, "away.x") != nil ||
			steps.Unavailable(hiding, "away.x") != nil || !view.Sources()[0].Since.IsZero() {
			t.Errorf("there is something wrong with a source that is there: %+v", hiding.Sources()[0])
		}
		time.Sleep(time.Hour)
		deadline := time.Now()
		source.become(steps.Status{State: steps.StateRetrying, Error: unreachable("secret"), Retry: deadline.Add(time.Minute)})
		view.Registry()
		time.Sleep(time.Hour)
		for i := range 3 { // the state stays the same
			if one := hiding.Sources()[0]; !one.Since.Equal(deadline) || holds(one.Error, "secret") ||
				!holds(one.Error, "the source \"away\" is unavailable; the operator's log has the cause") {
				t.Errorf("%d: since %v, %v", i, one.Since, one.Error)
			}
			if one := view.Sources()[0]; !one.Since.Equal(deadline) || !holds(one.Error, "secret") {
				t.Errorf("%d: told since %v, %v", i, one.Since, one.Error)
			}
			if f := steps.Unavailable(hiding, "away.x"); holds(f, "secret") || !holds(f, `the source "away" is retrying`) ||
				!holds(f, "; the operator's log has the cause") {
				t.Errorf("%d: %v", i, f)
			}
			if f := steps.Unavailable(view, "away.x"); !holds(f, `the source "away" is retrying: cannot start /opt/`) {
				t.Errorf("%d: told %v", i, f)
			}
			source.become(steps.Status{State: steps.StateRetrying, Error: unreachable("another secret")})
			time.Sleep(time.Minute)
		}
		source.become(steps.Status{State: steps.StateReady})
		if one := hiding.Sources()[0]; one.Error != nil || !one.Since.IsZero() {
			t.Errorf("it is back: %+v", one)
		}
		source.become(steps.Status{State: steps.StateFailed, Error: unreachable("secret"), Since: deadline})
		if one := hiding.Sources()[0]; !one.Since.Equal(deadline) || !holds(one.Error, "the source \"away\" is unavailable") {
			t.Errorf("failed: since %v, %v", one.Since, one.Error)
		}
	})
}

// TestWithoutCauseWhereACallEnded: the reason why a chain has ended is not hidden.
func TestWithoutCauseWhereACallEnded(t *testing.T) {
	t.Parallel()
	ourFault := fault.New(fault.Timeout, "the chain's time of 5 ms is over")
	ended, cancel := context.WithCancelCause(steps.WithoutCauses(t.Context(), func(context.Context, string, *fault.Error) {}))
	cancel(ourFault)
	given := *ourFault
	given.Outcome = fault.NotSent
	if got := steps.HideCause(ended, "away", &given); got.Message != ourFault.Message {
		t.Errorf("%v", got)
	}
	if got := steps.HideCause(ended, "away", fault.New(fault.Timeout, "no answer from secret.internal")); holds(got, "secret") ||
		got.Code != fault.Timeout {
		t.Errorf("%v", got)
	}
	if got := steps.HideCause(t.Context(), "away", unreachable("secret")); !holds(got, "secret") {
		t.Errorf("a caller that is told causes: %v", got)
	}
}

// TestWithoutCauseOfTime: a source's timeout is reported and logged, but its text is hidden.
func TestWithoutCauseOfTime(t *testing.T) {
	t.Parallel()
	logged := 0
	hiding := steps.WithoutCauses(t.Context(), func(context.Context, string, *fault.Error) { logged++ })
	for _, outcome := range []fault.Outcome{"", fault.NotSent, fault.SentUnknown} {
		f := fault.New(fault.Timeout, "secret.internal had not answered")
		f.Outcome = outcome
		got := steps.HideCause(hiding, "away", f)
		if holds(got, "secret") || !holds(got, "the source \"away\" did not answer in time") || !holds(got, "; the operator's log") ||
			holds(got, "not known") != (outcome == fault.SentUnknown) || got.Err != nil ||
			got.Code != fault.Timeout || got.Outcome != outcome || logged != 1 {
			t.Errorf("%q: %v, logged %d", outcome, got, logged)
		}
		logged = 0
	}
	over, cancel := context.WithTimeout(hiding, 0)
	defer cancel()
	got := steps.HideCause(over, "away", fault.New(fault.Timeout, "secret.internal had not answered"))
	if holds(got, "secret") || holds(got, "log") || !holds(got, "the source \"away\" did not answer in time") || logged > 0 {
		t.Errorf("the call's own time: %v, logged %d", got, logged)
	}
}
