package schema

import "strings"

// Bounds of a signature: its length in bytes, which keeps it within 120 tokens; how many of the bytes are reserved for the result
// when the arguments are formatted; and the depth of objects in arguments.
const maxSignature, resultShare, argumentDepth = 390, 120, 3

// Signature formats a function's signature from its name and the schemas of its arguments and result. Names of the result's members
// come first, then the arguments as deeply as they fit, then the rest of the result. before is the text between arguments and
// result.
func Signature(name string, input []byte, before string, output []byte) string {
	result := newTypeWriter(output, maxNodes)
	text, resultCost := name, 0
	if names := result.line(resultShare); names != "" {
		resultCost = cost(before + names)
	}
	text += argumentsText(input, maxSignature-len(text)-resultCost)
	if resultCost == 0 {
		return text
	}
	return text + before + result.line(maxSignature-cost(text+before))
}

// argumentsText formats the declared arguments in parentheses. To take at most limit bytes, it shows them less and less deeply,
// then without defaults, then without the last arguments.
func argumentsText(schema []byte, limit int) string {
	w := newTypeWriter(schema, maxNodes)
	if !w.root.Exists() {
		return "(…)"
	}
	root := &object{schema: w.root}
	w.objects = []*object{root}
	for depth := argumentDepth; depth >= 0; depth-- {
		w.deepen(depth)
		if text := "(" + strings.Join(printer{defaults: true}.members(root, ""), ", ") + ")"; cost(text) <= limit {
			return text
		}
	}
	arguments := printer{}.members(root, "")
	for n := len(arguments); n > 0; n-- {
		text := "(" + strings.Join(arguments[:n], ", ")
		if n < len(arguments) {
			text += ", …"
		}
		if cost(text) < limit {
			return text + ")"
		}
	}
	return "(…)"
}
