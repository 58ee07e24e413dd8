package config

import (
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/onecall-mcp/onecall/fault"
)

func (d *decoder) fault(p position, code fault.Code, at, format string, args ...any) {
	d.add(p, at, fault.New(code, format, args...))
}

func (d *decoder) add(p position, at string, f *fault.Error) {
	f.At, f.Line, f.Column = at, p.line, p.column
	d.faults = append(d.faults, f)
}

// warn adds a warning, with the code not_supported, about a setting that is accepted but has no effect.
func (d *decoder) warn(p position, at, format string, args ...any) {
	f := fault.New(fault.NotSupported, format, args...)
	f.At, f.Line, f.Column = at, p.line, p.column
	d.warnings = append(d.warnings, f)
}

// warnAt adds a warning, with the code bad_request, about a suspicious value that was decoded.
func (d *decoder) warnAt(at, format string, args ...any) {
	p := d.positions[at]
	d.warn(p, at, format, args...)
	d.warnings[len(d.warnings)-1].Code = fault.BadRequest
}

func (d *decoder) wrongType(n ast.Node, at, want string) {
	d.fault(positionOf(n), fault.BadRequest, at, "must be %s, not %s", want, d.describe(n, at))
}

// describe describes a value in a few words. It shows the value itself if that cannot be a secret.
func (d *decoder) describe(n ast.Node, at string) string {
	switch node := d.resolve(n).(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "an object"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "null"
	case *ast.IntegerNode, *ast.FloatNode:
		if mayHoldSecret(at) {
			return "a number"
		}
	case *ast.BoolNode:
		return node.String()
	case *ast.AliasNode:
		return "an alias: put a text that begins with * in quotes"
	case *ast.TagNode:
		return "a tag: put a text that begins with ! in quotes"
	default:
		if mayHoldSecret(at) {
			return "a text"
		}
		return fault.Clip(strings.TrimSpace(node.String()), 60)
	}
	return fault.Clip(strings.TrimSpace(n.String()), 60)
}

// positionOf returns the position of a node; for a block mapping, that of its first key. The zero value: the position is not known.
func positionOf(n ast.Node) position {
	if mapping, ok := n.(*ast.MappingNode); ok && len(mapping.Values) > 0 && !mapping.IsFlowStyle {
		n = mapping.Values[0].Key
	}
	token := n.GetToken()
	if token == nil || token.Position == nil {
		return position{}
	}
	return newPosition(token.Position.Line, token.Position.Column)
}

func newPosition(line, column int) position { return position{max(line, 1), max(column, 1)} }
