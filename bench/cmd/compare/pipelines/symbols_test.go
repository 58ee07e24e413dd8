package pipelines

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSymbols(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	const source = `package shop

// Total adds up a cart.
// All of it.
func Total(c *Cart) int {
	sum := 0
	x := 1
	for _, item := range c.Items {
		sum += price(item)
	}

	if sum > x {
		return sum
	}
	return 0
}

func (c *Cart) Totals() int { return Total(c) }

func price(string) int { return 1 }
`
	for name, text := range map[string]string{"shop.go": source, "shop_test.go": "package shop\n\nfunc TestTotal() {}\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	all, err := readSymbols(folder)
	if err != nil {
		t.Fatal(err)
	}
	matches, total := search(all, "total", 1)
	first := match{"shop.go#Total", "Total", "function", "shop.go", 5, "func Total(c *Cart) int", "Total adds up a cart."}
	if total != 2 || len(matches) != 1 || matches[0] != first {
		t.Errorf("search returns %+v of %d, want %+v of 2", matches, total, first)
	}
	s := all[1]
	if s.Name != "Total" || strings.Join(s.Calls, " ") != "price" || strings.Join(s.CalledBy, " ") != "Cart.Totals" {
		t.Errorf("the symbol is %+v, want Total, which calls price and is called by Cart.Totals", s)
	}
	const want = `func Total(c *Cart) int {
	…
	for _, item := range c.Items {
		…
	}
	if sum > x {
		return sum
	}
	return 0
}`
	if got := s.skeleton(); got != want {
		t.Errorf("the skeleton is\n%s\nwant\n%s", got, want)
	}
	if got := longestWord("Server.AddHTTPMiddleware"); got != "HTTPMiddleware" {
		t.Errorf("longestWord returns %q, want HTTPMiddleware", got)
	}
}
