package schema

import "strings"

// Bounds of a signature: its length in bytes, so that it takes at most 120 tokens, how many of them its result may claim before
// the arguments are written less deep, and the depth to which objects in arguments are written out.
const maxSignature, resultShare, argumentDepth = 390, 120, 3

// Signature writes a function's signature, of its name and the schemas of its arguments and its result. Arguments are as deep as there is room beside the names of the result's members; the
// result takes the rest, behind the text before.
func Signature(name string, input []byte, before string, output []byte) string {
	result := newTypeWriter(output, maxNodes)
	text, share := name, 0
	if names := result.line(resultShare); names != "" {
		share = cost(before + names)
	}
	text += argumentsText(input, maxSignature-len(text)-share)
	if share == 0 {
		return text
	}
	return text + before + result.line(maxSignature-cost(text+before))
}

// argumentsText writes the arguments that a schema declares, in parentheses: less and less deep until they are within limit
// bytes, then without defaults, then without whole arguments from the end.
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
	parts := printer{}.members(root, "")
	for n := len(parts); n > 0; n-- {
		text := "(" + strings.Join(parts[:n], ", ")
		if n < len(parts) {
			text += ", …"
		}
		if cost(text) < limit {
			return text + ")"
		}
	}
	return "(…)"
}
