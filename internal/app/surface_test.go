package app

import (
	"os"
	"testing"

	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/steps"
)

func TestSurfaceSettings(t *testing.T) {
	t.Parallel()
	type settings struct {
		surface     mcp.Surface
		stdio       steps.Tier
		http        steps.Tier
		lean        int
		processed   bool
		ineffective string // the pointer of the setting that has no effect on the surface
	}
	for text, want := range map[string]settings{
		"":                                    {stdio: steps.TierReadWrite, http: steps.TierRead},
		"surface: hybrid\ngroups: {a: [b]}\n": {surface: mcp.SurfaceHybrid, stdio: steps.TierReadWrite, http: steps.TierRead},
		"surface: flat\nautodispatch: true\n": {surface: mcp.SurfaceFlat, stdio: steps.TierReadWrite, http: steps.TierRead,
			ineffective: "/autodispatch"},
		"groups: {a: [b]}\nungrouped: hide\n": {stdio: steps.TierReadWrite, http: steps.TierRead, ineffective: "/groups"},
		"access: {stdio: read, http: admin}":  {stdio: steps.TierRead, http: steps.TierAdmin},
		"results: {leanAbove: 0}":             {stdio: steps.TierReadWrite, http: steps.TierRead, lean: -1},
		"results: {leanAbove: 7}":             {stdio: steps.TierReadWrite, http: steps.TierRead, lean: 7, processed: true},
		"results: {probeAbove: 7}":            {stdio: steps.TierReadWrite, http: steps.TierRead, processed: true},
		"budget: {maxTotalTokens: 150}":       {stdio: steps.TierReadWrite, http: steps.TierRead, processed: true},
		"budget: {maxTotalTokens: 0}":         {stdio: steps.TierReadWrite, http: steps.TierRead},
	} {
		c, faults := config.Parse("onecall.yaml", []byte(text), os.LookupEnv)
		if len(faults) > 0 {
			t.Errorf("%q: got faults %v, want none", text, faults)
			continue
		}
		got := settings{surfaceOf(&c.Config), config.TierOf(c.Access.Stdio, steps.TierReadWrite),
			config.TierOf(c.Access.HTTP, steps.TierRead), leanAbove(&c.Config), boundsFlatTools(&c.Config), ""}
		for _, f := range subjectOf(c, serverTraits{}).ineffectiveGroups() {
			got.ineffective = f.At
		}
		if got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}

// subjectOf returns a configuration for checks of nothing else.
func subjectOf(c *config.File, traits serverTraits) *subject {
	return &subject{App: &App{config: c, process: processOf(Options{}, traits)}}
}

func TestIneffectiveSession(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"": false, "session: {maxTokens: 0}": false, "session: {}": false,
		"session: {maxTokens: 5}": true} {
		c, faults := config.Parse("onecall.yaml", []byte(text), os.LookupEnv)
		found := subjectOf(c, serverTraits{stateless: true}).ineffectiveSession()
		if len(faults) > 0 || (found != nil) != want || want && found[0].At != "/session/maxTokens" {
			t.Errorf("%q without sessions: got %v and faults %v, want a warning: %t, and no faults", text, found, faults, want)
		}
		if found := subjectOf(c, serverTraits{}).ineffectiveSession(); found != nil {
			t.Errorf("%q with sessions: got %v, want none", text, found)
		}
	}
}
