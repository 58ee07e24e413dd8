package clients

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// tomlEditor edits the lines of a server's own tables, [SERVERS.NAME] and the tables below it.
type tomlEditor struct{}

// tomlStatement is the header of a table, or a key with its value.
type tomlStatement struct {
	server string // the server that the statement belongs to; "": none
	header bool
	// from and to are the offsets of its lines in the text, including comments directly above a header.
	from, to int
}

// statements parses a text. servers is the key of the table that holds the servers. It is an error if a server has no table of its own.
func (tomlEditor) statements(text, servers string) (all []tomlStatement, err error) {
	p := unstable.Parser{}
	p.Reset([]byte(text))
	var table []string
	for p.NextExpression() {
		e := p.Expression()
		var key []string
		from, end := -1, 0
		for it := e.Key(); it.Next(); {
			key = append(key, string(it.Node().Data))
			if from < 0 {
				from = int(it.Node().Raw.Offset)
			}
			end = int(it.Node().Raw.Offset + it.Node().Raw.Length)
		}
		header := e.Kind == unstable.Table || e.Kind == unstable.ArrayTable
		switch {
		case header:
			table = key
		default:
			key = append(table[:len(table):len(table)], key...)
			end = int(e.Raw.Offset + e.Raw.Length)
		}
		s := tomlStatement{header: header, from: strings.LastIndexByte(text[:from], '\n') + 1, to: lineEnd(text, end)}
		if key[0] == servers && len(key) > 1 {
			s.server = key[1]
		}
		if inTable := len(table) > 1 && table[0] == servers; key[0] == servers && !inTable && !(header && len(key) == 1) {
			return nil, fmt.Errorf("servers do not have tables of their own: write each as [%s.NAME]", servers)
		}
		all = append(all, s)
	}
	if p.Error() != nil {
		return nil, errors.New("it is not TOML")
	}
	for i := range all {
		for above := 0; all[i].header && all[i].from > above; {
			start := strings.LastIndexByte(text[:all[i].from-1], '\n') + 1
			if i > 0 && start < all[i-1].to || !strings.HasPrefix(strings.TrimSpace(text[start:all[i].from]), "#") {
				break
			}
			all[i].from = start
		}
	}
	return all, nil
}

// lineEnd returns the end of the line at an offset, including its line break.
func lineEnd(text string, at int) int {
	if i := strings.IndexByte(text[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(text)
}

func (t tomlEditor) remove(text string, path []string, name string) (string, entry, error) {
	all, err := t.statements(text, path[0])
	if err != nil {
		return "", entry{}, err
	}
	var rest, taken strings.Builder
	end := 0 // the text before end is already in rest or taken
	for i := 0; i < len(all); i++ {
		if all[i].server != name {
			continue
		}
		first := i
		for i+1 < len(all) && all[i+1].server == name {
			i++
		}
		rest.WriteString(text[end:all[first].from])
		if taken.Len() > 0 {
			taken.WriteString("\n")
		}
		taken.WriteString(text[all[first].from:all[i].to])
		for end = all[i].to; end < len(text) && strings.TrimSpace(text[end:lineEnd(text, end)]) == ""; {
			end = lineEnd(text, end)
		}
	}
	if taken.Len() == 0 {
		return "", entry{}, fmt.Errorf("it has no %s", name)
	}
	rest.WriteString(text[end:])
	return rest.String(), entry{name, strings.TrimRight(taken.String(), "\n") + "\n"}, nil
}

func (tomlEditor) insert(text string, _ []string, one entry) (string, error) {
	if text = strings.TrimRight(text, "\n"); text != "" {
		text += "\n\n"
	}
	return text + one.Text, nil
}

// bareKey matches a key without quotes.
var bareKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func tomlKey(key string) string {
	if bareKey.MatchString(key) {
		return key
	}
	return string(rawjson.AppendQuote(nil, key))
}

// render supports values that are strings, numbers and lists of them, which TOML writes as JSON does.
func (tomlEditor) render(_ string, path []string, name string, fields []field) entry {
	var b strings.Builder
	fmt.Fprintf(&b, "[%s.%s]\n", path[0], tomlKey(name))
	for _, one := range fields {
		text := string(one.value)
		if list := gjson.Parse(text); list.IsArray() {
			text = yamlValue(list)
		}
		fmt.Fprintf(&b, "%s = %s\n", tomlKey(one.key), text)
	}
	return entry{name, b.String()}
}
