package files

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"unicode/utf8"

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
	args := map[string]any{"path": c.rel, "ifMatch": ifMatch, "undo": noUndo, "mode": fmt.Sprintf("%03o", before.info.Mode().Perm())}
	if utf8.Valid(before.content) {
		args["text"] = string(before.content)
	} else {
		args["data"] = base64.StdEncoding.EncodeToString(before.content)
	}
	return reportUndo(ctx, "fs.write", args)
}

// reportMove tells how to take back a move. digest is that of the file; "": a folder was moved.
func reportMove(ctx context.Context, from, to *place, digest string) error {
	args := map[string]any{"from": to.rel, "to": from.rel}
	if digest != "" {
		args["ifMatch"] = digest
	}
	return reportUndo(ctx, "fs.move", args)
}
