package refs

import (
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"

	"github.com/onecall-mcp/onecall/fault"
)

// survey counts the visited nodes, panics if there are too many, and records the names that the guard must not take for
// references.
type survey struct {
	visits    int
	callees   map[ast.Node]bool
	variables map[string]bool // declared by let
}

func (s *survey) Visit(node *ast.Node) {
	if s.visits++; s.visits > maxVisits {
		panic("it is too large; split it over several steps") // newProgram turns it into a fault
	}
	switch n := (*node).(type) {
	case *ast.CallNode:
		s.callees[n.Callee] = true
	case *ast.VariableDeclaratorNode:
		s.variables[n.Name] = true
	}
}

// collector lists the lookups that remain in a tree, and numbers them.
type collector struct{ lookups []*lookup }

func (c *collector) Visit(node *ast.Node) {
	if n, ok := (*node).(*ast.ConstantNode); ok {
		if l, ok := n.Value.(*lookup); ok && !slices.Contains(c.lookups, l) {
			l.index = len(c.lookups)
			c.lookups = append(c.lookups, l)
		}
	}
}

// evaluationName is the variable that holds the running evaluation. Like the guard's functions it begins with a blank, so
// that no source can name it.
const evaluationName = " evaluation"

// guard rewrites a tree, children first: names become lookups that extract only what is needed from raw results, and
// everything that could run without a bound goes through a counting function. It may visit a shared node more than once,
// and then counts more than needed.
type guard struct {
	survey
	source string
	fault  *fault.Error // the first fault of the tree
	literals
	elementReads
	optionalCalls []ast.Node // guard calls in place of methods after ?.
}

func (g *guard) Visit(node *ast.Node) {
	g.before(*node)
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		g.identifier(node, n)
	case *ast.MemberNode:
		g.member(node, n)
	case *ast.CallNode:
		g.call(node, n)
	case *ast.BuiltinNode:
		g.builtin(node, n)
	case *ast.BinaryNode:
		g.binary(node, n)
	case *ast.UnaryNode:
		if n.Operator == "-" && !isNumber(n.Node) {
			ast.Patch(node, guardCall("negate", n.Node))
		}
	case *ast.ArrayNode:
		if slices.ContainsFunc(n.Nodes, func(e ast.Node) bool { return !isScalarLiteral(e) }) {
			g.chargeLiteral(node)
		}
	case *ast.MapNode:
		g.chargeLiteral(node)
	case *ast.PredicateNode:
		tick := guardCall("tick")
		tick.SetLocation(n.Location())
		body := &ast.SequenceNode{Nodes: []ast.Node{tick, n.Node}}
		body.SetLocation(n.Location())
		n.Node = body
	}
	g.after(*node)
}

// guardCall calls a guard function with the evaluation and arguments.
func guardCall(name string, arguments ...ast.Node) *ast.CallNode {
	return &ast.CallNode{
		Callee:    &ast.IdentifierNode{Value: " " + name},
		Arguments: append([]ast.Node{&ast.IdentifierNode{Value: evaluationName}}, arguments...),
	}
}

// chargeLiteral replaces an array or object literal by a call that charges for it.
func (g *guard) chargeLiteral(node *ast.Node) {
	call := guardCall("literal", *node)
	call.SetLocation((*node).Location())
	ast.Patch(node, call)
}

func (g *guard) lookup(node *ast.Node, l *lookup) {
	name := "fetch"
	if l.status {
		name = "status"
	}
	call := guardCall(name, &ast.ConstantNode{Value: l})
	g.lookups[call] = l
	ast.Patch(node, call)
}

// fail records a fault at a node, unless the tree already has one.
func (g *guard) fail(at ast.Node, format string, args ...any) {
	g.failWith(at, fault.New(fault.BadExpression, format, args...))
}

func (g *guard) failWith(at ast.Node, f *fault.Error) {
	if g.fault == nil {
		g.fault = atOffset(f, g.source, byteOffset(g.source, at.Location().From))
	}
}

func (g *guard) identifier(node *ast.Node, n *ast.IdentifierNode) {
	switch {
	case g.callees[n] || n.Value[0] == ' ': // a function, or a name of the guard's own
	case n.Value == "null":
		ast.Patch(node, &ast.NilNode{})
	case n.Value == "$env":
		g.fail(n, "The environment cannot be read. Pass the value as $input.")
	case g.variables[n.Value]:
		if n.Value[0] == '$' {
			g.fail(n, "let cannot declare %s: names with a dollar are references.", n.Value)
		}
	default:
		g.lookup(node, &lookup{name: n.Value, offset: byteOffset(g.source, n.Location().From)})
	}
}

