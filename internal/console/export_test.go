package console

import (
	"maps"
	"slices"
)

// Routes returns the patterns of all pages and actions.
func Routes() []string { return slices.Sorted(maps.Keys((&console{}).routes())) }
