package config

import (
	"regexp"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
)

var spaceName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// checkSpaces checks the names of shared spaces and of their callers: a caller that no token names would share nothing, unnoticed.
func (d *decoder) checkSpaces(c *Config) {
	var known []string
	for _, token := range c.Access.Tokens {
		known = append(known, Or(token.Name, ""))
	}
	for _, entry := range c.State.Spaces {
		at := fault.Key("/state/spaces", entry.Name)
		d.requireKeys(at, &entry.Config)
		if !spaceName.MatchString(entry.Name) || entry.Name == "session" {
			d.faultAt(at, fault.BadRequest, "the name of a space has 1 to 64 letters, digits, and _ . -, and is not session")
		}
		for i, caller := range entry.Config.Callers {
			if !strings.HasPrefix(caller, "jwt:") && !slices.Contains(known, caller) {
				f := fault.New(fault.BadRequest, "no token of access.tokens has the name %q", fault.Clip(caller, 60))
				f.Available, f.Nearest = known, fault.Nearest(caller, known, 1)
				where := fault.Index(at+"/callers", i)
				d.add(d.positions[where], where, f)
			}
		}
	}
}

// CallerIDs returns the IDs of the callers of a space.
func (s *Space) CallerIDs() []string {
	ids := make([]string, len(s.Callers))
	for i, caller := range s.Callers {
		ids[i] = caller
		if !strings.HasPrefix(caller, "jwt:") {
			ids[i] = "token:" + caller
		}
	}
	return ids
}
