package telemetry_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/internal/telemetry"
)

// TestSlowRequest checks that a request that runs long is logged while it runs, with its caller.
func TestSlowRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, slog.LevelInfo, telemetry.Options{})
		began := time.Now()
		var running sync.WaitGroup
		running.Go(func() {
			b.engine.Run(context.Background(),
				[]byte(`{"name":"hog","steps":[{"fn":"bare"},{"chain":{"steps":[{"fn":"bare"}]}},{"fn":"slow.get","args":{"ms":250000,"id":"$0","of":"$1","key":"`+secret+`"}},{"fn":"slow.get","forEach":"1..9","args":{"ms":10}},{"fn":"slow.get","args":{"ms":10,"of":"$3"}},{"fn":"bare","when":"$4 == 1"},{"fn":"test.echo","args":{"of":"$2"}}]}`), &chain.Caller{ID: "token:ci"})
		})
		running.Go(func() {
			b.engine.Call(telemetry.WithCall(context.Background(), "slow_get", "", ""),
				&chain.Call{Function: "slow.get", Args: []byte(`{"ms":31000}`)}, &chain.Caller{ID: "token:ops"})
		})
		running.Go(func() { b.run(context.Background(), `{"steps":[{"fn":"slow.get","args":{"ms":29000}}]}`) })
		running.Wait()
		took := time.Since(began)
		var got []string
		for _, line := range b.out.records(t, "a request is running long") {
			got = append(got, fmt.Sprint(line.Get("kind"), " of ", line.Get("caller"), " ", line.Get("name"), line.Get("tool"), ": ",
				line.Get("fn"), ", ", line.Get("ended"), " of ", line.Get("steps"), " in ", line.Get("ms").Int()/1000))
			if id := line.Get("chain_id").Str; line.Get("level").Str != "WARN" ||
				!slices.ContainsFunc(b.out.records(t, "request"), func(end gjson.Result) bool {
					return end.Get("chain_id").Str == id && end.Get("caller").Str == line.Get("caller").Str
				}) {
				t.Errorf("got %s, want a warning with the chain_id and caller of a request", line.Raw)
			}
		}
		slices.Sort(got)
		want := []string{"call of token:ops  slow_get: slow.get,  of 1 in 30",
			"chain of token:ci hog : slow.get, 6 of 7 in 120", "chain of token:ci hog : slow.get, 6 of 7 in 240",
			"chain of token:ci hog : slow.get, 6 of 7 in 30", "chain of token:ci hog : slow.get, 6 of 7 in 60"}
		if !slices.Equal(got, want) || took != 250*time.Second {
			t.Errorf("%q, want %q, after %v", got, want, took)
		}
	})
}

// TestSlowAmongMany checks that, of many requests, each that runs long is logged, and none that has ended.
func TestSlowAmongMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, slog.LevelWarn, telemetry.Options{})
		const many = 50
		for range 2 {
			time.Sleep(time.Hour)
			var ends []func(*chain.RequestEnd)
			for i := range many {
				_, end := b.Request(context.Background(),
					&chain.RequestInfo{Kind: chain.KindPass, Caller: fmt.Sprint("c", i), Started: time.Now().Add(time.Duration(i-many) * time.Millisecond)})
				ends = append(ends, end)
			}
			for i := range ends { // in another order
				if i%2 == 1 {
					ends[i](&chain.RequestEnd{})
				}
			}
			time.Sleep(40 * time.Second)
			for i := range ends {
				if i%2 == 0 {
					ends[i](&chain.RequestEnd{})
				}
			}
		}
		time.Sleep(time.Hour)
		var callers []string
		for _, line := range b.out.records(t, "a request is running long") {
			callers = append(callers, line.Get("caller").Str)
		}
		var want []string
		for i := range many / 2 {
			want = append(want, fmt.Sprint("c", 2*i))
		}
		if !slices.Equal(callers, append(slices.Clip(want), want...)) {
			t.Errorf("%q, want %q", callers, want)
		}
	})
}

// TestSlowest checks that a chain's line names its slowest step, if a step was slow.
func TestSlowest(t *testing.T) {
	t.Parallel()
	for request, want := range map[string]string{
		`{"steps":[{"fn":"slow.get","args":{"ms":999}},{"fn":"slow.get","args":{"ms":999,"after":"$0"}}]}`:                                                          " ",
		`{"steps":[{"fn":"slow.get","args":{"ms":1500}},{"fn":"bare"}]}`:                                                                                            "slow.get 1500",
		`{"steps":[{"chain":{"steps":[{"fn":"slow.get","args":{"ms":2000}}]}},{"fn":"slow.get","args":{"ms":1200,"after":"$0"}}]}`:                                  "slow.get 2000",
		`{"steps":[{"chain":{"steps":[{"fn":"slow.get","args":{"ms":1200}},{"fn":"slow.get","args":{"ms":1300,"after":"$0"}}]}}]}`:                                  "slow.get 1300",
		`{"steps":[{"fn":"slow.get","forEach":"1..3","concurrency":1,"args":{"ms":700,"n":"$item"}}]}`:                                                              "slow.get 2100",
		`{"budget":{"maxDurationMs":3000},"steps":[{"fn":"bare"},{"fn":"slow.get","args":{"ms":9000,"after":"$0"}}]}`:                                               "slow.get 3000",
		`{"onError":"continue","steps":[{"fn":"slow.get","args":{"ms":1200}},{"fn":"test.fail"},{"fn":"slow.get","args":{"ms":1700}},{"fn":"slow.get","args":{}}]}`: "slow.get 1700",
	} {
		synctest.Test(t, func(t *testing.T) {
			b := start(t, slog.LevelInfo, telemetry.Options{})
			answer := b.run(context.Background(), request)
			line := b.out.records(t, "request")[0]
			if got := line.Get("slowest").Str + " " + line.Get("ms_slowest").Raw; got != want {
				t.Errorf("%s\n%q, want %q: %s\n%s", request, got, want, line.Raw, answer.JSON)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		b := start(t, slog.LevelInfo, telemetry.Options{})
		b.engine.Call(context.Background(), &chain.Call{Function: "slow.get", Args: []byte(`{"ms":5000}`)}, nil)
		if line := b.out.records(t, "request")[0]; line.Get("slowest").Exists() || line.Get("fn").Str != "slow.get" || line.Get("ms").Num != 5000 {
			t.Errorf("the line of a call has a slowest step or lacks its own time: %s", line.Raw)
		}
	})
}

// TestSlowRace ends requests while they are logged, for the race detector.
func TestSlowRace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, slog.LevelWarn, telemetry.Options{})
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				for n := range 10 {
					b.run(context.Background(),
						fmt.Sprintf(`{"steps":[{"fn":"slow.get","args":{"ms":%d}},{"fn":"slow.get","args":{"ms":5000}}]}`, 5000*((i+n)%8)))
				}
			})
		}
		all.Wait()
		slow := 0
		for i := range 40 {
			for n := range 10 {
				if (i+n)%8 >= 6 { // the request takes 30 s or 35 s
					slow++
				}
			}
		}
		if got := len(b.out.records(t, "a request is running long")); got == 0 || got > slow {
			t.Errorf("%d lines, want 1 to %d", got, slow)
		}
	})
}
