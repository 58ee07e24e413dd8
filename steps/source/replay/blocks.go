package replay

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// BlocksFolder returns the folder beside a recording that has the bytes of its blocks: one file for each, named after its digest.
func BlocksFolder(recording string) string { return recording + ".blocks" }

// digestText is a digest as steps.Digest writes it.
var digestText = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// fileOf returns the path of the bytes with this digest.
func fileOf(folder, digest string) string {
	return filepath.Join(folder, strings.TrimPrefix(digest, "sha256:"))
}

// blocksOf returns the member blocks of a line whose result has blocks of the run, and writes their bytes. Digests replace the secrets in
// their addresses and types, as in the result.
func (t *recordWriter) blocksOf(list []*steps.KeptBlock, hidden []string) (member []json.RawMessage, err error) {
	if t.blocks == "" {
		return nil, nil
	}
	for _, b := range list {
		if err := writeBlock(t.blocks, b); err != nil {
			return nil, err
		}
		member = append(member, t.seal.Hide(b.JSON(`"`+b.Digest()+`"`), hidden))
	}
	return member, nil
}

// writeBlock writes the bytes of a block, unless they are there. The file appears whole.
func writeBlock(folder string, b *steps.KeptBlock) error {
	path := fileOf(folder, b.Digest())
	if info, err := os.Stat(path); err == nil && info.Size() == int64(len(b.Bytes)) {
		return nil
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(folder, "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = file.Write(b.Bytes)
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		os.Remove(file.Name())
	}
	return err
}

// parseBlocks parses the member blocks of a line. The bytes of the blocks are read when they are needed.
func parseBlocks(member gjson.Result) (list []recordedBlock, err error) {
	if member.Exists() && !member.IsArray() {
		return nil, at(fault.New(fault.BadRequest, "blocks must be an array"), "/blocks")
	}
	for i, b := range member.Array() {
		digest := b.Get("data").Str
		if !digestText.MatchString(digest) {
			return nil, at(fault.New(fault.BadRequest, `data must be "sha256:" and 64 hexadecimal digits`), fault.Index("/blocks", i)+"/data")
		}
		list = append(list, recordedBlock{digest: digest,
			block: steps.Block{Type: b.Get("type").String(), URI: b.Get("uri").String(), MIME: b.Get("mimeType").String()}})
	}
	return list, nil
}

// recordedBlock is a block of a recorded result, in which its digest stands for its handle.
type recordedBlock struct {
	digest string
	block  steps.Block // without its bytes
}

// restoredBlocks returns the blocks of the recorded result with their secrets.
func (c *call) restoredBlocks(hidden []string) []recordedBlock {
	if len(hidden) == 0 {
		return c.blocks
	}
	list := slices.Clone(c.blocks)
	for i := range list {
		b := &list[i].block
		b.URI, b.MIME = c.seal.RestoreText(b.URI, hidden), c.seal.RestoreText(b.MIME, hidden)
	}
	return list
}

// withBlocks returns a recorded result with handles in place of the digests of its blocks. Elsewhere a text that is such a digest stays.
func (c *Cassette) withBlocks(ctx context.Context, list []recordedBlock, result []byte) ([]byte, error) {
	blocks := steps.CallbacksOf(ctx).Blocks
	if blocks == nil || len(list) == 0 {
		return result, nil
	}
	compact, f := schema.CompactWithin(result, schema.MaxResultDepth)
	if f != nil {
		return result, nil //nolint:nilerr // as every result that is not JSON, it is refused later
	}
	stand := map[string][]*standIn{}
	for i := range list {
		s := &standIn{block: list[i].block}
		digest := list[i].digest
		var err error
		if s.block.Bytes, err = os.ReadFile(fileOf(BlocksFolder(c.name), digest)); err != nil || steps.Digest(s.block.Bytes) != digest {
			return nil, fault.New(fault.NotRecorded, "the bytes of a block are missing or were changed: put %s back, or record again",
				fileOf(BlocksFolder(c.name), digest))
		}
		if s.handle, err = blocks.Add(&s.block); err != nil {
			return nil, err
		}
		stand[digest] = append(stand[digest], s)
	}
	return withHandles(compact, stand), nil
}

// standIn is a block of a replayed result.
type standIn struct {
	block  steps.Block
	handle string
}

// digestData finds the data of a recorded block.
var digestData = regexp.MustCompile(`"data":"(sha256:[0-9a-f]{64})"`)

// withHandles returns a compact result with the handle of the n-th block with a digest in place of the n-th data that is this digest. What
// follows the last is the same block again.
func withHandles(result []byte, stand map[string][]*standIn) (out []byte) {
	done := 0
	for _, found := range digestData.FindAllSubmatchIndex(result, -1) {
		from, to := found[2], found[3]
		digest := string(result[from:to])
		left := stand[digest]
		if len(left) == 0 || !left[0].block.StandsAt(result, from, digest) {
			continue
		}
		out = append(append(out, result[done:from]...), left[0].handle...)
		if done = to; len(left) > 1 {
			stand[digest] = left[1:]
		}
	}
	return append(out, result[done:]...)
}
