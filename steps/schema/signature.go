package schema

import "strings"

// Bounds of a signature: its length in bytes, which keeps it within 120 tokens; how many of them the result may claim
// before the arguments are shown less deeply; and the depth of objects in arguments.
const maxSignature, resultShare, argumentDepth = 390, 120, 3

// Signature formats a function's signature from its name and the schemas of its arguments and result. Arguments are shown
// as deeply as the names of the result's members leave space; the result takes the rest, after the text before.
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

// argumentsText formats the declared arguments in parentheses: less and less deeply until they take at most limit bytes,
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
