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

// CheckReaders refuses a plan that would move secrets into a configuration that other users can read. A new configuration is readable
// only by this user.
func (p *Plan) CheckReaders() error {
	info, err := os.Stat(p.config)
	switch {
	case errors.Is(err, fs.ErrNotExist), runtime.GOOS == "windows": // permission bits mean nothing there
		return nil
	case err != nil:
		return fault.New(fault.BadRequest, "%s cannot be read: %v; nothing was changed", p.config, err)
	case info.Mode().Perm()&0o077 == 0:
		return nil
	}
	if !slices.ContainsFunc(p.added(), p.im.mayHoldSecrets) {
		return nil
	}
	return fault.New(fault.BadRequest,
		"%s would get secrets of %s, and others can read it: run chmod 600 %[1]s, or name another file with --config; nothing was changed",
		p.config, p.client.Title)
}

// added returns the servers that are added to the configuration.
func (p *Plan) added() []*clientServer {
	return slices.DeleteFunc(slices.Clone(p.moved), func(srv *clientServer) bool { return srv.duplicateOf != nil })
}

// mayHoldSecrets reports whether a server may have secrets. Those are what a report would mask, and every literal value in env and
// headers, because names are not reliable here.
func (im *Import) mayHoldSecrets(srv *clientServer) bool {
	for _, f := range srv.fields {
		if f.key != "env" && f.key != "headers" {
			continue
		}
		for _, member := range ordered(gjson.ParseBytes(f.value)) {
			if text := member.String(); text != "" && !strings.Contains(text, "${") {
				return true
			}
		}
	}
	text := []byte("mcpServers:\n" + srv.entry().Text)
	return !bytes.Equal(im.redacted(text), text)
}
