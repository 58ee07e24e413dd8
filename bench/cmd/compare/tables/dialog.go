package tables

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/proc"
)

// dialog is a client of the SDK, connected over stdio to a server, as a host is.
type dialog struct {
	session *sdk.ClientSession
	tap     *tap
	process *proc.Process
	spent   tokens
}

// tokens counts the tokens of a dialog so far, as a model has them in its context.
type tokens struct {
	list    int // the tokens of what a host shows first: the tool list and the server's instructions
	written int // the tokens of calls, written as {"name":…,"arguments":…}
	read    int // the tokens of the text of answers
	calls   int
}

func (t tokens) total() int { return t.list + t.written + t.read }

// readyWithin bounds the time that a server takes to initialize and to list its tools, answerWithin that of a call.
const (
	readyWithin  = time.Minute
	answerWithin = time.Minute
)

// open starts a server, which ends when ctx ends or the dialog is closed.
func open(ctx context.Context, cmd *exec.Cmd, o *proc.Options) (*dialog, error) {
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	process, err := proc.Start(ctx, cmd, o)
	if err != nil {
		return nil, err
	}
	d := &dialog{process: process, tap: &tap{Transport: &sdk.IOTransport{Reader: stdout, Writer: stdin}}}
	limited, stop := context.WithTimeout(ctx, readyWithin)
	defer stop()
	client := sdk.NewClient(&sdk.Implementation{Name: "compare", Version: "1"}, &sdk.ClientOptions{Capabilities: &sdk.ClientCapabilities{}})
	if d.session, err = client.Connect(limited, d.tap, nil); err != nil {
		ended := process.Close() // after this, the output is complete
		return nil, errors.Join(fmt.Errorf("no greeting: %w: %s", err, lastLine(process.Output())), ended)
	}
	return d, nil
}

// close ends the server and all processes that it has started. What a server does at its end is not measured.
func (d *dialog) close() {
	_ = d.session.Close()
	_ = d.process.Close()
}

// toolList returns the answers to tools/list, all pages, and the number of tools.
func (d *dialog) toolList(ctx context.Context) (list string, tools int, err error) {
	ctx, stop := context.WithTimeout(ctx, readyWithin)
	defer stop()
	for cursor := ""; ; {
		page, err := d.session.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
		if err != nil {
			return "", 0, fmt.Errorf("no list: %w: %s", err, lastLine(d.process.Output()))
		}
		list += string(d.tap.last())
		tools += len(page.Tools)
		if cursor = page.NextCursor; cursor == "" {
			return list, tools, nil
		}
	}
}

// countListing counts what a host shows a model of the server, and returns the number of tools.
func (d *dialog) countListing(ctx context.Context, c *counter) (tools int, err error) {
	list, tools, err := d.toolList(ctx)
	if err != nil {
		return 0, err
	}
	d.spent.list += c.count(list)
	if greeting := d.session.InitializeResult(); greeting != nil {
		d.spent.list += c.count(greeting.Instructions)
	}
	return tools, nil
}

// call calls a tool with arguments in JSON, counts the call and its answer, and returns the text of the answer. A failed tool is an error.
func (d *dialog) call(ctx context.Context, c *counter, tool, args string) (text string, err error) {
	text, err = d.answer(ctx, tool, args)
	if err != nil {
		return "", err
	}
	d.spent.calls++
	d.spent.written += c.count(`{"name":"` + tool + `","arguments":` + args + `}`)
	d.spent.read += c.count(text)
	return text, nil
}

// answer calls a tool and returns the text of the answer, without counting either.
func (d *dialog) answer(ctx context.Context, tool, args string) (string, error) {
	ctx, stop := context.WithTimeout(ctx, answerWithin)
	defer stop()
	result, err := d.session.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: json.RawMessage(args)})
	if err != nil {
		return "", fmt.Errorf("%s: %w", tool, err)
	}
	var text strings.Builder
	for _, block := range result.Content {
		if t, ok := block.(*sdk.TextContent); ok {
			text.WriteString(t.Text)
		}
	}
	if result.IsError {
		return "", fmt.Errorf("%s %.300s failed: %.1000s", tool, args, text.String())
	}
	return text.String(), nil
}

// tap keeps the last answer as it was received. The SDK returns it only decoded.
type tap struct {
	sdk.Transport
	sdk.Connection
	mu     sync.Mutex
	result json.RawMessage
}

func (t *tap) Connect(ctx context.Context) (_ sdk.Connection, err error) {
	t.Connection, err = t.Transport.Connect(ctx)
	return t, err
}

func (t *tap) Read(ctx context.Context) (jsonrpc.Message, error) {
	message, err := t.Connection.Read(ctx)
	if response, ok := message.(*jsonrpc.Response); ok && err == nil {
		t.mu.Lock()
		t.result = response.Result
		t.mu.Unlock()
	}
	return message, err
}

func (t *tap) last() json.RawMessage {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.result
}

// lastLine returns the last line of a program's output, which usually is the reason of a failure.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
