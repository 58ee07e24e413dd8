package replica_test

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/redisclient/redistest"
	"github.com/onecall-mcp/onecall/replica"
)

func take(tb testing.TB, s *replica.Store, owner string, perSecond float64, burst int) time.Duration {
	tb.Helper()
	wait, err := s.Take(tb.Context(), owner, perSecond, burst)
	if err != nil {
		tb.Fatal(err)
	}
	return wait
}

// Two replicas count together, whoever is asked, and each owner by itself.
func TestRate(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	stores := []*replica.Store{open(t, replica.Options{URL: server.URL()}), open(t, replica.Options{URL: server.TCP()})}
	const burst = 20
	var made, refused atomic.Int32
	var all sync.WaitGroup
	for i := range 3 * burst {
		all.Go(func() {
			switch wait := take(t, stores[i%2], "o", 0.01, burst); {
			case wait == 0:
				made.Add(1)
			case wait > 100*time.Second || wait < 50*time.Second:
				t.Errorf("to wait %v for one of 0.01 a second", wait)
			default:
				refused.Add(1)
			}
		})
	}
	all.Wait()
	if made.Load() != burst || refused.Load() != 2*burst {
		t.Errorf("%d were made and %d refused, want %d and %d", made.Load(), refused.Load(), burst, 2*burst)
	}
	if wait := take(t, stores[0], "another", 0.01, burst); wait != 0 {
		t.Errorf("another owner waits %v", wait)
	}
	if wait := take(t, stores[0], "o", 0.02, burst); wait != 0 {
		t.Errorf("with another number it waits %v", wait)
	}
}

// Whoever waits as long as it was told is served, and sooner comes the average to pass.
func TestWait(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, replica.Options{URL: server.URL()})
	began := time.Now()
	const perSecond, burst, n = 50, 5, 30
	for made := 0; made < n; {
		wait := take(t, s, "o", perSecond, burst)
		if wait == 0 {
			made++
			continue
		}
		if wait > time.Second/perSecond+time.Millisecond {
			t.Fatalf("to wait %v at %d a second", wait, perSecond)
		}
		time.Sleep(wait)
		if again := take(t, s, "o", perSecond, burst); again > time.Millisecond {
			t.Fatalf("after having waited %v, to wait %v", wait, again)
		} else if again == 0 {
			made++
		}
	}
	if took, least := time.Since(began), (n-burst)*time.Second/perSecond; took < least-10*time.Millisecond {
		t.Errorf("%d at %d a second and %d at once took %v, want %v", n, perSecond, burst, took, least)
	}
}

func TestOddRates(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, replica.Options{URL: server.URL()})
	for _, none := range []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1)} {
		for range 3 {
			if wait := take(t, s, "o", none, 1); wait != 0 {
				t.Errorf("at %v a second: %v", none, wait)
			}
		}
	}
	client := server.Client(t)
	if keys := client.Keys(t.Context(), "*").Val(); len(keys) != 0 {
		t.Errorf("what has no bound is counted: %q", keys)
	}
	for _, rate := range []float64{1e-300, 1e-9, 0.001, 1, 1e9, 1e300} {
		for _, burst := range []int{math.MinInt, -1, 0, 1, 2, math.MaxInt} {
			made := 0
			for range 3 {
				if take(t, s, fmt.Sprint(rate, burst), rate, burst) == 0 {
					made++
				}
			}
			if rate < 1 && made != min(max(burst, 1), 3) {
				t.Errorf("%v a second, %d at once: %d of 3 were made", rate, burst, made)
			}
		}
	}
	for _, key := range client.Keys(t.Context(), "*").Val() {
		if !strings.HasPrefix(key, replica.DefaultPrefix+"rate:") {
			t.Errorf("the key %q is not ours", key)
		}
		if client.PTTL(t.Context(), key).Val() <= 0 {
			t.Errorf("%s would never expire", key)
		}
	}
}

func BenchmarkTake(b *testing.B) {
	server := redistest.Start(b)
	for name, url := range map[string]string{"socket": server.URL(), "tcp": server.TCP()} {
		s := open(b, replica.Options{URL: url})
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if wait := take(b, s, "o", 1e6, 1000); wait > time.Second {
					b.Fatal(wait)
				}
			}
		})
	}
}

// BenchmarkSession is what one request costs: its session is looked for, and the tokens of the answer are added.
func BenchmarkSession(b *testing.B) {
	server := redistest.Start(b)
	for name, url := range map[string]string{"socket": server.URL(), "tcp": server.TCP()} {
		s := open(b, replica.Options{URL: url})
		id, _ := begin(b, s, "o")
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := find(b, s, id, "o").Add(b.Context(), "tokens", 100); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/parallel", func(b *testing.B) {
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					state, err := s.Session(b.Context(), id, "o")
					if err == nil {
						_, err = state.Add(b.Context(), "tokens", 100)
					}
					if err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// BenchmarkRaise raises many numbers at once, of a session that is full.
func BenchmarkRaise(b *testing.B) {
	server := redistest.Start(b)
	s := open(b, replica.Options{URL: server.URL()})
	_, state := begin(b, s, "o")
	for _, n := range []int{1, 100, 500, 4096} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			round := 0
			for b.Loop() {
				values := map[string]int64{}
				for i := range n {
					values[fmt.Sprintf("ladder:0123456789:%d/%d", round, i)] = 3
				}
				if err := state.Raise(b.Context(), values); err != nil {
					b.Fatal(err)
				}
				round++
			}
		})
	}
}
