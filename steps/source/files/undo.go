package files

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

// reportUndo tells which call will take back a change. Its ifMatch is the digest that the change leaves, so that later work of others
// stays. If that cannot be kept, nothing is changed.
func reportUndo(ctx context.Context, function string, args map[string]any) error {
	encoded, err := json.Marshal(args)
	if err != nil {
		return err
	}
	return steps.ReportUndo(ctx, &steps.Undo{Function: function, Args: encoded})
}

// undoReplace tells how to take back a file that was made or replaced.
func (c *change) undoReplace(ctx context.Context, before *version, digest string) error {
	if before.info == nil {
		return reportUndo(ctx, "fs.remove", map[string]any{"path": c.rel, "ifMatch": digest, "undo": noUndo})
	}
	return c.undoContent(ctx, before, digest)
}

// undoRemove tells how to take back the removal of a file.
func (c *change) undoRemove(ctx context.Context, before *version) error {
	return c.undoContent(ctx, before, absent)
}

// undoContent tells how to write what a file held before.
func (c *change) undoContent(ctx context.Context, before *version, ifMatch string) error {
	isText := utf8.Valid(before.content) && bytes.IndexByte(before.content, 0) < 0 // each NUL would be six bytes
	size := len(before.content) + len(before.content)/16                           // for escapes
	if !isText {
		size = base64.StdEncoding.EncodedLen(len(before.content))
	}
	w := &rawjson.Writer{B: make([]byte, 0, size+2*len(c.rel)+len(ifMatch)+100)} // a large content stands in memory once
	w.Open('{')
	w.Text("path", c.rel)
	w.Text("ifMatch", ifMatch)
	w.Text("undo", noUndo)
	w.Text("mode", fmt.Sprintf("%03o", before.info.Mode().Perm()))
	if isText {
		w.Text("text", rawjson.View(before.content))
	} else {
		w.Key("data")
		w.B = append(base64.StdEncoding.AppendEncode(append(w.B, '"'), before.content), '"')
	}
	w.Close('}')
	return steps.ReportUndo(ctx, &steps.Undo{Function: "fs.write", Args: w.B})
}

// reportMove tells how to take back a move. digest is that of the file; "": a folder was moved.
func reportMove(ctx context.Context, from, to *place, digest string) error {
	args := map[string]any{"from": to.rel, "to": from.rel}
	if digest != "" {
		args["ifMatch"] = digest
	}
	return reportUndo(ctx, "fs.move", args)
}
