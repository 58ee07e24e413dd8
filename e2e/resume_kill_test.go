//go:build e2e && unix

package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

// orderService takes orders and counts them. Some requests fail after the order was taken.
type orderService struct {
	mu     sync.Mutex
	random *rand.Rand
	taken  map[string]int
	orders int // number of orders until kill is called
	kill   func()
}

func (o *orderService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var order struct{ Sku string }
	if err := json.NewDecoder(r.Body).Decode(&order); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	o.mu.Lock()
	o.taken[order.Sku]++
	if o.orders--; o.orders == 0 {
		o.kill()
	}
	wait, fails := time.Duration(o.random.IntN(8))*time.Millisecond, o.random.IntN(20) == 0
	o.mu.Unlock()
	time.Sleep(wait)
	if fails {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"order":%q}`, order.Sku)
}

// killAfter makes the service kill a process when it receives a number of orders, before it answers the last one. 0 means never.
func (o *orderService) killAfter(orders int, p *os.Process) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.orders, o.kill = orders, func() { _ = p.Kill() }
}

// ordersOf returns how often something was ordered.
func (o *orderService) ordersOf(sku string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.taken[sku]
}

// TestKilledRuns kills runs at random points and resumes them until they end. Each order must be placed once. If an order's outcome
// is unknown, the test gets it from the service.
func TestKilledRuns(t *testing.T) {
	t.Parallel()
	rounds := 3
	if os.Getenv("ONECALL_TEST_CI") != "" {
		rounds = 8
	}
	for round := range rounds {
		t.Run(fmt.Sprint(round), func(t *testing.T) { killedRun(t, uint64(round)) })
	}
}

func killedRun(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 7))
	shop := &orderService{random: rand.New(rand.NewPCG(seed, 8)), taken: map[string]int{}}
	server := httptest.NewServer(shop)
	defer server.Close()
	dir := t.TempDir()
	clitest.Write(t, dir, "onecall.yaml", fmt.Sprintf(`http:
  allow: [%q]
  endpoints:
    order: {method: POST, url: %q, body: {sku: $input.sku}, input: {type: object, required: [sku], properties: {sku: {type: string}}}}
`, strings.TrimPrefix(server.URL, "http://"), server.URL+"/orders"))
	const count = 30
	clitest.Write(t, dir, "chain.json", fmt.Sprintf(`{"key":"all","steps":[
 {"fn":"http.order","args":{"sku":"first"}},
 {"fn":"http.order","forEach":"1..%d","concurrency":%d,"args":{"sku":"s${$item}"}},
 {"chain":{"steps":[{"fn":"http.order","args":{"sku":"inner"}}]}}],"return":"$0"}`, count, 1+seed%3))
	skuOf := func(position string) string {
		switch position {
		case "0":
			return "first"
		case "2.0":
			return "inner"
		}
		var n int
		if _, err := fmt.Sscanf(position, "1[%d]", &n); err != nil {
			t.Fatalf("unknown position %q", position)
		}
		return fmt.Sprint("s", n+1)
	}
	args := []string{"run", "chain.json"}
	for try := 0; ; try++ {
		cmd := clitest.Self(t, dir, args...)
		var out strings.Builder
		cmd.Stdout = &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if try < 6 {
			shop.killAfter(1+random.IntN(8), cmd.Process)
		}
		_ = cmd.Wait()
		shop.killAfter(0, nil)
		answer := gjson.Parse(out.String())
		if answer.Get("ok").Bool() {
			break
		}
		if try > 60 {
			t.Fatalf("the run did not end after %d attempts: %s", try, out.String())
		}
		args = []string{"run", "chain.json"}
		if answer.Get("error.code").Str == "resume_conflict" {
			args = []string{"resume", answer.Get("resume").Str}
			for _, position := range answer.Get("error.available").Array() {
				outcome := "not_sent"
				if shop.ordersOf(skuOf(position.Str)) > 0 {
					outcome = fmt.Sprintf(`{"order":%q}`, skuOf(position.Str))
				}
				args = append(args, "--assume", position.Str+"="+outcome)
			}
		}
	}
	for i := range count + 2 {
		sku := skuOf([]string{"0", "2.0", fmt.Sprintf("1[%d]", i-2)}[min(i, 2)])
		if n := shop.ordersOf(sku); n != 1 {
			t.Errorf("%s was ordered %d times, want once", sku, n)
		}
	}
}
