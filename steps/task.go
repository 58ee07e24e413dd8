package steps

import "context"

// Task is how the engine and a source agree on a call that a service carries out as a task, which outlasts requests and processes.
type Task struct {
	Known  string                // the task of an earlier attempt, for which the source asks instead of making the call again; "": none
	Report func(id string) error // records the task of the call, durably
}

type taskKey struct{}

// WithTask returns a context for a call that may become a task.
func WithTask(ctx context.Context, t *Task) context.Context {
	return context.WithValue(ctx, taskKey{}, t)
}

// TaskOf returns the Task of a call's context; it is zero if the call is not recorded.
func TaskOf(ctx context.Context) Task {
	if t, ok := ctx.Value(taskKey{}).(*Task); ok {
		return *t
	}
	return Task{}
}
