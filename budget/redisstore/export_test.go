package redisstore

import "github.com/onecall-mcp/onecall/budget"

// Codec lets tests encode and decode without a server.
type Codec struct{ c *codec }

func NewCodec(compress int) (Codec, error) {
	c, err := newCodec(compress)
	return Codec{c}, err
}

func (c Codec) Encode(id string, e budget.Entry) []byte              { return c.c.encode(id, e) }
func (c Codec) Decode(id string, whole []byte) (budget.Entry, error) { return c.c.decode(id, whole) }

// DefaultPrefix begins the keys of stores without a prefix of their own.
const DefaultPrefix = defaultPrefix