// member extends a lookup by a member whose key or index is fixed, and leaves other members to expr-lang.
func (g *guard) member(node *ast.Node, n *ast.MemberNode) {
	n.Optional = n.Optional || slices.Contains(g.optionalCalls, n.Node) // the chain goes on with null, which ends it
	l := g.lookups[n.Node]
	if l == nil || l.status || len(l.segments) == maxSegments {
		return
	}
	if s, ok := fixedMember(n); ok {
		g.lookup(node, &lookup{name: l.name, offset: l.offset, walker: newWalker(append(slices.Clone(l.segments), s))})
	}
}

// fixedMember returns the segment of a member whose key or index is a literal.
func fixedMember(n *ast.MemberNode) (s Segment, ok bool) {
	s = Segment{Kind: Quoted, Optional: n.Optional}
	switch p := n.Property.(type) {
	case *ast.StringNode:
		s.Key = p.Value
		return s, !n.Method
	case *ast.IntegerNode:
		s.Kind, s.Index = At, p.Value
		return s, true
	case *ast.UnaryNode:
		i, ok := p.Node.(*ast.IntegerNode)
		if !ok || p.Operator != "-" {
			return s, false
		}
		s.Kind, s.Index = At, -i.Value
		return s, true
	}
	return s, false
}

func (g *guard) call(node *ast.Node, n *ast.CallNode) {
	callee, ok := n.Callee.(*ast.IdentifierNode)
	if !ok {
		if m, ok := n.Callee.(*ast.MemberNode); ok {
			if g.method(node, n, m) {
				return
			}
		}
		// A method of a date or duration: its arguments are charged, as it may keep them.
		for i, a := range n.Arguments {
			charged := guardCall("keep", a)
			charged.SetLocation(a.Location())
			n.Arguments[i] = charged
		}
		return
	}
	switch {
	case callee.Value[0] == ' ': // a call that the guard inserted
	case callee.Value == "status":
		g.status(node, n)
	default:
		g.failWith(n, unknownFunction(callee.Value))
	}
}

// unknownFunction returns the fault of a call of an unknown function.
func unknownFunction(name string) *fault.Error {
	hint := ""
	if instead := idioms[name]; instead != "" {
		hint = " Write " + instead + "."
	}
	f := fault.New(fault.BadExpression, "There is no function %s in expressions.%s", clip(name), hint)
	f.Nearest = fault.Nearest(name, append([]string{"status"}, builtin.Names...), 3)
	return f
}

// method refuses a method that no value has: only dates and durations have methods, and their names are capitalized. It replaces
// the call n of a method that needs a check, and reports whether it has.
func (g *guard) method(node *ast.Node, n *ast.CallNode, m *ast.MemberNode) (replaced bool) {
	name, ok := m.Property.(*ast.StringNode)
	if !ok {
		return false
	}
	if checked := checkedMethods[method{name.Value, len(n.Arguments)}]; checked != "" {
		if m.Optional {
			checked = afterOptional + checked
		}
		call := guardCall(checked, append([]ast.Node{m.Node}, n.Arguments...)...)
		call.SetLocation(n.Location())
		if m.Optional {
			g.optionalCalls = append(g.optionalCalls, call)
		}
		ast.Patch(node, call)
		return true
	}
	if name.Value != "" && 'A' <= name.Value[0] && name.Value[0] <= 'Z' {
		return false
	}
	instead := idioms[name.Value]
	if _, isBuiltin := builtin.Index[name.Value]; isBuiltin && instead == "" && disabled[name.Value] == "" {
		instead = name.Value + "(x, …)"
	}
	if instead == "" {
		instead = "a function, such as len(x)"
	}
	g.fail(m, "Expressions have no methods such as .%s(): write %s.", clip(name.Value), instead)
	return false
}

// status requires a literal step number or id, so that dependencies are known before anything runs.
func (g *guard) status(node *ast.Node, n *ast.CallNode) {
	if len(n.Arguments) == 1 {
		switch a := n.Arguments[0].(type) {
		case *ast.IntegerNode:
			g.lookup(node, &lookup{name: fmt.Sprintf("$%d", a.Value), offset: byteOffset(g.source, a.Location().From), status: true})
			return
		case *ast.StringNode:
			g.lookup(node, &lookup{name: "$" + a.Value, offset: byteOffset(g.source, a.Location().From), status: true})
			return
		}
	}
	g.fail(n, "status takes the number of a step, status(0), or its id in quotes.")
}

