// Package procgroup starts child processes as leaders of process groups, so that they end together with what they started.
package procgroup
