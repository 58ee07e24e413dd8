package openapi

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/steps"
)

func TestNames(t *testing.T) {
	t.Parallel()
	for block := range strings.SplitSeq(strings.TrimSpace(nameTable), "\n\n") {
		title, lines, _ := strings.Cut(block, "\n")
		var operations []*operationName
		want := map[*operationName]string{}
		for line := range strings.SplitSeq(strings.TrimSpace(lines), "\n") {
			fields := strings.Fields(line)
			o := &operationName{method: fields[0], path: fields[1], id: strings.TrimPrefix(fields[2], "-")}
			operations = append(operations, o)
			want[o] = fields[3]
		}
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(operations), func(i, j int) { operations[i], operations[j] = operations[j], operations[i] })
		nameOperations(operations, longName)
		for _, o := range operations {
			if o.name != want[o] {
				t.Errorf("%s: %s %s (%s): got name %s, want %s", title, o.method, o.path, o.id, o.name, want[o])
			}
		}
	}
}

func TestSingular(t *testing.T) {
	t.Parallel()
	for plural, one := range map[string]string{"devices": "device", "device_types": "device_type", "addresses": "address",
		"prefixes": "prefix",
		"branches": "branch", "policies": "policy", "statuses": "status", "status": "status", "aliases": "alias", "databases": "database",
		"caches":   "cache",
		"analyses": "analysis", "people": "person", "chassis": "chassis", "class": "class", "news": "news", "ids": "id", "ties": "tie",
		"heroes":           "hero",
		"codes_of_conduct": "code_of_conduct", "horizontalpodautoscalers": "horizontalpodautoscaler", "dns": "dns", "as": "as", "s": "s",
		"": ""} {
		if got, _ := singular(plural); got != one {
			t.Errorf("singular(%q) = %q, want %q", plural, got, one)
		}
	}
	for text, want := range map[string]string{"FindByStatus": "find_by_status", "HTTPServer": "http_server", "getURLs": "get_urls",
		"device-types": "device_types",
		"$count":       "count", "Nicht nur äöü": "nicht_nur", "X-Amz-Target": "x_amz_target", "v1.2": "v1_2", "日本": "", "l2vpns": "l2vpns",
		"__a__b": "a_b"} {
		if got := snake(text); got != want {
			t.Errorf("snake(%q) is %q, want %q", text, got, want)
		}
	}
}

func TestLongNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("very_long_word.", 20) + "item"
	name := shortenName(long, "get", 40)
	if len(name) > 40 || !strings.HasSuffix(name, ".get") || !strings.Contains(name, "item_") {
		t.Errorf("the long name was shortened to %q, want item_ and .get in at most 40 bytes", name)
	}
	if other := shortenName("x"+long, "get", 40); other == name {
		t.Errorf("two long names were both shortened to %q, want different names", name)
	}
	if short := shortenName("item", "get", 40); short != "item.get" {
		t.Errorf("a short name was changed to %q, want item.get", short)
	}
	if cut := shortenName(strings.Repeat("a", 300), strings.Repeat("b", 300), 64); len(cut) > 64 {
		t.Errorf("the shortened name %q has %d bytes, want at most 64", cut, len(cut))
	}
}

func drawOperations(t *rapid.T) []*operationName {
	seen := map[string]bool{}
	var list []*operationName
	for i := range rapid.IntRange(1, 60).Draw(t, "operations") {
		path := "/" + strings.Join(rapid.SliceOfN(rapid.SampledFrom(someSegments), 0, 5).Draw(t, "path"), "/")
		method := rapid.SampledFrom(methods).Draw(t, "method")
		if seen[method+path] {
			continue
		}
		seen[method+path] = true
		list = append(list, &operationName{method: method, path: path,
			id: rapid.SampledFrom([]string{"", "list", "same", "getUser", fmt.Sprint("id", i)}).Draw(t, "id")})
	}
	return list
}

// Names are unique, short enough, and do not depend on the order of the document. An operation that is last in the order of claims renames
// no other.
func TestNameRules(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		list := drawOperations(t)
		const capacity = 50
		nameOperations(list, capacity)
		names := map[*operationName]string{}
		folded := map[string]bool{}
		for _, o := range list {
			names[o] = o.name
			if len(o.name) > capacity || strings.Trim(o.name, "abcdefghijklmnopqrstuvwxyz0123456789_.") != "" || strings.Count(o.name, ".") < 1 ||
				strings.HasPrefix(o.name, ".") || strings.HasSuffix(o.name, ".") || strings.Contains(o.name, "..") {
				t.Fatalf("%s %s has the invalid name %q", o.method, o.path, o.name)
			}
			if folded[steps.FoldName(o.name)] {
				t.Fatalf("two operations have the name %q", o.name)
			}
			folded[steps.FoldName(o.name)] = true
		}
		shuffled := rapid.Permutation(list).Draw(t, "order")
		nameOperations(shuffled, capacity)
		for _, o := range list {
			if o.name != names[o] {
				t.Fatalf("%s %s is named %s in another order, want %s", o.method, o.path, o.name, names[o])
			}
		}
		deep := &operationName{method: "trace", path: "/zz" + strings.Repeat("/zz/{z}", 12)}
		nameOperations(append(slices.Clone(list), deep), capacity)
		for _, o := range list {
			if o.name != names[o] {
				t.Fatalf("%s %s is named %s with one more operation, want %s", o.method, o.path, o.name, names[o])
			}
		}
	})
}
