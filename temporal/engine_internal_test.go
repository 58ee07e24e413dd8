package temporal

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/onecall-mcp/onecall/internal/durable"
)

// idleServer is a client of a server without workers, whose only workflow ends after a while.
type idleServer struct {
	client.Client
	client.WorkflowRun
	ends time.Duration
}

func (s *idleServer) DescribeTaskQueue(context.Context, string, enums.TaskQueueType) (*workflowservice.DescribeTaskQueueResponse, error) {
	return &workflowservice.DescribeTaskQueueResponse{}, nil
}

func (s *idleServer) GetWorkflow(context.Context, string, string) client.WorkflowRun { return s }

func (s *idleServer) Get(context.Context, any) error {
	time.Sleep(s.ends)
	return nil
}

// TestWaitEndsProgress: progress is not running when Wait returns, and is not called afterwards.
func TestWaitEndsProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var called, running atomic.Bool
		e := &Engine{client: &idleServer{ends: workerGrace + time.Second}}
		_, err := e.Wait(t.Context(), "b", func(durable.Progress) {
			called.Store(true)
			running.Store(true)
			time.Sleep(700 * time.Millisecond) // Wait could return meanwhile
			running.Store(false)
		})
		if err != nil || !called.Load() || running.Load() {
			t.Errorf("Wait: %v; progress was called: %t, is running: %t; want true, false", err, called.Load(), running.Load())
		}
	})
}
