package telemetry

import (
	"context"
	"time"
)

// Stored is observeStore, for errors that no store here returns.
func (t *Telemetry) Stored(ctx context.Context, store, operation string, took time.Duration, err error) {
	t.observeStore(ctx, store, operation, took, err)
}
