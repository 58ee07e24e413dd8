package steps

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

func TestCallAnswers(t *testing.T) {
	t.Parallel()
	var noFault *fault.Error
	denied := fault.New(fault.Denied, "not this one")
	tests := []struct {
		name    string
		call    Call
		want    string
		code    fault.Code
		message string
	}{
		{name: "compact", call: answering(" {\"n\" : 1.10, \"a\":[717897987691852588770249 ]}\n", nil),
			want: `{"n":1.10,"a":[717897987691852588770249]}`},
		{name: "null", call: answering("null", nil), want: "null"},
		{name: "nothing", call: answering("", nil), code: fault.Internal, message: "the result of test.call is not valid JSON"},
		{name: "not JSON", call: answering("hello", nil), code: fault.Internal, message: "is not valid JSON"},
		{name: "two values", call: answering("{}{}", nil), code: fault.Internal, message: "is not valid JSON"},
		{name: "not UTF-8", call: answering("\"\xff\"", nil), code: fault.Internal, message: "UTF-8"},
		{name: "too deep", call: answering(strings.Repeat("[", 20_000)+strings.Repeat("]", 20_000), nil), code: fault.Internal, message: "deep"},
		{name: "too long", call: answering(`"`+strings.Repeat("x", 100)+`"`, nil), code: fault.LimitExceeded, message: "102 bytes"},
		{name: "whitespace does not count", call: answering(strings.Repeat(" ", 1000)+"1", nil), want: "1"},
		{name: "coded", call: answering("", denied), code: fault.Denied, message: "not this one"},
		{name: "coded within", call: answering("", fmt.Errorf("while: %w", denied)), code: fault.Denied, message: "not this one"},
		{name: "plain", call: answering("", errors.New("no such file")), code: fault.FunctionFailed, message: "test.call: no such file"},
		{name: "long", call: answering("", errors.New(strings.Repeat("é", 5000))), code: fault.FunctionFailed, message: "é…"},
		{name: "own deadline", call: answering("", fmt.Errorf("dial: %w", context.DeadlineExceeded)), code: fault.Timeout, message: "dial"},
		{name: "own cancellation", call: answering("", context.Canceled), code: fault.FunctionFailed, message: "canceled"},
		{name: "nil fault", call: answering("", noFault), code: fault.Internal, message: "without saying how"},
		{name: "panic", call: func(context.Context, []byte) ([]byte, error) { panic("secret value") }, code: fault.Internal,
			message: "test.call failed with a panic"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e := calling(t, "", &RegistryOptions{MaxResultBytes: 50}, test.call)
			if strings.Contains(test.name, "deep") {
				e = calling(t, "", nil, test.call)
			}
			for _, ctx := range []context.Context{context.Background(), t.Context()} { // on the caller's goroutine, then on another one
				got, err := e.Call(ctx, []byte("{}"))
				if string(got) != test.want || fault.CodeOf(err) != test.code {
					t.Fatalf("got %s, %v, want %s, %s", got, err, test.want, test.code)
				}
				if err == nil {
					continue
				}
				f, _ := fault.As(err)
				if !strings.Contains(f.Message, test.message) || strings.Contains(f.Message, "secret") || strings.Contains(f.Message, "goroutine") {
					t.Errorf("got message %q, want %q in it and no secret", f.Message, test.message)
				}
				if len(f.Message) > maxErrorText+100 {
					t.Errorf("the message has %d bytes, want at most %d", len(f.Message), maxErrorText+100)
				}
				if test.name == "panic" && (!strings.Contains(f.Err.Error(), "secret value") || !strings.Contains(f.Err.Error(),
					"call_internal_test.go")) {
					t.Errorf("the cause lacks the panic's value or its stack: %v", f.Err)
				}
			}
		})
	}
}

func TestCallReturnsInTime(t *testing.T) {
	t.Parallel()
	heeds := func(ctx context.Context, _ []byte) ([]byte, error) {
		<-ctx.Done()
		return nil, fmt.Errorf("request: %w", ctx.Err())
	}
	sleeps := func(d time.Duration) Call {
		return func(context.Context, []byte) ([]byte, error) {
			time.Sleep(d)
			return []byte(`"done"`), nil
		}
	}
	coded := func(ctx context.Context, _ []byte) ([]byte, error) {
		<-ctx.Done()
		f := fault.New(fault.Unavailable, "lost the connection")
		f.Err = ctx.Err()
		return nil, f
	}
	deadline := func(ctx context.Context) (context.Context, func()) { return context.WithTimeout(ctx, time.Second) }
	cancelled := func(ctx context.Context) (context.Context, func()) {
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(time.Second, cancel)
		return ctx, cancel
	}
	caused := func(ctx context.Context) (context.Context, func()) {
		return context.WithTimeoutCause(ctx, time.Second, fault.New(fault.LimitExceeded, "the chain took too long"))
	}
	tests := []struct {
		name string
		ctx  func(context.Context) (context.Context, func())
		call Call
		code fault.Code
		took time.Duration
	}{
		{"heeded deadline", deadline, heeds, fault.Timeout, time.Second},
		{"heeded cancel", cancelled, heeds, fault.Cancelled, time.Second},
		{"coded by the function", deadline, coded, fault.Timeout, time.Second},
		{"with a cause", caused, heeds, fault.LimitExceeded, time.Second},
		{"ignored deadline", deadline, sleeps(time.Hour), fault.Timeout, time.Second + grace},
		{"ignored cancel", cancelled, sleeps(time.Hour), fault.Cancelled, time.Second + grace},
		{"ignored, with a cause", caused, sleeps(time.Hour), fault.LimitExceeded, time.Second + grace},
		{"done within the grace", deadline, sleeps(time.Second + grace/2), "", time.Second + grace/2},
		{"done before", deadline, sleeps(time.Second / 2), "", time.Second / 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := test.ctx(t.Context())
				defer cancel()
				start := time.Now()
				got, err := calling(t, "", nil, test.call).Call(ctx, nil)
				took := time.Since(start)
				if fault.CodeOf(err) != test.code || (err == nil) != (string(got) == `"done"`) || took != test.took {
					t.Errorf("got %s, %v after %v, want %q after %v", got, err, took, test.code, test.took)
				}
				time.Sleep(2 * time.Hour) // so that an abandoned function returns
			})
		})
	}
}

// Outcomes are not mixed up between abandoned calls and concurrent calls.
func TestConcurrentCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := calling(t, "", nil, func(_ context.Context, args []byte) ([]byte, error) {
			if strings.Contains(string(args), "slow") {
				time.Sleep(3 * grace)
			}
			return []byte(string(args)), nil
		})
		var wrong atomic.Int32
		for i := range 200 {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%7)*grace/2+1)
				defer cancel()
				args := fmt.Sprintf(`{"n":%d}`, i)
				if i%3 == 0 {
					args = fmt.Sprintf(`{"slow":%d}`, i)
				}
				got, err := e.Call(ctx, []byte(args))
				if err == nil && string(got) != args || err != nil && fault.CodeOf(err) != fault.Timeout {
					wrong.Add(1)
				}
			}()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := wrong.Load(); n != 0 {
			t.Errorf("%d calls got the answer of another call", n)
		}
	})
}