func (g *guard) builtin(node *ast.Node, n *ast.BuiltinNode) {
	switch {
	case disabled[n.Name] != "":
		g.fail(n, "%s is not available in expressions. %s", n.Name, disabled[n.Name])
	case guarded[n.Name] != nil:
		if problem := checkArguments(n); problem != "" {
			g.fail(n, "%s: %s.", n.Name, problem)
			return
		}
		ast.Patch(node, guardCall(n.Name, n.Arguments...))
	case n.Name == "groupBy":
		counted := guardCall("group", n.Arguments[0])
		counted.SetLocation(n.Arguments[0].Location())
		n.Arguments[0] = counted
	case n.Name == "sum":
		list := n.Arguments[0]
		if len(n.Arguments) == 2 {
			list = &ast.BuiltinNode{Name: "map", Arguments: n.Arguments}
			list.SetLocation(n.Location())
		}
		ast.Patch(node, guardCall("sum", list))
	case n.Name == "sortBy" || len(n.Arguments) == 1 && n.Name == "count":
		// These walk the whole collection.
		counted := guardCall("scan", n.Arguments[0])
		counted.SetLocation(n.Arguments[0].Location())
		n.Arguments[0] = counted
	}
}

func (g *guard) binary(node *ast.Node, n *ast.BinaryNode) {
	if operator := operators[n.Operator]; operator != "" {
		if isScalarLiteral(n.Left) && isScalarLiteral(n.Right) && isNumber(n.Left) != isNumber(n.Right) {
			return // expr-lang's check reports it
		}
		ast.Patch(node, guardCall(operator, n.Left, n.Right))
		return
	}
	switch n.Operator {
	case "..":
		for _, side := range []ast.Node{n.Left, n.Right} {
			if t := literalType(side); t == reflect.TypeFor[string]() || t == reflect.TypeFor[bool]() {
				g.fail(side, "%s", rangeEndMessage(reflect.Zero(t).Interface()))
				return
			}
		}
		ast.Patch(node, guardCall("range", n.Left, n.Right))
	case "<", "<=", ">", ">=":
		if isScalarLiteral(n.Left) && isScalarLiteral(n.Right) && !(isNumber(n.Left) && isNumber(n.Right)) {
			return // expr-lang's check reports it
		}
		ast.Patch(node, &ast.CallNode{Callee: &ast.IdentifierNode{Value: " " + n.Operator}, Arguments: []ast.Node{n.Left, n.Right}})
	case "==", "!=":
		if isExactLiteral(n.Left) || isExactLiteral(n.Right) { // expr-lang compares these exactly
			return
		}
		var equal ast.Node = guardCall("equal", n.Left, n.Right)
		if n.Operator == "!=" {
			equal.SetLocation(n.Location())
			equal = &ast.UnaryNode{Operator: "not", Node: equal}
		}
		ast.Patch(node, equal)
	case "in":
		if a, ok := n.Right.(*ast.ArrayNode); !ok || slices.ContainsFunc(a.Nodes, func(e ast.Node) bool { return !isExactLiteral(e) }) {
			ast.Patch(node, guardCall("in", n.Left, n.Right))
		}
	case "contains":
		ast.Patch(node, guardCall("contains", n.Left, n.Right))
	case "matches":
		pattern := n.Right
		if s, ok := pattern.(*ast.StringNode); ok {
			c, err := g.literal(s.Value)
			if err != nil {
				g.fail(s, "The regular expression is not valid: %s.", clip(patternProblem(err)))
				return
			}
			pattern = &ast.ConstantNode{Value: c}
		}
		ast.Patch(node, guardCall("matches", n.Left, pattern))
	}
}

func isNumber(n ast.Node) bool {
	switch n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		return true
	}
	return false
}

func isScalarLiteral(n ast.Node) bool {
	switch n.(type) {
	case *ast.StringNode, *ast.BoolNode, *ast.NilNode:
		return true
	}
	return isNumber(n)
}

// isExactLiteral reports whether n is a literal that expr-lang compares without rounding: not a number of exactFloat or
// more.
func isExactLiteral(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.FloatNode:
		return math.Abs(n.Value) < exactFloat
	case *ast.IntegerNode:
		return magnitude(n.Value) < exactFloat
	}
	return isScalarLiteral(n)
}
