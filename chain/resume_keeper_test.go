package chain_test

import (
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/files"
	"github.com/onecall-mcp/onecall/steps/source/state"
)

// The keys of drawn chains that name no item of the shop begin with one of these: a value of state, or a file.
const (
	inState = "state "
	inFile  = "file "
)

// keepers returns the functions of state and files that drawn chains call, or that undo their calls. They may fail before they do anything.
func (w *resumeTest) keepers() (list []steps.Function) {
	source, err := files.New(&files.Options{Root: w.folder, Write: []string{"."}})
	if err != nil {
		panic(err)
	}
	values := state.New(&state.Options{Journal: func() *journal.Journal { return w.current }})
	called := []string{"fs.write", "fs.edit", "fs.remove", "state.set", "state.append", "state.delete"}
	for _, f := range slices.Concat(source.Functions(), values.Functions()) {
		if call := f.Call; slices.Contains(called, f.Name) {
			f.Call = func(ctx context.Context, args []byte) ([]byte, error) {
				if w.shop.isClosed() {
					return nil, &fault.Error{Code: fault.Unavailable, Outcome: fault.NotSent, Message: "the keeper is not at home"}
				}
				return call(ctx, args)
			}
			list = append(list, f)
		}
	}
	w.closeFiles = source.Close
	return list
}

// resumeTestKey is the key under which the context of a request has its test.
type resumeTestKey struct{}

// modelRegistry has the functions that drawn chains call. Compiling their schemas takes longer than a test, so all tests have the same
// registry, which calls the functions of the context's test.
var modelRegistry = sync.OnceValue(func() *steps.Registry {
	pattern := &resumeTest{shop: newShop(nil, 0), folder: os.TempDir()}
	list := slices.Concat(pattern.shop.functions(), pattern.keepers())
	_ = pattern.closeFiles() // it was only read
	for i := range list {
		name := list[i].Name
		list[i].Call = func(ctx context.Context, args []byte) ([]byte, error) {
			return ctx.Value(resumeTestKey{}).(*resumeTest).calls[name](ctx, args)
		}
	}
	registry, err := steps.NewRegistry(append(list, savedFunctions()...), nil)
	if err != nil {
		panic(err)
	}
	return registry.LinkChains(nil)
})

// prepare makes what drawn chains find before they run.
func (w *resumeTest) prepare(t *testing.T) {
	t.Helper()
	var setUp []string
	for key, before := range w.drawn.before {
		if name, ok := strings.CutPrefix(key, inFile); ok {
			must(t, os.WriteFile(filepath.Join(w.folder, name), []byte(before), 0o644))
		}
		if name, ok := strings.CutPrefix(key, inState); ok {
			setUp = append(setUp, fmt.Sprintf(`{"state.set":{"key":%q,"value":%s}}`, name, before))
		}
	}
	if len(setUp) > 0 {
		if a := w.process(t.Context(), t, w.memory, `{"steps":[`+strings.Join(setUp, ",")+`]}`, nil); !a.OK {
			t.Fatal(string(a.JSON))
		}
	}
}

// holds returns what is kept under a key of a drawn chain; "": nothing.
func (w *resumeTest) holds(t *testing.T, key string) string {
	t.Helper()
	if name, ok := strings.CutPrefix(key, inFile); ok {
		text, err := os.ReadFile(filepath.Join(w.folder, name))
		if !errors.Is(err, fs.ErrNotExist) {
			must(t, err)
		}
		return string(text)
	}
	if name, ok := strings.CutPrefix(key, inState); ok {
		values, err := w.reader.States(t.Context(), &journal.StateFilter{Owner: "caller ", Names: []string{name}, Values: true})
		must(t, err)
		if len(values) == 0 {
			return ""
		}
		return string(values[0].Value)
	}
	w.shop.mu.Lock()
	defer w.shop.mu.Unlock()
	return w.shop.items[key]
}

// stateAt returns what the calls at a place have done, as itemShop.stateAt does. What state and files hold is always known.
func (w *resumeTest) stateAt(t *testing.T, key string) (present, unknown int) {
	t.Helper()
	switch before := w.drawn.before[key]; {
	case !strings.HasPrefix(key, inState) && !strings.HasPrefix(key, inFile):
		return w.shop.stateAt(key)
	case w.holds(t, key) != before:
		return 1, 0
	}
	return 0, 0
}

// receipt is what a caller may assume as the result of a call.
func (w *resumeTest) receipt(position, key string) string {
	if name, ok := strings.CutPrefix(key, inFile); ok {
		return fmt.Sprintf(`{"path":%q}`, name)
	}
	if w.drawn.prints[position] {
		return string(pictureOf(key).Whole())
	}
	return string(w.shop.receipt(key))
}

// pictureOf returns a picture, which is another one for each text.
func pictureOf(text string) *steps.Block {
	sum := sha512.Sum512([]byte(text))
	return &steps.Block{Type: "image", MIME: "image/png", Bytes: slices.Concat(sum[:], sum[:], sum[:])}
}

// withDigests returns arguments as approvals show them: with the digests of the pictures in place of their base64.
func (s *itemShop) withDigests(args []byte) string {
	text := string(args)
	for _, key := range s.pictures {
		bytes := pictureOf(key).Bytes
		text = strings.ReplaceAll(text, base64.StdEncoding.EncodeToString(bytes), steps.Digest(bytes))
	}
	return text
}

// picture returns the picture of an item as a block. The caller holds s.mu.
func (s *itemShop) picture(ctx context.Context, key string) ([]byte, error) {
	if !slices.Contains(s.pictures, key) {
		s.pictures = append(s.pictures, key)
	}
	return steps.KeepBlock(ctx, pictureOf(key))
}
