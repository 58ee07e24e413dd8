package temporal

import "go.temporal.io/sdk/worker"

// Register registers the workflow as workers do.
func Register(r worker.WorkflowReplayer) { registerWorkflow(r) }

// Quiet logs nothing.
type Quiet = quiet
