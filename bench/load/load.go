// Package load calls a tool of an MCP server over HTTP from many clients at once and checks every answer. Each client has its own
// connection and does only what the protocol requires, so that the server is what is measured.
package load

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"
)

// The measured versions of MCP: the last one with sessions and the first one without.
const (
	WithSessions    = "2025-11-25"
	WithoutSessions = "2026-07-28"
)

// Target is a tool of a server and the call to make.
type Target struct {
	URL     string
	Token   string // the caller's token; "": none is sent
	Version string // WithSessions or WithoutSessions
	Tool    string
	Args    string        // the arguments of each call, a JSON object
	Want    string        // the text of each answer
	Timeout time.Duration // the time limit of one request; 0: 10 minutes, more than a busy machine needs
}

// Clients calls a target. The caller closes it.
type Clients struct {
	target Target
	all    []client
}

type client struct {
	http    http.Client
	session string // the id of the session; "": the client has none
}

// Open opens n clients, each with a connection and, if the version has sessions, a session. On an error it closes those that it has
// opened.
func Open(ctx context.Context, t Target, n int) (*Clients, error) {
	if t.Timeout == 0 {
		t.Timeout = 10 * time.Minute
	}
	c := &Clients{target: t}
	if err := c.Grow(ctx, n); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// opening is the maximum number of clients that are opened at once, because a server's queue of new connections is bounded.
const opening = 32

// Grow opens clients until there are n. It returns the first error. All clients that it has begun to open stay, even those that failed.
func (c *Clients) Grow(ctx context.Context, n int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	first := len(c.all)
	fresh := make([]client, max(0, n-first))
	var next atomic.Int64
	var opened sync.WaitGroup
	for range min(opening, len(fresh)) {
		opened.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(fresh)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				fresh[i].http = http.Client{Transport: &http.Transport{}, Timeout: c.target.Timeout}
				if err := c.greet(ctx, &fresh[i]); err != nil {
					cancel(fmt.Errorf("client %d: %w", first+int(i), err))
				}
			}
		})
	}
	opened.Wait()
	for _, one := range fresh {
		if one.http.Transport != nil {
			c.all = append(c.all, one)
		}
	}
	return context.Cause(ctx)
}

// Len returns the number of clients.
func (c *Clients) Len() int { return len(c.all) }

// End ends the sessions, as clients do when they leave, and closes the connections. It returns the first error.
func (c *Clients) End(ctx context.Context) (first error) {
	for i := range c.all {
		if err := c.endSession(ctx, &c.all[i]); err != nil && first == nil {
			first = err
		}
	}
	c.Close()
	return first
}

// endSession ends a client's session, if it has one.
func (c *Clients) endSession(ctx context.Context, one *client) error {
	if one.session == "" {
		return nil
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodDelete, c.target.URL, http.NoBody)
	if err != nil {
		return err
	}
	r.Header.Set("Mcp-Protocol-Version", c.target.Version)
	r.Header.Set("Mcp-Session-Id", one.session)
	if c.target.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.target.Token)
	}
	response, err := one.http.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("ending a session was answered with %s", response.Status)
	}
	return nil
}

// Close closes the connections without ending the sessions, as if the clients vanished.
func (c *Clients) Close() {
	for i := range c.all {
		c.all[i].http.CloseIdleConnections()
	}
	c.all = nil
}

