package transport

import (
	"context"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// messageLog records what is written to a client.
type messageLog struct {
	sdk.Connection
	messages []jsonrpc.Message
}

func (w *messageLog) Write(_ context.Context, m jsonrpc.Message) error {
	w.messages = append(w.messages, m)
	return nil
}

// TestGreetedFirst: a client receives list changes only after its first response.
func TestGreetedFirst(t *testing.T) {
	t.Parallel()
	to := &messageLog{}
	c := &drainingConn{Connection: to, open: map[jsonrpc.ID]bool{}, idle: make(chan struct{}, 1)}
	changed := &jsonrpc.Request{Method: "notifications/tools/list_changed"}
	log := &jsonrpc.Request{Method: "notifications/message"}
	answer := &jsonrpc.Response{Result: []byte("{}")}
	for _, m := range []jsonrpc.Message{changed, log, answer, changed} {
		if err := c.Write(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	if len(to.messages) != 3 || to.messages[0] != jsonrpc.Message(log) || to.messages[1] != jsonrpc.Message(answer) ||
		to.messages[2] != jsonrpc.Message(changed) {
		t.Errorf("%v", to.messages)
	}
}
