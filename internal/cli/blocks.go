package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/textfile"
	"github.com/onecall-mcp/onecall/steps"
)

// extensions are those of the usual types of blocks. Those of the system's own table differ from one machine to the next.
var extensions = map[string]string{
	"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp", "image/svg+xml": ".svg",
	"audio/wav": ".wav", "audio/mpeg": ".mp3", "audio/ogg": ".ogg", "video/mp4": ".mp4",
	"application/pdf": ".pdf", "application/zip": ".zip", "application/gzip": ".gz", "application/json": ".json",
	"text/plain": ".txt", "text/html": ".html", "text/csv": ".csv",
}

// isFolder reports whether --out names a folder, which takes the blocks of a result: one that is there, or a path that ends as one.
func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir() || err != nil && path != "" && os.IsPathSeparator(path[len(path)-1])
}

// outPath is the value of --out.
type outPath string

func (p *outPath) String() string { return string(*p) }

func (p *outPath) Type() string { return "string" }

// Set refuses the words for stdout of other programs: they would be a file "-", or be taken for no --out.
func (p *outPath) Set(path string) error {
	if path == "" || path == "-" {
		return errors.New("name a file or a folder; without --out, stdout gets the output")
	}
	*p = outPath(path)
	return nil
}

// writeBlocks writes the blocks of an answer to files in the folder of the output, numbered in the order of the result.
func (c *cli) writeBlocks(out *output, answer *chain.Answer) error {
	if answer.OK && len(answer.Blocks) == 0 {
		c.noticef("--out: the result has no images, sounds or files, so %s gets none", out.folder)
		return nil
	}
	if err := os.MkdirAll(out.folder, 0o777); err != nil {
		return opErrorf("--out: %s cannot be written: %v", out.folder, textfile.Cause(err))
	}
	for i, b := range answer.Blocks {
		kind, _, _ := strings.Cut(b.MIMEType(), ";")
		extension, known := extensions[strings.ToLower(strings.TrimSpace(kind))]
		if !known {
			extension = ".bin"
		}
		path := filepath.Join(out.folder, "block-"+strconv.Itoa(i)+extension)
		if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() { // a link may lead out of the folder
			return opErrorf("--out: %s is no file, and is not replaced", path)
		}
		if err := c.writeBytes(path, b.Bytes); err != nil {
			return err
		}
		c.noticef("%s: %s, %d bytes", path, textfile.Printable(b.MIMEType()), len(b.Bytes))
	}
	return nil
}

// writeBytes writes bytes to a file, which appears whole, or to stdout if path is "".
func (c *cli) writeBytes(path string, data []byte) error {
	file, err := c.newOutput(path)
	if err != nil {
		return err
	}
	defer file.discard()
	if _, err := file.w.Write(data); err != nil {
		return file.wrapWriteError(err)
	}
	return file.commit()
}

// fetchBlock fetches the bytes of a block, to a file, a folder, or to stdout if path is "". An answer that is not ok is returned, for its caller to
// write.
func (c *cli) fetchBlock(ctx context.Context, a *app.App, token, path string) (refused *chain.Answer, err error) {
	if path == "" && c.outTerminal {
		return nil, usageErrorf("a terminal cannot show the bytes of %s: write them to a file with --out FILE", token)
	}
	call := &chain.Call{Function: "result.get", Args: appendObject([]jsonMember{{"token", jsonText(token)}})}
	answer := a.Call(ctx, call, &chain.Caller{AllBlocks: true}) // a fetch would be bound by the budget of models
	if !answer.OK {
		return answer, nil
	}
	if len(answer.Blocks) != 1 {
		return nil, app.Failure{Err: errors.New(token + " is no block")}
	}
	if isFolder(path) {
		return nil, c.writeBlocks(&output{folder: path}, answer)
	}
	return nil, c.writeBytes(path, answer.Blocks[0].Bytes)
}

// isBlockToken reports whether a continuation token is the handle of a block.
func isBlockToken(token string) bool { return strings.HasPrefix(token, steps.BlockHandle) }
