package mcp_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// staff identifies callers by tokens of its own. If tokens are signed with keys that can be revoked while calls run, also implement
// transport.RevocableCallers.
type staff struct{}

func (staff) Verify(_ context.Context, token string) (*steps.Caller, error) {
	if token != "anns-token" {
		return nil, fault.New(fault.Denied, "unknown token")
	}
	return &steps.Caller{ID: "ann", Rights: steps.Rights{Tier: steps.TierRead}}, nil
}

var _ transport.Callers = staff{}

// Functions are served over HTTP to callers that are identified by their tokens.
func Example() {
	catalog, err := steps.NewCatalog(nil)
	if err != nil {
		log.Fatal(err)
	}
	counter, err := budget.NewCounter("", 0)
	if err != nil {
		log.Fatal(err)
	}
	engine, err := chain.New(&chain.Options{Functions: catalog, Counter: counter})
	if err != nil {
		log.Fatal(err)
	}
	server, err := mcp.New(&mcp.Options{Engine: engine, Catalog: catalog, Counter: counter})
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.ServeHTTP(ctx, listener, &transport.Access{Callers: staff{}}) }()

	for _, token := range []string{"anns-token", "another"} {
		const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},` +
			`"clientInfo":{"name":"example","version":"1"}}}`
		request, err := http.NewRequest(http.MethodPost, "http://"+listener.Addr().String()+transport.Path, strings.NewReader(hello))
		if err != nil {
			log.Fatal(err)
		}
		request.Header = http.Header{"Authorization": {"Bearer " + token}}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Accept", "application/json, text/event-stream")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			log.Fatal(err)
		}
		response.Body.Close()
		fmt.Println(response.Status)
	}
	stop()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	server.Close()
	catalog.Close()
	// Output:
	// 200 OK
	// 401 Unauthorized
}
