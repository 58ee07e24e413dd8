package config

import (
	"math"
	"regexp"
	"strconv"
	"time"

	"github.com/goccy/go-yaml/ast"
	yamltoken "github.com/goccy/go-yaml/token"
)

// setScalar sets a field from a node. If it cannot, it returns what the node should have been; "": the field was set. With scalars, numbers
// and booleans are accepted for a string, as they are written.
func setScalar(n ast.Node, field any, scalars bool) (want string) {
	text, isText := textOf(n)
	switch field := field.(type) {
	case *string:
		if !isText && scalars {
			text, isText = scalarText(n)
		}
		if !isText {
			return "a string"
		}
		*field = text
	case *bool:
		b, ok := n.(*ast.BoolNode)
		if !ok {
			return "true or false"
		}
		*field = b.Value
	case *int:
		number, ok := integerOf(n)
		if !ok || number > math.MaxInt32 || number < math.MinInt32 {
			return "a whole number"
		}
		*field = int(number)
	case *float64:
		if f, isFloat := n.(*ast.FloatNode); isFloat {
			*field = f.Value
			return ""
		}
		number, ok := integerOf(n)
		if !ok {
			return "a number"
		}
		*field = float64(number)
	case *Size:
		number, ok := integerOf(n)
		if isText {
			number, ok = parseSize(text)
		}
		if !ok {
			return `a size such as 64MiB (B, KB, MB, GB, KiB, MiB, GiB), or a number of bytes`
		}
		*field = Size(number)
	case *time.Duration:
		duration, err := time.ParseDuration(text)
		if !isText || err != nil {
			return `a duration such as 90s, 5m or 1h30m (7 days are 168h)`
		}
		*field = duration
	}
	return ""
}

// textOf returns the string that a node is; false: it is none.
func textOf(n ast.Node) (string, bool) {
	switch node := n.(type) {
	case *ast.StringNode:
		return node.Value, true
	case *ast.LiteralNode:
		return node.Value.Value, true
	case *ast.MappingValueNode:
		return plainWithColon(node)
	case *ast.MappingNode:
		if len(node.Values) == 1 && node.Start.Value != "{" {
			return plainWithColon(node.Values[0])
		}
	}
	return "", false
}

// plainWithColon returns a text such as localhost:80, which the parser reads as a pair inside a flow list. A pair has a blank after its
// colon unless its key is quoted (YAML 1.2.2, section 7.3.3).
func plainWithColon(n *ast.MappingValueNode) (string, bool) {
	key, ok := n.Key.(*ast.StringNode)
	if !ok || key.Token.Type != yamltoken.StringType {
		return "", false
	}
	colon, value := n.Start.Position, n.Value.GetToken()
	rest, ok := textOf(n.Value)
	if !ok {
		rest, ok = scalarText(n.Value)
	}
	if !ok || value.Position.Line != colon.Line || value.Position.Column != colon.Column+1 {
		return "", false
	}
	return key.Value + ":" + rest, true
}

func integerOf(n ast.Node) (int64, bool) {
	node, ok := n.(*ast.IntegerNode)
	if !ok {
		return 0, false
	}
	switch value := node.Value.(type) {
	case int64:
		return value, true
	case uint64:
		return int64(value), value <= math.MaxInt64
	}
	return 0, false
}

var sizePattern = regexp.MustCompile(`^([0-9]+) ?([KMG]i?)?B$`)

// parseSize parses a size: an integer with a decimal unit (KB, MB, GB), a binary one (KiB, MiB, GiB), or B.
func parseSize(text string) (int64, bool) {
	match := sizePattern.FindStringSubmatch(text)
	if match == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(match[1], 10, 64)
	unit := map[string]int64{"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}[match[2]]
	if err != nil || n > math.MaxInt64/unit {
		return 0, false
	}
	return n * unit, true
}

// scalarText returns a number or a boolean as written.
func scalarText(n ast.Node) (string, bool) {
	switch n.(type) {
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	}
	return "", false
}
