package budget_test

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/memstore"
	"github.com/onecall-mcp/onecall/fault"
)

// memory returns a store in memory.
func memory(t testing.TB) budget.Driver {
	t.Helper()
	d, err := memstore.New(nil)
	must(t, err)
	return d
}

// results returns Results in memory that are closed at the end of the test.
func results(t testing.TB, o *budget.ResultsOptions) *budget.Results {
	t.Helper()
	return resultsOn(t, memory(t), o)
}

// resultsOn returns Results on a driver.
func resultsOn(t testing.TB, d budget.Driver, o *budget.ResultsOptions) *budget.Results {
	t.Helper()
	r, err := budget.NewResults(d, o)
	must(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func keep(t testing.TB, r *budget.Results, value string) string {
	t.Helper()
	token, _, err := r.Keep(context.Background(), "me", []byte(value))
	must(t, err)
	return token
}

func TestKeep(t *testing.T) {
	t.Parallel()
	r := results(t, nil)
	token, expiresIn, err := r.Keep(t.Context(), "me", []byte(`{"a":1.10}`))
	if err != nil || expiresIn != 5*time.Minute {
		t.Fatalf("Keep: expires in %v, %v; want 5m", expiresIn, err)
	}
	if !regexp.MustCompile(`^oc1_[0-9]{39}$`).MatchString(token) {
		t.Errorf("the token is %q, want oc1_ and 39 digits", token)
	}
	value, expiresIn, err := r.Value(t.Context(), "me", token)
	if err != nil || string(value) != `{"a":1.10}` || expiresIn > 5*time.Minute || expiresIn < 4*time.Minute {
		t.Errorf(`Value = %s for %v, %v; want {"a":1.10} for 4 to 5 minutes`, value, expiresIn, err)
	}
	if again := keep(t, r, `{"a":1.10}`); again == token {
		t.Error("two results have the same token")
	}
}

func TestInvalidTokens(t *testing.T) {
	t.Parallel()
	r := results(t, nil)
	token := keep(t, r, "1")
	for name, try := range map[string][2]string{
		"another owner":    {"you", token},
		"no owner":         {"", token},
		"another token":    {"me", "oc1_" + strings.Repeat("1", 39)},
		"no prefix":        {"me", strings.TrimPrefix(token, "oc1_")},
		"cut":              {"me", token[:len(token)-1]},
		"longer":           {"me", token + "0"},
		"spaces":           {"me", " " + token},
		"empty":            {"me", ""},
		"prefix alone":     {"me", "oc1_"},
		"path":             {"me", "oc1_../../etc/passwd"},
		"bytes":            {"me", "oc1_\x00\xff"},
		"other kind":       {"me", "oc2_" + token[4:]},
		"very long":        {"me", "oc1_" + strings.Repeat("9", 1<<20)},
		"upper case":       {"me", strings.ToUpper(token)},
		"another script's": {"me", "oc1_١٢٣"},
	} {
		_, _, err := r.Value(t.Context(), try[0], try[1])
		e, _ := fault.As(err)
		if e == nil || e.Code != fault.TokenExpired ||
			e.Message != "Continuation token expired or not found. Re-invoke without continuation_token to start a new negotiation." {
			t.Errorf("%s: %v, want token_expired", name, err)
		}
	}
	if _, _, err := r.Value(t.Context(), "me", token); err != nil {
		t.Errorf("Value with the right token: %v", err)
	}
}

func TestUseExtendsLife(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := results(t, &budget.ResultsOptions{TTL: 5 * time.Minute, MaxTTL: 12 * time.Minute})
		token, unused := keep(t, r, "1"), keep(t, r, "2")
		read := func(token string) (time.Duration, fault.Code) {
			_, left, err := r.Value(t.Context(), "me", token)
			return left, fault.CodeOf(err)
		}
		for _, want := range []time.Duration{5 * time.Minute, 4 * time.Minute} { // first the whole TTL, then what is left of MaxTTL
			time.Sleep(4 * time.Minute)
			if left, code := read(token); left != want || code != "" {
				t.Errorf("the result expires in %v (%s), want %v", left, code, want)
			}
		}
		if _, code := read(unused); code != fault.TokenExpired {
			t.Errorf("result unused for 8 minutes: code %q, want token_expired", code)
		}
		time.Sleep(4*time.Minute - 1)
		if left, code := read(token); left != 1 || code != "" {
			t.Errorf("just before its end the result expires in %v (%s), want 1ns", left, code)
		}
		time.Sleep(time.Nanosecond)
		if _, code := read(token); code != fault.TokenExpired {
			t.Errorf("result after MaxTTL: code %q, want token_expired", code)
		}
	})
}

func TestTooLargeToKeep(t *testing.T) {
	t.Parallel()
	r := results(t, &budget.ResultsOptions{MaxBytes: 10})
	if _, _, err := r.Keep(t.Context(), "me", []byte(`"12345678"`)); err != nil {
		t.Errorf("Keep of 10 bytes, limit 10: %v", err)
	}
	if _, _, err := r.Keep(t.Context(), "me", []byte(`"123456789"`)); fault.CodeOf(err) != fault.LimitExceeded {
		t.Errorf("Keep of 11 bytes, limit 10: %v, want limit_exceeded", err)
	}
	unbounded := results(t, &budget.ResultsOptions{MaxBytes: -1})
	if _, _, err := unbounded.Keep(t.Context(), "me", numbered(1000)); err != nil {
		t.Errorf("Keep without a limit: %v", err)
	}
}

func TestResultsOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []budget.ResultsOptions{
		{TTL: -1}, {TTL: time.Millisecond}, {MaxTTL: -1}, {TTL: time.Hour, MaxTTL: time.Minute}, {MaxBytes: -2}, {PageSize: -1},
	} {
		if _, err := budget.NewResults(nil, &o); fault.CodeOf(err) != fault.BadRequest {
			t.Errorf("NewResults(%+v): %v, want bad_request", o, err)
		}
	}
	if _, err := budget.NewResults(nil, &budget.ResultsOptions{TTL: 2 * time.Hour}); err != nil {
		t.Errorf("TTL above the default MaxTTL: %v", err)
	}
}

// failingDriver is a driver whose operations fail: all of them, or those that err names.
type failingDriver struct {
	budget.Driver
	put, get, touch error
}

func (f failingDriver) Put(ctx context.Context, key string, e budget.Entry) error {
	if f.put != nil {
		return f.put
	}
	return f.Driver.Put(ctx, key, e)
}

func (f failingDriver) Get(ctx context.Context, key string, admit budget.Admit) (budget.Entry, error) {
	if f.get != nil {
		return budget.Entry{}, f.get
	}
	return f.Driver.Get(ctx, key, admit)
}

func (f failingDriver) Touch(ctx context.Context, key string, expires time.Time) error {
	if f.touch != nil {
		return f.touch
	}
	return f.Driver.Touch(ctx, key, expires)
}

func TestDriverErrors(t *testing.T) {
	t.Parallel()
	disk := errors.New("input/output error")
	for _, test := range []struct {
		err  error
		code fault.Code
	}{
		{disk, fault.Unavailable},
		{budget.ErrClosed, fault.Unavailable},
		{context.Canceled, fault.Cancelled},
		{context.DeadlineExceeded, fault.Timeout},
		{fault.New(fault.LimitExceeded, "full"), fault.LimitExceeded},
	} {
		r := resultsOn(t, failingDriver{memory(t), test.err, test.err, nil}, nil)
		_, _, err := r.Keep(t.Context(), "me", []byte("1"))
		if fault.CodeOf(err) != test.code || !errors.Is(err, test.err) {
			t.Errorf("Keep with %v: %v, want %s", test.err, err, test.code)
		}
		if e, _ := fault.As(err); strings.Contains(e.Message, disk.Error()) {
			t.Errorf("the message shows the cause: %q", e.Message)
		}
		if _, _, err = r.Value(t.Context(), "me", "oc1_1"); fault.CodeOf(err) != test.code {
			t.Errorf("Value with %v: %v, want %s", test.err, err, test.code)
		}
		if _, err = r.Probe(t.Context(), "me", []byte("1"), 10); fault.CodeOf(err) != test.code {
			t.Errorf("Probe with %v: %v, want %s", test.err, err, test.code)
		}
	}
}

// A store that cannot extend lifetimes still returns results.
func TestTouchFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := resultsOn(t, failingDriver{Driver: memory(t), touch: errors.New("read-only")}, nil)
		token := keep(t, r, "1")
		time.Sleep(time.Minute)
		if v, left, err := r.Value(t.Context(), "me", token); err != nil || string(v) != "1" || left != 4*time.Minute {
			t.Errorf("Value = %s, expires in %v, %v; want 1, 4m", v, left, err)
		}
	})
}

// recordingDriver records the last entry that was put into its driver.
type recordingDriver struct {
	budget.Driver
	key   string
	entry budget.Entry
}

func (r *recordingDriver) Put(ctx context.Context, key string, e budget.Entry) error {
	r.key, r.entry = key, e
	return r.Driver.Put(ctx, key, e)
}

// A store contains neither tokens nor the names of owners.
func TestStoreHoldsNoSecrets(t *testing.T) {
	t.Parallel()
	d := &recordingDriver{Driver: memory(t)}
	r := resultsOn(t, d, nil)
	token, _, err := r.Keep(t.Context(), "alice@example.com", []byte("1"))
	must(t, err)
	if strings.Contains(d.key, token[4:14]) || strings.Contains(d.entry.Owner, "alice") || d.entry.Owner == "" {
		t.Errorf("the driver got a secret: key %q, owner %q", d.key, d.entry.Owner)
	}
}

// TestCompact: a stored value retains little spare capacity.
func TestCompact(t *testing.T) {
	t.Parallel()
	for capacity, same := range map[int]bool{100: true, 120: true, 130: false, 200: false} {
		value := bytes.Repeat([]byte("x"), capacity)[:100]
		got := budget.Compact(value)
		if (unsafe.SliceData(got) == unsafe.SliceData(value)) != same || !bytes.Equal(got, value) || cap(got) > 128 {
			t.Errorf("capacity %d: want the same memory %t, got capacity %d", capacity, same, cap(got))
		}
	}
}

// must fails a test whose setup failed.
func must(t interface {
	Helper()
	Fatal(args ...any)
}, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
