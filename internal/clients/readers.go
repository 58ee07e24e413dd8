package clients

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// CheckReaders refuses a plan that would move secrets into a configuration that others can read. A new configuration is for the user's
// eyes only.
func (p *Plan) CheckReaders() error {
	info, err := os.Stat(p.config)
	switch {
	case errors.Is(err, fs.ErrNotExist), runtime.GOOS == "windows": // where permission bits have no meaning
		return nil
	case err != nil:
		return fault.New(fault.BadRequest, "%s cannot be looked at: %v; nothing was changed", p.config, err)
	case info.Mode().Perm()&0o077 == 0:
		return nil
	}
	if !slices.ContainsFunc(p.added(), p.im.mayHoldSecrets) {
		return nil
	}
	return fault.New(fault.BadRequest, "%s would get secrets of %s, and others can read it: run chmod 600 %[1]s, or name another file by --config; nothing was changed",
		p.config, p.client.Title)
}

// added are the servers that the configuration gets.
func (p *Plan) added() []*found {
	return slices.DeleteFunc(slices.Clone(p.moved), func(one *found) bool { return one.twin != nil })
}

// mayHoldSecrets reports whether a server brings secrets: what a report would not show, and any value of env and headers that is not a
// variable, as names tell too little here.
func (im *Import) mayHoldSecrets(one *found) bool {
	for _, f := range one.fields {
		if f.key != "env" && f.key != "headers" {
			continue
		}
		for _, member := range ordered(gjson.ParseBytes(f.value)) {
			if text := member.String(); text != "" && !strings.Contains(text, "${") {
				return true
			}
		}
	}
	text := []byte("mcpServers:\n" + one.entry().Text)
	return !bytes.Equal(im.shown(text), text)
}
