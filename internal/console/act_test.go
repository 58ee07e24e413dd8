package console_test

import (
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/onecall-mcp/onecall/internal/console"
)

// TestSentTwice: a form that is sent twice acts once, and both answers are the page of the same act; a new page, or another text, acts again.
func TestSentTwice(t *testing.T) {
	t.Parallel()
	s := newShop(t, map[string]*console.Viewer{"ann": actor("token:ann")}, nil)
	ann := s.browser(t, "ann")
	chain := func(k string) url.Values {
		return url.Values{"text": {`{"steps":[{"fn":"shop.send","args":{"k":` + k + `}}]}`}, "do": {"run"}}
	}
	_, shown := ann.get("playground")
	var sent sync.WaitGroup
	for range 4 {
		sent.Go(func() { ann.send(shown, "playground", chain("1")) })
	}
	sent.Wait()
	s.wantCalls(t, `shop.send {"k":1}`)
	_, page := ann.send(shown, "playground", chain("1"))
	wantText(t, textOf(page), "Playground ok")
	s.wantCalls(t)
	ann.send(shown, "playground", chain("2"))
	_, shown = ann.get("playground")
	ann.send(shown, "playground", chain("2"))
	s.wantCalls(t, `shop.send {"k":2}`, `shop.send {"k":2}`)

	s.fails[`shop.send {"k":3}`] = errors.New("sold out")
	run, _ := s.run(t, "token:ann", `{"name":"order","steps":[{"fn":"shop.add","args":{"k":4}},{"fn":"shop.send","args":{"k":3}}]}`)
	path := "runs/" + run + "/fix"
	_, shown = ann.get(path)
	fixed := url.Values{"text": {strings.Replace(chainOf(t, shown), `"k": 3`, `"k": 5`, 1)}, "do": {"resume"}}
	for range 2 {
		_, page = ann.send(shown, path, fixed)
		wantText(t, textOf(page), "Resume "+run+" ok")
	}
	s.wantCalls(t, `shop.add {"k":4}`, `shop.send {"k":3}`, `shop.send {"k":5}`)
}
