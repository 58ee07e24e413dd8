package http

import (
	"bytes"
	"crypto/sha256"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/net/http/httpguts"

	"github.com/onecall-mcp/onecall/internal/httpbody"
)

// answers are the answers to earlier requests that a server can be asked about: whether they have changed. It is a private
// cache in the sense of RFC 9111 which never answers by itself: every request is sent, and a stored body is used only
// where the server says, by a 304, that it is still the one. A nil *answers keeps nothing.
type answers struct {
	most, mostOne int64 // bytes, of all and of one

	mu    sync.Mutex
	bytes int64
	list  *simplelru.LRU[question, *answer]
}

// question is the hash of a URL and of the headers that it was asked with, those that hold credentials included: an answer
// is never taken for another caller's.
type question [sha256.Size]byte

// answer is a 200 with its body, and does not change.
type answer struct {
	etag, modified string // the validators; one at least is there
	header         http.Header
	body           []byte
	uncompressed   bool
}

func newAnswers(most int64) *answers {
	if most < 0 {
		return nil
	}
	a := &answers{most: most, mostOne: most / 8}
	a.list, _ = simplelru.NewLRU(math.MaxInt32, func(_ question, gone *answer) { a.bytes -= gone.size() }) // fails for a size below 1 only
	return a
}

// size is what an answer takes, about.
func (a *answer) size() int64 {
	size := int64(len(a.body)) + 512
	for name, values := range a.header {
		size += int64(len(name)) + 64
		for _, value := range values {
			size += int64(len(value)) + 16
		}
	}
	return size
}

// ask gives the key under which the answer to a request is kept, nil where it is not to be, and the answer that is known.
func (a *answers) ask(request *http.Request) (*question, *answer) {
	if a == nil || !askable(request) {
		return nil, nil
	}
	key := keyOf(request)
	a.mu.Lock()
	defer a.mu.Unlock()
	known, _ := a.list.Get(key)
	return &key, known
}

// askable leaves alone what is no plain GET, or writes, and what the caller has made conditional itself: its 304 is its answer.
func askable(request *http.Request) bool {
	if request.Method != http.MethodGet && request.Method != "" || request.Body != nil && request.Body != http.NoBody || httpbody.Writes(request) {
		return false
	}
	for _, name := range []string{"Range", "If-None-Match", "If-Modified-Since", "If-Match", "If-Unmodified-Since", "If-Range"} {
		if request.Header[name] != nil {
			return false
		}
	}
	return !httpguts.HeaderValuesContainsToken(request.Header["Cache-Control"], "no-store")
}

// fleeting headers differ from request to request and do not choose among answers; where a server says by Vary that they
// do, its answer is not kept.
var fleeting = []string{"Baggage", "Cache-Control", "Pragma", "Traceparent", "Tracestate", "X-Request-Id"}

