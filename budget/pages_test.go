package budget_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/fault"
)

type page struct {
	Items   []json.RawMessage `json:"items"`
	Page    int               `json:"page"`
	Size    int               `json:"page_size"`
	Total   int               `json:"total"`
	HasMore bool              `json:"has_more"`
}

// pager fetches pages of one value.
type pager struct {
	t        rapid.TB
	r        *budget.Results
	tok      string
	envelope *budget.Envelope
}

func (p pager) page(number, size int) (page, []byte, error) {
	b, err := p.r.Answer(context.Background(), "me",
		budget.Fetch{Token: p.tok, Mode: "paginated", Page: number, PageSize: size, PageSet: true, PageSizeSet: true}, p.envelope, nil)
	if err != nil {
		return page{}, nil, err
	}
	var got page
	if err := json.Unmarshal(b, &got); err != nil {
		p.t.Fatalf("decoding the page %.200s: %v", b, err)
	}
	if got.Page != number || got.Size != size || got.Items == nil {
		p.t.Fatalf("want page %d of size %d, got %.200s", number, size, b)
	}
	return got, b, nil
}

// all joins the items of all pages.
func (p pager) all(size int) (items [][]byte) {
	for number := 1; ; number++ {
		got, _, err := p.page(number, size)
		if err != nil {
			p.t.Fatal(err)
		}
		for _, item := range got.Items {
			items = append(items, item)
		}
		if want := got.Total - (number-1)*size; len(got.Items) != max(0, min(want, size)) || got.HasMore != (want > size) {
			p.t.Fatalf("page %d of size %d of %d items has %d items, has_more %v; want %d, %v", number, size, got.Total, len(got.Items), got.HasMore, max(0, min(want, size)), want > size)
		}
		if !got.HasMore {
			return items
		}
	}
}

// wholeFromPages checks that the joined pages of an array, of the only array in an object, or of a text are the whole value.
func wholeFromPages(t rapid.TB, r *budget.Results, value string, size int) {
	token, _, err := r.Keep(context.Background(), "me", []byte(value))
	must(t, err)
	p := pager{t, r, token, nil}
	paged := []byte(value)
	switch value[0] {
	case '{':
		key, ok := oneArray(value)
		if !ok {
			if _, _, err := p.page(1, size); fault.CodeOf(err) != fault.BadMode {
				t.Fatalf("paging %s: %v, want bad_mode", value, err)
			}
			return
		}
		paged = key
	case '[':
	case '"':
		var joined []byte
		for _, line := range p.all(size) {
			body := line[1 : len(line)-1]
			if !isLine(body) && len(joined)+len(body) != len(value)-2 {
				t.Fatalf("%s is not a line of %s", line, value)
			}
			joined = append(joined, body...)
		}
		if string(joined) != value[1:len(value)-1] {
			t.Fatalf("joined pages are %s, want %s", joined, value)
		}
		return
	default:
		if _, _, err := p.page(1, size); fault.CodeOf(err) != fault.BadMode {
			t.Fatalf("paging %s: %v, want bad_mode", value, err)
		}
		return
	}
	if joined := "[" + string(bytes.Join(p.all(size), []byte(","))) + "]"; joined != string(paged) {
		t.Fatalf("joined pages are %s, want %s", joined, paged)
	}
}

// isLine reports, by decoding it, whether the body of a string is one line with its line feed.
func isLine(body []byte) bool {
	var s string
	if json.Unmarshal([]byte(`"`+string(body)+`"`), &s) != nil {
		return false
	}
	return strings.IndexByte(s, '\n') == len(s)-1
}

// oneArray finds the array in an object that holds exactly one, by encoding/json.
func oneArray(value string) (array []byte, ok bool) {
	d := json.NewDecoder(strings.NewReader(value))
	_, _ = d.Token()
	n := 0
	for d.More() {
		_, _ = d.Token()
		var member json.RawMessage
		if d.Decode(&member) != nil {
			return nil, false
		}
		if member[0] == '[' {
			array = member
			n++
		}
	}
	return array, n == 1
}

func TestPagesJoined(t *testing.T) {
	t.Parallel()
	r := results(t, nil)
	rapid.Check(t, func(t *rapid.T) {
		wholeFromPages(t, r, jsonText(3).Draw(t, "value"), rapid.IntRange(1, 15).Draw(t, "size"))
	})
}

