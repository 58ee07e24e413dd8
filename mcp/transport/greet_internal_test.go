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

// TestListChangesAfterFirstResponse: a client receives list changes only after its first response.
func TestListChangesAfterFirstResponse(t *testing.T) {
	t.Parallel()
	written := &messageLog{}
	c := &drainingConn{Connection: written, open: map[jsonrpc.ID]bool{}, idle: make(chan struct{}, 1)}
	changed := &jsonrpc.Request{Method: "notifications/tools/list_changed"}
	log := &jsonrpc.Request{Method: "notifications/message"}
	answer := &jsonrpc.Response{Result: []byte("{}")}
	for _, m := range []jsonrpc.Message{changed, log, answer, changed} {
		if err := c.Write(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	if len(written.messages) != 3 || written.messages[0] != jsonrpc.Message(log) || written.messages[1] != jsonrpc.Message(answer) ||
		written.messages[2] != jsonrpc.Message(changed) {
		t.Errorf("wrote %v, want the log message, the response and the later list change", written.messages)
	}
}
