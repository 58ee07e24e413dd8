package shape

import (
	"fmt"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/steps/schema"
)

// names are the names of members; dataNames are patterns of names that are data, with a marker in them.
var (
	names     = []string{"id", "name", "items", "total", "next_page", "@type", "größe"}
	dataNames = []func(n int) string{
		func(n int) string { return fmt.Sprintf("77%06dMARK", n) },
		func(n int) string { return fmt.Sprintf("MARK%d@example.org", n) },
		func(n int) string { return fmt.Sprintf("/srv/MARK/%d", n) },
		func(n int) string { return fmt.Sprintf("MARK %d", n) },
		func(n int) string { return fmt.Sprintf("https://MARK.example/%d", n) },
		func(n int) string { return fmt.Sprintf("2024-05-01T00:00:%02dZ-MARK", n%60) },
	}
)

// value draws a JSON value in which every string, and every name that is data, contains MARK, and every number is 987654.
func value(t *rapid.T, depth int) any {
	switch kind := rapid.IntRange(0, 7).Draw(t, "kind"); {
	case kind == 0:
		return nil
	case kind == 1:
		return rapid.Bool().Draw(t, "bool")
	case kind == 2:
		return 987654000 + rapid.IntRange(0, 999).Draw(t, "number")
	case kind == 3 || depth == 0:
		return "MARK\"\\{" + rapid.String().Draw(t, "text")
	case kind == 4:
		list := make([]any, rapid.IntRange(0, 4).Draw(t, "length"))
		for i := range list {
			list[i] = value(t, depth-1)
		}
		return list
	}
	members := map[string]any{}
	for range rapid.IntRange(0, 5).Draw(t, "members") {
		name := rapid.SampledFrom(names).Draw(t, "name")
		if rapid.IntRange(0, 3).Draw(t, "data") == 0 {
			name = rapid.SampledFrom(dataNames).Draw(t, "form")(rapid.IntRange(0, 1000).Draw(t, "n"))
		}
		members[name] = value(t, depth-1)
	}
	return members
}

// paths returns the paths of all values in a value.
func paths(value gjson.Result, at []schema.Element) (all [][]schema.Element) {
	all = append(all, at)
	if !value.IsObject() && !value.IsArray() {
		return all
	}
	i := 0
	value.ForEach(func(key, inner gjson.Result) bool {
		element := schema.Element{Key: key.Str}
		if value.IsArray() {
			element = schema.Element{Key: fmt.Sprint(i), Index: true}
			i++
		}
		all = append(all, paths(inner, append(at[:len(at):len(at)], element))...)
		return true
	})
	return all
}
