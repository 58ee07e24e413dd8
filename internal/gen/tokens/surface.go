package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/groups"
	"github.com/onecall-mcp/onecall/steps/source/exprs"
	"github.com/onecall-mcp/onecall/steps/source/files"
	httpsource "github.com/onecall-mcp/onecall/steps/source/http"
)

// surface is a list of tools to count.
type surface struct {
	file, title string
	kind        mcp.Surface
	readTool    bool
}

var surfaces = []surface{
	{"chain", "`tools/list`, surface `chain`", mcp.SurfaceChain, false},
	{"chain-read", "the same with `readTool`", mcp.SurfaceChain, true},
	{"dispatch", "`tools/list`, surface `dispatch`, two groups", mcp.SurfaceDispatch, false},
	{"flat", "`tools/list`, surface `flat`, the embedded functions", mcp.SurfaceFlat, false},
}

// The messages of a client.
const (
	initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize",` +
		`"params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"tokens","version":"1"}}}`
	toolsList = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	manual    = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"search","arguments":{"names":["chain"]}}}`
)

// request serves a surface over stdio and returns the answers to requests, as they are sent.
func request(ctx context.Context, s surface, requests ...string) (answers []gjson.Result, err error) {
	server, err := newServer(s)
	if err != nil {
		return nil, err
	}
	defer server.Close()
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- server.ServeStdio(ctx, fromClient, toClient, &steps.Caller{ID: "tokens", Rights: steps.Rights{Tier: steps.TierReadWrite}})
		toClient.Close()
	}()
	defer func() {
		toServer.Close()
		stop()
		if closed := <-ended; !errors.Is(closed, context.Canceled) {
			err = errors.Join(err, closed)
		}
	}()
	lines := bufio.NewReader(fromServer)
	for i, request := range append([]string{initialize}, requests...) {
		if _, err := fmt.Fprintln(toServer, request); err != nil {
			return nil, err
		}
		answer, err := readAnswer(i, lines, request)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			fmt.Fprintln(toServer, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			continue
		}
		answers = append(answers, answer)
	}
	return answers, nil
}

// readAnswer reads up to the answer to a request. It skips other messages of the server.
func readAnswer(id int, lines *bufio.Reader, request string) (gjson.Result, error) {
	want := gjson.Get(request, "id").Raw
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return gjson.Result{}, fmt.Errorf("request %d: %w", id, err)
		}
		if answer := gjson.Parse(line); answer.Get("id").Raw == want {
			if !answer.Get("result").Exists() {
				return answer, fmt.Errorf("request %d: %s", id, line)
			}
			return answer, nil
		}
	}
}

// newServer returns a server of a surface over the embedded functions, one of which writes.
func newServer(s surface) (*mcp.Server, error) {
	catalog, err := steps.NewCatalog(nil)
	if err != nil {
		return nil, err
	}
	filesSource, err := files.New(&files.Options{Root: "."})
	if err != nil {
		return nil, err
	}
	httpSource, err := httpsource.New(nil)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(catalog.Add("fs", filesSource), catalog.Add("http", httpSource), catalog.Add("expr", exprs.New())); err != nil {
		return nil, err
	}
	counter, err := budget.NewCounter("", 0)
	if err != nil {
		return nil, err
	}
	engine, err := chain.New(&chain.Options{Functions: catalog, Counter: counter})
	if err != nil {
		return nil, err
	}
	dispatch, wrong := groups.New(&groups.Config{Groups: []groups.Group{
		{Name: "files", Resources: []string{"fs"}},
		{Name: "values", Resources: []string{"expr", "text"}},
	}})
	if len(wrong) > 0 {
		return nil, wrong[0]
	}
	return mcp.New(&mcp.Options{Engine: engine, Catalog: catalog, Counter: counter, Surface: s.kind, ReadTool: s.readTool, Dispatch: dispatch})
}
