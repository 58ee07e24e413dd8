package mcp

import (
	"bytes"

	"github.com/onecall-mcp/onecall/steps"
)

// Listing returns the result of tools/list for rights and a surface, from the current functions. It fails with bad_request if a
// required option is missing.
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
