package chain

import (
	_ "embed" // the schemas below
	"slices"
)

//go:embed chain.schema.json
var chainSchema []byte

//go:embed answer.schema.json
var answerSchema []byte

// ChainSchema returns the JSON Schema (2020-12) of a request: a chain, as a file or as the arguments of the chain tool, or a fetch. It is
// meant for editors and other programs. Engine.Run checks more than a schema can say.
func ChainSchema() []byte { return slices.Clone(chainSchema) }

// AnswerSchema returns the JSON Schema (2020-12) of an answer in its standard form, and of every failure.
func AnswerSchema() []byte { return slices.Clone(answerSchema) }
