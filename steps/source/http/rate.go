package http

import (
	"fmt"
	"math"
	"net/http"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/egress"
)

// maxRatedHosts bounds the hosts whose rate is kept count of; the one that was called the longest ago begins anew.
const maxRatedHosts = 4096

// turns bounds the rate of requests to each host. A nil *turns sets none.
type turns struct {
	perSecond rate.Limit
	burst     int

	mu    sync.Mutex
	hosts *simplelru.LRU[string, *rate.Limiter]
}

func newTurns(perSecond float64, burst int) *turns {
	if perSecond == 0 || math.IsInf(perSecond, 1) {
		return nil
	}
	if burst == 0 {
		burst = int(math.Ceil(min(perSecond, math.MaxInt32)))
	}
	hosts, _ := simplelru.NewLRU[string, *rate.Limiter](maxRatedHosts, nil) // fails for a size below 1 only
	return &turns{perSecond: rate.Limit(perSecond), burst: burst, hosts: hosts}
}

// wait returns when the request may go: busy where that would be after its deadline, the context's error where that ends.
func (t *turns) wait(request *http.Request) error {
	if t == nil {
		return nil
	}
	host, ctx := egress.Host(request.URL), request.Context()
	err := t.of(host).Wait(ctx)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return &fault.Error{Code: fault.Busy, Outcome: fault.NotSent, Err: err,
		Message: fmt.Sprintf("%g requests a second may go to %s, and this one's turn comes after its deadline: call less at once, or give it more time",
			float64(t.perSecond), host)}
}

func (t *turns) of(host string) *rate.Limiter {
	t.mu.Lock()
	defer t.mu.Unlock()
	limiter, ok := t.hosts.Get(host)
	if !ok {
		limiter = rate.NewLimiter(t.perSecond, t.burst)
		t.hosts.Add(host, limiter)
	}
	return limiter
}