// greet sends the requests that precede a client's calls.
func (c *Clients) greet(ctx context.Context, one *client) error {
	if c.target.Version >= WithoutSessions {
		_, err := c.request(ctx, one, 0, "tools/list", "", "")
		return err
	}
	header, _, err := c.post(ctx, one, "initialize", "", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+
		c.target.Version+`","capabilities":{},"clientInfo":{"name":"load","version":"1"}}}`)
	if err != nil {
		return err
	}
	if one.session = header.Get("Mcp-Session-Id"); one.session == "" {
		return fmt.Errorf("the answer to initialize has no session")
	}
	_, _, err = c.post(ctx, one, "notifications/initialized", "", `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return err
}

// meta returns the member of params that describes the client, for the version without sessions.
func (t *Target) meta() string {
	return `"_meta":{"io.modelcontextprotocol/protocolVersion":"` + t.Version +
		`","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"load","version":"1"}}`
}

// post sends one message, and returns the headers of the answer and its message. name is the called tool; "": none.
func (c *Clients) post(ctx context.Context, one *client, method, name, body string) (http.Header, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.target.URL, strings.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if c.target.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.target.Token)
	}
	if method != "initialize" {
		r.Header.Set("Mcp-Protocol-Version", c.target.Version)
	}
	if c.target.Version >= WithoutSessions {
		r.Header.Set("Mcp-Method", method)
		if name != "" {
			r.Header.Set("Mcp-Name", name)
		}
	} else if one.session != "" {
		r.Header.Set("Mcp-Session-Id", one.session)
	}
	response, err := one.http.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, nil, err
	}
	if response.StatusCode/100 != 2 {
		return nil, nil, fmt.Errorf("%s was answered with %s: %.500s", method, response.Status, text)
	}
	if _, data, ok := bytes.Cut(text, []byte("data: ")); ok { // the answer is a stream of one event
		text = bytes.TrimSpace(data)
	}
	return response.Header, text, nil
}

// request sends one request and returns the JSON of the result, unchanged. number is the id, which the answer must have.
func (c *Clients) request(ctx context.Context, one *client, number int, method, name, params string) ([]byte, error) {
	if c.target.Version >= WithoutSessions {
		if params != "" {
			params += ","
		}
		params += c.target.meta()
	}
	_, text, err := c.post(ctx, one, method, name, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s}}`, number, method, params))
	if err != nil {
		return nil, err
	}
	answer := gjson.GetManyBytes(text, "id", "result")
	if !gjson.ValidBytes(text) || answer[0].Int() != int64(number) || !answer[1].IsObject() {
		return nil, fmt.Errorf("request %d was answered with %.500s", number, text)
	}
	return []byte(answer[1].Raw), nil
}

// Request sends a request of any kind from the first client and returns the JSON of the result. params holds the members of the
// parameters, without the braces.
func (c *Clients) Request(ctx context.Context, method, params string) (result []byte, err error) {
	name := ""
	if method == "tools/call" {
		name = gjson.Get("{"+params+"}", "name").Str
	}
	return c.request(ctx, &c.all[0], 1, method, name, params)
}

// call makes one call and checks its whole answer.
func (c *Clients) call(ctx context.Context, one *client, number int) error {
	params := fmt.Sprintf(`"name":%q,"arguments":%s`, c.target.Tool, c.target.Args)
	result, err := c.request(ctx, one, number, "tools/call", c.target.Tool, params)
	if err != nil {
		return err
	}
	if answer := gjson.GetManyBytes(result, "content.0.text", "isError"); answer[0].Str != c.target.Want || answer[1].Bool() {
		return fmt.Errorf("call %d was answered with %.500s", number, result)
	}
	return nil
}

// Run makes calls from the first n clients at once. A client makes its next call when the last one is answered. Run returns the times of
// the calls that succeeded, the number of those that failed, and their first error.
func (c *Clients) Run(ctx context.Context, n, calls int) (took []time.Duration, failed int, first error) {
	times := make([]time.Duration, calls) // 0: failed or not made
	var next, faults atomic.Int64
	var once sync.Once
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			for number := next.Add(1) - 1; number < int64(calls) && ctx.Err() == nil; number = next.Add(1) - 1 {
				began := time.Now()
				if err := c.call(ctx, &c.all[i], int(number)); err != nil {
					faults.Add(1)
					once.Do(func() { first = err })
					continue
				}
				times[number] = max(1, time.Since(began))
			}
		})
	}
	all.Wait()
	for _, t := range times {
		if t > 0 {
			took = append(took, t)
		}
	}
	if err := ctx.Err(); err != nil && first == nil {
		first = err
	}
	return took, int(faults.Load()), first
}