func FuzzPages(f *testing.F) {
	for _, seed := range []string{`[1,2,3]`, `{"count":2,"results":[1.10,{"a":"\u00e9"}]}`, `"a\nb\r\nc\u000a\\n"`, `5`, `{"a":[],"b":[]}`,
		`[[[]],"\ud83d\n"]`, `[`, `{"a":`, `"\`, `[1 2]`, `{"a" 1}`} {
		f.Add([]byte(seed), uint16(2), uint16(0))
		f.Add([]byte(seed), uint16(1), uint16(300))
	}
	r := results(f, nil)
	f.Fuzz(func(t *testing.T, value []byte, size, maximum uint16) {
		var compact bytes.Buffer
		if json.Compact(&compact, value) == nil {
			wholeFromPages(t, r, compact.String(), int(size)+1)
		}
		// Any fetch with any room gets an answer that fits, or a coded error.
		token := keep(t, r, string(value))
		envelope := within(int(maximum))
		for _, fetch := range []budget.Fetch{
			{Mode: "paginated", Page: 1, PageSize: int(size), PageSet: true, PageSizeSet: true},
			{Mode: "summary"}, {Mode: "full"}, {}, {Mode: "filtered", FilterKeys: []string{"a", "results.a"}},
		} {
			fetch.Token = token
			answer, err := r.Answer(context.Background(), "me", fetch, envelope, nil)
			if err != nil {
				if _, ok := fault.As(err); !ok {
					t.Errorf("%s: got %v, want an error with a code", fetch.Mode, err)
				}
			} else if !envelope.Allows(answer) {
				t.Errorf("%s: the answer exceeds the envelope: %s", fetch.Mode, answer)
			}
		}
	})
}

// With any budget, a client that only follows the advice of the errors reaches each item of a value: on a page, or by the probe of the
// item.
func TestEveryItemIsReached(t *testing.T) {
	t.Parallel()
	r := results(t, nil)
	c := counter(t, 0)
	rapid.Check(t, func(t *rapid.T) {
		var items []string
		for range rapid.IntRange(1, 60).Draw(t, "items") {
			item := jsonText(1).Draw(t, "item")
			if rapid.IntRange(0, 9).Draw(t, "large") == 0 {
				item = `"` + strings.Repeat("long words ", rapid.IntRange(1, 400).Draw(t, "words")) + `"`
			}
			items = append(items, item)
		}
		limit := rapid.IntRange(150, 1500).Draw(t, "limit")
		envelope := &budget.Envelope{Meter: budget.NewMeter(c, limit)}
		token, _, err := r.Keep(context.Background(), "me", []byte("["+strings.Join(items, ",")+"]"))
		must(t, err)
		p := pager{t, r, token, envelope}
		size := rapid.IntRange(1, 70).Draw(t, "size")
		for next, number := 0, 1; next < len(items); {
			got, answer, err := p.page(number, size)
			if err != nil {
				number, size = advised(t, err, next)
				if got, answer, err = p.page(number, size); err != nil {
					t.Fatalf("the advised page fails: %v", err)
				}
			}
			if !envelope.Allows(answer) {
				t.Fatalf("the page costs %d tokens, want at most %d", c.Count(answer, -1), limit)
			}
			for i, item := range got.Items {
				checkItem(t, r, items[(number-1)*size+i], item)
			}
			if next = (number-1)*size + len(got.Items); got.HasMore != (next < len(items)) {
				t.Fatalf("%d of %d items reached, has_more %v, want %v", next, len(items), got.HasMore, next < len(items))
			}
			number++
		}
	})
}

// advised returns the page and the size that the message of a bad_page names; the page must hold the item.
func advised(t rapid.TB, err error, item int) (number, size int) {
	e, _ := fault.As(err)
	if e == nil || e.Code != fault.BadPage || e.At != "/page_size" || len(e.Available) != 1 {
		t.Fatalf("page that does not fit: %v, want bad_page with advice", err)
	}
	var old int
	if _, err := fmt.Sscanf(e.Message, "Page %d with page_size %d does not fit the budget. A page_size of %d does: page %d", &old, &old,
		&size, &number); err != nil {
		t.Fatalf("the message %q has no advice: %v", e.Message, err)
	}
	if strconv.Itoa(size) != e.Available[0] || item/size+1 != number {
		t.Fatalf("advice %q (%v), want the page of item %d, and the size as available", e.Message, e.Available, item)
	}
	return number, size
}

// checkItem checks that an item on a page is the wanted item, or a probe whose token fetches it.
func checkItem(t rapid.TB, r *budget.Results, want string, item []byte) {
	if string(item) == want {
		return
	}
	var p probe
	if err := json.Unmarshal(item, &p); err != nil {
		t.Fatalf("%s is neither the item %s nor its probe", item, want)
	}
	if stored, _, err := r.Value(context.Background(), "me", p.Token); err != nil || string(stored) != want {
		t.Fatalf("the probe of %s gives %s, %v", want, stored, err)
	}
}

// A page with more items than maxMeasured is also refused with advice.
func TestVeryManyItems(t *testing.T) {
	t.Parallel()
	r := results(t, nil)
	value := "[" + strings.Repeat("1,", 1_000_000) + "1]"
	token := keep(t, r, value)
	p := pager{t, r, token, within(100_000)}
	_, _, err := p.page(2, 300_000)
	number, size := advised(t, err, 300_000)
	got, _, err := p.page(number, size)
	if err != nil || len(got.Items) != size || size < 1000 {
		t.Errorf("advised page %d of size %d has %d items, %v; want all of them, and a size of at least 1000", number, size, len(got.Items), err)
	}
}

func TestNoSpaceForPage(t *testing.T) {
	t.Parallel()
	r := results(t, nil)
	for _, f := range []budget.Fetch{{Mode: "paginated"}, {Mode: "paginated", Page: 1000, PageSet: true}} {
		if _, err := fetch(t, r, string(numbered(100)), f, within(20)); fault.CodeOf(err) != fault.BudgetTooSmall {
			t.Errorf("page %d in 20 bytes: %v, want budget_too_small", f.Page, err)
		}
	}
}
