package console_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/internal/console"
)

// TestOtherScopes: a server shows no run of another configuration, whose callers may have the same names, not even to administrators.
func TestOtherScopes(t *testing.T) {
	t.Parallel()
	boss := actor("token:boss")
	boss.All = true
	var backend *console.Backend
	s := newShop(t, map[string]*console.Viewer{"ann": actor("token:ann"), "boss": boss}, func(b *console.Backend) { backend = b })
	id, _ := s.run(t, "token:ann", `{"name":"zebra","steps":[{"fn":"shop.put","args":{"k":1}}]}`)
	here, elsewhere := "", "/etc/other.yaml"
	paths := []string{"", "?status=waiting", "approvals"}
	for _, page := range []string{"", "/approve", "/fix", "/undo", "/compare", "/steps/0"} {
		paths = append(paths, "runs/"+id+page)
	}
	for _, name := range []string{"ann", "boss"} {
		b := s.browser(t, name)
		for _, path := range paths {
			backend.Scope = &here
			if status, page := b.get(path); status != http.StatusOK || !strings.Contains(page, id) {
				t.Errorf("%s, %s, its own: status %d", name, path, status)
			}
			backend.Scope = &elsewhere
			if status, page := b.get(path); status == http.StatusOK && strings.Contains(page, id) || strings.Contains(page, "zebra") {
				t.Errorf("%s, %s, another's: status %d: %s", name, path, status, page)
			}
		}
	}
}