// keyOf hashes the URL and the headers, all that Vary may name included. Lengths keep the parts apart.
func keyOf(request *http.Request) question {
	hash := sha256.New()
	var room [20]byte
	write := func(text string) {
		_, _ = hash.Write(append(strconv.AppendInt(room[:0], int64(len(text)), 10), ':'))
		_, _ = io.WriteString(hash, text)
	}
	u := *request.URL
	u.Fragment, u.RawFragment = "", ""
	write(u.String())
	names := make([]string, 0, len(request.Header))
	for name := range request.Header {
		if !slices.Contains(fleeting, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		write(name)
		write(strconv.Itoa(len(request.Header[name])))
		for _, value := range request.Header[name] {
			write(value)
		}
	}
	return question(hash.Sum(nil))
}

// question is the request with the validators of a known answer; the request itself where none is known.
func (a *answer) question(request *http.Request) *http.Request {
	if a == nil {
		return request
	}
	asking := request.WithContext(request.Context())
	asking.Header = request.Header.Clone()
	if asking.Header == nil {
		asking.Header = http.Header{}
	}
	if a.etag != "" {
		asking.Header.Set("If-None-Match", a.etag)
	}
	if a.modified != "" {
		asking.Header.Set("If-Modified-Since", a.modified)
	}
	return asking
}

// confirmed reports whether a 304 with this header speaks of this answer (RFC 9111, section 4.3.4). Entity tags are compared
// weakly.
func (a *answer) confirmed(header http.Header) bool {
	if etag := header.Get("Etag"); etag != "" && a.etag != "" {
		return strings.TrimPrefix(etag, "W/") == strings.TrimPrefix(a.etag, "W/")
	}
	modified := header.Get("Last-Modified")
	return modified == "" || a.modified == "" || modified == a.modified
}

// again makes the whole answer of a known one and the 304 that confirms it, and keeps what the 304 says that is new (RFC
// 9111, section 3.2).
func (a *answers) again(key question, known *answer, request *http.Request, notModified *http.Response) *http.Response {
	header := known.header.Clone()
	for name, values := range notModified.Header {
		switch name {
		case "Connection", "Content-Encoding", "Content-Length", "Content-Range", "Content-Type", "Keep-Alive", "Set-Cookie", "Trailer", "Transfer-Encoding":
		default:
			header[name] = slices.Clone(values)
		}
	}
	if keepable(header) {
		renewed := *known
		renewed.header = header
		a.keep(key, &renewed)
	} else {
		a.drop(key)
	}
	response := *notModified
	response.Status, response.StatusCode = "200 OK", http.StatusOK
	response.Header = header.Clone()
	response.Body = io.NopCloser(bytes.NewReader(known.body))
	response.ContentLength, response.Uncompressed = int64(len(known.body)), known.uncompressed
	response.TransferEncoding, response.Trailer = nil, nil
	response.Request = request
	return &response
}

// keepable reports whether the header of a 200 has a validator and forbids nothing.
func keepable(header http.Header) bool {
	if header.Get("Etag") == "" && header.Get("Last-Modified") == "" || httpguts.HeaderValuesContainsToken(header["Cache-Control"], "no-store") {
		return false
	}
	if httpguts.HeaderValuesContainsToken(header["Vary"], "*") {
		return false
	}
	return !slices.ContainsFunc(fleeting, func(name string) bool { return httpguts.HeaderValuesContainsToken(header["Vary"], name) })
}

// note has an answer kept once its body has been read to its end, and drops what it takes the place of.
func (a *answers) note(key question, response *http.Response) {
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusGone:
		a.drop(key)
		return
	default: // it says nothing of the answer that is known
		return
	}
	if !keepable(response.Header) || response.ContentLength > a.mostOne {
		a.drop(key)
		return
	}
	header := response.Header.Clone()
	header.Del("Set-Cookie")
	known := &answer{etag: header.Get("Etag"), modified: header.Get("Last-Modified"), header: header, uncompressed: response.Uncompressed}
	response.Body = &notedBody{ReadCloser: response.Body, most: a.mostOne, whole: func(body []byte) {
		known.body = body
		a.keep(key, known)
	}}
}

func (a *answers) keep(key question, known *answer) {
	size := known.size()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list.Remove(key)
	if size > a.mostOne {
		return
	}
	a.list.Add(key, known)
	for a.bytes += size; a.bytes > a.most; {
		a.list.RemoveOldest()
	}
}

func (a *answers) drop(key question) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list.Remove(key)
}

// notedBody copies what is read of a body, up to a bound, and hands it over at its end.
type notedBody struct {
	io.ReadCloser
	most  int64
	read  []byte
	whole func([]byte)
	done  bool
}

// Read implements io.Reader.
func (b *notedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.done {
		return n, err
	}
	if int64(len(b.read))+int64(n) > b.most {
		b.done, b.read = true, nil
		return n, err
	}
	b.read = append(b.read, p[:n]...)
	if err != nil {
		b.done = true
		if err == io.EOF {
			b.whole(slices.Clip(b.read))
		}
		b.read = nil
	}
	return n, err
}
