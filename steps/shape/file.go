package shape

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

const (
	fileVersion = 1
	maxFile     = 8 << 20
)

// fileContent is the content of the file.
type fileContent struct {
	Version int                    `json:"version"`
	Salt    []byte                 `json:"salt"`
	Shapes  map[string]fileSection `json:"shapes"` // by a hash of the function's identity
}

// fileSection is the part of the file about one function.
type fileSection struct {
	Schema  json.RawMessage `json:"schema,omitempty"`
	Pending string          `json:"pending,omitempty"` // base64 of the encoded sightings
	Used    int64           `json:"used"`              // the day when it was last saved, counted from 1970
}

// sightingBytes is the length of an encoded sighting: 6 bytes of its path's hash, the calls, the types, 2 bytes of the
// caller's hash.
const sightingBytes = 10

func (s sighting) appendTo(dst []byte, path hash) []byte {
	dst = append(dst, binary.BigEndian.AppendUint64(nil, uint64(path))[2:]...)
	return binary.BigEndian.AppendUint16(append(dst, s.calls, byte(s.types)), s.caller)
}

// section returns the function's section of the file. The caller holds the function's lock.
func (f *function) section() fileSection {
	section := fileSection{Used: time.Now().Unix() / (24 * 60 * 60)}
	if f.root != nil {
		section.Schema = f.root.appendSchema(nil, true)
	}
	var pending []byte
	for path, s := range f.pending {
		pending = s.appendTo(pending, path)
	}
	section.Pending = base64.StdEncoding.EncodeToString(pending)
	return section
}

// join merges the file's section into the function. The caller holds the function's lock.
func (f *function) join(section fileSection) {
	if schema := gjson.ParseBytes(section.Schema); schema.IsObject() && len(section.Schema) <= 2*maxSchema {
		root := parse(schema, maxDepth)
		if f.root == nil {
			f.root = root
		} else if !f.root.equal(root) {
			f.root.union(root)
		}
		f.publish()
	}
	pending, _ := base64.StdEncoding.DecodeString(section.Pending)
	for one := range slices.Chunk(pending, sightingBytes) {
		if len(one) < sightingBytes || len(f.pending) >= maxPending {
			break
		}
		path := hash(binary.BigEndian.Uint64(append([]byte{0, 0}, one[:6]...)))
		theirs := sighting{min(one[6], enoughCalls-1), types(one[7]), binary.BigEndian.Uint16(one[8:])}
		mine, counted := f.pending[path]
		theirs.types |= mine.types
		if counted && mine.caller != theirs.caller {
			theirs.caller = manyCallers // the next call that sees the path stores it
		}
		theirs.calls = max(theirs.calls, mine.calls)
		f.pending[path] = theirs
	}
	if f.root != nil {
		f.dropStored(f.root, f.childPath(0, ""))
	}
}

// dropStored removes the counts of stored nodes, at a path and below it.
func (f *function) dropStored(n *node, at hash) {
	delete(f.pending, at)
	for _, m := range n.members {
		f.dropStored(m.node, f.childPath(at, m.name))
	}
	if n.others != nil {
		f.dropStored(n.others, f.childPath(at, keyName))
	}
	if n.items != nil {
		f.dropStored(n.items, f.childPath(at, itemName))
	}
}

// read merges the content of the file.
func (s *Store) read() {
	if s.options.Path == "" {
		return
	}
	content, f := readContent(s.options.Path)
	if f != nil {
		s.warn(f)
		s.scheduleSave() // replace the broken file
		return
	}
	if content == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.salt = content.Salt
	for key, section := range content.Shapes {
		f := newFunction(key, s.salt)
		f.join(section)
		s.functions[key] = f
	}
}

// readContent reads a file; nil if there is none. It fails with unavailable if the file is broken or has another version.
func readContent(path string) (*fileContent, *fault.Error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	var content fileContent
	if err == nil {
		defer file.Close()
		err = json.NewDecoder(io.LimitReader(file, maxFile)).Decode(&content)
	}
	if err == nil && (content.Version != fileVersion || len(content.Salt) == 0) {
		err = errors.New("it has another format")
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, "the shapes of results in %s cannot be read, and are learned again: %v", path, err)
	}
	return &content, nil
}

// save merges new data into the file, if there is any. It waits for a running save.
func (s *Store) save() {
	s.saving.Lock()
	defer s.saving.Unlock()
	s.mu.Lock()
	isScheduled := s.timer != nil
	if isScheduled {
		s.timer.Stop()
		s.timer = nil
	}
	s.mu.Unlock()
	if !isScheduled {
		return
	}
	if err := s.merge(); err != nil {
		s.warn(fault.New(fault.Unavailable, "the shapes of results cannot be stored in %s: %v", s.options.Path, err))
	}
}

func (s *Store) merge() error {
	folder := filepath.Dir(s.options.Path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	unlock, err := lockedfile.MutexAt(s.options.Path + ".lock").Lock()
	if err != nil {
		return err
	}
	defer unlock()
	content, f := readContent(s.options.Path)
	if content == nil || f != nil { // a broken file was reported when it was read
		content = &fileContent{Version: fileVersion}
	}
	if content.Shapes == nil {
		content.Shapes = map[string]fileSection{}
	}
	s.addTo(content)
	data, err := json.Marshal(content)
	if err != nil {
		return err
	}
	return replace(s.options.Path, data)
}

// addTo adds the functions of this process to the file's content.
func (s *Store) addTo(content *fileContent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if content.Salt == nil {
		content.Salt = s.salt
	}
	if string(content.Salt) != string(s.salt) {
		s.salt = content.Salt
		for _, f := range s.functions {
			f.mu.Lock()
			f.salt = s.salt
			clear(f.pending) // counted with another salt
			f.mu.Unlock()
		}
	}
	for key := range s.observed {
		f := s.functions[key]
		f.mu.Lock()
		if section, ok := content.Shapes[key]; ok {
			f.join(section)
		}
		content.Shapes[key] = f.section()
		f.mu.Unlock()
	}
	for len(content.Shapes) > maxFunctions {
		oldest := ""
		for key, section := range content.Shapes {
			if oldest == "" || section.Used < content.Shapes[oldest].Used {
				oldest = key
			}
		}
		delete(content.Shapes, oldest)
	}
}

// replace atomically replaces a file, which only its owner may read.
func replace(path string, data []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // fails after the rename
	_, err = file.Write(data)
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	return err
}
