package replica

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

// longestPeriod bounds the time from one request to the next: a rate below one a day counts as one a day.
const longestPeriod = 24 * time.Hour

// Take counts one request of an owner, which may make perSecond of them on average and burst at once (below 1: 1), wherever
// it comes. wait is 0 where it may be made; else it is not counted, and one that comes after wait may be. A perSecond that is
// not above 0, or infinite, is no bound; one below one request a day counts as that. With other numbers the counting begins
// anew. Where the connection breaks after the server was told, the request may be counted twice.
func (s *Store) Take(ctx context.Context, owner string, perSecond float64, burst int) (wait time.Duration, err error) {
	if !(perSecond > 0) || math.IsInf(perSecond, 1) {
		return 0, nil
	}
	period := longestPeriod
	if seconds := 1 / perSecond; seconds < longestPeriod.Seconds() {
		period = max(time.Duration(seconds*float64(time.Second)), 1)
	}
	limit := redis_rate.Limit{Rate: 1, Burst: min(max(burst, 1), math.MaxInt32), Period: period}
	key := fmt.Sprintf("%s:%d:%d", hashed(owner), limit.Period, limit.Burst)
	var answer *redis_rate.Result
	err = s.do(ctx, func(ctx context.Context, server *redis.Client) (err error) {
		answer, err = redis_rate.NewLimiter(prefixed{server, s.client.Key("rate:")}).Allow(ctx, key, limit)
		return err
	})
	if err != nil || answer.Allowed > 0 {
		return 0, err
	}
	return max(answer.RetryAfter, 1), nil
}

// prefixed has the library use keys of ours: its own all begin with the same word, whoever uses it.
type prefixed struct {
	*redis.Client
	prefix string
}

// libraryPrefix begins all keys of the library.
const libraryPrefix = "rate:"

func (p prefixed) keys(keys []string) []string {
	own := make([]string, len(keys))
	for i, key := range keys {
		own[i] = p.prefix + strings.TrimPrefix(key, libraryPrefix)
	}
	return own
}

// Eval runs a script on keys of ours.
func (p prefixed) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	return p.Client.Eval(ctx, script, p.keys(keys), args...)
}

// EvalSha runs a script that the server knows on keys of ours.
func (p prefixed) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	return p.Client.EvalSha(ctx, sha, p.keys(keys), args...)
}
