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

// responseCache holds answers that a server can be asked to revalidate. It is a private cache in the sense of RFC 9111 that
// never answers by itself: every request is sent, and a stored body is used only if the server's 304 says that it is still
// valid. A nil cache stores nothing.
type responseCache struct {
	maxBytes, maxResponseBytes int64 // bytes, of all and of one

	mu    sync.Mutex
	bytes int64
	list  *simplelru.LRU[requestKey, *cachedResponse]
}

// requestKey is the hash of a URL and of the request's headers, including those with credentials: an answer is never used
// for another caller.
type requestKey [sha256.Size]byte

// cachedResponse is a 200 with its body. It does not change.
type cachedResponse struct {
	etag, modified string // the validators; at least one is set
	header         http.Header
	body           []byte
	uncompressed   bool
}

func newResponseCache(most int64) *responseCache {
	if most < 0 {
		return nil
	}
	a := &responseCache{maxBytes: most, maxResponseBytes: most / 8}
	a.list, _ = simplelru.NewLRU(math.MaxInt32,
		func(_ requestKey, gone *cachedResponse) { a.bytes -= gone.size() }) // fails only for a size below 1
	return a
}

// size returns the approximate memory of an answer.
func (a *cachedResponse) size() int64 {
	size := int64(len(a.body)) + 512
	for name, values := range a.header {
		size += int64(len(name)) + 64
		for _, value := range values {
			size += int64(len(value)) + 16
		}
	}
	return size
}

// lookup returns the key under which the answer to a request is stored, nil if it must not be, and the stored answer.
func (a *responseCache) lookup(request *http.Request) (*requestKey, *cachedResponse) {
	if a == nil || !isCacheableRequest(request) {
		return nil, nil
	}
	key := keyOf(request)
	a.mu.Lock()
	defer a.mu.Unlock()
	known, _ := a.list.Get(key)
	return &key, known
}

// isCacheableRequest excludes requests other than plain GETs, GETs that write, and requests that the caller made
// conditional: their 304 is the caller's answer.
func isCacheableRequest(request *http.Request) bool {
	if request.Method != http.MethodGet && request.Method != "" || request.Body != nil && request.Body != http.NoBody ||
		httpbody.Writes(request) {
		return false
	}
	for _, name := range []string{"Range", "If-None-Match", "If-Modified-Since", "If-Match", "If-Unmodified-Since", "If-Range"} {
		if request.Header[name] != nil {
			return false
		}
	}
	return !httpguts.HeaderValuesContainsToken(request.Header["Cache-Control"], "no-store")
}

// volatileHeaders differ from request to request without selecting an answer. If a server's Vary says that they do, its
// answer is not stored.
var volatileHeaders = []string{"Baggage", "Cache-Control", "Pragma", "Traceparent", "Tracestate", "X-Request-Id"}

// keyOf hashes the URL and all headers that Vary may name. Lengths keep the parts apart.
func keyOf(request *http.Request) requestKey {
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
		if !slices.Contains(volatileHeaders, name) {
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
	return requestKey(hash.Sum(nil))
}

// conditional returns the request with the validators of a stored answer; the request itself if there is none.
func (a *cachedResponse) conditional(request *http.Request) *http.Request {
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

// isConfirmed reports whether a 304 with this header confirms this answer (RFC 9111, section 4.3.4). Entity tags are
// compared weakly.
func (a *cachedResponse) isConfirmed(header http.Header) bool {
	if etag := header.Get("Etag"); etag != "" && a.etag != "" {
		return strings.TrimPrefix(etag, "W/") == strings.TrimPrefix(a.etag, "W/")
	}
	modified := header.Get("Last-Modified")
	return modified == "" || a.modified == "" || modified == a.modified
}

// refresh returns the whole answer from a stored one and the 304 that confirms it, and stores the 304's new headers (RFC
// 9111, section 3.2).
func (a *responseCache) refresh(key requestKey, known *cachedResponse, request *http.Request, notModified *http.Response) *http.Response {
	header := known.header.Clone()
	for name, values := range notModified.Header {
		switch name {
		case "Connection", "Content-Encoding", "Content-Length", "Content-Range", "Content-Type", "Keep-Alive", "Set-Cookie", "Trailer",
			"Transfer-Encoding":
		default:
			header[name] = slices.Clone(values)
		}
	}
	if isCacheable(header) {
		renewed := *known
		renewed.header = header
		a.store(key, &renewed)
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

// isCacheable reports whether the header of a 200 has a validator and forbids nothing.
func isCacheable(header http.Header) bool {
	if header.Get("Etag") == "" && header.Get("Last-Modified") == "" ||
		httpguts.HeaderValuesContainsToken(header["Cache-Control"], "no-store") {
		return false
	}
	if httpguts.HeaderValuesContainsToken(header["Vary"], "*") {
		return false
	}
	return !slices.ContainsFunc(volatileHeaders, func(name string) bool { return httpguts.HeaderValuesContainsToken(header["Vary"], name) })
}

// storeWhenRead stores an answer once its body has been read to the end, and drops the answer that it replaces.
func (a *responseCache) storeWhenRead(key requestKey, response *http.Response) {
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusGone:
		a.drop(key)
		return
	default: // it says nothing about the stored answer
		return
	}
	if !isCacheable(response.Header) || response.ContentLength > a.maxResponseBytes {
		a.drop(key)
		return
	}
	header := response.Header.Clone()
	header.Del("Set-Cookie")
	known := &cachedResponse{etag: header.Get("Etag"), modified: header.Get("Last-Modified"), header: header,
		uncompressed: response.Uncompressed}
	response.Body = &teeBody{ReadCloser: response.Body, maxBytes: a.maxResponseBytes, onComplete: func(body []byte) {
		known.body = body
		a.store(key, known)
	}}
}

func (a *responseCache) store(key requestKey, known *cachedResponse) {
	size := known.size()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list.Remove(key)
	if size > a.maxResponseBytes {
		return
	}
	a.list.Add(key, known)
	for a.bytes += size; a.bytes > a.maxBytes; {
		a.list.RemoveOldest()
	}
}

func (a *responseCache) drop(key requestKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list.Remove(key)
}

// teeBody copies what is read of a body, up to a bound, and calls onComplete at its end.
type teeBody struct {
	io.ReadCloser
	maxBytes   int64
	read       []byte
	onComplete func([]byte)
	done       bool
}

// Read implements io.Reader.
func (b *teeBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.done {
		return n, err
	}
	if int64(len(b.read))+int64(n) > b.maxBytes {
		b.done, b.read = true, nil
		return n, err
	}
	b.read = append(b.read, p[:n]...)
	if err != nil {
		b.done = true
		if err == io.EOF {
			b.onComplete(slices.Clip(b.read))
		}
		b.read = nil
	}
	return n, err
}
