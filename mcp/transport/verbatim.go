package transport

import (
	"bytes"
	"math/rand/v2"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Verbatim returns the error of an upstream in a form that the SDK writes unchanged, with HTTP status 200: what the client reads is e. Of
// an error that says that a method is not found, the SDK would replace message and data; and since MCP 2026-07-28 it would answer some
// codes with the HTTP status of a request that this server has refused itself.
func Verbatim(e *jsonrpc.Error) *jsonrpc.Error {
	switch e.Code {
	case jsonrpc.CodeMethodNotFound, jsonrpc.CodeInvalidParams, sdk.CodeUnsupportedProtocolVersion,
		sdk.CodeMissingRequiredClientCapabilities:
		disguised := *e
		disguised.Code -= disguise * codeRange
		return &disguised
	}
	return e
}

// disguise is written before the five digits of a code of JSON-RPC, so that the SDK does not recognize the code. It is random, so that no
// upstream can write it.
var disguise = int64(1e12) + rand.Int64N(8e12)

const codeRange = 100_000

// disguisedCode is how an error with a disguised code begins, and plainCode what takes its place.
var (
	disguisedCode = []byte(`"error":{"code":-` + strconv.FormatInt(disguise, 10))
	plainCode     = []byte(`"error":{"code":-`)
)

// maxError bounds, in bytes, a message with an error of an upstream, whose details are bounded.
const maxError = 1 << 20

// undisguised returns a message with the code of its error as the upstream wrote it.
func undisguised(message []byte) []byte {
	if len(message) > maxError || !bytes.Contains(message, disguisedCode) {
		return message
	}
	return bytes.Replace(message, disguisedCode, plainCode, 1)
}
