package mcp

import (
	"bytes"

	"github.com/onecall-mcp/onecall/steps"
)

// Listing is the result of tools/list as a client with some rights reads it on a surface, of the functions that there are now. It fails
// with bad_request if something that is required is missing.
func Listing(o *Options, r steps.Rights, surface Surface) ([]byte, error) {
	g, err := newGeneration(o)
	if err != nil {
		return nil, err
	}
	s := &Server{}
	s.now.Store(g)
	f := &toolset{server: s, rights: r, surface: surface}
	var b bytes.Buffer
	b.WriteString(`{"tools":[`)
	for i, t := range f.offer(f.view()).tools {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(t.listed)
	}
	b.WriteString(`]}`)
	return b.Bytes(), nil
}
