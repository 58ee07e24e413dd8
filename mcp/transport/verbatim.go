package transport

import (
	"bytes"
	"math/rand/v2"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// Verbatim returns the error of an upstream in a form that the SDK writes unchanged: what the client reads is e. Of an error that says
// that a method is not found, the SDK would replace message and data, and since MCP 2026-07-28 it would answer it with the HTTP status 404,
// as if this server had no such method. The codes for which MCP asks for 400 keep that status.
func Verbatim(e *jsonrpc.Error) *jsonrpc.Error {
	if e.Code != jsonrpc.CodeMethodNotFound {
		return e
	}
	disguised := *e
	disguised.Code -= disguise * codeRange
	return &disguised
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
